"""Who speaks in a skill's run: whether its names mean something here, its model, or the pipeline that stands in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import HarnessError, NoModelError
from harness.loop.run import World
from harness.loop.toolset import Toolset
from harness.models import Model, ModelRef, Opening
from harness.models.agent import NAME
from harness.models.choice import Wishes, choose
from harness.models.resolve import open_model
from harness.runs.flags import Options
from harness.runs.kit import skill_places
from harness.skills import Resolved, Skill
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.skills.stages import find_tool
from harness.tools import Tool, Value
from harness.tools.arguments import canonical, parse


def usable(catalog: Catalog, skill: Skill) -> Resolved:
    """What the skill's names mean here. Raises HarnessError (exit 2) with the first finding that stops a run."""
    broken = skill.broken
    resolved = resolve(catalog, skill)
    wrong = [f for f in (*([broken] if broken else ()), *resolved.findings) if f.severity in ("refused", "error")]
    if wrong:
        more = f" (and {len(wrong) - 1} more: harness skills check {skill.name})" if len(wrong) > 1 else ""
        what = f"skill '{skill.name}' cannot run: {wrong[0].code} {wrong[0].message}{more}"
        raise HarnessError(what, wrong[0].fix, f"{wrong[0].file}:{wrong[0].line}")
    return resolved


def is_handed_over(changes: Sequence[Mapping[str, str]]) -> bool:
    """Whether all that differs from the pins is that a person hands the run to an agent, or takes it back."""
    return [change["what"] for change in changes] == ["model"] and NAME in (changes[0]["from"], changes[0]["to"])


def model_of(options: Options, skill: Skill | None) -> ModelRef:
    """The model that speaks. Raises HarnessError for a string that names none, NoModelError when there is none."""
    return choose(options.model, options.wishes, skill)


def playable(kit: Toolset, resolved: Resolved, ref: ModelRef, wishes: Wishes) -> Toolset:
    """The same for a run that this model drives: below an agent, a worker without a model of its own is locked."""
    workers = resolved.workers if ref.scheme == NAME else {}
    return replace(kit, locked={name: why for name, worker in workers.items() if (why := _lack(worker, wishes))})


def _lack(worker: Skill, wishes: Wishes) -> str:
    try:
        choose(wishes.said, wishes, worker)
    except NoModelError:
        return "a model for it: a person names one in HARNESS_MODEL or models.strong"
    except HarnessError as error:
        return f"a model for it: {error.message}"
    return ""


def opening(cwd: Path, skill: Skill | None, world: World, options: Options) -> Opening:
    """How the models of a run are opened. Files are named from `cwd`."""
    wishes = options.wishes
    return Opening(cwd, skill, cache=wishes.cache, effort=wishes.effort, keys=wishes.keys, heard=world.heard)


def open_for(
    catalog: Catalog, ref: ModelRef, skill: Skill, goal: str, values: Mapping[str, Value], how: Opening
) -> Model:
    """The model itself; without one, the skill's pipeline with the run's own inputs."""
    args: tuple[str, ...] = ()
    if ref.scheme == "none" and skill.pipeline:
        tool = find_tool(catalog, skill_places(catalog, skill), skill.pipeline)
        args = pipeline_args(tool, goal, values) if tool is not None else ()
    model = open_model(ref, replace(how, args=args))
    model.warm()
    return model


def pipeline_args(tool: Tool, goal: str, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The argv of a pipeline that stands in for the model: the inputs it declares, and the goal if it takes one."""
    given = {"goal": goal, **values} if goal else dict(values)
    known = {parameter.name: given[parameter.name] for parameter in tool.parameters if parameter.name in given}
    defaults, _ = parse(tool, [])
    return canonical(tool, {**defaults, **known})
