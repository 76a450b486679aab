"""What one run changes of its confinement: a skill's own file narrows it, and what the person named may be read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import DeniedError, HarnessError, near_text
from harness.loop.guard import Guard
from harness.loop.run import World
from harness.loop.toolset import Toolset
from harness.policy import Bound
from harness.policy.budget import merged
from harness.policy.effects import effect_of
from harness.policy.examples import check_examples
from harness.policy.settings import Settings, home_of, narrowed
from harness.sandbox.choose import Refusal
from harness.skills import Skill
from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import canonical, parse

PLACES = ("PATH", "FILE", "DIR")
MOST_NAMES = 500
"""Of a folder, among which a name is looked for that may have been meant."""


def confine(
    world: World, project: Path, parameters: Iterable[Parameter], values: Mapping[str, Value], kit: Toolset,
    skill: Skill | None = None,
) -> None:  # fmt: skip
    """Let the guard of `world` fit this run, whose rules must do what they show.

    Raises DeniedError (exit 7) where a required tool could not run here, HarnessError (exit 2) for a bad policy.
    """
    if world.guard is None:
        return
    settings = world.guard.settings if skill is None else below_skill(world.guard, project, skill)
    check_examples(settings.rules, kit.tools.get, project, settings)
    readable = (*world.guard.readable, *named(project, parameters, values))
    world.guard = replace(world.guard, settings=settings, readable=readable)
    world.guard.fence.protect = settings.protect
    _check_required(world.guard, kit)


def below_skill(guard: Guard, project: Path, skill: Skill) -> Settings:
    """The settings under the skill's own file, which only narrows them."""
    return narrowed(guard.settings, skill.folder / "policy.yaml", "skill", project, home_of(guard.environ))


def for_worker(world: World, project: Path, skill: Skill, kit: Toolset) -> World:
    """The world of a worker and what it begins: all that its parent is held to, and what its own file adds."""
    if world.guard is None:
        return world
    settings = below_skill(world.guard, project, skill)
    check_examples(settings.rules, kit.tools.get, project, settings)
    world.guard.fence.protect = tuple(dict.fromkeys((*world.guard.fence.protect, *settings.protect)))
    return world if settings == world.guard.settings else replace(world, guard=replace(world.guard, settings=settings))


def limits(world: World, skill: Mapping[str, str], flag: Mapping[str, str]) -> dict[str, Any]:
    """The limits in force: flag, skill or default, below those of all policy files. Raises HarnessError, exit 2."""
    return merged(skill, flag, bounds_of(world))


def bounds_of(world: World) -> tuple[Bound, ...]:
    return world.guard.settings.budget if world.guard is not None else ()


def rebased(
    parameters: Iterable[Parameter], values: Mapping[str, Value], project: Path, here: Path
) -> dict[str, Value]:
    """The person's values with relative paths as they were meant: from where the person is, not from the workspace."""
    found = dict(values)
    if here == project:
        return found
    for parameter in parameters:
        value = found.get(parameter.name)
        if parameter.notation in PLACES and isinstance(value, str) and value != parameter.default:
            found[parameter.name] = _from(project, here, value)
        elif parameter.notation in PLACES and isinstance(value, tuple):
            found[parameter.name] = tuple(_from(project, here, text) for text in value)
    return found


def _from(project: Path, here: Path, text: str) -> str:
    return text if Path(text).is_absolute() else os.path.relpath(here / text, project)


def rebased_words(tool: Tool, words: Sequence[str], project: Path, here: Path) -> list[str]:
    """The same for the argv of a tool that declares its arguments."""
    values, problems = parse(tool, words)
    if problems or not tool.declared or here == project:
        return list(words)
    return list(canonical(tool, rebased(tool.parameters, values, project, here)))


def named(project: Path, parameters: Iterable[Parameter], values: Mapping[str, Value]) -> list[Path]:
    """The files and folders that the person named, where they are there."""
    found = []
    for parameter in parameters:
        value = values.get(parameter.name)
        if parameter.notation in PLACES and value is not None and not isinstance(value, bool | int):
            found += [project / text for text in ((value,) if isinstance(value, str) else value)]
    return [path.resolve() for path in found if os.path.exists(path)]


def check_there(parameters: Iterable[Parameter], values: Mapping[str, Value], given: Iterable[str], here: Path) -> None:
    """Raises HarnessError where an input that the person gave is to be a file or a folder and is none.

    Of what the author wrote as a default nobody said that it is there; what tools are called with is their business.
    """
    for parameter in parameters:
        value = values.get(parameter.name) if parameter.name in given else None
        if parameter.notation in PLACES and isinstance(value, str | tuple):
            for text in (value,) if isinstance(value, str) else value:
                _check_place(parameter, text, here)


def _check_place(parameter: Parameter, text: str, here: Path) -> None:
    kind = {"FILE": "file", "DIR": "folder"}.get(parameter.notation or "", "file or folder")
    path = here / text
    is_there = os.path.exists(path)  # a name that no file can have is none, either
    if is_there and (kind == "file or folder" or path.is_dir() == (kind == "folder")):
        return
    if is_there:
        what = f"-i {parameter.name}={text} is no {kind}"
    else:
        what = f"-i {parameter.name}={text}: there is no such {kind}{near_text(path.name, _beside(path))}"
    home = " (~ is not expanded here)" if text.startswith("~") else ""
    raise HarnessError(what, f"give a {kind} that is there: -i {parameter.name}={parameter.notation}{home}")


def _beside(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.parent.iterdir())[:MOST_NAMES]
    except OSError:
        return []


def _check_required(guard: Guard, kit: Toolset) -> None:
    for name in dict.fromkeys([*kit.requires, *(words[0] for words in kit.verify)]):
        tool = kit.tools.get(name)
        if tool is None or tool.pipeline:
            continue
        choice = guard.level(tool, effect_of(tool, guard.settings)[0])
        if isinstance(choice, Refusal):
            raise DeniedError(f"the skill requires {name}: {choice.why}", choice.fix)
