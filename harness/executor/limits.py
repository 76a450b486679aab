"""The resource limits of a tool in the two forms that set them: on a running process, and as words for a shell.

A limit that is stricter already stays. Not a place for what is measured while a tool runs: deadline, output, processes.
"""

from __future__ import annotations

import math
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from harness.executor.outcome import Job
from harness.executor.proc import tasks
from harness.sandbox import Limits
from harness.sandbox.start import Hooks

_BLOCK = 512  # what `ulimit` counts the size of a file in


def set_limits(pid: int, job: Job) -> None:
    """Best effort: the tool already runs, and may have ended."""
    if not hasattr(resource, "prlimit"):
        return
    there = tasks()
    most = {} if there is None else {resource.RLIMIT_NPROC: (_crowd(there, job),) * 2}
    for kind, pair in (most | _limits(job.limits, job.timeout)).items():
        with suppress(OSError, ValueError):
            resource.prlimit(pid, kind, pair)


def ulimits(job: Job) -> str:
    """Commands for a POSIX shell, each ending in `;`. What one of them cannot set stays as it is."""
    there = tasks()
    if there is None:
        return _ulimits(job.limits, job.timeout)
    most = _crowd(there, job)  # some shells call it `p`, some `u`
    return f"{_ulimits(job.limits, job.timeout)}ulimit -p {most} 2>/dev/null||ulimit -u {most};"


def wrapped(entry: Hooks, job: Job) -> Callable[[list[str]], list[str]]:
    """The wrap of a direct attempt in a cage, with a shell that sets the limits where the cage calls for one.

    It stays as process 1 of a PID namespace, else the tool takes its place.
    """

    def wrap(argv: list[str]) -> list[str]:
        if entry.first or entry.hidden:
            command = '"$@";exit $?' if entry.first else 'exec "$@"'
            argv = ["/bin/sh", "-c", f"unset PWD OLDPWD SHLVL;{ulimits(job)}{command}", "harness-limits", *argv]
        return entry.wrap(argv)

    return wrap


@lru_cache
def _ulimits(limits: Limits, timeout: float) -> str:
    found = _limits(limits, timeout)
    cpu, last_cpu = found[resource.RLIMIT_CPU]
    words = [f"-St {cpu}", f"-Ht {last_cpu}", "-c 0"]  # the soft one first: it may not be above the other
    words.append(f"-d {found[resource.RLIMIT_DATA][1] // 1024}")
    words.append(f"-f {found[resource.RLIMIT_FSIZE][1] // _BLOCK}")
    words.append(f"-n {found[resource.RLIMIT_NOFILE][1]}")
    return "".join(f"ulimit {word};" for word in words)


def met(number: int | None, limits: Limits) -> str | None:
    """The limit that a death by this signal speaks of, in one line."""
    if number == signal.SIGXCPU:
        return "killed: used more processor time than its time-out"
    if number == signal.SIGXFSZ:
        return f"killed: a file grew beyond {size_text(limits.file_size)}"
    return None


def size_text(size: int) -> str:
    """Bytes as a person says them: `1 GiB`, `1536 KiB`."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} bytes"


def _limits(limits: Limits, timeout: float) -> dict[int, tuple[int, int]]:
    """Kind → (soft, hard)."""
    cpu = math.ceil(timeout) + 1
    wanted = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (cpu, cpu + 1),  # a second between SIGXCPU and SIGKILL
        # not the address space: many runtimes reserve far more of it than they use
        resource.RLIMIT_DATA: (limits.memory,) * 2,
        resource.RLIMIT_FSIZE: (limits.file_size,) * 2,
        resource.RLIMIT_NOFILE: (limits.files,) * 2,
    }
    return {kind: (_below(kind, soft), _below(kind, hard)) for kind, (soft, hard) in wanted.items()}


def _crowd(there: int, job: Job) -> int:
    """The system counts all threads of the user, not those of the tool."""
    return _below(resource.RLIMIT_NPROC, there + job.limits.procs)


def _below(kind: int, value: int) -> int:
    most = resource.getrlimit(kind)[1]
    return value if most == resource.RLIM_INFINITY else min(value, most)
