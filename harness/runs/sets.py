"""`--set STAGE.PARAM=VALUE` on a run that goes on: what it names, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, near_text
from harness.events.amend import INPUTS
from harness.loop.run import Run
from harness.loop.toolset import Toolset
from harness.pipeline.words import kept
from harness.runs.kit import pipeline_kit
from harness.runs.narrow import rebased
from harness.skills.discovery import Catalog
from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import check_inputs
from harness.tools.expression import Word
from harness.tools.stages import Pipeline, Stage

FORM = "write --set STAGE.PARAM=VALUE or --set inputs.NAME=VALUE"
Amended = dict[str, Any]
"""Target → value, as an `amend` event holds them."""


@dataclass(frozen=True, slots=True)
class Within:
    """A pipeline whose stages can be set: its own header, its stages, what their first words mean.

    `inputs_of` gives the inputs of a worker that a stage runs, `open` a pipeline that one runs.
    """

    tool: Tool
    kit: Toolset
    pipeline: Pipeline
    inputs_of: Callable[[str], Sequence[Parameter]]
    open: Callable[[Tool], Within]
    project: Path


def within(catalog: Catalog, places: Sequence[Path], folder: Path | None, tool: Tool) -> Within:
    """A pipeline by its tool, its names looked up in these places. Raises HarnessError where it cannot run."""
    kit, pipeline = pipeline_kit(catalog, tool, places, folder)
    open_ = partial(within, catalog, places, folder)
    return Within(tool, kit, pipeline, inputs_in(catalog), open_, catalog.project)


def inputs_in(catalog: Catalog) -> Callable[[str], Sequence[Parameter]]:
    """The inputs of a worker by its name."""
    return lambda name: next((skill.inputs for skill in catalog.named(name)), ())


def split(sets: Iterable[str]) -> dict[str, list[str]]:
    """`--set` words as target → values in order. Raises HarnessError for another form."""
    found: dict[str, list[str]] = {}
    for word in sets:
        target, equals, value = word.partition("=")
        stage, dot, name = target.rpartition("/")[2].partition(".")
        if not equals or not dot or not stage or not name:
            raise HarnessError(f"--set {word} names no parameter", FORM)
        found.setdefault(target, []).append(value)
    return found


def amended(within: Within, target: str, values: Sequence[str]) -> Any:
    """The value to amend for one target without a pipeline before it. Raises HarnessError with the nearest name."""
    stage_name, _, name = target.partition(".")
    if f"{stage_name}." == INPUTS:
        parameter = _parameter(within.tool.parameters, name, f"input of {within.tool.name}", target)
        return parameter_value(parameter, _placed(within, parameter, _checked(parameter, values, target)))
    stage = within.pipeline.stage(stage_name)
    if stage is None:
        names = [stage.name for stage in within.pipeline.stages]
        what = f"--set {target}: {within.tool.name} has no stage {stage_name}{near_text(stage_name, names)}"
        raise HarnessError(what, f"name one of: {' '.join(names)}, or inputs.NAME")
    called = stage.run[0].text
    tool = within.kit.tools.get(called)
    known = tool.parameters if tool is not None else within.inputs_of(called)
    parameter = _parameter(known, name, f"parameter of {called}", target)
    return _placed(within, parameter, _checked(parameter, values, target))


def _placed(within: Within, parameter: Parameter, value: str | list[str]) -> str | list[str]:
    """The value with a path as the person meant it, from where they are."""
    given: Value = tuple(value) if isinstance(value, list) else value
    found = rebased([parameter], {parameter.name: given}, within.project, Path.cwd())[parameter.name]
    return list(found) if isinstance(found, tuple) else str(found)


def _parameter(known: Sequence[Parameter], name: str, what: str, target: str) -> Parameter:
    found = next((parameter for parameter in known if parameter.name == name), None)
    if found is None:
        names = [parameter.name for parameter in known]
        fix = f"name one of: {' '.join(names)}" if names else "it takes none"
        raise HarnessError(f"--set {target}: {name} is no {what}{near_text(name, names)}", fix)
    return found


def _checked(parameter: Parameter, values: Sequence[str], target: str) -> str | list[str]:
    """The text, or the texts of a parameter that takes several. Raises HarnessError for a value of another type."""
    if parameter.kind == "flag":
        if values[-1] not in ("true", "false"):
            raise HarnessError(f"--set {target}: {parameter.name} is a flag", "give true or false")
        return values[-1]
    if not parameter.many and len(values) > 1:
        raise HarnessError(f"--set {target} is given {len(values)} times", "give one value")
    for value in values:
        one = Parameter(parameter.name, "option", choices=parameter.choices, notation=parameter.notation,
                        mod="!" if parameter.required else "")  # fmt: skip
        problems = check_inputs([one], {parameter.name: value})[1]
        if problems:
            raise HarnessError(f"--set {target}: {'; '.join(problems)}", FORM)
    return list(values) if parameter.many else values[0]


def parameter_value(parameter: Parameter, value: str | list[str]) -> Any:
    """An input as a run holds it: a flag is true or false."""
    return value == "true" if parameter.kind == "flag" else value


def write(run: Run, wanted: Mapping[str, Any]) -> None:
    """The person's amendments, on the disk before anything runs by them."""
    for target, value in wanted.items():
        run.append("amend", {"what": "input", "target": target, "value": value, "by": "user", "why": "--set"})
    if wanted:
        run.log.sync()


def for_pipeline(within: Within, sets: Iterable[str]) -> Amended:
    """What a run of this pipeline is to be given. Raises HarnessError (exit 2) before anything is written."""
    found = {}
    for target, values in split(sets).items():
        inner, rest = within, target
        while "/" in rest:
            name, _, rest = rest.partition("/")
            inner = _below(inner, name, target)
        found[target] = amended(inner, rest, values)
    return found


def shadowed(within: Within, wanted: Iterable[str], held: Mapping[str, Any], start: str = "") -> list[str]:
    """A line for each input that is set and does not reach a stage, as what stands in its place was set before.

    `held` are all arguments that were set, `start` what stands before the names of the stages.
    """
    lines = []
    for target in wanted:
        path, name = target.rpartition("/")[0], target.rpartition("/")[2]
        inner, above = within, f"{path}/" if path else ""
        for part in path.split("/") if path else ():
            inner = _below(inner, part, target)
        for stage in inner.pipeline.stages if name.startswith(INPUTS) else ():
            own = f"{above}{stage.name}."
            given = {key.removeprefix(own): value for key, value in held.items() if key.startswith(own)}
            if given and name in _inputs_of(stage.run) - _inputs_of(_kept(inner, stage, given)):
                instead = ", ".join(f"{start}{own}{parameter}" for parameter in given)
                what = f"--set {start}{target} does not reach the stage {stage.name}"
                lines.append(f"{what}: {instead} was set, and holds")
    return lines


def _kept(within: Within, stage: Stage, given: Mapping[str, object]) -> Sequence[Word]:
    """The words of a stage that are bound still; a positional that is set takes the place of all of them."""
    tool = within.kit.tools.get(stage.run[0].text)
    places = {p.name for p in tool.parameters if p.kind == "arg"} if tool is not None else set()
    return [] if places & given.keys() else kept(stage, tool, given)


def _inputs_of(words: Iterable[Word]) -> set[str]:
    return {f"{INPUTS}{ref.path[0]}" for word in words for ref in word.refs if ref.root == "inputs" and ref.path}


def shadowed_in_skill(
    kit: Toolset, open_: Callable[[Tool], Within], wanted: Iterable[str], held: Mapping[str, Any]
) -> list[str]:
    """The same for a skill's run, whose targets begin with a pipeline."""
    lines = []
    for target in wanted:
        name, _, rest = target.partition("/")
        below = {key.removeprefix(f"{name}/"): value for key, value in held.items() if key.startswith(f"{name}/")}
        lines += shadowed(open_(kit.tools[name]), [rest], below, f"{name}/")
    return lines


def _below(within: Within, name: str, target: str) -> Within:
    tool = within.kit.tools.get(name)
    if tool is None or not tool.pipeline:
        names = [other for other, tool in within.kit.tools.items() if tool.pipeline]
        what = f"--set {target}: {name} is no pipeline here{near_text(name, names)}"
        raise HarnessError(what, f"name one of: {' '.join(names)}" if names else FORM)
    return within.open(tool)


def for_skill(kit: Toolset, open_: Callable[[Tool], Within], sets: Iterable[str]) -> Amended:
    """The same for a skill's run, where the pipeline is named first: PIPELINE/STAGE.PARAM.

    One that is left out is found where only one of them has that stage.
    """
    found: Amended = {}
    chosen = split(sets)
    if not chosen:
        return found
    pipelines = {name: open_(tool) for name, tool in kit.tools.items() if tool.pipeline and tool.broken is None}
    for target, values in chosen.items():
        name, slash, rest = target.partition("/")
        if not slash:
            name, rest = _meant(pipelines, target), target
        if name not in pipelines:
            what = f"--set {target}: {name} is no pipeline of this skill{near_text(name, pipelines)}"
            raise HarnessError(what, f"name one of: {' '.join(pipelines)}" if pipelines else "this skill calls none")
        below = for_pipeline(pipelines[name], [f"{rest}={value}" for value in values])
        found |= {f"{name}/{key}": value for key, value in below.items()}
    return found


def _meant(pipelines: Mapping[str, Within], target: str) -> str:
    stage = target.partition(".")[0]
    having = [name for name, within in pipelines.items() if within.pipeline.stage(stage) is not None]
    if len(having) == 1:
        return having[0]
    known = [s.name for within in pipelines.values() for s in within.pipeline.stages]
    if f"{stage}." == INPUTS:
        raise HarnessError(f"--set {target}: the inputs of a skill's run stay as they are",
                           f"write --set PIPELINE/{target}=VALUE: {' '.join(pipelines)}")  # fmt: skip
    many = f"the stage {stage} is in {' and '.join(having)}" if having else f"no pipeline has the stage {stage}"
    raise HarnessError(f"--set {target}: {many}{'' if having else near_text(stage, known)}",
                       f"write --set PIPELINE/{target}=VALUE")  # fmt: skip
