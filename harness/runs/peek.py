"""A run as somebody sees it who does not own it: its first line, its state. Nothing is opened for writing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.scan import journal_bytes, never_started, reading, scan
from harness.events.state import State

MODEL = ("source", "mark")
"""What is said of the model of every run, also of one that asks none."""


def peek(folder: Path) -> dict[str, Any]:
    """The data of a run's first line. Raises JournalError where there is none, or where the journal is damaged."""
    with reading(folder):
        found = scan(journal_bytes(folder), folder, blobs=False)
    if not found.started:
        raise never_started(folder)
    start: dict[str, Any] = found.events[0]["data"]
    return start


def whole_start(folder: Path) -> dict[str, Any]:
    """The same, of a run that is to go on. Raises JournalError for a line that lacks what every run begins with."""
    start = peek(folder)
    check_whole(start, folder)
    return start


def check_whole(start: Mapping[str, Any], folder: Path) -> None:
    """Raises JournalError for a first line that was made by hand, or by something else than this program."""
    model = start.get("model")
    held = model if isinstance(model, dict) else {}
    texts = {"skill": start.get("skill"), "cwd": start.get("cwd")} | {f"model.{n}": held.get(n) for n in MODEL}
    lacking = [name for name, value in texts.items() if not isinstance(value, str)]
    lacking += [] if isinstance(start.get("inputs"), dict) else ["inputs"]
    if lacking:
        what = f"the journal's first line has no {', '.join(lacking)}: no run begins so"
        raise JournalError(what, "it can be shown, not gone on with: begin a new run", f"{folder}/events.jsonl:1")


def read_state(folder: Path) -> State | None:
    """The state of a run that somebody else may own, or None where it never started."""
    try:
        events = follow(folder)
    except OSError:
        return None
    return fold(events) if events and events[0]["kind"] == "run.start" else None
