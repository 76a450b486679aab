"""Which of the decided calls start now, and one more look at each right before it does."""

from __future__ import annotations

from typing import cast

from harness.events.attempts import is_approved, is_due
from harness.events.receipt import pinned_mark
from harness.events.spending import without
from harness.events.state import Operation
from harness.loop import reading
from harness.loop.act import Crew
from harness.loop.gate import build_request, call_digest, judge
from harness.loop.granted import lapsed
from harness.loop.run import Run
from harness.loop.scene import policy_of
from harness.policy import LEVELS, Level
from harness.policy.budget import exhausted
from harness.policy.decide import decide, hard_denial
from harness.policy.request import Request


def due(crew: Crew) -> list[Operation]:
    """The allowed calls that have no attempt under way, and that nothing is to be looked at before, in order."""
    waits, run = {*crew.busy, *crew.parked}, crew.run
    now = run.log.now()
    return [op for op in run.state.open_ops.values() if op.n not in waits and is_due(op, now) and not run.is_held(op)]


def is_late(run: Run) -> bool:
    """Whether the wall-clock budget is used up: nothing begins any more, not even what is tried again."""
    return exhausted(run.state.budget, run.state.spent, run.active_s(), ("seconds",)) is not None


def start_allowed(crew: Crew) -> bool:
    """Start every allowed call that has no attempt under way, as one batch, up to what may run at once.

    True when a call is not what was decided on and was judged again instead.
    """
    run = crew.run
    ready: dict[int, tuple[int, ...]] = {}
    again = False
    for op in due(crew) if not run.world.cancel.level and not is_late(run) else ():
        if op.verb == "read":
            run.append("tool.end", reading.perform(run, op), op.n)
        elif len(crew.busy) + len(ready) < run.world.parallel:
            needs = _checked(run, op)
            if needs is None:
                again = True
            else:
                ready[op.n] = needs
    if ready:
        crew.start([run.state.ops[n] for n in ready], ready)
    return again


def _is_weaker(now: str, decided: str) -> bool:
    """Whether the confinement it would get is less than what was decided: no level falls silently."""
    return LEVELS.index(cast(Level, now or "none")) < LEVELS.index(cast(Level, decided or "none"))


def _checked(run: Run, op: Operation) -> tuple[int, ...] | None:
    """Look once more, right before the start: what it consumes, or None where it may not start as it was decided.

    A person may have said yes days ago; what it waits for must hold now, and what runs must be what was approved.
    """
    request, needs = build_request(run, op)
    if op.digest and not call_digest(run, op.n, request).startswith(op.digest):
        what = f"the approval of operation {op.n} is void" if is_approved(op) else f"operation {op.n} is judged anew"
        run.note("changed", f"{what}: {_changed(run, op)} is not what it was.")
        judge(run, op)
        return None
    if old := lapsed(run, op, request):
        run.note("changed", old)
        judge(run, op)
        return None
    if hard_denial(request) is not None or _is_weaker(request.level, op.level) or _is_forbidden(run, op, request):
        judge(run, op)
        return None
    return needs


def _changed(run: Run, op: Operation) -> str:
    """What a yes was bound to and is another thing now."""
    if op.policy != run.state.policy:
        return "the policy"
    tool = run.toolset.tools.get(op.tool)
    is_same = tool is None or run.tool_mark(tool) == pinned_mark(run.state, op.tool)
    return f"what {op.tool} would be given or could reach" if is_same else op.tool


def _is_forbidden(run: Run, op: Operation, request: Request) -> bool:
    """Whether a rule of today denies it: a flag of this resume is in no digest."""
    return decide(request, policy_of(run), (), without(run.state, op)).code == "DENIED"
