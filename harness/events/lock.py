"""Who owns a run: the lock of its folder, held for the life of a process, which the kernel frees with it.

The lock's text is for people; its time is when the owner was last seen alive. Nothing here reads the journal.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from harness.errors import BusyError, HarnessError
from harness.events.io import IO
from harness.events.line import at_text
from harness.events.regular import bytes_of, refuse_odd

PAUSE = 0.02


def take(folder: Path, io: IO, wait: float) -> int:
    """The descriptor of the held lock. Tries for `wait` seconds; raises BusyError, naming the owner, or OSError.

    Raises HarnessError (exit 2) on a file system whose locks lock nothing.
    """
    path = folder / "lock"
    fd = io.open(path, os.O_RDWR | os.O_CREAT)
    try:
        refuse_odd(os.fstat(fd))
        deadline = time.monotonic() + wait
        while not _locked(io, fd, path):
            if time.monotonic() >= deadline:
                fix = f"wait for it, or look: harness show {folder.name} -F"
                raise BusyError(f"the run is still running{owner(folder)}", fix)
            time.sleep(PAUSE)
        _refuse_idle_lock(io, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _locked(io: IO, fd: int, path: Path) -> bool:
    try:
        return io.lock(fd)
    except OSError as error:
        raise _no_place(path, f"cannot be locked: {error.strerror or error}") from error


def _refuse_idle_lock(io: IO, path: Path) -> None:
    """A lock that a second descriptor gets, too, keeps nobody out."""
    second = io.open(path, os.O_RDWR)
    try:
        if _locked(io, second, path):
            raise _no_place(path, "is locked twice at once: this file system's locks keep nobody out")
    finally:
        os.close(second)


def _no_place(path: Path, what: str) -> HarnessError:
    return HarnessError(f"the run's lock {what}", "set runs.dir to a folder on a local disk", str(path))


def sign(fd: int, io: IO, epoch: int, at: float) -> None:
    """Write pid, host, epoch and time of the owner into its lock, as far as the disk lets us."""
    text = f"pid {os.getpid()}\nhost {socket.gethostname()}\nepoch {epoch}\nsince {at_text(at)}\n"
    with contextlib.suppress(OSError):
        io.truncate(fd, 0)
        io.write(fd, text.encode())


def owner(folder: Path) -> str:
    """`, pid 4242 on HOST since …`, or nothing where the lock's text does not say."""
    try:
        words = bytes_of(folder / "lock").decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    said = dict(line.split(" ", 1) for line in words if " " in line)
    if not {"pid", "host", "since"} <= said.keys():
        return ""
    return f", pid {said['pid']} on {said['host']} since {said['since']}"
