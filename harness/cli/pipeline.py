"""`harness pipeline FILE`: run a pipeline, or say what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.driving import drive, options_of
from harness.cli.options import globals_of, manual
from harness.cli.outcome import unfinished
from harness.cli.output import print_findings
from harness.cli.place import catalog, place
from harness.cli.run import Allow, Budget, Deny, ModelName, Out, Sandbox
from harness.cli.trusting import answered
from harness.errors import Finding, HarnessError
from harness.graph import Graph, Need
from harness.graph.draw import layers, mermaid
from harness.runs.kit import load_pipeline
from harness.runs.session import start_pipeline
from harness.runs.uses import file_uses
from harness.skills.discovery import Catalog
from harness.tools import Tool
from harness.tools.arguments import help_text, wants_help
from harness.tools.header import read_tool
from harness.tools.stages import Pipeline, read_pipeline
from harness.tools.wiring import edges, handlers
from harness.view.text import escape

CODES = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 75, 124, 130)


@manual("harness pipeline bin/triage --logs app.log", "harness pipeline --graph bin/triage", codes=CODES,
        notes=("the code of the failing stage's class, if it has one: 2 64 65 66 69 73 75 77 78 124",), foreign=True,
        streams=True)  # fmt: skip
def pipeline(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="a pipeline file")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS…]", help="its arguments")] = None,
    check: Annotated[bool, typer.Option("--check", help="print its findings, run nothing")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="print its stages in layers, run nothing")] = False,
    draw: Annotated[bool, typer.Option("--mermaid", help="print its graph as mermaid, run nothing")] = False,
    model: ModelName = None,
    budget: Budget = None,
    out: Out = None,
    allow: Allow = None,
    deny: Deny = None,
    sandbox: Sandbox = None,
) -> int:
    """Run a graph of commands, each stage as soon as what it needs has ended."""
    said, path = globals_of(ctx), Path(file)
    if wants_help(_tool(path), words or ()):
        typer.echo(escape(help_text(_tool(path))))
        return 0
    at = place(said, asks=not (check or graph or draw))
    found = catalog(at)
    if check:
        tool = _tool(path)
        return print_findings(said, [*tool.findings, *read_pipeline(tool).findings] or _fits(found, path), file, False)
    if graph or draw:
        stages = load_pipeline(found, path)[2]
        return _print_graph(stages, draw)
    said.frame = unfinished()
    load_pipeline(found, path)  # what cannot run is not asked about
    at = answered(said, at, file_uses(found, path))
    options = options_of(said, model, budget, allow or (), deny or (), at)
    return drive(said, at, lambda world: start_pipeline(world, found, path, words or (), options), out, sandbox)


def _tool(path: Path) -> Tool:
    if not path.is_file():
        raise HarnessError(f"there is no file {path}", "name a pipeline file")
    return read_tool(path.resolve(), path.stem, display=str(path))


def _fits(found: Catalog, path: Path) -> list[Finding]:
    """What is wrong between the stages and the tools they name."""
    try:
        load_pipeline(found, path)
    except HarnessError as error:
        file, _, line = (error.where or f"{path}:1").rpartition(":")
        return [Finding("bad-pipeline", "error", file, int(line) if line.isdigit() else 1, error.message, error.fix)]
    return []


def _print_graph(stages: Pipeline, draw: bool) -> int:
    names = [stage.name for stage in stages.stages]
    handled = handlers(stages)
    rules = {}
    for stage in stages.stages:
        waits = [*edges(stages, stage), *((name, True) for name in handled.get(stage.name, ()))]
        rules[stage.name] = tuple(Need(name, "ended" if optional else "fresh") for name, optional in waits)
    graph = Graph(rules)
    if draw:
        typer.echo(mermaid(graph, names))
        return 0
    for number, layer in enumerate(layers(graph, names), 1):
        for name in layer:
            needs = " ".join(need.text() for need in rules[name])
            typer.echo(f"{number}  {name}{'  <- ' + needs if needs else ''}")
    return 0
