"""Going on with a pipeline's run until it ends or waits, and how it ends."""

from __future__ import annotations

from functools import partial

from harness.events.line import to_json
from harness.events.state import Operation
from harness.loop import inbox
from harness.loop.act import Crew
from harness.loop.batch import due, start_allowed
from harness.loop.drive import drive_by
from harness.loop.ending import end
from harness.loop.people import ask_people, park_for_approval, park_for_child
from harness.loop.run import Run, Stop
from harness.loop.settle import pending
from harness.pipeline.merge import Conflict
from harness.pipeline.plan import Plan, class_of, consumed, fatal, status, value_of
from harness.pipeline.release import doubt, release
from harness.tools.expression import Ref
from harness.tools.outcome import CLASSES, structured
from harness.tools.stages import Pipeline, Stage

CODES = {"INVALID_INPUT": 2, "MISCONFIGURED": 78, "NEEDS_AUTH": 77, "TIMEOUT": 124, "CONFLICT": 73}


def drive(run: Run, pipeline: Pipeline) -> Stop:
    """Go on with a pipeline's run until it ends or waits. Of what ended before, only what is not fresh runs again."""
    plan = Plan(run, pipeline)
    run.stage_needs, run.is_held = partial(consumed, plan), plan.is_held
    return drive_by(run, partial(_step, plan))


def _step(plan: Plan, crew: Crew) -> Stop | None:
    run = plan.run
    plan.under_way = {*crew.busy, *crew.parked}
    released = release(plan)
    ask_people(run)
    if doubt(plan):
        return None
    again = start_allowed(crew)
    if crew.busy:
        crew.next()
        return None
    if released or again or due(crew) or inbox.take(run) or run.world.cancel.level or pending(crew):
        return None
    return _stop(plan, crew)


def _stop(plan: Plan, crew: Crew) -> Stop:
    """Nothing runs and nothing can be released: the run ends, or waits for a person."""
    stop = park_for_child(crew)
    if stop is not None:
        return stop
    stopped = fatal(plan)
    if stopped:
        return _end_badly(plan.run, stopped[0])
    return park_for_approval(plan.run) or _end_well(plan)


def _end_badly(run: Run, op: Operation) -> Stop:
    name, result = class_of(op), op.result or {}
    why = "; ".join(op.reasons) or result.get("why") or _last_line(run.text(result.get("err", "")))
    error = f"stage {op.stage} ({op.tool}) ended {name}" + (f": {why}" if why else "")
    if name == "OVER_BUDGET":
        return end(run, "budget", limit=_limit_of(run, op), error=error)
    if name == "DENIED":
        return end(run, "denied", error=error)
    code = result.get("exit") or 0
    return end(run, "failed", code if CLASSES.get(code) == name else CODES.get(name, 1), error=error)


def _limit_of(run: Run, op: Operation) -> str | None:
    """The limit that a stage was refused for, or that ended the run which it was."""
    if op.reasons:
        return op.reasons[0].split(":")[0]
    below = run.world.child_receipts(run.folder.parent / op.child) if op.child else None
    return (below.end or {}).get("limit") if below is not None else None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _end_well(plan: Plan) -> Stop:
    current = plan.current()
    failed = [f"stage {name} ended {class_of(op)}" for name, op in current.items() if status(op) == "failed"]
    try:
        answer = output(plan)
    except Conflict as error:
        return end(plan.run, "failed", CODES["CONFLICT"], error=f"CONFLICT: {error}")
    except ValueError as error:
        return end(plan.run, "failed", CODES["INVALID_INPUT"], error=f"INVALID_INPUT: {error}")
    return end(plan.run, "passed", answer=answer, error="; ".join(failed) or None)


def output(plan: Plan) -> str:
    """What the last stages that ran printed: one as it is, several as one object by name, merged where they share one.

    Raises Conflict where they contradict each other under a shared name, whoever reads it.
    """
    current = plan.current()
    ran = [stage for stage in plan.pipeline.stages if status(current.get(stage.name)) == "ok"]
    told = any(op.code == "CONFLICT" for op in current.values())
    for name in plan.pipeline.merge if not told else ():
        value_of(plan, Ref(name), current)
    used = _before(plan, ran)
    last = [stage for stage in ran if stage.name not in used]
    names = dict.fromkeys(stage.as_name for stage in last)
    if len(last) == 1 and last[0].as_name not in plan.pipeline.merge:
        return plan.run.text((current[last[0].name].result or {}).get("out", ""))
    values = {name: value_of(plan, Ref(name), current) for name in names}
    if len(values) == 1:
        [only] = values.values()
        return only + "\n" if isinstance(only, str) else to_json(only) + "\n"
    return to_json({name: _parsed(value) for name, value in values.items()}) + "\n"


def _parsed(value: object) -> object:
    """The object that a text is, or the value itself."""
    return structured(value.encode()) or value if isinstance(value, str) else value


def _before(plan: Plan, ran: list[Stage]) -> set[str]:
    """The stages that come before one of these, be it by way of a stage that did not run."""
    found: set[str] = set()
    left = list(ran)
    while left:
        names = plan.waits_for(left.pop())
        left += [s for s in plan.pipeline.stages if s.name in names - found]
        found |= names
    return found
