"""What a run and those below it may have done and nobody saw. What is gone is not taken for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.events import seal
from harness.events.attempts import is_unknown, may_have_acted
from harness.events.fold import fold
from harness.events.messages import read_message, waiting_files
from harness.events.scan import journal_bytes, reading, scan
from harness.events.state import Operation
from harness.events.witness import is_borne
from harness.loop.run import Run

KNOWN = ("happened", "did-not-happen")
"""Words after which nothing is in doubt; what stays unknown bars its tool, which its run must take first."""
Events = Sequence[dict[str, Any]]


def in_doubt(run: Run) -> list[Operation]:
    """The open operations that may have had an effect which nobody saw, themselves or in the run that they began."""
    return [op for op in run.state.open_ops.values() if _left_by(run, run.log.events, op)]


def unseen_in(run: Run, op: Operation) -> list[str]:
    """The tools of what a call's own run began, or those below it, that may have had an effect which nobody saw.

    Of a run that is gone the call itself is named. Raises JournalError where one is damaged.
    """
    return _unseen(run, run.log.events, op)


def has_begun(seals: Path | None, events: Events, op: Operation) -> bool:
    """Whether a call's own run is known to have begun, whatever became of its folder. `events` are of the run above."""
    parked = any(e["kind"] == "park" and op.n in e["data"]["ops"] for e in events)
    return parked or has_spent(op) or seal.is_known(seals, str(op.child))


def has_spent(op: Operation) -> bool:
    """Whether a call's own run came to an end, and so had begun, whatever became of its folder."""
    return bool((op.result or {}).get("spent"))


def errors_below(run: Run) -> list[str]:
    """Why runs below this one failed, at any depth."""
    found, left = [], [op.child for op in run.state.ops.values() if op.child]
    while left:
        state = run.world.child_receipts(run.folder.parent / left.pop())
        if state is not None:
            found.append(str((state.end or {}).get("error") or ""))
            left += [op.child for op in state.ops.values() if op.child]
    return list(filter(None, found))


def _left_by(run: Run, events: Events, op: Operation) -> list[str]:
    """The tools of what an open operation, or the run that it began, may have done and nobody saw."""
    if is_unknown(op) or may_have_acted(op):
        return [op.tool]
    if op.child is not None:
        return _unseen(run, events, op)
    return [op.tool] if op.attempt_open and op.repeat != "pure" else []


def _unseen(run: Run, events: Events, op: Operation) -> list[str]:
    if op.child is None or (not op.attempt_open and (op.result or {}).get("by") == "person"):
        return []  # what a person said of the call holds for all that is below it
    folder = run.folder.parent / op.child
    if not (folder / "events.jsonl").exists():
        return [op.tool] if has_begun(run.world.seals, events, op) else []
    with reading(folder):
        below = scan(journal_bytes(folder), folder, blobs=False).events
    told = _told(run, folder)
    left = [inner for inner in fold(below).open_ops.values() if inner.n not in told]
    return list(dict.fromkeys(tool for inner in left for tool in _left_by(run, below, inner)))


def _told(run: Run, folder: Path) -> set[int]:
    """The operations of which a person has said what became of them, in words that their run has not taken yet."""
    theirs = [path for path in waiting_files(folder) if is_borne(run.world.words, path)]
    messages = [message for path in theirs if (message := read_message(path)) is not None]
    return {message["op"] for message in messages if message["kind"] == "settle" and message.get("word") in KNOWN}
