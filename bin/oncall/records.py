"""Files and folders of logs → records: a first line with the lines that continue it. Bounded, whatever the size.

Not a follower: it reads what is there. Of much data only the newest part is read, and that is said; line numbers stay
those of the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from oncall import headers
from oncall.output import BAD_DATA, MISSING, stop

MOST_BYTES = 32 << 20
MOST_FILES = 200
LONGEST = 8192
MOST_CONTINUED = 200
_NOT_LOGS = (".csv", ".json", ".md", ".yaml", ".yml", ".html", ".py", ".zip", ".tar", ".tgz", ".png", ".jpg", ".pdf")
_CONTINUES = ("\t", "   ", "Caused by:", "Suppressed:", "... ", "at java.", "at org.", "at com.")


class Record:
    """One event of a log: `first` and `last` line numbers, its parsed header, message and what continues it."""

    __slots__ = ("component", "first", "last", "level", "message", "more", "path", "time")

    def __init__(self, path: str, number: int, parsed: headers.Parsed) -> None:
        self.path, self.first, self.last = path, number, number
        self.time, self.level, self.component, self.message = parsed
        self.more: list[str] = []


def files(path: str) -> tuple[list[str], list[str]]:
    """The log files that a path means, sorted, and notes on what was left out. A missing path ends the tool."""
    if not os.path.exists(path):
        stop(MISSING, f"no such file or folder: {path}", "check the path; a relative one starts at the current folder")
    if not os.path.isdir(path):
        return [path], []
    found, notes = [], []
    for folder, names, here in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith("."))
        found += [os.path.join(folder, name) for name in sorted(here) if _may_be_log(folder, name)]
    if len(found) > MOST_FILES:
        notes.append(f"{path}: only the first {MOST_FILES} of {len(found)} files were read")
    return found[:MOST_FILES], notes


def _may_be_log(folder: str, name: str) -> bool:
    if name.startswith(".") or name.lower().endswith(_NOT_LOGS):
        return name.lower().endswith((".log.json", ".jsonl"))
    return os.path.isfile(os.path.join(folder, name))


def read(path: str, alone: bool, budget: int, notes: list[str]) -> tuple[list[Record], int]:
    """The records of one file and how many lines were read. `alone`: it was named itself; unreadable ends the tool."""
    data, skipped = _bytes(path, alone, budget, notes)
    if b"\0" in data[:65536] and not _is_utf16(data):
        if alone:
            stop(BAD_DATA, f"{path} is binary, not a log", "name a text log, or unpack it first")
        notes.append(f"{path}: binary, left out")
        return [], 0
    lines = _text(data, path, notes).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return list(_records(path, lines, skipped)), len(lines)


def _bytes(path: str, alone: bool, budget: int, notes: list[str]) -> tuple[bytes, int]:
    """The newest `budget` bytes of a file, from a line start, and the number of lines before them."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            stop(BAD_DATA, f"{path} is no regular file", "name a log file or a folder of logs")
        if path.endswith(".gz"):
            return _unpacked(path, budget, notes), 0
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size <= budget:
                return stream.read(budget), 0
            skipped = _count_lines(stream, size - budget)
            skipped += stream.readline().endswith(b"\n")
            notes.append(f"{path}: only the last {budget >> 20} of {size >> 20} MB were read")
            return stream.read(budget), skipped
    except (OSError, EOFError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a whole gzip file"
        if alone:
            stop(MISSING, f"cannot read {path}: {reason.lower()}", "check its permissions and name")
        notes.append(f"{path}: {reason.lower()}, left out")
        return b"", 0


def _unpacked(path: str, budget: int, notes: list[str]) -> bytes:
    import gzip

    with gzip.open(path) as stream:
        data = stream.read(budget)
        if stream.read(1):
            notes.append(f"{path}: only the first {budget >> 20} MB were read")
    return data


def _count_lines(stream: object, end: int) -> int:
    count = 0
    while end > 0:
        block = stream.read(min(end, 1 << 20))  # type: ignore[attr-defined]
        if not block:
            break
        count += block.count(b"\n")
        end -= len(block)
    return count


def _is_utf16(data: bytes) -> bool:
    return data[:2] in (b"\xff\xfe", b"\xfe\xff")


def _text(data: bytes, path: str, notes: list[str]) -> str:
    if _is_utf16(data):
        return data.decode("utf-16", "replace").replace("\r\n", "\n")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        notes.append(f"{path}: not UTF-8, read as Latin-1")
    return text


def _records(path: str, lines: list[str], skipped: int) -> Iterator[Record]:
    current: Record | None = None
    timed = trace = False
    for number, line in enumerate(lines, skipped + 1):
        line = line[:LONGEST].rstrip("\r")
        if not line.strip():
            continue
        parsed = headers.split(line)
        starts = "Traceback (most recent call last)" in line and (current is None or current.level != "error")
        if current is not None and not starts and len(current.more) < MOST_CONTINUED and _belongs(
                line, parsed, timed, trace):
            current.more.append(line.strip())
            current.last = number
            trace = trace and line[:1] in " \t"
            continue
        if current is not None:
            yield current
        timed = timed or parsed[0] is not None
        current = Record(path, number, parsed)
        trace = starts
    if current is not None:
        yield current


def _belongs(line: str, parsed: headers.Parsed, timed: bool, trace: bool) -> bool:
    """Whether a line continues the one before it: indented, a stack frame, or untimed in a log of timed lines."""
    if parsed[0] is not None:
        return False
    return trace or line.startswith(_CONTINUES) or (timed and parsed[1] is None)
