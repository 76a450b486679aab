"""An attempt that goes on without the harness: a line of shell keeps limits and deadline, and notes the exit.

For tools whose effect must not be lost from sight. All the files it needs exist before the intent is journaled, so
that even a full disk takes the note. Not a place that settles what an earlier process began.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from harness.events.clock import Clock
from harness.events.io import IO
from harness.executor import tree
from harness.executor.environment import SYSTEM_PATH
from harness.executor.files import ACTS, KILL_AFTER_S, PENDING, READS, Files, outcome, signal_of
from harness.executor.limits import ulimits
from harness.executor.outcome import Cancel, Job, Outcome, not_started
from harness.executor.process import stdin_of
from harness.executor.starting import Start, Wrap, here, obstacle, reason, unwrapped
from harness.executor.watch import Terms, Watch, Watched

SHELL = "/bin/sh"
MARGIN_S = 1
"""How much later than the shim the harness ends a tool, should something have stopped the shim."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
_STEP = 1 << 20
# Some shells export variables of their own.
_SHIM = (
    "unset PWD OLDPWD SHLVL;trap : TERM INT HUP;printf {mark} >&{started}||exit 1;{ulimits}"
    '"$@" {started}>&- {rc}>&-;printf "%03d\\n" $? >&{rc}'
)
# Moves two descriptors to numbers that a shell can name: one digit. Python ignores two signals that a tool must get.
_MOVER = (
    "import fcntl,os,signal,sys;[signal.signal(number,signal.SIG_DFL) for number in (signal.SIGPIPE,signal.SIGXFSZ)];"
    "fds=[int(word) for word in sys.argv[1:3]];"
    "high=[fcntl.fcntl(fd,fcntl.F_DUPFD_CLOEXEC,10) for fd in fds];[os.close(fd) for fd in fds];"
    "[os.dup2(fd,3+n) for n,fd in enumerate(high)];os.execv(sys.argv[3],sys.argv[3:])"
)
_reserving = threading.Lock()
_reserved: list[int] = []


@dataclass(frozen=True, slots=True)
class Attempt:
    """What `prepare` made: the folder and its open, locked files. `run_shim` or `close` closes them."""

    folder: Path
    files: Files
    fds: ExitStack

    def close(self) -> None:
        """For an attempt that is not to be made after all."""
        self.fds.close()


def prepare(folder: Path, job: Job, io: IO) -> Attempt:
    """Make the files of one attempt in its folder, which is there and holds none of them. Before the intent.

    Raises `OSError`, also where locks do not work; then nothing may be started.
    """
    with ExitStack() as stack:
        _put(folder / "request.json", _request(job), io)
        started = _make(folder / "started", io, stack)
        rc = _make(folder / "rc", io, stack)
        if io.write(rc, PENDING) != len(PENDING):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "rc"))
        os.lseek(rc, 0, os.SEEK_SET)  # the shim writes over it
        out, err = (_make(folder / name, io, stack, os.O_APPEND) for name in ("out", "err"))
        if not (io.lock(out) and io.lock(err)):
            raise OSError(errno.EAGAIN, "somebody else has the lock", str(folder / "out"))
        return Attempt(folder, Files(started, rc, out, err), stack.pop_all())


def run_shim(
    job: Job,
    attempt: Attempt,
    io: IO,
    cancel: Cancel,
    wrap: Wrap = unwrapped,
    start: Start = here,
    pass_fds: Sequence[int] = (),
) -> Outcome:
    """Make a prepared attempt and return when it is over and nothing of its tree is left. Closes `attempt`.

    The hooks are those of a direct attempt; the shim itself runs behind `wrap`. Never raises for what a tool does.
    """
    with attempt.fds:
        if cancel.level:
            return not_started("cancelled before it was started", cancelled=True)
        if keeper() is None:
            why = "this machine has no `timeout` command, which keeps a tool's deadline: install coreutils or busybox"
            return not_started(why)
        why_not = obstacle(job)
        if why_not:
            return not_started(why_not)
        tree.prepare()
        with tree.announced(job.op_id):
            born = time.monotonic()
            try:
                child = _spawn(job, attempt, io, wrap, start, pass_fds)
            except (OSError, ValueError) as error:
                return not_started(reason(job, error))
            terms = Terms(_seconds(job) + KILL_AFTER_S + MARGIN_S, job.limits.procs, True, _Cap(attempt, job, io).hold)
            seen = Watch(tree.Tree(job.op_id, child.pid, born), child, cancel, terms).finish()
        return _outcome(job, attempt, seen)


def _spawn(
    job: Job, attempt: Attempt, io: IO, wrap: Wrap, start: Start, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    files, numbers = attempt.files, _places()
    argv = _shim(job, numbers or (3, 4))
    placed, passed = {}, list(pass_fds)
    if numbers:
        placed = {numbers[0]: files.started, numbers[1]: files.rc}
    else:
        argv = [sys.executable, "-ISc", _MOVER, str(files.started), str(files.rc), *argv]
        passed += [files.started, files.rc]
    wrapped, stdin = wrap(argv), stdin_of(job.stdin)
    try:
        return start(lambda: io.spawn(wrapped, job.cwd, job.env, stdin, files.out, files.err, passed, placed))
    finally:
        os.close(stdin)


def _shim(job: Job, numbers: tuple[int, int]) -> list[str]:
    """The shell's argv. `numbers` are those of `started` and `rc` in it."""
    mark = (READS if job.harmless else ACTS).decode()
    text = _SHIM.format(started=numbers[0], rc=numbers[1], mark=mark, ulimits=ulimits(job))
    return [SHELL, "-c", text, "harness-shim", keeper() or "", "-k", str(KILL_AFTER_S), str(_seconds(job)), *job.argv]


def _seconds(job: Job) -> int:
    """Whole ones, because not every `timeout` takes parts of one, and 0 means none."""
    return max(1, math.ceil(job.timeout))


@cache
def keeper() -> str | None:
    """The command that keeps a tool's deadline, if the machine has one."""
    return shutil.which("timeout", path=":".join(SYSTEM_PATH))


def _places() -> tuple[int, int] | None:
    """Two descriptor numbers that a shell can name, reserved in this process; None while it uses all of them."""
    with _reserving:
        if not _reserved:
            _reserved.extend(_reserve())
        return (_reserved[0], _reserved[1]) if _reserved else None


def _reserve() -> list[int]:
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    found = [fcntl.fcntl(null, fcntl.F_DUPFD_CLOEXEC, 3) for _ in range(2)]
    os.close(null)
    if max(found) <= 9:
        return found
    for fd in found:
        os.close(fd)
    return []


class _Cap:
    """Gives back the disk space of what is beyond the cap while the tool runs. The files' sizes stay: they count."""

    def __init__(self, attempt: Attempt, job: Job, io: IO) -> None:
        self.io, self.most = io, job.limits.output
        self.done = {attempt.files.out: self.most, attempt.files.err: self.most}

    def hold(self) -> None:
        """Look once."""
        for fd, upto in self.done.items():
            size = self.io.size(fd)
            if size >= upto + _STEP:
                self.io.punch(fd, upto, size - upto)
                self.done[fd] = size


def _outcome(job: Job, attempt: Attempt, seen: Watched) -> Outcome:
    """What the files say, with what was seen here in place of what they leave open."""
    told = outcome(attempt.files, job.limits, job.timeout, seen.ms)
    why = seen.why or told.why
    if not told.started:
        killed = -seen.code if seen.code < 0 else signal_of(seen.code)
        return replace(told, signal=killed, cancelled=seen.cancelled, why=why)
    if told.exit is not None:
        return replace(told, cancelled=seen.cancelled, why=why)
    number = _death(seen.code)
    return replace(told, exit=128 + number, signal=number, timed_out=seen.timed_out, cancelled=seen.cancelled, why=why)


def _death(code: int) -> int:
    """The signal that ended a shim which noted nothing. What stands in front of it may exit instead: no tool's word."""
    return -code if code < 0 else signal_of(code) or int(signal.SIGKILL)


def _request(job: Job) -> bytes:
    clock, most = Clock(), _seconds(job) + KILL_AFTER_S + MARGIN_S
    deadline = datetime.fromtimestamp(clock.wall() + most, UTC).isoformat(timespec="seconds")
    data = {"argv": list(job.argv), "cwd": str(job.cwd), "seconds": job.timeout, "deadline": deadline}
    data |= {"deadline_boot": round(clock.boot() + most, 3), "digest": job.digest}
    return json.dumps(data).encode() + b"\n"


def _make(path: Path, io: IO, stack: ExitStack, flags: int = 0) -> int:
    fd = io.open(path, _NEW | flags)
    stack.callback(os.close, fd)
    return fd


def _put(path: Path, data: bytes, io: IO) -> None:
    """Not synced: it says nothing after a power cut, which nothing of an attempt outlives."""
    with ExitStack() as stack:
        fd = _make(path, io, stack)
        while data:
            data = data[io.write(fd, data) :]
