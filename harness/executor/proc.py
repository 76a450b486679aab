"""Processes as `/proc` shows them, of whoever's making. Where there is no `/proc` nothing is found, and nothing raised.

Not a place that decides which of them belong to an attempt.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def ahead() -> Iterator[None]:
    """Let the calling thread go before all others for a while, if it may: among thousands its turn comes late."""
    hasten(0)
    try:
        yield
    finally:
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def hasten(pid: int) -> None:
    """Let a process, 0 for the calling thread, go before all others, if we may."""
    with suppress(OSError, AttributeError):  # niceness would count among the processes of its session alone
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def halt(pid: int) -> bool:
    """Stop the process, and let it never start another; False when it was kept from that before, or is not ours."""
    send(pid, signal.SIGSTOP)
    if not hasattr(resource, "prlimit"):
        return False
    try:
        return resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0)) != (0, 0)
    except (OSError, ValueError):
        return False


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


def first_of_namespace(pid: int) -> bool:
    """True for process 1 of a PID namespace within this one; its end is that of all the others."""
    try:
        lines = _read(f"/proc/{pid}/status").splitlines()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == b"1"


def namespace(pid: int) -> str | None:
    """The name of the PID namespace that a process is in; None where it is gone or we may not look."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


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
