"""What a command asks for, as an open run: a skill, a pipeline file, one tool, or a run to go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.amend import INPUTS
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.scan import blob_text
from harness.events.state import State
from harness.loop.run import Run, World
from harness.models import Model, ModelRef
from harness.models.agent import FLAG, NAME
from harness.models.resolve import open_model
from harness.models.resolve import resolve as resolve_model
from harness.policy.budget import below, merged, parse_budget
from harness.prompt.texts import limits_text
from harness.runs import asking, sets
from harness.runs.begin import Check, Order, begin, changed_pins, pins, refuse_changes, reopen
from harness.runs.changed import changed_below
from harness.runs.children import Family
from harness.runs.composing import transcript_of
from harness.runs.facts import moved_head
from harness.runs.flags import Options, earlier, rules_of
from harness.runs.given import guide, pointed_to
from harness.runs.kit import (
    file_pin,
    file_places,
    load_pipeline,
    skill_kit,
    skill_places,
    tool_kit,
    tool_pins,
)  # fmt: skip
from harness.runs.narrow import bounds_of, check_there, confine, rebased, rebased_words
from harness.runs.narrow import limits as in_force
from harness.runs.opened import Session
from harness.runs.owning import check_resumable, part_of, refuse_passed, refuse_passed_meanwhile
from harness.runs.peek import peek, whole_start
from harness.runs.pins import pinned, said_in
from harness.runs.renewal import StandIns, refuse_unpriced
from harness.runs.sets import Within, inputs_in, within
from harness.runs.speaker import is_handed_over, model_of, open_for, opening, playable, usable
from harness.runs.uses import by_name, file_uses, run_uses, skill_uses, tool_uses
from harness.skills import Resolved, Skill
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file
from harness.tools import Tool
from harness.tools.arguments import check_inputs, parse, refusal
from harness.tools.header import read_tool


def start_skill(
    world: World, catalog: Catalog, name: str, goal: str, given: Mapping[str, str], options: Options
) -> Session:
    """Begin a run of a skill. Raises HarnessError before anything is written when it cannot run as written."""
    skill = find(catalog, name)
    resolved = usable(catalog, skill)
    values, problems = check_inputs(skill.inputs, given)
    if problems:
        names = " ".join(f"{p.name}{'!' if p.required else ''}" for p in skill.inputs) or "none"
        raise HarnessError("; ".join(problems), f"inputs of {skill.name}: {names}; give them as -i NAME=VALUE")
    check_there(skill.inputs, values, given, world.here)
    values = rebased(skill.inputs, values, catalog.project, world.here)
    ref = model_of(options, skill)
    kit = playable(skill_kit(resolved, options.is_open), resolved, ref, options.wishes)
    rules = rules_of(kit, options, lambda: by_name(skill_uses(catalog, skill)))
    confine(world, catalog.project, skill.inputs, values, kit, skill)
    budget = in_force(world, skill.budget, parse_budget(options.budget))
    refuse_unpriced(ref, budget.get("usd"))
    model = open_for(catalog, ref, skill, goal, values, opening(Path.cwd(), skill, world, options))
    order = Order(
        skill.name, goal, values, budget, rules, ref, source=options.source, foreign=options.foreign,
        flags=options.kept(),
        digests=pins(tool_pins(kit.tools), resolved), path=str(skill.file), parameters=tuple(skill.inputs),
        project=guide(world, catalog.project, skill), context=pointed_to(world, catalog.project, options.context),
    )  # fmt: skip
    run = begin(world, catalog.project, kit, order)
    return _skill_session(run, catalog, resolved, model, options, Path.cwd())


def _skill_session(
    run: Run, catalog: Catalog, resolved: Resolved, model: Model, options: Options, cwd: Path
) -> Session:
    skill, state = resolved.skill, run.state
    own = opening(cwd, skill, run.world, options)
    family = Family(
        run.world, catalog, skill, tuple(skill_places(catalog, skill)), model.ref,
        lambda ref, worker: open_model(ref, replace(own, skill=worker, worker=True)), options.wishes,
    )  # fmt: skip
    run.begin_child = family.begin
    run.stand_in = StandIns(run, options.wishes, lambda ref: open_model(ref, own)).take_over
    limits = limits_text(state.budget)
    run.attach(transcript_of(run, resolved), model)
    warnings = [f.text() for f in (*skill.findings, *resolved.findings) if f.severity == "warning"]
    return Session(run, "skill", limits, model.ref, skill, warnings=warnings)


def start_pipeline(world: World, catalog: Catalog, path: Path, words: Sequence[str], options: Options) -> Session:
    """Begin a run of a pipeline file. Raises HarnessError (exit 2) for what cannot run or does not fit."""
    tool, kit, pipeline = load_pipeline(catalog, path)
    values, problems = parse(tool, words)
    if problems:
        raise HarnessError(refusal(tool, problems), f"harness pipeline {path} --help")
    if words and not tool.declared:
        raise HarnessError(f"{path} takes no arguments", "declare them in its header: # @option --name <NAME>")
    values = rebased(tool.parameters, values, catalog.project, world.here)
    confine(world, catalog.project, tool.parameters, values, kit)
    budget = in_force(world, {}, parse_budget(options.budget))
    digests = {"skill": file_pin(tool.path), "tools": tool_pins(kit.tools)}
    rules = rules_of(kit, options, lambda: by_name(file_uses(catalog, path)))
    order = Order(
        tool.name, "", values, budget, rules, asking.named(*(options.model or ("", ""))),
        flags=options.kept(), digests=digests, path=str(path.resolve()), parameters=tool.parameters,
    )  # fmt: skip
    run = begin(world, catalog.project, kit, order)
    return _pipeline_session(run, catalog, path, pipeline, options)


def _pipeline_session(run: Run, catalog: Catalog, path: Path, pipeline: Any, options: Options) -> Session:
    start = run.state.start
    ref = asking.named(run.state.model, str((start.get("model") or {}).get("source", "")))
    how = replace(opening(Path(start["cwd"]), None, run.world, options), worker=True)
    family = Family(
        run.world, catalog, None, tuple(file_places(catalog, path)), ref,
        lambda ref, worker: open_model(ref, replace(how, skill=worker)), options.wishes,
    )  # fmt: skip
    run.begin_child = family.begin
    return Session(run, "pipeline", limits_text(run.state.budget), pipeline=pipeline)


def _no_model(ref: ModelRef, skill: Skill | None) -> Model:
    raise HarnessError(f"{skill.name if skill else 'a question'} needs a model", "name one: -m")


def start_tool(world: World, catalog: Catalog, tool: Tool, words: Sequence[str], options: Options) -> Session:
    """Begin a run of one call. Raises HarnessError (exit 2) for arguments that no journal can hold."""
    kit = tool_kit(catalog, tool)
    words = rebased_words(tool, words, catalog.project, world.here)
    confine(world, catalog.project, tool.parameters, parse(tool, words)[0], kit)
    budget = in_force(world, {}, parse_budget(options.budget))
    digests = {"skill": "", "tools": tool_pins(kit.tools)}
    rules = rules_of(kit, options, lambda: by_name(tool_uses(catalog, tool)))
    order = Order(
        tool.name, "", {"args": tuple(words)}, budget, rules, flags=options.kept(), digests=digests,
        path=str(tool.path), parameters=None,
    )  # fmt: skip
    run = begin(world, catalog.project, kit, order)
    return _tool_session(run, catalog, tool, list(words))


def _tool_session(run: Run, catalog: Catalog, tool: Tool, words: list[str]) -> Session:
    places = [catalog.own_bin, tool.path.parent]
    run.begin_child = Family(run.world, catalog, None, tuple(places), None, _no_model).begin
    return Session(run, "tool", limits_text(run.state.budget), call=(tool.name, words))


def current_state(folder: Path) -> State:
    """The state of a run as its journal says, without owning it."""
    peek(folder)
    return fold(follow(folder))


def resume(world: World, catalog: Catalog, folder: Path, message: str | None, options: Options) -> Session:
    """Own a run again. Raises HarnessError before anything is written when there is nothing to go on with."""
    start = whole_start(folder)
    state = fold(follow(folder))
    if start.get("parent"):
        raise part_of(folder, start)
    check_resumable(world, folder, state, options)
    world.early, world.ruled = options.now, bool(options.allow or options.deny)
    is_spoken = bool(message or options.sets)
    refuse_passed(world, folder, state, is_spoken)
    check = partial(refuse_passed_meanwhile, world, is_spoken, state.seq)
    path = Path(start.get("path") or "")
    before, limits = said_in(follow(folder)), parse_budget(options.budget)
    options = options.with_kept(before)
    is_skill = is_skill_file(path)
    if message is not None and not is_skill:
        raise HarnessError("this run has no model that could hear a message", f"harness resume {folder.name}")
    if not options.accept_changes and (changes := changed_below(catalog, folder, state)):
        refuse_changes(changes, options.command(folder.name, "--accept-changes"))
    if start.get("question"):
        session = asking.resume_question(world, catalog, folder, start, options, check)
    elif is_skill:
        session = _resume_skill(world, catalog, folder, path, start, options, check)
    else:
        session = _resume_other(world, catalog, folder, path, start, options, check)
    _speak(session.run, message, limits, options.source)
    session.warnings += earlier(before, session.run.flags)
    session.warnings += moved_head(state.git, session.run.state.git)
    if session.run.state.policy != state.policy:
        session.warnings.append("the policy is not what it was: today's decides, and approvals not used yet are void")
    return session


def _speak(run: Run, message: str | None, limits: Mapping[str, str], source: str) -> None:
    """Today's limits of policy files, the person's new ones and words, on the disk before the model hears them."""
    bounds = bounds_of(run.world)
    if lower := below(run.state.budget, bounds):
        run.append("amend", {"what": "budget", "target": "run", "value": lower, "by": "policy", "why": "policy"})
    if limits:
        given = merged({}, limits, bounds)
        wanted = {key: given[key] for key in limits}
        run.append("amend", {"what": "budget", "target": "run", "value": wanted, "by": "user", "why": "flag"})
    if message is not None:
        run.append("user.say", {"text": run.log.fit(message), "by": source})
        run.log.sync()


def _resume_skill(
    world: World, catalog: Catalog, folder: Path, path: Path, start: dict[str, Any], options: Options, check: Check
) -> Session:
    skill = find(catalog, str(path.parent))
    resolved = usable(catalog, skill)
    kit = skill_kit(resolved, options.is_open)
    bound = pinned(follow(folder))
    changes = changed_pins(bound, pins(tool_pins(kit.tools), resolved))
    said = options.model or (bound["model"], FLAG if bound["model"] == NAME else start["model"]["source"])
    if said[0] != bound["model"]:
        changes.append({"what": "model", "from": bound["model"], "to": said[0]})
    if changes and not options.accept_changes and not is_handed_over(changes):
        refuse_changes(changes, options.command(folder.name, "--accept-changes"))
    ref = replace(resolve_model(said[0], source=said[1], skill=skill), role=start["model"].get("role", "strong"))
    kit = playable(kit, resolved, ref, options.wishes)
    refuse_unpriced(ref, {**current_state(folder).budget, **parse_budget(options.budget)}.get("usd"))
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in (start.get("inputs") or {}).items()}
    cwd = Path.cwd() if options.model else Path(start["cwd"])
    open_ = partial(within, catalog, skill_places(catalog, skill), kit.folder)
    wanted = sets.for_skill(kit, open_, options.sets)
    unheard = sets.shadowed_in_skill(kit, open_, wanted, current_state(folder).settings | wanted)
    confine(world, catalog.project, skill.inputs, values, kit, skill)
    in_force(world, {}, parse_budget(options.budget))  # one above a file's is refused before anything is written
    model = open_for(catalog, ref, skill, _goal(folder, start), values, opening(cwd, skill, world, options))
    rules = rules_of(kit, options, lambda: by_name(skill_uses(catalog, skill)))
    run = reopen(world, catalog.project, folder, kit, rules, options.by, changes, options.kept(), check)
    session = _skill_session(run, catalog, resolved, model, options, cwd)
    session.warnings += unheard
    run.anew = options.model == (NAME, FLAG) and run.state.turn > 0  # it may have lost its memory
    sets.write(run, wanted)
    for target, value in wanted.items() if ref.scheme != "none" else ():
        run.note("changed", f"a person set {target}={value}: call {target.partition('/')[0]} again.")
    return session


def _goal(folder: Path, start: Mapping[str, Any]) -> str:
    """The goal a run began with, kept in its first line or beside it."""
    return blob_text(folder, start.get("goal"))


def _inputs(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's inputs as they are now, with those that are set."""
    given = {key.removeprefix(INPUTS): value for key, value in wanted.items() if key.startswith(INPUTS)}
    values = {**current_state(folder).inputs, **given}
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items() if v is not None}


def _resume_other(
    world: World, catalog: Catalog, folder: Path, path: Path, start: dict[str, Any], options: Options, check: Check
) -> Session:
    tool = read_tool(path, str(start["skill"]))
    kit, pipeline = tool_kit(catalog, tool), None
    if tool.pipeline:
        tool, kit, pipeline = load_pipeline(catalog, path)
    digests = {"skill": file_pin(tool.path) if tool.pipeline else "", "tools": tool_pins(kit.tools)}
    changes = changed_pins(pinned(follow(folder)), digests)
    if changes and not options.accept_changes:
        refuse_changes(changes, options.command(folder.name, "--accept-changes"))
    if pipeline is None and options.sets:
        raise HarnessError("this is the run of one tool: it has no stages", f"harness tools run {tool.name} ARGS")
    wanted, unheard = {}, list[str]()
    if pipeline is not None:
        open_ = partial(within, catalog, file_places(catalog, path), None)
        here = Within(tool, kit, pipeline, inputs_in(catalog), open_, catalog.project)
        wanted = sets.for_pipeline(here, options.sets)
        unheard = sets.shadowed(here, wanted, current_state(folder).settings | wanted)
    values = _inputs(folder, wanted) if tool.pipeline else parse(tool, start["inputs"].get("args") or ())[0]
    confine(world, catalog.project, tool.parameters, values, kit)
    in_force(world, {}, parse_budget(options.budget))
    rules = rules_of(kit, options, lambda: by_name(run_uses(catalog, folder)))
    run = reopen(world, catalog.project, folder, kit, rules, "user", changes, options.kept(), check)
    sets.write(run, wanted)
    if pipeline is not None:
        session = _pipeline_session(run, catalog, path, pipeline, options)
        session.warnings += unheard
        return session
    return _tool_session(run, catalog, tool, [str(w) for w in start["inputs"].get("args") or ()])
