"""What must be seen to before any new work: a person's interruption, the time, attempts whose outcome is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.events.state import Operation
from harness.executor import kill_tree
from harness.loop import inbox
from harness.loop.act import Crew, is_child, is_harmless
from harness.loop.ending import end, park, unknown_hint
from harness.loop.run import Run, Stop
from harness.policy.budget import exhausted

IDLE = 100
"""Steps that change nothing, after which the loop itself must be wrong."""


def drive_by(run: Run, step: Callable[[Crew], Stop | None]) -> Stop:
    """Take one step after another until the run stops. Before each, what every kind of run must see to first."""
    idle, seq = 0, run.state.seq
    with Crew(run) as crew:
        while True:
            stop = _due(crew) or step(crew)
            if stop is not None:
                return stop
            idle = 0 if crew.busy or run.state.seq != seq else idle + 1
            seq = run.state.seq
            if idle > IDLE:
                raise RuntimeError(f"the loop makes no headway after event {seq} of {run.name}")


def _due(crew: Crew) -> Stop | None:
    """Words from elsewhere, an end that was written, an interruption, the time, attempts that were cut short."""
    run = crew.run
    inbox.take(run)
    if run.state.status == "ended" and run.state.end is not None:
        return Stop(run.state.end["stop"], run.state.end["exit"])
    if run.world.cancel.level:
        return interrupt(crew)
    return out_of_time(crew) or settle(crew)


def interrupt(crew: Crew) -> Stop:
    """Start nothing more; let running attempts end (a second signal kills them), then stop."""
    crew.wait()
    return end(crew.run, "interrupted")


def out_of_time(crew: Crew) -> Stop | None:
    """The wall-clock budget: the next step is refused before it begins; what runs comes to its end."""
    run = crew.run
    if not exhausted(run.state.budget, run.state.spent, run.active_s(), ("seconds",)):
        return None
    crew.wait()
    return end(run, "budget", limit="seconds")


def settle(crew: Crew) -> Stop | None:
    """Attempts that an earlier process, a signal or a deadline cut short: never repeated blindly."""
    run = crew.run
    left = [op for op in run.state.open_ops.values() if op.attempt_open and op.n not in {*crew.busy, *crew.parked}]
    for op in left:
        if not is_child(run, op):
            _cut(run, op)
    crew.go_on([op for op in left if is_child(run, op)])
    for op in [op for op in run.state.open_ops.values() if op.role == "verify" and op.verdict == "allow"]:
        if not op.attempt_open:  # it was allowed and never started: the answer is judged anew
            _record(run, op, "not-started")
    if not _unsettled(run):
        return None
    crew.wait()
    unknown = _unsettled(run)
    return park(run, "unknown-outcome", [op.n for op in unknown], unknown_hint(run, unknown[0]))


def _unsettled(run: Run) -> list[Operation]:
    return [op for op in run.state.open_ops.values() if is_unknown(op)]


def is_unknown(op: Operation) -> bool:
    """Whether its newest attempt may have had an effect that nobody knows of."""
    return not op.attempt_open and (op.result or {}).get("outcome") in ("cut", "unknown") and not is_harmless(op)


def _cut(run: Run, op: Operation) -> None:
    """Nothing of the old attempt may live on beside a new one; of one with an effect nothing is touched."""
    if is_harmless(op) or op.role == "verify":
        kill_tree(f"{run.name}/{op.n}")
    _record(run, op, "cut")


def _record(run: Run, op: Operation, outcome: str) -> None:
    data: dict[str, Any] = {"try": op.attempt} if op.attempt > 1 else {}
    why = "the harness ended before it did"
    data |= {"outcome": outcome, "exit": None, "ms": 0, "out": "", "result": "", "why": why}
    run.append("tool.end", data, op.n)
