"""One attempt, from its start to the moment nothing of it is left. `_spawn` is the only function that starts a tool.

The attempt is direct: pipes, and limits that are set just after the start. Not a place that reads what a tool prints.
"""

from __future__ import annotations

import errno
import math
import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.events.io import IO
from harness.executor import tree
from harness.executor.outcome import Cancel, Job, Outcome

KEPT_BYTES = 8 << 20
MEMORY_BYTES = 4 << 30
OPEN_FILES = 256
FILE_BYTES = 1 << 30
_CHUNK = 1 << 16
_TICK_S = 0.05
_TICK_BLIND_S = 0.01  # where the end of a process does not wake us
_COUNT_S = 0.1
_DRAIN_S = 0.5
_LIMITS_MET: dict[int, str] = {
    signal.SIGXCPU: "killed: used more processor time than its time-out",
    signal.SIGXFSZ: "killed: a file grew beyond 1 GiB",
}

OnOutput = Callable[[str, bytes], None]
"""Called with "out" or "err" and bytes that are kept, as they come, in the thread that runs the attempt."""


@dataclass(slots=True)
class _Pipe:
    """The reading end of one of the tool's outputs, and what came through it."""

    name: str
    fd: int
    kept: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def read(self, on_output: OnOutput | None) -> bool:
        """Take what is there; False at the end."""
        data = os.read(self.fd, _CHUNK)
        keep = data[: KEPT_BYTES - len(self.kept)]
        self.kept += keep
        self.dropped += len(data) - len(keep)
        if keep and on_output:
            on_output(self.name, keep)
        return bool(data)


def run(job: Job, io: IO, cancel: Cancel, on_output: OnOutput | None = None) -> Outcome:
    """Make one attempt and return when it is over: its first process has ended and nothing of its tree is left.

    Never raises for what a tool does or cannot do. Several may run at once, in threads.
    """
    if cancel.level:
        return _not_started("cancelled before it was started", cancelled=True)
    tree.prepare()
    began = time.monotonic()
    with tree.announced(job.op_id), ExitStack() as stack:
        try:
            child, out, err = _spawn(job, io, stack)
        except (OSError, ValueError) as error:
            return _not_started(_reason(job, error))
        return _Attempt(job, cancel, on_output, child, (out, err), began).finish()


def _spawn(job: Job, io: IO, stack: ExitStack) -> tuple[subprocess.Popen[bytes], _Pipe, _Pipe]:
    """Start the tool. `stack` closes the reading ends."""
    with ExitStack() as childs:
        ends: list[int] = []
        for _ in range(2):
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            childs.callback(os.close, writing)
            ends += reading, writing
        stdin = _stdin(job.stdin)
        childs.callback(os.close, stdin)
        child = io.spawn(job.argv, job.cwd, job.env, stdin, ends[1], ends[3])
    _limit(child.pid, job.timeout)
    return child, _Pipe("out", ends[0]), _Pipe("err", ends[2])


def _stdin(data: bytes) -> int:
    """A descriptor to read `data` from: a file, because a pipe would block on whoever does not read it."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    import tempfile  # only a verifier is given something to read

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _limit(pid: int, timeout: float) -> None:
    """Best effort: the tool already runs, and may have ended. A limit that is stricter already stays."""
    if not hasattr(resource, "prlimit"):
        return
    cpu = math.ceil(timeout) + 1
    limits = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (cpu, cpu + 1),  # a second between SIGXCPU and SIGKILL
        # not the address space: many runtimes reserve far more of it than they use
        resource.RLIMIT_DATA: (MEMORY_BYTES, MEMORY_BYTES),
        resource.RLIMIT_FSIZE: (FILE_BYTES, FILE_BYTES),
        resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES),
    }
    for kind, (soft, hard) in limits.items():
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        with suppress(OSError, ValueError):
            resource.prlimit(pid, kind, (soft, hard))


class _Attempt:
    """A started tool: waits for its end, at its deadline or a person's word brings it about, and clears up."""

    def __init__(
        self,
        job: Job,
        cancel: Cancel,
        on_output: OnOutput | None,
        child: subprocess.Popen[bytes],
        pipes: tuple[_Pipe, _Pipe],
        began: float,
    ) -> None:
        self.job, self.cancel, self.on_output, self.child, self.pipes = job, cancel, on_output, child, pipes
        self.began, self.deadline = began, began + job.timeout
        self.tree = tree.Tree(job.op_id, child.pid, began)
        self.selector = selectors.PollSelector()
        self.exit_fd = _exit_fd(child.pid)
        self.count_at = began + _COUNT_S
        self.kill_at: float | None = None
        self.timed_out = self.cancelled = False
        self.why: str | None = None

    def finish(self) -> Outcome:
        """Wait, end what is left, and report."""
        try:
            for pipe in self.pipes:
                self.selector.register(pipe.fd, selectors.EVENT_READ, pipe)
            if self.exit_fd is not None:
                self.selector.register(self.exit_fd, selectors.EVENT_READ)
            self._watch()
            ended = time.monotonic()
            self._clear(self.kill_at or ended)
            self._drain()
        finally:
            self._close()
        return self._outcome(ended)

    def _watch(self) -> None:
        """Until the first process has ended."""
        tick = _TICK_BLIND_S if self.exit_fd is None else _TICK_S
        while True:
            now = time.monotonic()
            self._stop_if_due(now)
            self._count_if_due(now)
            until = self.deadline if self.kill_at is None else self.kill_at
            if self._read_ready(max(0.0, min(tick, until - now))):
                return

    def _read_ready(self, timeout: float) -> bool:
        """Take the output that is there; True when the first process has ended."""
        ended = False
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                ended = True
            elif not key.data.read(self.on_output):
                self.selector.unregister(key.fd)
        return ended or (self.exit_fd is None and self.child.poll() is not None)

    def _stop_if_due(self, now: float) -> None:
        if self.kill_at is not None:
            if now >= self.kill_at:
                tree.signal_tree(self.tree, signal.SIGKILL)
                self.kill_at = now + _TICK_S  # again, should something have been born meanwhile
        elif self.cancel.level >= 2 or now >= self.deadline:
            self.cancelled = self.cancel.level >= 2
            self.timed_out = not self.cancelled
            tree.signal_tree(self.tree, signal.SIGTERM)
            self.kill_at = now + tree.GRACE_S

    def _count_if_due(self, now: float) -> None:
        if now < self.count_at or self.kill_at is not None:
            return
        if tree.crowded(self.tree):
            self.why = f"killed: more than {tree.MAX_PROCESSES} processes"
            self.kill_at = now
        spent = time.monotonic() - now
        self.count_at = now + max(_COUNT_S, 100 * spent)  # counting may cost one hundredth of the time

    def _clear(self, kill_at: float) -> None:
        """The first process has ended: end the rest, at once unless it is in its grace, and wait for all."""
        if kill_at <= time.monotonic():
            tree.signal_group(self.tree, signal.SIGKILL)
        self.child.wait()
        tree.sweep(self.tree, kill_at)

    def _drain(self) -> None:
        """Read the outputs to their end, which is now, unless something outside the tree holds them open."""
        until = time.monotonic() + _DRAIN_S
        if self.exit_fd is not None:
            self.selector.unregister(self.exit_fd)
        while self.selector.get_map() and (left := until - time.monotonic()) > 0:
            self._read_ready(left)

    def _close(self) -> None:
        """Also when something was raised, a keyboard interrupt for one: nothing of the tool may go on."""
        if self.child.returncode is None:
            tree.signal_tree(self.tree, signal.SIGKILL)
            self._clear(time.monotonic())
        self.selector.close()
        if self.exit_fd is not None:
            os.close(self.exit_fd)

    def _outcome(self, ended: float) -> Outcome:
        code = self.child.returncode
        number = -code if code < 0 else None
        out, err = self.pipes
        return Outcome(
            exit=code if number is None else 128 + number,
            signal=number,
            timed_out=self.timed_out or number == signal.SIGXCPU,
            cancelled=self.cancelled,
            out=bytes(out.kept),
            err=bytes(err.kept),
            dropped=out.dropped + err.dropped,
            ms=round((ended - self.began) * 1000),
            started=True,
            why=self.why or _LIMITS_MET.get(number or 0),
        )


def _exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process has ended, where there is such a thing."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def _not_started(why: str, cancelled: bool = False) -> Outcome:
    return Outcome(None, None, False, cancelled, b"", b"", 0, 0, False, why)


def _reason(job: Job, error: OSError | ValueError) -> str:
    """One line on why nothing was started."""
    tool = Path(job.argv[0])
    if not isinstance(error, OSError):
        return f"cannot start {tool.name}: an argument or a variable holds a NUL byte or no text of this system"
    if not job.cwd.is_dir():
        return f"cannot start {tool.name}: no such working directory: {job.cwd}"
    return f"cannot start {tool.name}: {_system_reason(tool, error)}"


def _system_reason(tool: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"its interpreter {_interpreter(tool)} is missing" if tool.exists() else f"no such file: {tool}"
    if error.errno == errno.EACCES:
        if tool.is_dir():
            return "it is a directory"
        return "its interpreter or its place forbids it" if os.access(tool, os.X_OK) else "it is not executable"
    if error.errno == errno.ENOEXEC:
        return "it is neither a script with a `#!` line nor a program for this machine"
    if error.errno == errno.E2BIG:
        return "its arguments and variables are longer than the system takes"
    return (error.strerror or str(error)).lower()


def _interpreter(tool: Path) -> str:
    """The program that a script names in its first line, made visible; or the loader, of a binary."""
    try:
        with tool.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    found = re.match(rb"#![ \t]*([^ \t\n]+)", line)
    return ascii(os.fsdecode(found[1])) if found else "(its loader)"
