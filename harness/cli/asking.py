"""Somebody at the terminal, as the loop sees them: one question at a time, the view out of the way meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from harness.loop.run import Said
from harness.view.ask import approve, ask_question
from harness.view.mode import Mode

ELSEWHERE = "the word came from another process"
WORDS = {"approve": "approved", "deny": "denied", "answer": "answered"}


class Terminal:
    """Asks on the controlling terminal. Child runs ask through the same one, in turn.

    `hide` masks the secrets in the file of a tool that a person looks at.
    """

    def __init__(self, view: Any, mode: Mode, runs_dir: Path, hide: Callable[[str], str]) -> None:
        self.view, self.mode, self.runs_dir, self.hide = view, mode, runs_dir, hide
        self._turn = threading.Lock()

    @property
    def is_asking(self) -> bool:
        """Whether a question stands there now."""
        return self._turn.locked()

    def approve(self, request: dict[str, Any], elsewhere: Callable[[], bool]) -> Said:
        """Show one call and ask. The verdict is None when nobody could be asked, or the word came otherwise."""
        with self._turn:
            self.view.suspend()
            try:
                answer = approve({**request, "hide": self.hide}, _poll(elsewhere, self.runs_dir / request["run"]))
            finally:
                self.view.resume()
        return Said(answer.verdict, answer.why, cast(Any, answer.grant))

    def question(
        self, question: str, options: Sequence[str], elsewhere: Callable[[], bool], asker: str
    ) -> str | None:
        """Put a question; None when nobody could be asked, or the answer came otherwise."""
        with self._turn:
            self.view.suspend()
            try:
                return ask_question(question, list(options), _poll(elsewhere), asker=asker)
            finally:
                self.view.resume()


def _poll(elsewhere: Callable[[], bool], folder: Path | None = None) -> Callable[[], str | None]:
    return lambda: _who(folder) if elsewhere() else None


def _who(folder: Path | None) -> str:
    """Whose word it was, as its message in the inbox says: `approved elsewhere by NAME`."""
    try:
        newest = max((folder or Path()).glob("inbox/*.json"), key=lambda path: path.stat().st_mtime_ns)
        message = json.loads(newest.read_bytes())
        return f"#{message['op']} {WORDS[message['kind']]} elsewhere by {str(message['by']).removeprefix('user:')}"
    except (OSError, ValueError, KeyError, TypeError):
        return ELSEWHERE
