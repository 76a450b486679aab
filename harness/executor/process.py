"""A direct attempt: pipes, and limits that are set just after the start. It is over when the harness is.

For tools that only read, that may be run twice, and that are quick. Not a place that reads what a tool prints.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from harness.events.io import IO
from harness.executor import tree
from harness.executor.files import signal_of, without_epitaph
from harness.executor.limits import met, set_limits
from harness.executor.outcome import Cancel, Job, Outcome, not_started
from harness.executor.starting import Start, Wrap, here, obstacle, reason, unwrapped
from harness.executor.watch import Terms, Watch, Watched

_CHUNK = 1 << 16

OnOutput = Callable[[str, bytes], None]
"""Called with "out" or "err" and bytes that are kept, as they come, in the thread that runs the attempt."""


@dataclass(slots=True)
class _Pipe:
    """The reading end of one of the tool's outputs, and what came through it."""

    name: str
    most: int
    on_output: OnOutput | None
    fd: int = -1
    kept: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def open(self, reading: ExitStack, given: ExitStack) -> int:
        """Make the pipe; the end that the tool gets. The stacks close the two ends."""
        self.fd, writing = os.pipe()
        reading.callback(os.close, self.fd)
        given.callback(os.close, writing)
        return writing

    def read(self) -> bool:
        """Take what is there; False at the end."""
        data = os.read(self.fd, _CHUNK)
        keep = data[: self.most - len(self.kept)]
        self.kept += keep
        self.dropped += len(data) - len(keep)
        if keep and self.on_output:
            self.on_output(self.name, keep)
        return bool(data)


def run(
    job: Job,
    io: IO,
    cancel: Cancel,
    on_output: OnOutput | None = None,
    wrap: Wrap = unwrapped,
    start: Start = here,
    pass_fds: Sequence[int] = (),
    limited: bool = True,
) -> Outcome:
    """Make one attempt and return when it is over: its first process has ended and nothing of its tree is left.

    `wrap` puts a confining command in front, `start` chooses the thread of the spawn, `pass_fds` are inherited by what
    `wrap` put in front. What is not `limited` keeps the limits of its user: deadline, output and processes are watched
    all the same. Never raises for what a tool does or cannot do. Several may run at once, in threads.
    """
    if cancel.level:
        return not_started("cancelled before it was started", cancelled=True)
    tree.prepare()
    born = time.monotonic()
    with tree.announced(job.op_id), ExitStack() as reading, ExitStack() as given:
        out, err = (_Pipe(name, job.limits.output, on_output) for name in ("out", "err"))
        stdout, stderr = out.open(reading, given), err.open(reading, given)
        stdin = stdin_of(job.stdin)
        given.callback(os.close, stdin)
        argv = wrap(list(job.argv))
        in_front = argv != list(job.argv)
        why_not = obstacle(job) if in_front else None
        if why_not:
            return not_started(why_not)
        try:
            child = start(lambda: io.spawn(argv, job.cwd, job.env, stdin, stdout, stderr, pass_fds))
        except (OSError, ValueError) as error:
            return not_started(reason(job, error))
        given.close()
        if limited and not in_front:
            set_limits(child.pid, job)
        attempt = tree.Tree(job.op_id, child.pid, born)
        seen = Watch(attempt, child, cancel, Terms(job.timeout, job.limits.procs), out, err).finish()
    return _outcome(job, seen, out, err, in_front)


def stdin_of(data: bytes) -> int:
    """A descriptor to read `data` from: a file, because a pipe would block on whoever does not read it."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    import tempfile  # only a verifier is given something to read

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _outcome(job: Job, seen: Watched, out: _Pipe, err: _Pipe, in_front: bool) -> Outcome:
    """What was seen. What stands in front of the tool tells the tool's death by a signal in its exit code."""
    number = -seen.code if seen.code < 0 else None
    if in_front and number is None:
        number = signal_of(seen.code)
    return Outcome(
        exit=seen.code if number is None else 128 + number,
        signal=number,
        timed_out=seen.timed_out or number == signal.SIGXCPU,
        cancelled=seen.cancelled,
        out=bytes(out.kept),
        err=without_epitaph(bytes(err.kept), number) if in_front else bytes(err.kept),
        dropped=out.dropped + err.dropped,
        ms=seen.ms,
        started=True,
        why=seen.why or met(number, job.limits),
    )
