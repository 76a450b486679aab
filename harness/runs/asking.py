"""A run of one reply: a question to a model, by itself or as a stage, without tools and with one round to repair it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, NoModelError
from harness.events.log import follow
from harness.loop.question import Question, form_of
from harness.loop.run import Run, World
from harness.loop.toolset import Toolset
from harness.models import Model, ModelRef, Opening
from harness.models.agent import NAME as AGENT
from harness.models.choice import choose
from harness.models.resolve import open_model, resolve
from harness.policy.budget import parse_budget
from harness.prompt.texts import limits_text
from harness.runs.begin import Check, Order, begin, refuse_changes, reopen
from harness.runs.composing import question_transcript
from harness.runs.flags import Options
from harness.runs.narrow import limits
from harness.runs.opened import Session
from harness.runs.pins import pinned
from harness.runs.renewal import StandIns, refuse_unpriced
from harness.runs.speaker import opening
from harness.skills.discovery import Catalog

NAME = "prompt"


def askable(ref: ModelRef, way: str = "name one: -m MODEL; or go on without it: --optional") -> ModelRef:
    """The model, where it can be asked. Raises NoModelError; a HarnessError where one was named that only chooses."""
    if ref.demonstration and ref.source != "auto":
        what = f"{ref.text} is a demonstration model: it only chooses among tools, and answers no question"
        raise HarnessError(what, "name another model: -m", ref.source)
    if ref.demonstration or ref.scheme in ("none", AGENT):
        raise NoModelError("there is no model to ask", way)
    return ref


def kit_of(question: Mapping[str, Any]) -> Toolset:
    """What a question may call: nothing. `question` is what its first event keeps."""
    return Toolset({}, form=form_of(question))


def order_of(question: Question, ref: ModelRef, budget: Any, options: Options, parent: Any = None) -> Order:
    """What a run of this question is asked to do."""
    kept = {**question.kept(), **({"system": question.system} if question.system else {})}
    return Order(
        NAME, question.text, question.inputs, budget, model=ref, parent=parent, source=options.source, question=kept
    )


def attach(run: Run, model: Model) -> None:
    """Let the model speak in a question's run."""
    run.attach(question_transcript(run.state.start, run.text), model)


def named(text: str, source: str) -> ModelRef | None:
    """The model that a run was begun with, if one was named."""
    return resolve(text, source=source) if text else None


def start_question(world: World, question: Question, project: Path, options: Options) -> Session:
    """Begin a run of one reply. Raises NoModelError (exit 4) where no model can be asked."""
    ref = askable(choose(options.model, options.wishes, None, question.role))
    budget = limits(world, {}, parse_budget(options.budget))
    order = order_of(question, ref, budget, options)
    refuse_unpriced(ref, budget.get("usd"))
    how = opening(Path.cwd(), None, world, options)
    model = open_model(ref, how)
    run = begin(world, project, kit_of(order.question or {}), order)
    return _opened(run, model, how, options)


def _opened(run: Run, model: Model, how: Opening, options: Options) -> Session:
    run.stand_in = StandIns(run, options.wishes, lambda ref: open_model(ref, how)).take_over
    attach(run, model)
    return Session(run, "prompt", limits_text(run.state.budget), model.ref)


def resume_question(
    world: World, catalog: Catalog, folder: Path, start: dict[str, Any], options: Options, check: Check
) -> Session:
    bound = pinned(follow(folder))["model"]
    said = options.model or (bound, start["model"]["source"])
    changes = [{"what": "model", "from": bound, "to": said[0]}] if said[0] != bound else []
    if changes and not options.accept_changes:
        refuse_changes(changes, options.command(folder.name, "--accept-changes"))
    ref = replace(resolve(said[0], source=said[1]), role=start["question"]["role"])
    how = opening(Path.cwd() if options.model else Path(start["cwd"]), None, world, options)
    model = open_model(askable(ref, "name one: -m MODEL"), how)
    run = reopen(world, catalog.project, folder, kit_of(start["question"]), (), options.by, changes, check=check)
    return _opened(run, model, how, options)


