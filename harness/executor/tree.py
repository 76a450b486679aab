"""The process tree of an attempt: who belongs to it, signalling all of it, and leaving nothing of it behind.

A process belongs to an attempt when it is in the session of the attempt's first process (the leader), when it descends
from this process and carries the attempt's `HARNESS_OP_ID`, or when it lost its parents, came to this process and is
nobody's known child. After a crash only the `HARNESS_OP_ID` is left to go by. Where there is no `/proc` only the
leader's process group is reached. Not a place that starts anything.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

from harness.events.io import own_children

GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""
MAX_PROCESSES = 128
_GIVE_UP_S = 5.0
_EXEC_S = 0.5
_PIDS_PER_S = 50_000  # more than a machine can start

_running: set[str] = set()
_preparing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Tree:
    """One attempt: its operation's id, its leader's pid, and when it was started (monotonic seconds)."""

    op_id: str
    leader: int
    born: float


@dataclass(frozen=True, slots=True)
class Member:
    """One process as `/proc` shows it."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


@cache
def _prepare() -> bool:
    """Close inherited descriptors to children; adopt the orphans of tools. True when orphans will come here."""
    for fd in _numbers("/dev/fd"):
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


def members(tree: Tree) -> list[Member]:
    """Every process of the attempt but its leader, dead ones that nobody has waited for included."""
    return [found for pid in _candidates(tree) if (found := _look(pid)) and _belongs(found, tree)]


def _belongs(found: Member, tree: Tree) -> bool:
    if found.pid in (tree.leader, os.getpid()):
        return False
    if found.session == tree.leader:
        return True
    op_id = _op_id(found.pid)
    if op_id == tree.op_id:
        return not prepare() or _descends(found.pid)
    return op_id not in _running and _came_here(found)


def _descends(pid: int) -> bool:
    """True for a descendant of this process, which adopts what its descendants lose."""
    above = _look(pid)
    while above and above.parent > 1:
        if above.parent == os.getpid():
            return True
        above = _look(above.parent) or _look(pid)  # a parent that died meanwhile has left its children to another
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
            _kill(found.pid, number)


def signal_group(tree: Tree, number: int) -> None:
    """Send a signal to the leader's process group, all of it at one instant."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(tree.leader, number)


def sweep(tree: Tree, kill_at: float) -> None:
    """Once the leader has been waited for: wait for the rest until `kill_at` (monotonic), then kill it; reap orphans.

    Returns when nothing is left, or, should a process not die, some seconds after `kill_at`.
    """
    pause = 0.0005
    while not _childless() and time.monotonic() < kill_at + _GIVE_UP_S:
        found = members(tree)
        reaped = [one for one in found if _reap(one)]
        alive = [one for one in found if one.state not in "ZX"]
        if not alive and not reaped:  # what was reaped may have left us a dead child of its own
            return
        if time.monotonic() >= kill_at:
            for one in alive:
                _kill(one.pid, signal.SIGKILL)
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


def crowded(tree: Tree) -> bool:
    """True when the attempt has more processes than it may. Cheap while few processes are started on the machine."""
    last = _last_pid()
    if last is None or (tree.leader <= last < tree.leader + MAX_PROCESSES and _window_holds(tree)):
        return False
    return sum(found.state not in "ZX" for found in members(tree)) >= MAX_PROCESSES


def survivors(op_id: str) -> list[int]:
    """The living processes that carry this `HARNESS_OP_ID`, whoever started them; empty where there is no `/proc`."""
    return [pid for pid in _pids() if pid != os.getpid() and _op_id(pid) == op_id]


def kill_tree(op_id: str) -> list[int]:
    """End every process that carries this `HARNESS_OP_ID`: SIGTERM, two seconds, SIGKILL. Returns what did not die."""
    for pid in survivors(op_id):
        _kill(pid, signal.SIGTERM)
    left = _wait_gone(op_id, GRACE_S, None)
    return _wait_gone(op_id, _GIVE_UP_S, signal.SIGKILL) if left else []


def _wait_gone(op_id: str, seconds: float, number: int | None) -> list[int]:
    until = time.monotonic() + seconds
    while (left := survivors(op_id)) and time.monotonic() < until:
        if number is not None:
            for pid in left:
                _kill(pid, number)
        time.sleep(0.02)
    return left


def _kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _candidates(tree: Tree) -> list[int]:
    """The pids handed out since the leader's, as long as the numbers cannot have gone round; else all there are."""
    last = _last_pid()
    if last is None or last < tree.leader or not _window_holds(tree):
        return _pids()
    return [pid for pid in _pids() if tree.leader < pid <= last] if last > tree.leader else []


def _window_holds(tree: Tree) -> bool:
    return time.monotonic() - tree.born < _pid_max() / _PIDS_PER_S


def _pids() -> list[int]:
    return _numbers("/proc")


def _numbers(path: str) -> list[int]:
    try:
        with os.scandir(path) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]
    except OSError:
        return []


def _last_pid() -> int | None:
    """The newest pid of this pid namespace, or None where the system does not say."""
    try:
        return int(_read("/proc/loadavg").split()[-1])
    except (OSError, ValueError, IndexError):
        return None


@cache
def _pid_max() -> int:
    try:
        return int(_read("/proc/sys/kernel/pid_max"))
    except (OSError, ValueError):
        return 0


def _look(pid: int) -> Member | None:
    try:
        # the name in parentheses may hold anything, parentheses included
        state, parent, group, session = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return Member(pid, state.decode(), int(parent), int(group), int(session))


def _op_id(pid: int) -> str | None:
    """The `HARNESS_OP_ID` a process was started with; None without one, for a dead process, or if we may not look."""
    try:
        variables = _read(f"/proc/{pid}/environ") or _environ_after_exec(pid)
    except OSError:
        return None
    mark = b"HARNESS_OP_ID="
    return next((os.fsdecode(text[len(mark) :]) for text in variables.split(b"\0") if text.startswith(mark)), None)


def _environ_after_exec(pid: int) -> bytes:
    """The variables of a process that seems to have none: it may just be changing to another program."""
    until = time.monotonic() + _EXEC_S
    while (found := _look(pid)) and found.state not in "ZX" and time.monotonic() < until:
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
