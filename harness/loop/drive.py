"""What every kind of run sees to before each step: words from elsewhere, interruptions, the time, what is not known."""

from __future__ import annotations

from collections.abc import Callable

from harness.loop import inbox, reading
from harness.loop.act import Crew
from harness.loop.batch import is_late
from harness.loop.ending import end
from harness.loop.gate import is_answered, is_undecided, judge, judge_read
from harness.loop.run import Run, Stop
from harness.loop.settle import look, settle

IDLE = 100
"""Steps that lead nowhere, after which the loop itself must be wrong."""


def drive_by(run: Run, step: Callable[[Crew], Stop | None]) -> Stop:
    """Take one step after another until the run stops."""
    reconsider(run)
    idle, headway = 0, _headway(run)
    with inbox.watched(run), Crew(run) as crew:
        while True:
            stop = _due(crew) or settle(crew) or _too_late(crew) or step(crew)
            if isinstance(stop, Stop):
                return stop
            before, headway = headway, _headway(run)
            idle = 0 if crew.busy or crew.rested or headway != before else idle + 1
            crew.rested = False
            if idle > IDLE:
                raise RuntimeError(f"the loop makes no headway after event {run.state.seq} of {run.name}")


def _headway(run: Run) -> tuple[int, ...]:
    """What grows with each step that leads anywhere. Deciding on a call again and again does not."""
    state = run.state
    attempts = sum(op.attempt for op in state.open_ops.values())
    return state.spent.turns, len(state.ops), len(state.open_ops), len(state.receipts), attempts


def reconsider(run: Run) -> None:
    """Decide anew what has not begun and would be decided otherwise now; a yes that was not used is void with a policy.

    Flags of this opening are in no digest: they are looked at where a call still waits, and again before each start.
    """
    for op in [op for op in run.state.open_ops.values() if is_undecided(op)]:
        if op.policy != run.state.policy and op.approved_by is not None:
            run.note("changed", f"the approval of operation {op.n} is void: the policy is not what it was.")
        if op.verb == "read" and op.policy != run.state.policy:
            judge_read(run, op, reading.request_of(run, op))
        elif op.policy != run.state.policy or is_answered(run, op):
            judge(run, op)


def _due(crew: Crew) -> Stop | None:
    """Words from elsewhere, an end that was written, an interruption, the time."""
    run = crew.run
    inbox.take(run)
    if run.state.status == "ended" and run.state.end is not None:
        return Stop(run.state.end["stop"], run.state.end["exit"])
    if run.world.cancel.level:
        return interrupt(crew)
    return None if run.depth else out_of_time(crew)


def _too_late(crew: Crew) -> Stop | None:
    """The time of a run below another, which nothing goes on with once it ended: what nobody saw is settled before."""
    return out_of_time(crew) if crew.run.depth else None


def interrupt(crew: Crew) -> Stop:
    """Start nothing more; let running attempts end (a second signal kills them), then stop."""
    crew.wait()
    inbox.take(crew.run)  # a second wish, to kill, may have come meanwhile
    if crew.run.world.cancel.level >= 2:
        look(crew)
    return end(crew.run, "interrupted")


def out_of_time(crew: Crew) -> Stop | None:
    """The wall-clock budget: the next step is refused before it begins; what runs comes to its end."""
    run = crew.run
    if not is_late(run):
        return None
    crew.wait()
    return end(run, "budget", limit="seconds")
