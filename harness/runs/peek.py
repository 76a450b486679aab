"""A run as somebody sees it who does not own it: its first line, its state. Nothing is opened for writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.scan import never_started, scan
from harness.events.state import State


def peek(folder: Path) -> dict[str, Any]:
    """The data of a run's first line. Raises JournalError where there is none, or where the journal is damaged."""
    try:
        found = scan((folder / "events.jsonl").read_bytes(), folder, blobs=False)
    except FileNotFoundError as error:
        raise never_started(folder) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise JournalError(f"the run cannot be read: {reason}", "look at the folder", str(folder)) from error
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
