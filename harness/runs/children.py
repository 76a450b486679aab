"""Runs begun by runs: a pipeline or a worker, each with its own folder and journal, in a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import pipeline as pipelines
from harness.errors import BusyError, HarnessError, JournalError, NoModelError
from harness.events.amend import is_seam
from harness.events.fold import fold
from harness.events.log import follow, open_log
from harness.events.state import Operation, State
from harness.loop.ending import close
from harness.loop.gate import is_question
from harness.loop.inbox import has_word
from harness.loop.known import passed_on
from harness.loop.question import SKIPPED, from_words
from harness.loop.run import ChildEnd, Run, Stop, World
from harness.loop.scene import users_words
from harness.loop.turn import drive
from harness.models import Model, ModelRef
from harness.models.agent import NAME as AGENT
from harness.models.choice import Wishes, choose
from harness.policy.budget import below, narrowed
from harness.runs import asking
from harness.runs.begin import Order, begin, letters, pins, reopen
from harness.runs.composing import transcript_of
from harness.runs.ends import ended, not_opened, told
from harness.runs.flags import Options
from harness.runs.given import guide
from harness.runs.kit import file_pin, pipeline_kit, skill_kit, skill_places, tool_pins
from harness.runs.lost import damage_of, lineage
from harness.runs.narrow import bounds_of, for_worker
from harness.runs.owning import due_at
from harness.runs.peek import read_state
from harness.runs.renewal import StandIns, refuse_unpriced
from harness.runs.second import changed_since, is_set_otherwise, refuse_lost, set_arguments, settings_below, take_over
from harness.skills import Skill
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.skills.worker import as_tool, words_of
from harness.tools import Tool
from harness.tools.arguments import parse

SAID = ("-m", "env HARNESS_MODEL")
"""Sources of a model that was named for the whole run."""
PERSONS = ("needs-approval", "needs-answer", "unknown-outcome")


@dataclass(frozen=True, slots=True)
class Family:
    """What a child run is made from: the catalogue, the skill its parent belongs to, and how a model is opened."""

    world: World
    catalog: Catalog
    skill: Skill | None
    places: tuple[Path, ...]
    ref: ModelRef | None
    open_model: Callable[[ModelRef, Skill | None], Model]
    wishes: Wishes = field(default_factory=Wishes)

    def begin(self, parent: Run, op: Operation, part: Mapping[str, Any]) -> ChildEnd:
        """Carry out a call that is a run of its own, from whatever its folder holds, until it stops.

        `part` is its share of the parent's budget. A journal that is damaged or not ours is raised, like a bug.
        """
        assert op.child is not None
        folder = parent.folder.parent / op.child
        if wrong := damage_of(folder):
            raise JournalError(wrong, f"harness fork {lineage(folder)[-1].name}", str(folder))
        known = read_state(folder)
        refuse_lost(parent, op, folder)
        moved = known is not None and is_set_otherwise(parent, op, known)
        if known is not None and not moved and (before := _already(parent, folder, known)) is not None:
            _tell_of(parent.world, folder, parent.depth + 1)
            if not before.stop.parked:
                _put_on_disk(parent.world, folder)
            return before
        if known is None and folder.exists():
            self.world.io.rename(folder, folder.with_name(f"lost-{folder.name}-{letters(4)}"))
        try:
            if is_question(op):
                return self._question(parent, op, folder, known, part)
            tool = parent.toolset.tools.get(op.tool)
            if tool is not None:
                return self._pipeline(parent, op, folder, tool, known, part)
            return self._worker(parent, op, folder, known, part)
        except (JournalError, BusyError):
            raise
        except HarnessError as error:
            end = not_opened(parent, op, error)
            if end.stop.parked:
                _tell_of(parent.world, folder, parent.depth + 1)
            return end

    def _pipeline(
        self, parent: Run, op: Operation, folder: Path, tool: Tool, known: State | None, part: Mapping[str, Any]
    ) -> ChildEnd:
        kit, pipeline = pipeline_kit(self.catalog, tool, self.places, parent.toolset.folder)
        values = parse(tool, list(parent.argv(op)))[0]
        order = Order(
            tool.name, inputs=values, budget=part, rules=parent.flags, parent=_link(parent, op),
            digests={"skill": file_pin(tool.path), "tools": tool_pins(kit.tools)}, path=str(tool.path),
            parameters=tool.parameters,
        )  # fmt: skip
        if known is None and take_over(parent, op, folder, order):
            known = read_state(folder)
        run = self._open(parent, folder, kit, order, known)
        try:
            set_arguments(run, values, settings_below(parent.state, tool.name))
            return ended(run, pipelines.drive(run, pipeline))
        finally:
            run.log.close()

    def _question(
        self, parent: Run, op: Operation, folder: Path, known: State | None, part: Mapping[str, Any]
    ) -> ChildEnd:
        question = from_words(parent.args(op), parent.project)
        try:
            ref = self._asked(question.role)
        except NoModelError:
            if not question.optional:
                raise
            return ChildEnd(Stop("passed", 0), SKIPPED.encode(), "OK", "", {})
        refuse_unpriced(ref, part.get("usd"))
        order = asking.order_of(question, ref, part, Options(source="input"), _link(parent, op))
        run = self._open(parent, folder, asking.kit_of(question.kept()), order, known)
        try:
            run.stand_in = StandIns(run, self.wishes, lambda other: self.open_model(other, None)).take_over
            asking.attach(run, self.open_model(ref, None))
            return ended(run, drive(run))
        finally:
            close(run)

    def _worker(
        self, parent: Run, op: Operation, folder: Path, known: State | None, part: Mapping[str, Any]
    ) -> ChildEnd:
        if self.ref is None:
            raise HarnessError(f"the worker {op.tool} needs a model; name one: -m", "name one: -m")
        worker = next(s for s in self.catalog.skills if op.tool in (s.name, s.declared_name, *s.aliases))
        resolved = resolve(self.catalog, worker)
        broken = worker.broken or next((f for f in resolved.findings if f.severity == "error"), None)
        if broken is not None:
            raise HarnessError(broken.text(), broken.fix)
        goal, values = worker_words(worker, list(parent.argv(op)))
        kit = skill_kit(resolved)
        world = for_worker(self.world, parent.project, worker, kit)
        ref, limits = self._model(worker), narrowed(part, worker.budget)
        limits |= below(limits, bounds_of(world))
        refuse_unpriced(ref, limits.get("usd"))
        order = Order(
            worker.name, goal, values, limits, parent.flags, ref, _link(parent, op),
            "model", {}, pins(tool_pins(kit.tools), resolved), str(worker.file), tuple(worker.inputs),
            project=guide(self.world, parent.project, worker),
        )  # fmt: skip
        places = tuple(skill_places(self.catalog, worker))
        own = replace(self, world=world, skill=worker, places=places, ref=ref)
        if known is None and take_over(parent, op, folder, order):
            known = read_state(folder)
        run = own._open(parent, folder, kit, order, known)
        try:
            model = self.open_model(ref, worker)
            run.stand_in = StandIns(run, self.wishes, lambda other: self.open_model(other, worker)).take_over
            run.attach(transcript_of(run, resolved), model)
            return ended(run, drive(run))
        finally:
            close(run)

    def _asked(self, role: str) -> ModelRef:
        """Whom a question goes to: who speaks in the run, where a person named it or the role is the same."""
        ref = self.ref if self.ref is not None and self.ref.scheme != AGENT else None
        if ref is not None and (ref.source in SAID or ref.role == role):
            return asking.askable(ref)
        return asking.askable(choose(self.wishes.said, self.wishes, None, role))

    def _model(self, worker: Skill) -> ModelRef:
        """The run's own model, or its text's where nobody named one; below an agent the one it would have by itself."""
        assert self.ref is not None
        if self.ref.scheme == AGENT:
            return choose(self.wishes.said, self.wishes, worker)
        return self.ref if worker.model is None or self.ref.source in SAID else choose(None, self.wishes, worker)

    def _open(self, parent: Run, folder: Path, kit: Any, order: Order, known: State | None) -> Run:
        if known is None:
            run = begin(self.world, parent.project, kit, order, folder)
        else:
            changes = changed_since(folder, order.digests)
            run = reopen(self.world, parent.project, folder, kit, order.rules, "parent", changes)
        run.begin_child, run.barred_above, run.happened_above = self.begin, parent.is_barred, parent.happened
        run.words_above = partial(users_words, parent)
        words = parent.argv(parent.state.ops[(order.parent or {})["op"]])
        run.known_above = partial(passed_on, parent, words)
        return run


def _link(parent: Run, op: Operation) -> dict[str, Any]:
    return {"run": parent.name, "op": op.n, "depth": parent.depth + 1}


def worker_words(worker: Skill, words: list[str]) -> tuple[str, dict[str, Any]]:
    """A worker's goal and inputs from its argv. Raises HarnessError where a stage or an older journal has it wrong."""
    goal, values, problems = words_of(as_tool(worker, worker.name), words)
    if problems:
        raise HarnessError("; ".join(problems), f"call {worker.name} with --input=value and the goal", code=2)
    return goal, values


def _put_on_disk(world: World, folder: Path) -> None:
    """Its owner may have died before its last sync. Nobody opens it again once the run above has its end, and a second
    call of a pipeline begins with its lines."""
    log = open_log(folder, world.io, world.clock)
    try:
        log.sync()
    finally:
        log.close()


def _tell_of(world: World, folder: Path, depth: int) -> None:
    """Whoever watches hears of a child that is not opened again, and of those below it, what their journals hold."""
    events = follow(folder)
    world.history(events, folder.name, depth)
    for op in fold(events).open_ops.values():
        if op.child and op.attempt_open and (folder.parent / op.child / "events.jsonl").is_file():
            _tell_of(world, folder.parent / op.child, depth + 1)


def _already(parent: Run, folder: Path, known: State) -> ChildEnd | None:
    """A child that has ended, or that still waits: for a person who has said nothing, or for its time."""
    if is_seam(known):  # it holds the end of the call that it goes on from, not its own
        return None
    if known.status == "ended" and known.end is not None and known.end["stop"] != "interrupted":
        return told(parent, folder, known)
    if known.status != "parked" or known.park is None:
        return None
    due = due_at(known)
    is_early = due is not None and due > parent.world.clock.wall() and not parent.world.early
    if known.park["stop"] not in PERSONS and not is_early:
        return None
    words, asks = parent.world.words, not is_early and parent.world.ask is not None
    if has_word(folder, words) or (asks and known.park["stop"] != "unknown-outcome"):
        return None
    if _descendant_has_word(folder, known, words) or (parent.world.ruled and known.park["stop"] == "needs-approval"):
        return None
    stop = Stop(known.park["stop"], known.park["exit"], parked=True)
    return ChildEnd(stop, b"", "", "", {}, known.park.get("hint", ""), until=due)


def _descendant_has_word(folder: Path, known: State, words: Path | None) -> bool:
    for op in known.open_ops.values():
        if op.child and op.attempt_open:
            below = folder.parent / op.child
            state = read_state(below)
            if has_word(below, words) or (state is not None and _descendant_has_word(below, state, words)):
                return True
    return False
