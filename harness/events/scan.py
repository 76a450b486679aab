"""Reading a journal: which lines hold, and whether a bad end is a torn tail or damage. Nothing is changed here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events import line as lines

SYNCED_KINDS = frozenset({"park", "run.end"})


@dataclass(frozen=True, slots=True)
class Scan:
    """The good events with their bytes, the length they fill, and the length of the torn tail after them."""

    events: tuple[dict[str, Any], ...]
    good: int
    torn: int


def scan(raw: bytes, folder: Path, blobs: bool = True) -> Scan:
    """Judge a whole journal. Raises JournalError for damage; `blobs` also checks the values kept outside it."""
    events: list[dict[str, Any]] = []
    offset, bad = 0, ""
    path = folder / "events.jsonl"
    pieces = _pieces(raw)
    for start, piece, whole in pieces:
        event = _valid(piece, whole)
        if event is not None:
            lines.check_known(event, f"{path}:{len(events) + 1}")
        bad = _misfit(event, events) or (_lost_blob(event, folder) if blobs and event else "")
        if bad:
            return Scan(tuple(events), offset, _torn(raw, start, event, events, bad, path))
        assert event is not None
        events.append(event)
        offset = start + len(piece) + 1
    return Scan(tuple(events), offset, 0)


def _pieces(raw: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, bytes without newline, whether the newline is there)."""
    start = 0
    while start < len(raw):
        end = raw.find(b"\n", start)
        if end < 0:
            yield start, raw[start:], False
            return
        yield start, raw[start:end], True
        start = end + 1


def _valid(piece: bytes, whole: bool) -> dict[str, Any] | None:
    """The event, when frame, checksum and JSON are right; a line without its newline was never acknowledged."""
    if not whole:
        return None
    try:
        return lines.parse(piece)
    except lines.BadLine:
        return None


def _misfit(event: dict[str, Any] | None, before: list[dict[str, Any]]) -> str:
    if event is None:
        return "no valid line"
    last = before[-1] if before else {"seq": 0, "epoch": 1, "v": 1}
    if event.get("seq") != last["seq"] + 1:
        return f"sequence number {event.get('seq')} where {last['seq'] + 1} is due"
    step = 1 if event["kind"] == "resume" else 0
    if event.get("epoch") != last["epoch"] + step:
        return f"epoch {event.get('epoch')} where {last['epoch'] + step} is due"
    return "a version that falls" if event["v"] < last["v"] else ""


def _lost_blob(event: dict[str, Any], folder: Path) -> str:
    for name in blob_names(event["data"]):
        path = folder / "blobs" / name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            return f"blob {name[:12]} is missing"
        if found != name:
            return f"blob {name[:12]} has other content"
    return ""


def blob_names(value: object) -> Iterator[str]:
    """Every blob that a value names."""
    if isinstance(value, dict):
        name = value.get("blob")
        if isinstance(name, str) and isinstance(value.get("bytes"), int) and len(value) == 2:
            yield name
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from blob_names(item)


def _torn(
    raw: bytes, start: int, event: dict[str, Any] | None, before: list[dict[str, Any]], bad: str, path: Path
) -> int:
    """The length of a torn tail, or JournalError where something after the bad line proves that it was once whole.

    After a line whose blob is gone, the page cache may have kept later lines and lost the blob: only an event that
    was synced proves damage. After any other bad line each valid one does, and so does the line itself, if valid.
    """
    later = [found for _, piece, whole in _pieces(raw[start:]) if (found := _valid(piece, whole)) is not None]
    blob = event is not None and bad.startswith("blob ")
    proof = _synced(before, later) if blob else bool(later)
    if not proof:
        return len(raw) - start
    seq = before[-1]["seq"] if before else 0
    raise JournalError(
        f"the journal is damaged at byte {start}: {bad}; the last good event is {seq}",
        "restore the run's folder from a copy; nothing was changed",
        str(path),
    )


def _synced(before: list[dict[str, Any]], later: list[dict[str, Any]]) -> bool:
    """Whether one of the later events, or one that they follow, was certainly on the disk before it was written."""
    harmless: set[int] = set()
    for event in (*before, *later):
        data = event["data"]
        if event["kind"] == "decide" and data.get("effect") == "read" and data.get("repeat") == "pure":
            harmless.add(event.get("op", 0))
    for event in later:
        kind, data = event["kind"], event["data"]
        if kind in SYNCED_KINDS or (kind in ("user.say", "decide", "amend") and data.get("inbox")):
            return True
        if kind == "tool.end" and data.get("outcome") != "not-started" and event.get("op", 0) not in harmless:
            return True
    return False
