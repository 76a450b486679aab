"""Starts a command inside a cage, whatever its level: the one way in. Not a place that waits for it or ends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from harness.sandbox import Cage, bubblewrap, landlock, seccomp
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
    code = seccomp.program(machine.machine, cage.network != "off")
    with ExitStack() as stack:
        fd = None
        if code is not None:
            fd = seccomp.descriptor(code)
            stack.callback(os.close, fd)
        return spawn(bubblewrap.argv(cage, command, fd, machine), () if fd is None else (fd,))
