"""Whether a pipeline's stages fit together: who waits for whom, and what names a stage that cannot be. Runs nothing.

Also whether a tool's query fits the tool that it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from harness.errors import Finding, near_text
from harness.tools import Tool, can_answer
from harness.tools.arguments import parse
from harness.tools.expression import FAILED_FIELDS, Ref, Word
from harness.tools.meta import PLACE
from harness.tools.notation import shown
from harness.tools.stages import RESERVED, Pipeline, Stage, bad_pipeline

Resolve = Callable[[str], Tool | Literal["worker"] | None]
"""What a stage's first word means: a tool, a worker (whose words are checked when it is called), or nothing."""

_RELAXED = {"": "", "!": "", "*": "*", "+": "*"}
_UNKNOWN = "\ufffc"  # stands for a text that is known only when the stage runs


def edges(pipeline: Pipeline, stage: Stage) -> tuple[tuple[str, bool], ...]:
    """The stages it waits for, as (name, optional): written ones, those its words hold, and (optional) those of `when`.

    A plain edge wins over an optional one. A name that several stages share makes their edges optional, because not
    all of them need to run.
    """
    made: dict[str, bool] = dict(stage.needs)
    for ref in _stage_refs(stage):
        shared = pipeline.sharing(ref.root)
        for other in shared:
            made[other.name] = made.get(other.name, True) and len(shared) > 1
    if stage.when is not None:
        for other in pipeline.sharing(stage.when.ref.root):
            made.setdefault(other.name, True)
    return tuple(made.items())


def handlers(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Each stage that runs only when another fails, with the stages whose failure it handles."""
    made: dict[str, tuple[str, ...]] = {}
    for stage in pipeline.stages:
        if stage.on_failure is not None:
            made[stage.on_failure] = (*made.get(stage.on_failure, ()), stage.name)
    return made


def check_pipeline(pipeline: Pipeline, tool: Tool, resolve: Resolve, known: Iterable[str] = ()) -> list[Finding]:
    """Every `bad-pipeline` of a pipeline that `tool` holds; `known` are the names that may be meant by a wrong one."""
    found = list(pipeline.findings)
    file = tool.file or str(tool.path)
    for stage in pipeline.stages:
        for problem in (
            *_references(pipeline, stage, tool),
            *_waits(pipeline, stage),
            *_command(stage, resolve, tuple(known)),
        ):
            found.append(bad_pipeline(file, *problem))
    found += [bad_pipeline(file, *problem) for problem in (*_shared_names(pipeline), *_cycle(pipeline))]
    return sorted(found, key=lambda finding: (finding.line, finding.code, finding.message))


_Problem = tuple[int, str, str]
"""(line, message, fix)"""


def _stage_refs(stage: Stage) -> list[Ref]:
    return [ref for word in stage.run for ref in word.refs if ref.root not in RESERVED]


def _references(pipeline: Pipeline, stage: Stage, tool: Tool) -> Iterator[_Problem]:
    refs = [(word.line, ref) for word in stage.run for ref in word.refs]
    if stage.when is not None:
        refs.append((stage.lines.get("when", stage.line), stage.when.ref))
    for line, ref in refs:
        if wrong := _reference(pipeline, stage, tool, ref):
            yield line, f"in stage {stage.name}, {ref.text()} {wrong}", "correct the reference"


def _reference(pipeline: Pipeline, stage: Stage, tool: Tool, ref: Ref) -> str | None:
    if ref.root == "inputs":
        names = [parameter.name for parameter in tool.parameters]
        if len(ref.path) != 1:
            return "does not name one input"
        return None if ref.path[0] in names else f"is no declared input{near_text(ref.path[0], names)}"
    if ref.root == "failed":
        if stage.name not in handlers(pipeline):
            return "stands in a stage that handles no failure"
        return None if ref.path in [(name,) for name in FAILED_FIELDS] else f"is none of {', '.join(FAILED_FIELDS)}"
    if pipeline.sharing(ref.root):
        return None
    return f"names no stage{near_text(ref.root, _names(pipeline))}"


def _waits(pipeline: Pipeline, stage: Stage) -> Iterator[_Problem]:
    names = _names(pipeline)
    for name, _ in stage.needs:
        if name not in names:
            message = f"stage {stage.name} needs {name}, which is no stage{near_text(name, names)}"
            yield stage.lines.get("needs", stage.line), message, "correct the name"
    handler, line = stage.on_failure, stage.lines.get("on-failure", stage.line)
    if handler is not None and handler not in names:
        message = f"on-failure of {stage.name} names {handler}, which is no stage{near_text(handler, names)}"
        yield line, message, "correct the name"
    elif handler == stage.name or handler in dict(edges(pipeline, stage)):
        message = f"stage {stage.name} waits for {handler}, which runs only when {stage.name} fails"
        yield line, message, "take another stage as handler, or remove the need"


def _command(stage: Stage, resolve: Resolve, known: Sequence[str]) -> Iterator[_Problem]:
    if not stage.run:
        return
    first, line = stage.run[0], stage.run[0].line
    if first.refs:
        yield line, f"stage {stage.name} begins with {shown(first.text)}, which is no fixed name", "begin with a tool"
    elif first.text == "harness":
        if len(stage.run) < 2 or stage.run[1].text != "prompt":
            yield line, f"stage {stage.name} runs harness with another word than prompt", "write [harness, prompt, ...]"
    elif (target := resolve(first.text)) is None:
        near = near_text(first.text, known)
        fix = "correct the name, or create that tool"
        yield line, f"stage {stage.name} runs {shown(first.text)}, which is no tool{near}", fix
    elif target != "worker":
        yield from _tool_command(stage, target)


def _tool_command(stage: Stage, target: Tool) -> Iterator[_Problem]:
    if broken := target.broken:
        message = f"stage {stage.name} runs {target.name}, which is broken: {broken.file}:{broken.line} {broken.code}"
        yield stage.run[0].line, message, "mend the tool"
    elif target.declared:
        fix = f"look: harness tools show {target.name}"
        for problem in _template_problems(target, stage.run[1:]):
            yield stage.run[0].line, f"in stage {stage.name}, {target.name}: {problem}", fix


def _template_problems(target: Tool, words: Sequence[Word]) -> list[str]:
    """What is wrong with a call some of whose texts are known only later."""
    if any(word.lone for word in words):  # it may stand for any number of positional arguments, so none is missing yet
        relaxed = [replace(p, mod=_RELAXED[p.mod]) if p.kind == "arg" else p for p in target.parameters]
        target = replace(target, parameters=tuple(relaxed))
    texts = ["".join(part if isinstance(part, str) else _UNKNOWN for part in word.parts) for word in words]
    return _sure_problems(target, texts)


def _sure_problems(target: Tool, texts: Sequence[str]) -> list[str]:
    return [problem for problem in parse(target, texts)[1] if _UNKNOWN not in problem]


def check_query(tool: Tool, asked: Tool | None, file: str, line: int) -> list[Finding]:
    """What is wrong with a tool's `@meta query`; `asked` is what its first word means. The place is where to say it."""
    name = tool.query[0]
    if not can_answer(asked):
        message = f"{name}, the query of {tool.name}, is no read that may run twice: so it is opaque"
        fix = f"create bin/{name} with effect read, or correct the query"
        return [Finding("query-missing", "warning", file, line, message, fix)]
    assert asked is not None
    texts = [PLACE.sub(_UNKNOWN, word) for word in tool.query[1:]]
    fix = f"correct @meta query; look: harness tools show {name}"
    return [
        Finding("query-words", "error", file, line, f"the query of {tool.name} cannot be asked: {name}: {problem}", fix)
        for problem in _sure_problems(asked, texts)
    ]


def _shared_names(pipeline: Pipeline) -> Iterator[_Problem]:
    names = _names(pipeline)
    earlier: set[str] = set()
    for stage in pipeline.stages:
        line = stage.lines.get("as", stage.line)
        shared = stage.as_name != stage.name
        if shared and stage.as_name in names:
            yield line, f"stage {stage.name} is kept as {stage.as_name}, which is another stage", "choose another name"
        elif shared and stage.as_name in earlier and stage.as_name not in pipeline.merge:
            fix = f"add merge: {{{stage.as_name}: one}} beside stages"
            yield line, f"several stages are kept as {stage.as_name}, and no merge says how", fix
        earlier.add(stage.as_name)
    for name in pipeline.merge:
        if name not in earlier:
            message = f"merge names {shown(name)}, as which no stage is kept{near_text(name, earlier)}"
            yield pipeline.stages[0].line if pipeline.stages else 1, message, "correct or remove it"


def _cycle(pipeline: Pipeline) -> Iterator[_Problem]:
    """The first cycle over all edges, in waiting order from its first stage in the file."""
    order = _names(pipeline)
    waits: dict[str, set[str]] = {
        stage.name: {name for name, _ in edges(pipeline, stage) if name in order} for stage in pipeline.stages
    }
    for handler, failing in handlers(pipeline).items():  # one that its own stage waits for has been complained of
        if handler in waits:
            waits[handler] |= {name for name in failing if handler not in waits[name] and handler != name}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        ring = list(reversed(error.args[1]))[:-1]
        start = min(range(len(ring)), key=lambda index: order.index(ring[index]))
        ring = [*ring[start:], *ring[:start], ring[start]]
        line = pipeline.stages[order.index(ring[0])].line
        yield line, " waits for ".join(ring), "remove one of these edges"


def _names(pipeline: Pipeline) -> list[str]:
    return [stage.name for stage in pipeline.stages]
