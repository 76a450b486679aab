"""A graph of commands as one run: each stage released as its predecessors finish, through the same gate and journal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from harness.events.line import to_json
from harness.events.state import Operation
from harness.loop import inbox
from harness.loop.act import Crew
from harness.loop.batch import due, start_allowed
from harness.loop.drive import drive_by
from harness.loop.ending import end
from harness.loop.gate import judge, record
from harness.loop.people import ask_people, park_for_approval, park_for_child
from harness.loop.run import Run, Stop
from harness.loop.settle import pending
from harness.policy.decide import Decision, Request
from harness.tools.arguments import looks_like_option
from harness.tools.expression import MISSING, Lookup, Ref, bind, field, holds
from harness.tools.outcome import CLASSES, structured
from harness.tools.stages import Pipeline, Stage
from harness.tools.wiring import edges, handlers

CODES = {"INVALID_INPUT": 2, "MISCONFIGURED": 78, "TIMEOUT": 124}
ERR_TAIL = 1024
NO_FAILURE = ("DENIED", "OVER_BUDGET", "SKIPPED")


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline as it runs: the run, its stages, and which stage handles whose failure.

    `again` are the operations of stages that had stopped the run before it was resumed: they are decided on anew.
    """

    run: Run
    pipeline: Pipeline
    handled_by: dict[str, tuple[str, ...]]
    again: frozenset[int] = frozenset()

    def newest(self) -> dict[str, Operation]:
        """The newest operation of each stage that was decided on."""
        ops = self.run.state.ops.values()
        return {op.stage: op for op in ops if op.verb == "stage" and op.stage and op.n not in self.again}


def drive(run: Run, pipeline: Pipeline) -> Stop:
    """Go on with a pipeline's run until it ends or waits."""
    plan = Plan(run, pipeline, handlers(pipeline))
    if run.log.events and run.log.events[-1]["kind"] == "run.end":
        stages = {op.stage for op in _fatal(plan)}
        plan = replace(plan, again=frozenset(n for n, op in run.state.ops.items() if op.stage in stages))
    run.stage_needs = lambda op: _consumed(plan, op)
    return drive_by(run, partial(_step, plan))


def _step(plan: Plan, crew: Crew) -> Stop | None:
    run = plan.run
    released = _release(plan)
    ask_people(run)
    again = start_allowed(crew)
    if crew.busy:
        crew.next()
        return None
    if released or again or due(crew) or inbox.take(run) or run.world.cancel.level or pending(crew):
        return None
    return _stop(plan, crew)


def status(op: Operation | None) -> str:
    """`` (not decided), running, ok, skipped, refused or failed."""
    if op is None:
        return ""
    if not op.closed:
        return "running"
    if op.code is not None and op.result is None:
        return {"SKIPPED": "skipped"}.get(op.code, "refused" if op.code in NO_FAILURE else "failed")
    return "ok" if (op.result or {}).get("class") == "OK" else "failed"


def _release(plan: Plan) -> int:
    """Decide on every stage whose predecessors have ended; returns on how many."""
    count = 0
    while not _fatal(plan):
        newest = plan.newest()
        ready = [stage for stage in plan.pipeline.stages if stage.name not in newest and _is_ready(plan, stage, newest)]
        if not ready:
            break
        for stage in ready:
            _decide(plan, stage, newest)
        count += len(ready)
    return count


def _is_ready(plan: Plan, stage: Stage, newest: dict[str, Operation]) -> bool:
    waits = [name for name, _ in edges(plan.pipeline, stage)] + list(plan.handled_by.get(stage.name, ()))
    return all(status(newest.get(name)) not in ("", "running") for name in waits)


def _decide(plan: Plan, stage: Stage, newest: dict[str, Operation]) -> None:
    run = plan.run
    lookup = _lookup(plan, stage, newest)
    why = _why_skipped(plan, stage, newest)
    if why is None and stage.when is not None and not holds(stage.when, lookup):
        why = f"when {stage.when.text}"
    if why is not None:
        _refuse(run, stage, "SKIPPED", why)
        return
    try:
        words = _bound(stage, lookup)
    except ValueError as error:
        _refuse(run, stage, "INVALID_INPUT", str(error))
        return
    call = {"stage": stage.name, "tool": words[0], "args": words[1:]}
    op = Operation(n=run.state.next_op, verb="stage", tool=words[0], stage=stage.name, arguments={"args": words[1:]})
    judge(run, op, call=call)


def _bound(stage: Stage, lookup: Lookup) -> list[str]:
    """The words of a stage. What comes from inputs and results is a value: it never becomes an option by itself."""
    words: list[str] = []
    for word in stage.run:
        texts = bind(word, lookup)
        loose = "--" not in words and not isinstance(word.parts[0], str)
        odd = next((text for text in texts if loose and looks_like_option(text)), None)
        if odd is not None:
            fix = f"write --opt={word.text}, or -- before it"
            raise ValueError(f"{word.text} is {odd!r}, which would be read as an option; {fix}")
        words += texts
    return words


def _refuse(run: Run, stage: Stage, code: str, why: str) -> None:
    """A stage that is not run: recorded as a decision, nothing is spawned."""
    name = stage.run[0].text
    call = {"stage": stage.name, "tool": name, "args": [word.text for word in stage.run[1:]]}
    decision = Decision("deny", code, ("pipeline",), (why,))
    record(run, run.state.next_op, Request(name, effect="read"), decision, call=call)


def _why_skipped(plan: Plan, stage: Stage, newest: dict[str, Operation]) -> str | None:
    """Why a stage must not run: what it needs did not end well, or nothing that it handles failed."""
    handles = plan.handled_by.get(stage.name, ())
    if handles and not any(status(newest.get(name)) == "failed" for name in handles):
        return f"{' and '.join(handles)} did not fail"
    for name, optional in edges(plan.pipeline, stage):
        if not optional and status(newest.get(name)) != "ok":
            return f"{name} was {status(newest.get(name))}"
    return None


def _lookup(plan: Plan, stage: Stage, newest: dict[str, Operation]) -> Any:
    """What `${…}` means for a stage."""

    def find(ref: Ref) -> object:
        if ref.root == "inputs":
            return _input(plan.run, ref)
        if ref.root == "failed":
            return field(_failure(plan, stage, newest), ref.path)
        return _output(plan, ref, newest)

    return find


def _input(run: Run, ref: Ref) -> object:
    value = field(run.state.inputs, ref.path)
    return MISSING if value is None else value


def _output(plan: Plan, ref: Ref, newest: dict[str, Operation]) -> object:
    ended = [newest[s.name] for s in plan.pipeline.sharing(ref.root) if status(newest.get(s.name)) == "ok"]
    if not ended:
        return MISSING
    text = plan.run.text((ended[-1].result or {}).get("out", ""))
    if not ref.path:
        return text.removesuffix("\n")
    return field(structured(text.encode()), ref.path)


def _failure(plan: Plan, stage: Stage, newest: dict[str, Operation]) -> dict[str, str]:
    for name in plan.handled_by.get(stage.name, ()):
        op = newest.get(name)
        if op is not None and status(op) == "failed":
            err = plan.run.text((op.result or {}).get("err", "")) or "; ".join(op.reasons)
            return {"stage": name, "class": class_of(op), "err": err.strip()[-ERR_TAIL:]}
    return {}


def class_of(op: Operation) -> str:
    """The error class of a stage that did not end well."""
    return op.code or (op.result or {}).get("class", "FAILED")


def _consumed(plan: Plan, op: Operation) -> tuple[int, ...]:
    """The operations whose results a stage stands on: those it binds or needs."""
    stage = plan.pipeline.stage(op.stage or "")
    newest = plan.newest()
    needed = [name for name, optional in edges(plan.pipeline, stage) if not optional] if stage else []
    return tuple(newest[name].n for name in needed if name in newest and newest[name].n in plan.run.state.receipts)


def _fatal(plan: Plan) -> list[Operation]:
    """The stages that stop the run: refused by policy or budget, or failed without anything that handles it."""
    found = []
    for name, op in plan.newest().items():
        stage = plan.pipeline.stage(name)
        handled = stage is not None and stage.on_failure is not None
        if status(op) == "refused" or (status(op) == "failed" and not handled):
            found.append(op)
    return found


def _stop(plan: Plan, crew: Crew) -> Stop:
    """Nothing runs and nothing can be released: the run ends, or waits for a person."""
    stop = park_for_child(crew)
    if stop is not None:
        return stop
    fatal = _fatal(plan)
    if fatal:
        return _end_badly(plan.run, fatal[0])
    return park_for_approval(plan.run) or _end_well(plan)


def _end_badly(run: Run, op: Operation) -> Stop:
    name, result = class_of(op), op.result or {}
    why = "; ".join(op.reasons) or result.get("why") or _last_line(run.text(result.get("err", "")))
    error = f"stage {op.stage} ({op.tool}) ended {name}" + (f": {why}" if why else "")
    if name == "OVER_BUDGET":
        return end(run, "budget", limit=op.reasons[0].split(":")[0], error=error)
    if name == "DENIED":
        return end(run, "denied", error=error)
    code = result.get("exit") or 0
    return end(run, "failed", code if CLASSES.get(code) == name else CODES.get(name, 1), error=error)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _end_well(plan: Plan) -> Stop:
    newest = plan.newest()
    failed = [f"stage {name} ended {class_of(op)}" for name, op in newest.items() if status(op) == "failed"]
    return end(plan.run, "passed", answer=output(plan), error="; ".join(failed) or None)


def output(plan: Plan) -> str:
    """What the last stages that ran printed: one as it is, several as one object by name."""
    newest = plan.newest()
    ran = [stage for stage in plan.pipeline.stages if status(newest.get(stage.name)) == "ok"]
    used = _before(plan, ran)
    texts = {s.name: plan.run.text((newest[s.name].result or {}).get("out", "")) for s in ran if s.name not in used}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return to_json({name: structured(text.encode()) or text.removesuffix("\n") for name, text in texts.items()}) + "\n"


def _before(plan: Plan, ran: list[Stage]) -> set[str]:
    """The stages that come before one of these, be it by way of a stage that did not run."""
    found: set[str] = set()
    left = list(ran)
    while left:
        stage = left.pop()
        names = {name for name, _ in edges(plan.pipeline, stage)} | set(plan.handled_by.get(stage.name, ()))
        left += [s for s in plan.pipeline.stages if s.name in names - found]
        found |= names
    return found
