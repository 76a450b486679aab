"""Attempts whose end this process did not see, settled by evidence before any new work: never repeated blindly.

A finished one is recorded, a living one is waited for, a dead one is tried again where its tool says that this is safe,
asked about where it can be asked, and left to a person where nobody else can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.events.attempts import is_resting, is_unknown, unseen_end, wants_query
from harness.events.state import Operation
from harness.executor import Evidence, collect, cut, evidence, kill_attempt
from harness.loop.act import Crew, is_child
from harness.loop.batch import due
from harness.loop.below import unseen_in
from harness.loop.ending import all_spent, park, unknown_hint
from harness.loop.leaks import covered, files
from harness.loop.query import ask
from harness.loop.result import begun, end_data
from harness.loop.run import Run, Stop
from harness.policy.settings import limits_of
from harness.sandbox import Limits
from harness.secrets import remove

LOOK_S = 0.2


def settle(crew: Crew) -> Stop | bool:
    """See to what is not known. A Stop where it cannot go on, True to look again before anything new, else False."""
    run = crew.run
    found = look(crew)
    if found:
        return found
    crew.go_on([op for op in _unseen(crew) if _goes_on(run, op) and not run.is_held(op)])
    for op in [op for op in run.state.open_ops.values() if op.role == "verify" and op.verdict == "allow"]:
        if not op.attempt_open:  # it was allowed and never started: the answer is judged anew
            _note(run, op, "not-started")
    _ask_about(crew)
    return _park_unknown(crew) or False


def look(crew: Crew) -> Stop | bool:
    """Settle the attempts of an earlier process by what they left. True while one of them runs on."""
    run = crew.run
    ops = [op for op in _unseen(crew) if not _goes_on(run, op)]
    left = {op.n: _settled(run, op) if op.child is None else _given_up(run, op, op.child) for op in ops}
    ops = [op for op in ops if left[op.n] is not None]
    pids = [pid for op in ops for pid in left[op.n] or ()]
    if pids:
        return _park_stuck(run, ops, pids)
    if not ops:
        return False
    crew.say_once(f"waiting for what an earlier process started: {', '.join(f'{op.tool} #{op.n}' for op in ops)}")
    crew.rested = True
    run.world.clock.sleep(LOOK_S)
    return True


def _unseen(crew: Crew) -> list[Operation]:
    """The operations with an open attempt that this process did not start."""
    here = {*crew.busy, *crew.parked}
    return [op for op in crew.run.state.open_ops.values() if op.attempt_open and op.n not in here]


def pending(crew: Crew) -> bool:
    """Whether something goes on by itself, or must be settled; waits a little where there is nothing else to do."""
    run, now = crew.run, crew.run.log.now()
    resting = [op for op in run.state.open_ops.values() if is_resting(op, now)]
    if any(wants_query(op) and op not in resting for op in run.state.open_ops.values()):
        return True
    if resting and not crew.busy and not run.world.cancel.level:
        crew.rested = True
        soonest = min(op.rest_until or now for op in resting)
        run.world.clock.sleep(min(LOOK_S, max(0.0, soonest - now)))
    return bool(resting) or any(is_unknown(op) for op in run.state.open_ops.values())


def _goes_on(run: Run, op: Operation) -> bool:
    """Whether its attempt is a child run that this run can still begin: its pipeline or worker may be gone by now."""
    return op.child is not None and is_child(run, op)


def _given_up(run: Run, op: Operation, child: str) -> list[int] | None:
    """The end of a child run that nothing here can go on with: what it may have done is left to a person."""
    state = run.world.child_receipts(run.folder.parent / child)
    left = " ".join(unseen_in(run, op))
    why = f"{op.tool} is no pipeline or worker of this run any more"
    why += f", and nobody saw what became of {left} in its run {child}" if left else ""
    spent = {} if state is None else {"spent": all_spent(run, state)}
    run.append("tool.end", unseen_end(op, "unknown" if left else "cut", why) | {"by": "child"} | spent, op.n)
    return None


def _settled(run: Run, op: Operation) -> list[int] | None:
    """Settle one attempt by the first evidence that fits; None when that is done.

    An empty list: it runs and may go on. Otherwise the processes of it that nothing ends.
    """
    folder, op_id = folder_of(run, op), f"{run.name}/{op.n}"
    found = evidence(folder, op_id)
    if op.attempt_boot != run.state.boot:
        told = "" if found.rc is None else f"; its note says exit {found.rc}"  # for a person: a reboot may have lost it
        _note(run, op, "cut", f"the machine was started anew since it began{told}")
        return None
    if found.rc is None and found.alive:
        if not found.overdue and run.world.cancel.level < 2 and op.role in ("call", "stage"):
            return []
        left = kill_attempt(folder, op_id)
        if left:
            return left
        found = evidence(folder, op_id)
    _record(run, op, folder, found)
    return None


def _record(run: Run, op: Operation, folder: Path, found: Evidence) -> None:
    """The end of an attempt that nothing of runs any more, by what it left."""
    if op.role in ("verify", "query"):
        _note(run, op, "cut")
    elif found.rc is not None:
        kill_attempt(folder, f"{run.name}/{op.n}")
        tool = begun(run, op)
        limits = limits_of(tool, run.world.guard.settings) if run.world.guard is not None else Limits()
        remove(folder / "work", run.world.io)
        outcome, leaks = covered(run, collect(folder, limits), folder)
        run.report(leaks, op.n)
        run.append("tool.end", end_data(run, op, outcome, by="shim"), op.n)
        cut(folder, run.world.io, limits)
    elif found.started:
        _note(run, op, "cut")
    else:
        _note(run, op, "not-started", "the harness ended before it began")


def _note(run: Run, op: Operation, outcome: str, why: str = "the harness ended before it did") -> None:
    folder = folder_of(run, op)
    remove(folder / "work", run.world.io)
    run.report(files(run, folder), op.n)
    run.append("tool.end", unseen_end(op, outcome, why), op.n)


def folder_of(run: Run, op: Operation) -> Path:
    """The folder of an operation's newest attempt."""
    return run.folder / "ops" / str(op.n) / str(op.attempt)


def _ask_about(crew: Crew) -> None:
    """Let the queries of what may have happened run together; each answer closes its operation, or clears it."""
    now = crew.run.log.now()
    asking = [
        op for op in crew.run.state.open_ops.values()
        if wants_query(op) and not is_resting(op, now) and op.n not in crew.busy and not op.attempt_open
    ]  # fmt: skip
    if asking and not crew.run.world.cancel.level:
        ask(crew, asking)


def _park_unknown(crew: Crew) -> Stop | None:
    """Leave to a person what nobody else can tell, once the rest of the batch has ended."""
    run, now = crew.run, crew.run.log.now()
    if not any(is_unknown(op) for op in run.state.open_ops.values()):
        return None
    if due(crew) or any(is_resting(op, now) for op in run.state.open_ops.values()):
        return None
    crew.wait()
    unknown = [op for op in run.state.open_ops.values() if is_unknown(op)]
    if not unknown or due(crew):
        return None
    return park(run, "unknown-outcome", [op.n for op in unknown], unknown_hint(run, unknown[0]))


def _park_stuck(run: Run, ops: Sequence[Operation], pids: Sequence[int]) -> Stop:
    what = f"{ops[0].tool} #{ops[0].n} does not end: kill process {' '.join(map(str, pids))}, then resume"
    return park(run, "unknown-outcome", [op.n for op in ops], what)
