"""A pipeline as it runs: how each stage stands, and what `${…}` means now. Read from the state, changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from harness.events.state import Operation
from harness.loop.run import Run
from harness.pipeline.merge import merged
from harness.pipeline.words import kept
from harness.tools.expression import MISSING, Lookup, Ref, Word
from harness.tools.expression import field as field_of
from harness.tools.outcome import structured
from harness.tools.stages import Pipeline, Reducer, Stage
from harness.tools.wiring import edges, handlers

ERR_TAIL = 1024
NO_FAILURE = ("DENIED", "OVER_BUDGET", "SKIPPED")


@dataclass(slots=True)
class Plan:
    """A pipeline and its run.

    `stands` are operations of earlier processes that were looked at again and hold as they are, each with the number
    of the review: a later amendment asks for another look. `going` are those that have not ended and go on, likewise.
    `doubted` are operations of this process that do not hold any more, `under_way` those that run in it.
    """

    run: Run
    pipeline: Pipeline
    handled_by: dict[str, tuple[str, ...]] = field(init=False)
    ranks: dict[str, int] = field(init=False)
    stands: set[tuple[int, int]] = field(default_factory=set)
    going: set[tuple[int, int]] = field(default_factory=set)
    doubted: set[int] = field(default_factory=set)
    under_way: Collection[int] = ()

    def __post_init__(self) -> None:
        self.handled_by = handlers(self.pipeline)
        self.ranks = _ranks(self)

    def newest(self) -> dict[str, Operation]:
        """The newest operation of each stage that was ever decided on, or an older one that was found to hold."""
        ops, since = self.run.state.ops, self.run.state.since_resume
        found = {op.stage: op for op in ops.values() if op.verb == "stage" and op.stage}
        for n, at in self.stands:
            stage = ops[n].stage or ""
            if at == since and found[stage].n < since:
                found[stage] = ops[n]
        return found

    def current(self) -> dict[str, Operation]:
        """The same without those that are still to be looked at again."""
        return {name: op for name, op in self.newest().items() if not op.closed or self.is_looked_at(op)}

    def removed(self) -> list[Operation]:
        """What is open of stages that the pipeline has no more."""
        found = self.run.state.open_ops.values()
        return [op for op in found if op.verb == "stage" and self.pipeline.stage(op.stage or "") is None]

    def is_looked_at(self, op: Operation) -> bool:
        """Whether it was decided on, or found to hold, since the newest resume or amendment."""
        since = self.run.state.since_resume
        return op.n not in self.doubted and (op.n >= since or (op.n, since) in self.stands)

    def is_held(self, op: Operation) -> bool:
        """Whether a stage that was decided on must not start yet: what it waits for is to be seen to first.

        Where the run stops over another stage, what has begun comes to its end all the same.
        """
        stage = self.pipeline.stage(op.stage or "")
        current, since = self.current(), self.run.state.since_resume
        is_new = op.n >= since or (op.n, since) in self.going
        if stage is None:  # of a stage that is no more nothing starts anew
            return not (op.attempt_open and is_new)
        if op.attempt_open and fatal(self):
            return False
        return not is_new or any(status(current.get(name)) in ("", "running") for name in self.waits_for(stage))

    def keep(self, op: Operation) -> None:
        """Let an earlier operation stand for its stage."""
        self.stands.add((op.n, self.run.state.since_resume))

    def go_on(self, op: Operation) -> int:
        """Let an earlier operation that has not ended go on; returns 1, or 0 where it does already."""
        key = (op.n, self.run.state.since_resume)
        is_new = key not in self.going
        self.going.add(key)
        return int(is_new)

    def waits_for(self, stage: Stage) -> set[str]:
        """The stages that must have ended, well or badly, before this one is decided on."""
        return {name for name, _ in edges(self.pipeline, stage)} | set(self.handled_by.get(stage.name, ()))

    def writers(self, name: str) -> list[Stage]:
        """The stages whose results a name means, in an order that no timing changes: as they are released."""
        return sorted(self.pipeline.sharing(name), key=lambda stage: self.ranks[stage.name])


def _ranks(plan: Plan) -> dict[str, int]:
    """Each stage's place: by how many stages must come before it, then as written."""
    depth: dict[str, int] = {}

    def of(stage: Stage) -> int:
        if stage.name not in depth:
            depth[stage.name] = 0  # a ring was refused when the pipeline was read
            before = [other for name in plan.waits_for(stage) if (other := plan.pipeline.stage(name)) is not None]
            depth[stage.name] = 1 + max((of(other) for other in before), default=0)
        return depth[stage.name]

    order = sorted(plan.pipeline.stages, key=of)
    return {stage.name: at for at, stage in enumerate(order)}


def status(op: Operation | None) -> str:
    """`` (not decided), running, ok, skipped, refused or failed."""
    if op is None:
        return ""
    if not op.closed:
        return "running"
    if op.code is not None and op.result is None:
        return {"SKIPPED": "skipped"}.get(op.code, "refused" if op.code in NO_FAILURE else "failed")
    return "ok" if (op.result or {}).get("class") == "OK" else "failed"


def class_of(op: Operation) -> str:
    """The error class of a stage that did not end well."""
    return op.code or str((op.result or {}).get("class", "FAILED"))


def lookup_of(plan: Plan, stage: Stage, current: dict[str, Operation]) -> Lookup:
    """What `${…}` means for a stage. A lookup raises Conflict where results that share a name contradict each other."""

    def find(ref: Ref) -> object:
        if ref.root == "inputs":
            value = field_of(plan.run.state.inputs, ref.path)
            return MISSING if value is None else value
        if ref.root == "failed":
            return field_of(_failure(plan, stage, current), ref.path)
        return value_of(plan, ref, current)

    return find


def value_of(plan: Plan, ref: Ref, current: dict[str, Operation]) -> object:
    """The result of a stage, or of several that share a name; MISSING where none ended well."""
    ended = [current[s.name] for s in plan.writers(ref.root) if status(current.get(s.name)) == "ok"]
    if not ended:
        return MISSING
    written = [(op.n, plan.run.text((op.result or {}).get("out", ""))) for op in ended]
    reducer = plan.pipeline.merge.get(ref.root) or Reducer("one")
    value = merged(ref.root, reducer, written)
    if reducer.kind in ("append", "union"):
        return field_of(value, ref.path)
    text = written[-1 if reducer.kind == "last" else 0][1]
    return field_of(structured(text.encode()), ref.path) if ref.path else text.removesuffix("\n")


def _failure(plan: Plan, stage: Stage, current: dict[str, Operation]) -> dict[str, str]:
    for name in plan.handled_by.get(stage.name, ()):
        op = current.get(name)
        if op is not None and status(op) == "failed":
            err = plan.run.text((op.result or {}).get("err", "")) or "; ".join(op.reasons)
            return {"stage": name, "class": class_of(op), "err": err.strip()[-ERR_TAIL:]}
    return {}


def consumed(plan: Plan, op: Operation) -> tuple[int, ...]:
    """The operations whose results a stage stands on: those it needs, and those whose words it binds."""
    stage, current = plan.pipeline.stage(op.stage or ""), plan.current()
    if stage is None:
        return ()
    words = kept(stage, plan.run.toolset.tools.get(op.tool), given(plan.run, stage.name))
    bound, written = (_named(plan, some) for some in (words, stage.run))
    replaced = written - bound - {name for name, _ in stage.needs}  # what only stood in words that were set since
    edged = [(name, optional) for name, optional in edges(plan.pipeline, stage) if name not in replaced]
    names = [name for name, optional in edged if not optional or name in bound]
    found = [current[name].n for name in names if status(current.get(name)) == "ok"]
    return tuple(n for n in found if n in plan.run.state.receipts)


def given(run: Run, stage: str) -> dict[str, object]:
    """The arguments that were set for a stage, by parameter."""
    start = f"{stage}."
    return {key.removeprefix(start): v for key, v in run.state.settings.items() if key.startswith(start)}


def _named(plan: Plan, words: Sequence[Word]) -> set[str]:
    """The stages whose results these words hold."""
    return {stage.name for word in words for ref in word.refs for stage in plan.pipeline.sharing(ref.root)}


def fatal(plan: Plan) -> list[Operation]:
    """The stages that stop the run: refused by policy or budget, or failed without anything that handles it."""
    found = []
    for name, op in plan.current().items():
        stage = plan.pipeline.stage(name)
        handled = stage is not None and stage.on_failure is not None
        if status(op) == "refused" or (status(op) == "failed" and not handled):
            found.append(op)
    return found
