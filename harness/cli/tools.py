"""`harness tools list`, `show` and `check`: they read headers; only a check that is told to starts a tool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_findings, print_json, print_table, say
from harness.cli.place import Place, bins, find_tool, label, place, runs_dir, scripts
from harness.errors import Finding
from harness.tools import Tool

if TYPE_CHECKING:
    from harness.checks import Ground
    from harness.policy.vouching import Trust


@manual("harness tools", "harness tools --json")
def list_tools(ctx: typer.Context) -> int:
    """Every tool once, from the folder in which a name is found first."""
    said = globals_of(ctx)
    at = place(said)
    found: dict[str, tuple[Tool, str]] = {}
    for folder in bins(at):
        for name, tool in folder.tools.items():
            found.setdefault(name, (tool, label(at, folder.root, folder.folder)))
    if said.json:
        print_json({"tools": [row(tool, where) for tool, where in found.values()]})
        return 0
    if not found:
        say(said, "there are no tools yet; the first one: harness tools new check-lag")
        return 0
    rows = [(name, tool.effect, state(tool), where, tool.describe) for name, (tool, where) in sorted(found.items())]
    print_table(said, ("NAME", "EFFECT", "STATE", "PLACE", "DOES"), rows)
    return 0


def state(tool: Tool) -> str:
    if tool.broken:
        return "broken"
    return "ok" if tool.header else "no header"


def row(tool: Tool, where: str) -> dict[str, object]:
    """A tool as one object of a list."""
    said = {"name": tool.name, "effect": tool.effect, "repeat": tool.repeat, "state": state(tool), "place": where}
    return {**said, "describe": tool.describe, "path": str(tool.path), "pipeline": tool.pipeline}


@manual("harness tools show search-logs", "harness tools show search-logs --json")
def show(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help="a tool's name")]
) -> int:
    """What the header says, then the file and what is wrong with it. JSON: the schema of its arguments."""
    from harness.tools.usage import help_text, schema
    from harness.view.text import escape

    said = globals_of(ctx)
    at = place(said)
    tool = find_tool(at, name)
    if said.json:
        print_json(schema(tool))
        return 0
    print(escape(help_text(tool)))
    if tool.query:
        print(f"\nwhether a call happened is asked with: {escape(' '.join(tool.query))}")
    print(f"\n{escape(str(tool.path))}")
    for finding in findings_of(at, tool):
        print(escape(finding.text()))
    return 0


@manual("harness tools check", "harness tools check search-logs --strict", "harness tools check --exec",
        codes=(0, 1, 2, 3))  # fmt: skip
def check(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="tools; else the project's")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="warnings count as errors")] = False,
    execute: Annotated[bool, typer.Option("--exec", help="also run each TOOL --help, confined")] = False,
) -> int:
    """One line a finding; exit 1 if there is an error."""
    said = globals_of(ctx)
    at = place(said)
    tools, loose = ([find_tool(at, name) for name in names], []) if names else own_tools(at)
    findings = [*loose, *(finding for tool in tools for finding in findings_of(at, tool))]
    if execute and tools:
        from harness.checks import help_findings

        ground = replace(check_ground(at), trust=trust_of(at, tools))
        findings += [finding for tool in tools for finding in help_findings(ground, tool, named=bool(names))]
    return print_findings(said, findings, f"{len(tools)} tool{'' if len(tools) == 1 else 's'}", strict)


def trust_of(at: Place, tools: Sequence[Tool]) -> Trust:
    """Which of these tools may be started, without a question."""
    from harness.cli.trusting import looked_at
    from harness.runs.uses import Uses

    return looked_at(at, Uses("tools", "", tools={tool.path: tool for tool in tools}))


def check_ground(at: Place) -> Ground:
    """Where checks run what they run: confined as well as this machine can."""
    from harness.checks import ground_of
    from harness.policy.files import config_folder

    hidden = (runs_dir(at), config_folder(os.environ))
    return ground_of(at.project, hidden, [str(folder) for folder in at.config.value("tools.path")])


def own_tools(at: Place) -> tuple[list[Tool], list[Finding]]:
    """The project's tools, those of its skills' scripts among them, and the findings of their folders."""
    from harness.tools.discovery import read_bin

    tools: list[Tool] = []
    loose: list[Finding] = []
    for found in bins(at):
        if found.root.origin == "project":
            tools += found.tools.values()
            loose += found.findings
    for root, folder in scripts(at):
        if root.origin == "project":
            read, findings = read_bin(folder, at.project, script=True)
            tools += read.values()
            loose += findings
    return tools, loose


def findings_of(at: Place, tool: Tool) -> list[Finding]:
    """What a tool was read with, what a check adds, and what is wrong with a pipeline's stages."""
    from harness.tools.discovery import static_findings

    found = [*tool.findings, *static_findings(tool)]
    if tool.query:
        found += query_findings(at, tool)
    return [*found, *stage_findings(at, tool)] if tool.pipeline else found


def query_findings(at: Place, tool: Tool) -> list[Finding]:
    """What is wrong with the query of a tool, at its line."""
    from harness.cli.place import catalog
    from harness.runs.kit import file_places
    from harness.skills.stages import find_tool
    from harness.tools.block import read_block
    from harness.tools.header import read_head
    from harness.tools.wiring import check_query

    asked = find_tool(found := catalog(at), file_places(found, tool.path), tool.query[0])
    lines = read_block(read_head(tool.path), tool.file).lines
    line = next((number for number, text in lines if text.split()[:2] == ["@meta", "query"]), 1)
    return check_query(tool, asked, tool.file, line)


def stage_findings(at: Place, tool: Tool) -> list[Finding]:
    from harness.cli.place import catalog
    from harness.runs.kit import file_places
    from harness.skills import stages

    found = catalog(at)
    return list(stages.stage_findings(found, [tool], file_places(found, tool.path)))
