"""What a later process can tell of an attempt it did not start, on the same machine and boot; and the attempt's end.

Facts alone: what follows from them for an operation is decided elsewhere.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from harness.events.clock import Clock
from harness.executor.files import ACTS, READS, Files, began, exit_code, mark, opened, outcome, request
from harness.executor.orphans import kill_all, survivors
from harness.executor.outcome import Outcome
from harness.executor.proc import lives, locks, pids
from harness.sandbox import Limits


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts about one attempt.

    `rc` is the noted exit code. `started` is False only when it is sure that the tool did not begin: for a direct
    attempt, or a folder that is gone, it is True. `alive`: something still has its outputs open or carries its
    operation's id; `pids` are those of them that can be named. `overdue`: its deadline is over, or not known.
    """

    rc: int | None
    started: bool
    alive: bool
    pids: tuple[int, ...]
    overdue: bool


def evidence(folder: Path, op_id: str) -> Evidence:
    """Look once. The attempt must not be one that this process is making."""
    with opened(folder) as files:
        found = tuple(_living(files, op_id))
        alive = bool(found) or _locked(files)
        rc = exit_code(files)  # after the look at who lives: a shim notes the end before its own
        shim = files.rc >= 0 and files.started >= 0
        return Evidence(rc, began(files) if shim else True, alive, found, _overdue(folder))


def has_acted(folder: Path, for_sure: bool = False) -> bool:
    """Whether an attempt through the shim came so far that it may have had an effect; a direct one never has.

    Its `started` may be a lost page. That is no proof where the journal lost nothing that was on the disk: whatever can
    have an effect starts once its intent is there.
    """
    with opened(folder) as files:
        return mark(files) == ACTS if for_sure else mark(files) not in (b"", READS)


def collect(folder: Path, limits: Limits | None = None) -> Outcome:
    """The outcome by the files alone, when the attempt is dead. Without a noted exit, `exit` is None."""
    seconds = request(folder).get("seconds")
    with opened(folder) as files:
        return outcome(files, limits or Limits(), seconds if isinstance(seconds, int | float) else float("inf"))


def kill_attempt(folder: Path, op_id: str) -> list[int]:
    """End all that is left of the attempt; what ends by it may still note its exit. Returns what did not die."""
    with opened(folder) as files:
        return kill_all(lambda: _living(files, op_id))


def _living(files: Files, op_id: str) -> list[int]:
    """Who carries the id; if nobody, who has the lock."""
    found = survivors(op_id)
    if found or not _locked(files):
        return found
    nodes = {(info.st_dev, info.st_ino) for fd in (files.out, files.err) if fd >= 0 for info in [os.fstat(fd)]}
    return [pid for pid in pids() if pid != os.getpid() and lives(pid) and locks(pid, nodes)]


def _locked(files: Files) -> bool:
    """True when somebody has `out` or `err` open as the attempt got them."""
    return not all(_free(fd) for fd in (files.out, files.err) if fd >= 0)


def _free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _overdue(folder: Path) -> bool:
    deadline = request(folder).get("deadline_boot")
    return not isinstance(deadline, int | float) or Clock().boot() > deadline
