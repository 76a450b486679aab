"""Somebody at the terminal, as the loop sees them: one question at a time, the view out of the way meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from harness.loop.run import Said
from harness.view.ask import approve, ask_question
from harness.view.mode import Mode

ELSEWHERE = "the word came from another process"


class Terminal:
    """Asks on the controlling terminal. Child runs ask through the same one, in turn."""

    def __init__(self, view: Any, mode: Mode) -> None:
        self.view, self.mode = view, mode
        self._turn = threading.Lock()

    def approve(self, request: dict[str, Any], elsewhere: Callable[[], bool]) -> Said:
        """Show one call and ask. The verdict is None when nobody could be asked, or the word came otherwise."""
        with self._turn:
            self.view.suspend()
            try:
                answer = approve(request, _poll(elsewhere))
            finally:
                self.view.resume()
        return Said(answer.verdict, answer.why)

    def question(self, question: str, options: Sequence[str], elsewhere: Callable[[], bool]) -> str | None:
        """Put a question; None when nobody could be asked, or the answer came otherwise."""
        with self._turn:
            self.view.suspend()
            try:
                return ask_question(question, list(options), _poll(elsewhere))
            finally:
                self.view.resume()


def _poll(elsewhere: Callable[[], bool]) -> Callable[[], str | None]:
    return lambda: ELSEWHERE if elsewhere() else None
