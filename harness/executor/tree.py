"""The process tree of an attempt: who belongs to it, signalling all of it, and leaving nothing of it behind.

A process belongs to an attempt when it is in the session of the attempt's first process (the leader), when it descends
from this process and carries the attempt's `HARNESS_OP_ID`, or when it lost its parents, came to this process and is
nobody's known child. After a crash only the `HARNESS_OP_ID` is left to go by. Where there is no `/proc` only the
leader's process group is reached. Not a place that starts anything.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice

from harness.events.io import own_children
from harness.executor.proc import (
    Member,
    first_of_namespace,
    halt,
    hasten,
    last_pid,
    look,
    namespace,
    numbers,
    op_id_of,
    pid_max,
    pids,
    send,
)

GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""
SPARE_S = 0.5
"""From the SIGKILL of all else to that of a shim."""
GIVE_UP_S = 5.0
"""How long after SIGKILL something is waited for that does not die."""
_PIDS_PER_S = 50_000  # more than a machine can start

_running: set[str] = set()
_preparing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tree:
    """One attempt: its operation's id, its leader's pid, and when it was started (monotonic seconds)."""

    op_id: str
    leader: int
    born: float


@cache
def _prepare() -> bool:
    """Close inherited descriptors to children; adopt the orphans of tools. True when orphans will come here."""
    for fd in numbers("/dev/fd"):
        if fd > 2:
            with suppress(OSError):  # the one that listed is closed by now
                os.set_inheritable(fd, False)
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # only a process that starts tools needs it

    with suppress(OSError, AttributeError):
        set_child_subreaper = 36
        return bool(ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)
    return False


def prepare() -> bool:
    """What must hold in this process before its first spawn; True when lost processes are re-parented to it."""
    with _preparing:
        return _prepare()


@contextmanager
def announced(op_id: str) -> Iterator[None]:
    """While an attempt of `op_id` runs here, what carries the id is no other attempt's to kill."""
    _running.add(op_id)
    try:
        yield
    finally:
        _running.discard(op_id)


def members(tree: Tree) -> Iterator[Member]:
    """Every process of the attempt but its leader, dead ones that nobody has waited for included, as they are found.

    Whatever speaks for it, each descends from this process: the number of a leader that is gone may be anybody's.
    """
    known = {tree.leader} if _is_our_child(tree.leader) else set()
    inside = namespace(tree.leader) if known and encloses(tree) else None
    for pid in _candidates(tree):
        found = look(pid)
        if found and _belongs(found, tree, known, inside) and (not prepare() or _descends(pid, known)):
            known.add(pid)
            yield found


def _is_our_child(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.parent == os.getpid()


def living(tree: Tree) -> Iterator[Member]:
    """Those of the attempt's processes, but for its leader, that are not dead."""
    return (found for found in members(tree) if found.state not in "ZX")


def _belongs(found: Member, tree: Tree, known: set[int], inside: str | None) -> bool:
    if found.pid in (tree.leader, os.getpid()):
        return False
    if found.session == tree.leader or found.parent in known:  # the younger one has the higher number, as a rule
        return True
    if inside is not None:  # the variables of a process that forks may have to be waited for
        return namespace(found.pid) == inside
    op_id = op_id_of(found.pid)
    return op_id == tree.op_id or (op_id not in _running and _came_here(found))


def _descends(pid: int, known: set[int]) -> bool:
    """True below this process, which adopts what its descendants lose; `known` are some of them."""
    above = look(pid)
    while above and above.parent > 1:
        if above.parent == os.getpid() or above.parent in known:
            return True
        above = look(above.parent) or look(pid)  # a parent that died meanwhile has left its children to another
    return False


def _came_here(found: Member) -> bool:
    """True for an orphan of a tool: our child, in another session, and not one that we started ourselves."""
    if found.parent != os.getpid() or found.session == os.getsid(0):
        return False
    own = own_children()
    return found.pid not in own and found.session not in own


def signal_tree(tree: Tree, number: int) -> None:
    """Send a signal to every process of an attempt, once each. The leader must not have been waited for."""
    signal_group(tree, number)
    for found in members(tree):
        if found.group != tree.leader:
            send(found.pid, number)


def signal_group(tree: Tree, number: int) -> None:
    """Send a signal to the leader's process group, all of it at one instant."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(tree.leader, number)


def signal_jobs(tree: Tree, number: int) -> None:
    """Send a signal to all of an attempt but its leader's process group, where the shim is and nothing of the tool."""
    groups = set()
    for found in members(tree):
        if found.session != tree.leader:
            send(found.pid, number)
        elif found.group != tree.leader:
            groups.add(found.group)
    for group in groups:  # all of it at one instant
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def encloses(tree: Tree) -> bool:
    """True when the leader is process 1 of a PID namespace, with whose end the kernel ends all the others."""
    return first_of_namespace(tree.leader)


def kill(tree: Tree, spare: bool = False) -> None:
    """End all of an attempt; with `spare` its leader's process group lives on. The leader must not be waited for."""
    if encloses(tree) and not spare:
        hasten(tree.leader)  # it ends the others when its turn comes
        signal_group(tree, signal.SIGKILL)
        return
    quell(lambda: (one.pid for one in living(tree) if one.group != tree.leader))
    if spare:
        signal_jobs(tree, signal.SIGKILL)
        signal_group(tree, signal.SIGCONT)
    else:
        signal_tree(tree, signal.SIGKILL)


def quell(find: Callable[[], Iterable[int]]) -> None:
    """Let none of those that `find` finds start another process, until it finds none that could.

    What forks wins against whoever kills it one by one: each death makes room. What is stopped and may have no child
    keeps its place among the processes that its user may have, so that there is an end to them. So does a dead one that
    nobody has waited for: no reaping meanwhile.
    """
    until = time.monotonic() + GIVE_UP_S
    while sum(map(halt, find())) and time.monotonic() < until:
        pass


def wake(tree: Tree) -> None:
    """Let a leader go on that something has stopped, where there is a `/proc`."""
    found = look(tree.leader)
    if found and found.state == "T":
        signal_group(tree, signal.SIGCONT)


def sweep(tree: Tree, kill_at: float) -> None:
    """Once the leader has been waited for: wait for the rest until `kill_at` (monotonic), then kill it; reap orphans.

    Returns when nothing is left, or, should a process not die, some seconds after it was first killed.
    """
    pause = 0.0005
    give_up_at = math.inf
    while not _childless() and time.monotonic() < give_up_at:
        killing = time.monotonic() >= kill_at
        if killing:
            quell(lambda: (one.pid for one in living(tree)))
        alive = reaped = 0
        for one in members(tree):
            if one.state in "ZX":
                reaped += _reap(one)
                continue
            alive += 1
            if killing:
                send(one.pid, signal.SIGKILL)
        if not alive and not reaped:  # what was reaped may have left us a dead child of its own
            return
        if killing and give_up_at == math.inf:  # from the end of a look: on a crowded machine one takes seconds
            give_up_at = time.monotonic() + GIVE_UP_S
        if alive:
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


def _childless() -> bool:
    """True when this process has no child at all: then nothing of a tool whose leader is gone can be left."""
    if not prepare():
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _reap(found: Member) -> bool:
    """Wait for a dead process if that falls to us; True when it did."""
    if found.state not in "ZX" or found.parent != os.getpid():
        return False
    with suppress(ChildProcessError):
        os.waitpid(found.pid, os.WNOHANG)
    return True


def crowded(tree: Tree, most: int) -> bool:
    """True when the attempt has more processes than `most`. Cheap while few processes are started on the machine."""
    last = last_pid()
    if last is None or (tree.leader <= last < tree.leader + most and _window_holds(tree)):
        return False
    return next(islice(living(tree), most - 1, None), None) is not None


def _candidates(tree: Tree) -> list[int]:
    """The pids handed out since the leader's, as long as the numbers cannot have gone round; else all there are."""
    last = last_pid()
    if last is None or last < tree.leader or not _window_holds(tree):
        return pids()
    return [pid for pid in pids() if tree.leader < pid <= last] if last > tree.leader else []


def _window_holds(tree: Tree) -> bool:
    return time.monotonic() - tree.born < pid_max() / _PIDS_PER_S
