"""The view that says nothing: `-q`. Questions are still asked, errors still printed, by others."""

from __future__ import annotations

from collections.abc import Iterable

from harness.view import Event


class Quiet:
    """A sink for which every event is old news."""

    def history(self, events: Iterable[Event], run: str, depth: int = 0) -> None:
        """Nothing."""

    def event(self, event: Event, run: str, depth: int) -> None:
        """Nothing."""

    def delta(self, text: str) -> None:
        """Nothing."""

    def notice(self, text: str) -> None:
        """Nothing."""

    def interrupt(self) -> None:
        """Nothing."""

    def suspend(self) -> None:
        """Nothing is in the way of a question."""

    def resume(self) -> None:
        """See `suspend`."""

    def close(self) -> None:
        """Nothing."""
