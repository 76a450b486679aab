"""Starts a command inside a cage, whatever its level: the one way in. Not a place that waits for it or ends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from harness.sandbox import Cage, bubblewrap, landlock, places, seccomp
from harness.sandbox.facts import Facts, facts

T = TypeVar("T")

Spawn = Callable[[Sequence[str], Sequence[int]], T]
"""Starts the given words so that the process inherits the given descriptors, and returns what stands for it."""


def start(cage: Cage, command: Sequence[str], spawn: Spawn[T], machine: Facts | None = None) -> T:
    """What `spawn` returns for `command`, whose first word is a path, in the cage; what it raises is raised.

    `spawn` may be called in another thread that may read nothing but what the cage allows. Raises `HarnessError` when
    the cage cannot be made; nothing was started then.
    """
    machine = machine or facts()
    if cage.level != "full":
        return landlock.spawn(cage, lambda: spawn(command, ()), machine)
    with ExitStack() as stack:
        fds: list[int] = []
        code = seccomp.program(machine.machine, cage.network != "off")
        if code is not None:
            fds.append(_held(stack, seccomp.descriptor(code)))
        files: dict[Path, int] = {}
        for path in places.small_files(cage.network == "host"):
            with suppress(OSError):  # it is mounted then, or gone
                files[path] = _held(stack, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        words = bubblewrap.argv(cage, command, fds[0] if fds else None, machine, files)
        return spawn(words, [*fds, *files.values()])


def _held(stack: ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd
