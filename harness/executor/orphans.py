"""What an attempt of an earlier process has left running, known by its `HARNESS_OP_ID` alone, and its end.

Not for an attempt that runs here: its tree is known better.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from harness.executor.proc import look, op_id_of, pids, send
from harness.executor.tree import GIVE_UP_S, GRACE_S, SPARE_S, quell


def survivors(op_id: str) -> list[int]:
    """The living processes that carry this `HARNESS_OP_ID`, whoever started them; empty where there is no `/proc`."""
    return [pid for pid in pids() if pid != os.getpid() and op_id_of(pid) == op_id]


def kill_tree(op_id: str) -> list[int]:
    """End every process that carries this `HARNESS_OP_ID`: SIGTERM, two seconds, SIGKILL. Returns what did not die."""
    return kill_all(lambda: survivors(op_id))


def kill_all(find: Callable[[], list[int]]) -> list[int]:
    """End what `find` finds, until it finds nothing: SIGTERM, two seconds, SIGKILL. Returns what did not die.

    What is in the process group of a session's first process is killed last, because a shim is: it notes the end.
    """
    for pid in find():
        send(pid, signal.SIGTERM)
        send(pid, signal.SIGCONT)  # what is stopped would not notice
    left = _wait_gone(find, GRACE_S)
    left = left and _wait_gone(find, SPARE_S, lambda pid: not _leads(pid))
    return left and _wait_gone(find, GIVE_UP_S, lambda pid: True)


def _wait_gone(find: Callable[[], list[int]], seconds: float, kill: Callable[[int], bool] | None = None) -> list[int]:
    until = time.monotonic() + seconds
    while (left := find()) and time.monotonic() < until:
        if kill:
            quell(lambda: filter(kill, find()))
            for pid in filter(kill, find()):
                send(pid, signal.SIGKILL)
        time.sleep(0.02)
    return left


def _leads(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.group == found.session
