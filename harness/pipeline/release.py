"""Which stages are decided on now. One that ended before is looked at again: what is fresh stands, the rest is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.events.receipt import argv_of, slot_of
from harness.events.state import Operation
from harness.graph.fresh import is_fresh
from harness.loop import cover
from harness.loop.gate import build_request, judge, record
from harness.loop.run import Run
from harness.pipeline.changed import GONE, see_to
from harness.pipeline.merge import Conflict
from harness.pipeline.plan import Plan, fatal, given, lookup_of, status
from harness.pipeline.words import bound
from harness.policy.request import Decision, Request
from harness.tools.expression import holds
from harness.tools.stages import Stage
from harness.tools.wiring import edges


@dataclass(frozen=True, slots=True)
class Due:
    """What a stage comes to now: its words, or the code and reason for which it is not run."""

    words: tuple[str, ...] = ()
    code: str = ""
    why: str = ""


def release(plan: Plan) -> int:
    """Decide on every stage whose predecessors have ended; returns on how many.

    First what earlier processes left is looked at, so that a stage that stopped the run is known before others start.
    """
    count = sum(_leave(plan, op) for op in plan.removed())
    while not fatal(plan):
        looked = sum(_review(plan, stage) for stage in _ready(plan, again=True))
        if fatal(plan):
            break
        decided = [] if looked else _ready(plan, again=False)
        for stage, due in [(stage, due_of(plan, stage)) for stage in decided]:
            _decide(plan.run, stage, due)
        if not looked and not decided:
            break
        count += looked + len(decided)
    return count + (sum(_still_due(plan, stage) for stage in _ready(plan, again=True)) if fatal(plan) else 0)


def _leave(plan: Plan, old: Operation) -> int:
    """See to what a removed stage left open: nothing of it begins any more, what began comes to its end."""
    return 1 if see_to(plan.run, old, (), plan.under_way, GONE) else plan.go_on(old)


def _still_due(plan: Plan, stage: Stage) -> int:
    """Where the run stops over a stage, one beside it that was allowed before starts like one that is allowed now.

    Only what holds as it is counts: nothing is decided on anew.
    """
    old, due = plan.newest()[stage.name], due_of(plan, stage)
    if old.closed and _stands(plan.run, stage, old, due):
        plan.keep(old)
        return 1
    is_same = not old.closed and not due.code and _same_call(plan.run, stage, old, due)
    return plan.go_on(old) if is_same else 0


def _ready(plan: Plan, again: bool) -> list[Stage]:
    """The stages that can be judged now: those with an earlier operation, or those without one."""
    current, newest = plan.current(), plan.newest()
    ready = []
    for stage in plan.pipeline.stages:
        old = newest.get(stage.name)
        if again != (old is not None) or (old is not None and _is_settled(plan, stage, old, newest)):
            continue
        if all(status(current.get(name)) not in ("", "running") for name in plan.waits_for(stage)):
            ready.append(stage)
    return ready


def _is_settled(plan: Plan, stage: Stage, old: Operation, newest: Mapping[str, Operation]) -> bool:
    """Whether a stage needs no other look; one that waits does where what it waited for has run again since."""
    is_newest = old.closed or not any(newest[n].n > old.n for n in plan.waits_for(stage) if n in newest)
    return is_newest and plan.is_looked_at(old)


def doubt(plan: Plan) -> int:
    """Look once more at what the approved stages stand on, as a person may have taken long; returns what is not fresh.

    Each is doubted once: what runs again because of that has a later number than the stage that waits.
    """
    run, found = plan.run, set[int]()
    for op in run.state.open_ops.values():
        if op.approved_by is not None and not op.attempt and not plan.is_held(op):
            needs = [n for n in run.stage_needs(op) if n < op.n]
            found |= {n for n in needs if not is_fresh(run.ground(), run.state.receipts[n])}
    plan.doubted |= found
    return len(found)


def due_of(plan: Plan, stage: Stage) -> Due:
    """What the stage comes to as things are now."""
    current = plan.current()
    lookup = lookup_of(plan, stage, current)
    why = _why_skipped(plan, stage, current)
    try:
        if why is None and stage.when is not None and not holds(stage.when, lookup):
            why = f"when {stage.when.text}"
        if why is not None:
            return Due(code="SKIPPED", why=why)
        tool = plan.run.toolset.tools.get(stage.run[0].text)
        name, *args = bound(stage, lookup, tool, given(plan.run, stage.name))
        return Due((name, *cover.words(plan.run, name, args)))
    except Conflict as error:
        return Due(code="CONFLICT", why=str(error))
    except ValueError as error:
        return Due(code="INVALID_INPUT", why=str(error))


def _why_skipped(plan: Plan, stage: Stage, current: dict[str, Operation]) -> str | None:
    """Why a stage must not run: what it needs did not end well, or nothing that it handles failed."""
    handles = plan.handled_by.get(stage.name, ())
    if handles and not any(status(current.get(name)) == "failed" for name in handles):
        return f"{' and '.join(handles)} did not fail"
    for name, optional in edges(plan.pipeline, stage):
        if not optional and status(current.get(name)) != "ok":
            return f"{name} was {status(current.get(name))}"
    return None


def _review(plan: Plan, stage: Stage) -> int:
    """Look at an operation of before: it stands, or the stage is decided on anew. 0 where nothing is new."""
    old, due = plan.newest()[stage.name], due_of(plan, stage)
    if not old.closed:
        otherwise = bool(due.code) or not _same_call(plan.run, stage, old, due)
        if otherwise and see_to(plan.run, old, due.words, plan.under_way):
            return 1
        return plan.go_on(old)
    if _stands(plan.run, stage, old, due):
        plan.keep(old)
    elif (held := _held(plan.run, stage, due)) is not None:
        plan.keep(held)
    else:
        _decide(plan.run, stage, due)
    return 1


def _held(run: Run, stage: Stage, due: Due) -> Operation | None:
    """The call that the stage's slot still holds, as it would be made now: what was only refused since did nothing."""
    receipt = run.state.slots.get(("stage", stage.name))
    if due.code or receipt is None or not is_fresh(run.ground(), receipt):
        return None
    op = run.state.ops[receipt.op]
    return op if _same_call(run, stage, op, due) else None


def _stands(run: Run, stage: Stage, old: Operation, due: Due) -> bool:
    """Whether an ended operation holds as it is; one that went wrong is tried again once the run has ended over it."""
    was = status(old)
    if due.code == "SKIPPED" or was == "skipped":
        return due.code == "SKIPPED" and was == "skipped"
    if was == "ok":
        receipt = run.state.receipts.get(old.n)
        fresh = receipt is not None and is_fresh(run.ground(), receipt)
        return fresh and not due.code and _same_call(run, stage, old, due)
    if old.n < run.state.since_over or slot_of(old) in run.state.stale:
        return False
    return old.code == due.code if due.code else _same_call(run, stage, old, due)


def _same_call(run: Run, stage: Stage, old: Operation, due: Due) -> bool:
    """Whether the stage would be called with the same words. What a person supplied for no call fits any."""
    if old.tool != due.words[0]:
        return False
    request, _ = build_request(run, _operation(run, stage, due))
    return old.argv is None or argv_of(run.fit_argv(request.argv)) == old.argv


def _operation(run: Run, stage: Stage, due: Due) -> Operation:
    arguments = {"args": list(due.words[1:])}
    return Operation(n=run.state.next_op, verb="stage", tool=due.words[0], stage=stage.name, arguments=arguments)


def _decide(run: Run, stage: Stage, due: Due) -> None:
    if due.code:
        _refuse(run, stage, due)
        return
    op = _operation(run, stage, due)
    judge(run, op, call={"stage": stage.name, "tool": op.tool, **op.arguments})


def _refuse(run: Run, stage: Stage, due: Due) -> None:
    """A stage that is not run: recorded as a decision, nothing is spawned."""
    name = stage.run[0].text
    args = cover.words(run, name, [word.text for word in stage.run[1:]])
    call = {"stage": stage.name, "tool": name, "args": args}
    decision = Decision("deny", due.code, ("pipeline",), (due.why,))
    record(run, run.state.next_op, Request(name, effect="read"), decision, call=call)
