"""Words from other processes, as files in a run's inbox, oldest first. What follows from them is the loop's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ABOUT = {"approve": "approval", "deny": "approval", "settle": "outcome", "answer": "answer"}
"""A kind of message → what it is a word on. Of two words on the same thing the newer one counts."""
Message = dict[str, Any]
VALID_S = 86_400.0
"""Seconds for which a yes that was not used holds."""


def waiting_files(folder: Path) -> list[Path]:
    """The inbox's messages, oldest first; those being written do not count."""
    try:
        found = [p for p in (folder / "inbox").iterdir() if p.suffix == ".json" and p.is_file()]
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
    except OSError:
        return []


def read_message(path: Path) -> Message | None:
    """A message with its operation's number, 0 where it names none; None where it cannot be used."""
    try:
        message = json.loads(path.read_bytes())
        return {**message, "kind": str(message["kind"]), "op": int(message.get("op") or 0)}
    except (ValueError, KeyError, TypeError, AttributeError, OSError, OverflowError, RecursionError):
        return None


def is_old(message: Message, now: float) -> bool:
    """Whether a yes was said too long ago to count at `now`, in epoch seconds."""
    at = message.get("at")
    return isinstance(at, int | float) and now - at > VALID_S


def about(message: Message | None) -> tuple[str, int] | None:
    """What a message decides, where only the last word on it counts."""
    what = ABOUT.get(message["kind"]) if message is not None else None
    return (what, message["op"]) if what is not None and message is not None else None
