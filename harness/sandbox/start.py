"""How a command is started inside a cage, whatever its level. Not a place that waits for it or ends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.sandbox import Cage, bubblewrap, landlock, places, seccomp
from harness.sandbox.facts import Facts, facts
from harness.sandbox.proxy import bridged

T = TypeVar("T")

Spawn = Callable[[Sequence[str], Sequence[int]], T]
"""Starts the given words so that the process inherits the given descriptors, and returns what stands for it."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """How confinement takes part in a start that somebody else makes.

    `wrap` puts a command in front of an argv, `start` chooses the thread of the spawn, `pass_fds` are inherited by what
    `wrap` put in front. `first` says that what is started is process 1 of a PID namespace: no place for a tool, which
    could not be ended by a signal there. `hidden` says that it is not the tool's process: limits cannot be set on it.
    """

    wrap: Callable[[list[str]], list[str]]
    start: Callable[[Callable[[], Any]], Any]
    pass_fds: tuple[int, ...]
    first: bool = False
    hidden: bool = False


def hooks(cage: Cage, machine: Facts, stack: ExitStack) -> Hooks:
    """The hooks that start a command in the cage; they hold until the stack is closed."""
    code = seccomp.program(machine.machine, cage.network != "off") if cage.level == "full" else None
    fds = (_held(stack, seccomp.descriptor(code)),) if code is not None else ()

    def wrap(argv: list[str]) -> list[str]:
        if cage.level != "full":
            return argv
        inside = bridged(argv, cage.proxy) if cage.proxy is not None else argv
        return bubblewrap.argv(cage, inside, fds[0] if fds else None, machine)

    first = machine.pids and cage.level in ("limits", "landlock")
    return Hooks(wrap, lambda spawn: landlock.spawn(cage, spawn, machine), fds, first, cage.level == "full")


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
