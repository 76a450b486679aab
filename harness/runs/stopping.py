"""Stopping a run from another process: its owner is asked to; one that nobody owns gets its end here."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from harness.events.io import IO
from harness.executor import kill_tree
from harness.loop.ending import end
from harness.loop.run import Stop, World
from harness.loop.toolset import Toolset
from harness.runs.begin import reopen
from harness.runs.deliver import send
from harness.runs.list import is_owned
from harness.runs.owning import refuse_other_host
from harness.runs.peek import read_state

PATIENCE = 15.0
"""Seconds for the owner to act on the wish."""

PAUSE = 0.05


def ask_owner(folder: Path, io: IO, now: bool, patience: float = PATIENCE) -> bool:
    """Ask whoever owns the run to stop it, and wait. False when it still goes on; the wish stands then."""
    message = send(folder, io, {"kind": "cancel", "now": now})
    over = time.monotonic() + patience
    while is_owned(folder):
        if time.monotonic() >= over:
            return False
        time.sleep(PAUSE)
    with suppress(OSError):
        io.unlink(message)  # it had stopped by itself before it looked
    return True


def end_here(world: World, project: Path, folder: Path, now: bool) -> Stop:
    """End a parked or stopped run as interrupted; `now` also kills what it left running.

    What was begun stays as it is known: the run can be resumed, and is settled then. Raises HarnessError.
    """
    refuse_other_host(folder)
    run = reopen(world, project, folder, Toolset({}), (), "user")
    try:
        if now:
            _kill(folder)
        return end(run, "interrupted")
    finally:
        run.log.close()


def _kill(folder: Path) -> None:
    """Every process of an open attempt, of the runs below, too."""
    state = read_state(folder)
    for op in state.open_ops.values() if state is not None else ():
        if op.attempt_open and op.child:
            _kill(folder.parent / op.child)
        elif op.attempt_open:
            kill_tree(f"{folder.name}/{op.n}")
