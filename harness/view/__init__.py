"""How a run looks: live, plain, as a tree from the file, and what a person is asked. Folds over events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

Event = dict[str, Any]
Reader = Callable[[str, str], bytes]
"""`(run, sha256) -> bytes` of a blob; raises OSError when it is gone."""


class Sink(Protocol):
    """What a run reports to. `run` is the folder name of the log an event belongs to, `depth` 0 for the run itself."""

    def event(self, event: Event, run: str, depth: int) -> None: ...

    def delta(self, text: str) -> None: ...

    def close(self) -> None: ...


class View(Sink, Protocol):
    """A sink that a person looks at. `suspend` frees the terminal for a question, `resume` takes it back; they nest."""

    def history(self, events: Iterable[Event], run: str, depth: int = 0) -> None: ...

    def notice(self, text: str) -> None: ...

    def interrupt(self) -> None: ...

    def suspend(self) -> None: ...

    def resume(self) -> None: ...
