"""The event lines of a run, verbatim, as they are written: `--output stream-json`. Shows nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from harness.view import Event


class Lines:
    """A sink that writes each event of the run itself (not of its children) as the bytes of its journal line.

    `frame` turns an event into those bytes, newline included. A closed stream ends the view, not the run.
    """

    def __init__(self, stream: IO[bytes], frame: Callable[[Event], bytes]) -> None:
        self.stream, self.frame, self.open = stream, frame, True

    def event(self, event: Event, run: str, depth: int) -> None:
        if depth or not self.open:
            return
        try:
            self.stream.write(self.frame(event))
            self.stream.flush()
        except (OSError, ValueError):
            self.open = False

    def delta(self, text: str) -> None:
        """A delta is no event."""

    def close(self) -> None:
        self.open = False
