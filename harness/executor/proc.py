"""Processes as `/proc` shows them, of whoever's making. Where there is no `/proc` nothing is found, and nothing raised.

Not a place that decides which of them belong to an attempt.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_EXEC_S = 0.5


@dataclass(frozen=True, slots=True)
class Member:
    """One process."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


def send(pid: int, number: int) -> None:
    """Send a signal, if the process is there and we may."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def pids() -> list[int]:
    """All there are."""
    return numbers("/proc")


def numbers(path: str) -> list[int]:
    """The names in a directory that are numbers."""
    try:
        with os.scandir(path) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []


def last_pid() -> int | None:
    """The newest pid of this pid namespace, or None where the system does not say."""
    try:
        return int(_read("/proc/loadavg").split()[-1])
    except (OSError, ValueError, IndexError):
        return None


def tasks() -> int | None:
    """How many threads of all users there are, or None where the system does not say."""
    try:
        return int(_read("/proc/loadavg").split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return None


@cache
def pid_max() -> int:
    """The highest pid that is handed out, plus one; 0 where the system does not say."""
    try:
        return int(_read("/proc/sys/kernel/pid_max"))
    except (OSError, ValueError):
        return 0


def look(pid: int) -> Member | None:
    """The process of this number, one that is dead and not waited for included."""
    try:
        # the name in parentheses may hold anything, parentheses included
        state, parent, group, session = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return Member(pid, state.decode(), int(parent), int(group), int(session))


def lives(pid: int) -> bool:
    """True for a process that is there and not dead."""
    found = look(pid)
    return found is not None and found.state not in "ZX"


def op_id_of(pid: int) -> str | None:
    """The `HARNESS_OP_ID` a process was started with; None without one, for a dead process, or if we may not look."""
    try:
        variables = _read(f"/proc/{pid}/environ") or _environ_after_exec(pid)
    except OSError:
        return None
    mark = b"HARNESS_OP_ID="
    return next((os.fsdecode(text[len(mark) :]) for text in variables.split(b"\0") if text.startswith(mark)), None)


def locks(pid: int, files: set[tuple[int, int]]) -> bool:
    """True when the process has the open file that locks one of `files`, given as device and inode."""
    for number in numbers(f"/proc/{pid}/fd"):
        with suppress(OSError):
            found = Path(f"/proc/{pid}/fd/{number}").stat()
            if (found.st_dev, found.st_ino) in files and b"FLOCK" in _read(f"/proc/{pid}/fdinfo/{number}"):
                return True
    return False


def _environ_after_exec(pid: int) -> bytes:
    """The variables of a process that seems to have none: it may just be changing to another program."""
    until = time.monotonic() + _EXEC_S
    while (found := look(pid)) and found.state not in "ZX" and time.monotonic() < until:
        kernel_thread = found.parent == 2 and found.group == 0
        if kernel_thread or _read(f"/proc/{pid}/cmdline"):
            break
        time.sleep(0.001)
    return _read(f"/proc/{pid}/environ")


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
