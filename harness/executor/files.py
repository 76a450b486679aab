"""The files of an attempt through the shim, read as evidence: what it printed, whether it began, how it ended.

    request.json   what was asked: argv, cwd, seconds, deadline
    started        one byte once the shim began, ACTS or READS; empty counts as absent
    out, err       what the tool printed, locked by whatever of it still has them open
    rc             `....`, then the exit code as three digits and a newline; in no other form does it count

Not a place that starts or ends anything. What cannot be read counts as absent.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events.io import IO
from harness.executor.limits import met
from harness.executor.outcome import Outcome, not_started
from harness.sandbox import Limits

NAMES = ("started", "rc", "out", "err")
ACTS, READS = b".", b"r"
"""The byte in `started`: of an attempt that may have an effect, and of one whose intent need not be on the disk."""
PENDING = b"...."
KILL_AFTER_S = 2
"""From the shim's SIGTERM at the deadline to its SIGKILL."""
_TIMED_OUT = 124
_SIGNALS = 64


@dataclass(frozen=True, slots=True)
class Files:
    """Descriptors of an attempt's files; -1 for one that is not there."""

    started: int
    rc: int
    out: int
    err: int


@contextmanager
def opened(folder: Path, flags: int = os.O_RDONLY) -> Iterator[Files]:
    """The files of an earlier attempt. A link or anything else that is no plain file counts as absent."""
    with ExitStack() as stack:
        yield Files(*(_open(folder / name, flags, stack) for name in NAMES))


def _open(path: Path, flags: int, stack: ExitStack) -> int:
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    stack.callback(os.close, fd)
    return fd if stat.S_ISREG(os.fstat(fd).st_mode) else -1


def exit_code(files: Files) -> int | None:
    """What the shim noted."""
    if files.rc < 0:
        return None
    found = re.fullmatch(rb"([0-9]{3})\n", os.pread(files.rc, 5, 0))
    return int(found[1]) if found else None


def began(files: Files) -> bool:
    """True once the shim was about to start the tool."""
    return files.started >= 0 and os.fstat(files.started).st_size > 0


def mark(files: Files) -> bytes:
    """What the shim of a begun attempt wrote: ACTS or READS; a NUL where only the file's length outlived lost power."""
    return os.pread(files.started, 1, 0) if files.started >= 0 else b""


def outcome(files: Files, limits: Limits, seconds: float, ms: int | None = None) -> Outcome:
    """How the attempt ended by its files alone; call it when it is dead.

    `seconds` is its time-out, `ms` how long it took, by the times of the files if that is not known. 128 + n is taken
    for death by signal n, and 124 for the deadline: the code does not tell them from a tool's own exit.
    """
    code = exit_code(files)
    (out, lost_out), (err, lost_err) = _kept(files.out, limits.output), _kept(files.err, limits.output)
    if code is None and not began(files):
        return not_started(_complaint(err))
    taken = _ms(files) if ms is None else ms
    number = signal_of(code)
    stopped = number in (signal.SIGTERM, signal.SIGKILL) and taken >= seconds * 1000
    return Outcome(
        exit=code,
        signal=number,
        timed_out=code == _TIMED_OUT or stopped or number == signal.SIGXCPU,
        cancelled=False,
        out=out,
        err=without_epitaph(err, number),
        dropped=lost_out + lost_err,
        ms=taken,
        started=True,
        why=met(number, limits) if code is not None else "it ended without a note of its exit",
    )


def signal_of(code: int | None) -> int | None:
    """The signal that a shell speaks of by an exit code."""
    return code - 128 if code and 128 < code <= 128 + _SIGNALS else None


def cut(folder: Path, io: IO, limits: Limits) -> None:
    """Cut the outputs to what is kept. Only when the outcome is in the journal: the files hold the count till then."""
    with opened(folder, os.O_RDWR) as files:
        for fd in (files.out, files.err):
            if fd >= 0 and io.size(fd) > limits.output:
                io.truncate(fd, limits.output)


def request(folder: Path) -> dict[str, Any]:
    """What was asked; empty when it cannot be read."""
    with suppress(OSError, ValueError):
        found = json.loads((folder / "request.json").read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _kept(fd: int, most: int) -> tuple[bytes, int]:
    """The first bytes of the file, and how many there are beyond them."""
    size = os.fstat(fd).st_size if fd >= 0 else 0
    if not size:
        return b"", 0
    parts: list[bytes] = []
    at = 0
    while at < most and (part := os.pread(fd, most - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts), max(0, size - most)


def without_epitaph(err: bytes, number: int | None) -> bytes:
    """Some shells write a line about a signal's victim, and to where that one wrote its own."""
    line = f"{signal.strsignal(number) or ''}\n".encode() if number else b""
    return err.removesuffix(line) if len(line) > 1 else err


def _ms(files: Files) -> int:
    last = files.rc if exit_code(files) is not None else files.out
    if last < 0:
        return 0
    return max(0, round((os.fstat(last).st_mtime - os.fstat(files.started).st_mtime) * 1000))


def _complaint(err: bytes) -> str:
    """Why the shim did not begin: the last words of what stood in front of it, if any."""
    lines = err.decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"its shim did not begin: {said or 'is the disk full?'}"
