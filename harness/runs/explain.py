"""What the policy says of a call that is not made: the request, every rule that is about it, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import near_text
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.log import follow, unowned
from harness.events.state import Operation, Spent
from harness.executor import Cancel
from harness.loop.gate import build_request
from harness.loop.granted import given
from harness.loop.guard import Guard
from harness.loop.known import passed_on
from harness.loop.run import Run, World
from harness.loop.scene import guarded_area, policy_of, users_words
from harness.loop.toolset import Toolset
from harness.policy import Grant, Policy, Rule
from harness.policy.budget import merged, places
from harness.policy.compose import Scene, compose
from harness.policy.decide import decide
from harness.policy.examples import knows
from harness.policy.granting import standing
from harness.policy.request import Decision, Request
from harness.policy.rules import failing, is_about
from harness.runs.flags import Options, rules_of
from harness.runs.kit import skill_kit, tool_kit
from harness.runs.narrow import below_skill, named
from harness.runs.peek import peek, read_state
from harness.runs.pins import said_in
from harness.runs.uses import by_name, run_uses
from harness.skills import Resolved
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file
from harness.tools import Tool
from harness.tools.discovery import digest_of


@dataclass(frozen=True, slots=True)
class Asked:
    """A call to be explained. `goal` is the user's words, None for none that are known, `grants` what is remembered."""

    tool: Tool
    args: tuple[str, ...]
    goal: str | None = None
    resolved: Resolved | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Explained:
    """`rules` are those about such calls, with what of each does not hold (nothing: it matches).

    `unlooked` are arguments that must be known, where nobody said what is.
    """

    request: Request
    decision: Decision
    policy: Policy
    spent: Spent
    rules: tuple[tuple[Rule, tuple[str, ...]], ...]
    unlooked: tuple[str, ...] = ()


def explain(guard: Guard, project: Path, asked: Asked) -> Explained:
    """Judge a call as the first of a run, without running, asking or writing anything. Raises HarnessError.

    Where no goal is given nobody knows what is known, and nothing is said of it.
    """
    resolved = asked.resolved
    skill = resolved.skill if resolved is not None else None
    if skill is not None:
        guard = replace(guard, settings=below_skill(guard, project, skill))
    budget = merged(skill.budget if skill is not None else {}, {}, guard.settings.budget)
    policy = replace(guard.settings.policy(), budget=budget, places=places(budget, guard.settings.budget))
    words, folder = () if asked.goal is None else (asked.goal,), [skill.folder] if skill is not None else []
    scene = Scene(
        project, lambda tool: guarded_area(guard, project, tool, folder), lambda: words,
        knows(words) if words else None, guard.settings, policy, skill.name if skill is not None else "",
    )  # fmt: skip
    request = guard.confined(asked.tool, compose(asked.tool, asked.args, scene))
    request = replace(request, trust=guard.trust.of(asked.tool.path), digest=digest_of(asked.tool))
    if skill is not None and request.tool not in skill.allowed:
        request = replace(request, listed=False, near=near_text(request.tool, skill.allowed))
    held = standing(asked.grants, Clock().wall(), guard.settings.remember_days)
    found = _explained(request, policy, Spent(), held, () if words else asked.tool.known)
    fix = found.decision.fix.replace("go on with more: harness resume RUN", "begin the run with more:")
    return replace(found, decision=replace(found.decision, fix=fix))


def explain_in(run: Run, name: str, args: tuple[str, ...]) -> Explained:
    """Judge a call as the next of a run."""
    op = Operation(run.state.next_op, "run", tool=name, arguments={"tool": name, "args": list(args)})
    request, _ = build_request(run, op)
    request = replace(request, attended=True)
    return _explained(request, policy_of(run), run.state.spent, given(run, request))


def _explained(
    request: Request, policy: Policy, spent: Spent, held: tuple[Grant, ...], unlooked: tuple[str, ...] = ()
) -> Explained:
    rules = tuple((rule, tuple(failing(rule, request))) for rule in policy.rules if is_about(rule, request))
    return Explained(request, decide(request, policy, held, spent), policy, spent, rules, unlooked)


def look_at(guard: Guard, catalog: Catalog, folder: Path, tool: Tool | None = None) -> Run:
    """A run as somebody sees it who does not own it: nothing can be appended. Raises HarnessError.

    `tool` is all that a run of no skill may call.
    """
    start = peek(folder)
    path = Path(start.get("path") or "")
    world = World(IO(), Clock(), Cancel(), None, runs_dir=folder.parent)
    world.child_receipts, world.trust = read_state, guard.trust
    if is_skill_file(path):
        kit = _skills(world, guard, catalog, path, start)
    else:
        world.guard, kit = guard, tool_kit(catalog, tool) if tool is not None else Toolset({})
    said = Options().with_kept(said_in(follow(folder)))
    is_whole = tool is not None or kit.folder is not None
    rules = rules_of(kit, said, lambda: by_name(run_uses(catalog, folder))) if is_whole else ()
    run = Run(unowned(folder, world.io, world.clock), world, kit, catalog.project, rules)
    _link_up(run, guard, catalog, start)
    return run


def _skills(world: World, guard: Guard, catalog: Catalog, path: Path, start: Mapping[str, Any]) -> Toolset:
    resolved = resolve(catalog, find(catalog, str(path.parent)))
    skill = resolved.skill
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in (start.get("inputs") or {}).items()}
    settings = below_skill(guard, catalog.project, skill)
    world.guard = replace(guard, settings=settings, readable=tuple(named(catalog.project, skill.inputs, given)))
    return skill_kit(resolved)


def _link_up(run: Run, guard: Guard, catalog: Catalog, start: Mapping[str, Any]) -> None:
    """Let a run that another began know what that one passed on."""
    link = start.get("parent")
    folder = run.folder.parent / str(link["run"]) if link else None
    if link is None or folder is None or not (folder / "events.jsonl").is_file():
        return
    parent = look_at(guard, catalog, folder)
    run.words_above = partial(users_words, parent)
    run.known_above = partial(passed_on, parent, parent.argv(parent.state.ops[link["op"]]))
