"""Reading a journal: which lines hold, and whether a bad end is a torn tail or damage. Nothing is changed here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events import line as lines
from harness.events.regular import bytes_of, open_regular

REDACTS = b'"what":"redact"'
"""In every journal from which a value was removed; a text that says so has its quotes escaped."""
BLOB = b'"blob":'
"""In every line that names a blob; likewise."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The good events, the length they fill, and the bytes of the torn tail after them."""

    events: tuple[dict[str, Any], ...]
    good: int
    torn: bytes = b""

    @property
    def started(self) -> bool:
        return bool(self.events) and self.events[0]["kind"] == "run.start"


def has_attempts(folder: Path) -> bool:
    """Whether something was about to run: the first event was on the disk before the first attempt's folder."""
    return any((folder / "ops").glob("*/*"))


def never_started(folder: Path) -> JournalError:
    """The error for a folder without a whole first event."""
    journal = folder / "events.jsonl"
    if has_attempts(folder):
        what = "the journal is empty or gone, but attempts of this run are there: they may have had an effect"
        return JournalError(what, "restore its folder from a copy; look at ops before it is begun anew", str(folder))
    if journal.is_file() and b"\n" in journal.read_bytes():
        return JournalError("no line of the journal can be read", "put the file back as it was written", str(journal))
    return JournalError("this run never started", "start it again; its folder may be deleted", str(folder))


def open_journal(folder: Path) -> BufferedReader:
    """The journal of a run, open for reading; without waiting where something else is in its place. Raises OSError."""
    return open_regular(folder / "events.jsonl")


def journal_bytes(folder: Path) -> bytes:
    """All of it. Raises OSError."""
    return bytes_of(folder / "events.jsonl")


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Read the journal of a run that somebody named. Raises JournalError where there is none, or no file."""
    try:
        yield
    except FileNotFoundError as error:
        raise never_started(folder) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        what, fix = f"the run cannot be read: {reason}", "put its journal back as it was written, readable"
        raise JournalError(what, fix, str(folder / "events.jsonl")) from error


def first_data(folder: Path) -> dict[str, Any] | None:
    """The data of a journal's first line, or None where it cannot be read."""
    try:
        with open_journal(folder) as file:
            data: dict[str, Any] = lines.parse(file.readline(lines.MAX_LINE).removesuffix(b"\n"))["data"]
    except (OSError, lines.BadLine):
        return None
    return data


def check_there(folder: Path) -> None:
    """Raises JournalError where there is no journal, or none that can be read."""
    with reading(folder):
        open_journal(folder).close()


def good_events(raw: bytes, path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Each good event and the offset of its end, up to the first line that is not good.

    Raises HarnessError for what a newer harness wrote.
    """
    last: dict[str, Any] = {"seq": 0, "epoch": 1, "v": 1}
    start, is_redacted = 0, REDACTS in raw
    while (end := raw.find(b"\n", start)) >= 0:
        event = _valid(raw[start:end])
        if event is not None:
            lines.check_known(event, f"{path}:{last['seq'] + 1}")
        if event is None or _misfit(event, last):
            return
        shown = lines.lifted(event)
        yield {**shown, "data": lines.told(shown["data"])} if is_redacted else shown, end + 1
        last, start = event, end + 1


def scan(raw: bytes, folder: Path, blobs: bool = True) -> Scan:
    """Judge a whole journal. Raises JournalError for damage; `blobs` also checks the values kept outside it."""
    events: list[dict[str, Any]] = []
    good, lost = 0, ""
    path = folder / "events.jsonl"
    for event, end in good_events(raw, path):
        lost = _lost_blob(event, folder) if blobs and raw.find(BLOB, good, end) >= 0 else ""
        if lost:
            break
        events.append(event)
        good = end
    tail = raw[good:]
    if not tail:
        return Scan(tuple(events), good)
    proof = _synced(events, _valid_lines(tail)) if lost else any(_valid_lines(tail))
    if not proof:
        return Scan(tuple(events), good, tail)
    last = events[-1] if events else {"seq": 0, "epoch": 1, "v": 1}
    parent = (events[0]["data"].get("parent") or {}).get("run") if events else None
    fork = parent or f"{folder.name}@{last['seq']}"  # a child goes on with the run that began it
    way = f", or go on from before it: harness fork {fork}" if events else "; nothing was changed"
    raise JournalError(
        f"the journal is damaged at byte {good}: {lost or _why(tail, last)}; the last good event is {last['seq']}",
        f"restore the run's folder from a copy{way}",
        str(path),
    )


def _valid(line: bytes) -> dict[str, Any] | None:
    """The event, when frame, checksum and JSON are right."""
    try:
        return lines.parse(line)
    except lines.BadLine:
        return None


def _valid_lines(tail: bytes) -> Iterator[dict[str, Any]]:
    """The valid events from here on, after lost pages too; a last line without its newline was never acknowledged."""
    for line in tail.split(b"\n")[:-1]:
        event = _valid(line.lstrip(b"\0"))
        if event is not None:
            yield event


def _misfit(event: dict[str, Any], last: dict[str, Any]) -> str:
    if event.get("seq") != last["seq"] + 1:
        return f"sequence number {event.get('seq')} where {last['seq'] + 1} is due"
    due = last["epoch"] + (1 if event["kind"] == "resume" else 0)
    if event.get("epoch") != due:
        return f"epoch {event.get('epoch')} where {due} is due"
    return "a version that falls" if event["v"] < last["v"] else ""


def _why(tail: bytes, last: dict[str, Any]) -> str:
    event = _valid(tail.split(b"\n", 1)[0])
    return "no valid line" if event is None else _misfit(event, last)


def _lost_blob(event: dict[str, Any], folder: Path) -> str:
    for name in blob_names(event["data"]):
        path = folder / "blobs" / name
        try:
            found = hashlib.sha256(bytes_of(path)).hexdigest()
        except OSError:
            return f"blob {name[:12]} is missing"
        if found != name:
            return f"blob {name[:12]} has other content"
    return ""


def blob_bytes(folder: Path, sha: str) -> bytes:
    """The bytes of a blob of the run in `folder`. Raises OSError."""
    return bytes_of(folder / "blobs" / sha)


def blob_text(folder: Path, value: object) -> str:
    """A text of an event of that run, inline or not; empty for what is none. Raises OSError."""
    if isinstance(value, Mapping) and isinstance(value.get("blob"), str):
        return blob_bytes(folder, value["blob"]).decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


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


def proves(kind: str, data: dict[str, Any]) -> bool:
    """Whether such an event is only written once the blobs before it are on the disk: an end, or a person's word.

    A new owner's first word is one, too: what it then records of earlier attempts says nothing of their sync.
    """
    if kind in ("decide", "amend", "tool.end"):
        return bool(data.get("via") or data.get("inbox"))
    return kind in ("park", "run.end", "user.say", "resume")


def _synced(before: list[dict[str, Any]], later: Iterator[dict[str, Any]]) -> bool:
    """Whether one of the later events can only have been written after a sync.

    The page cache may keep a line and lose the blob that it names, so most lines after it prove nothing. An attempt
    that can have an effect is only started once its intent is on the disk: that it began and ended after the line does.
    """
    harmless = {event.get("op") for event in before if _is_harmless(event)}
    begun: set[object] = set()
    for event in later:
        kind, data, n = event.get("kind"), event["data"], event.get("op")
        if proves(str(kind), data):
            return True
        if _is_harmless(event):
            harmless.add(n)
        elif kind == "tool.start" and n not in harmless and data.get("role") != "query":  # asking is a read
            begun.add(n)
        elif kind == "tool.end" and n in begun and data.get("outcome") != "not-started":
            return True
    return False


def _is_harmless(event: dict[str, Any]) -> bool:
    data = event["data"]
    return event.get("kind") == "decide" and data.get("effect") == "read" and data.get("repeat") == "pure"
