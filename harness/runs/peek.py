"""A run as somebody sees it who does not own it: its first line, its state. Nothing is opened for writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.events.fold import fold
from harness.events.log import follow
from harness.events.scan import journal_bytes, never_started, reading, scan
from harness.events.state import State


def peek(folder: Path) -> dict[str, Any]:
    """The data of a run's first line. Raises JournalError where there is none, or where the journal is damaged."""
    with reading(folder):
        found = scan(journal_bytes(folder), folder, blobs=False)
    if not found.started:
        raise never_started(folder)
    start: dict[str, Any] = found.events[0]["data"]
    return start


def read_state(folder: Path) -> State | None:
    """The state of a run that somebody else may own, or None where it never started."""
    try:
        events = follow(folder)
    except OSError:
        return None
    return fold(events) if events and events[0]["kind"] == "run.start" else None
