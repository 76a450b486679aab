"""`harness tools run`: one call by hand, gated and journaled as in a run."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.place import Place, catalog, find_tool, place
from harness.errors import DeniedError, HarnessError, near_text
from harness.policy import EFFECTS
from harness.tools import Tool
from harness.tools.arguments import help_text, parse, refusal, wants_help
from harness.view.text import escape

Allow = Annotated[list[str] | None, typer.Option("--allow", metavar="CALL", help="allow 'TOOL --opt=value' this time")]
Deny = Annotated[list[str] | None, typer.Option("--deny", metavar="TOOL", help="deny a tool this time")]
Sandbox = Annotated[str | None, typer.Option("--sandbox", metavar="LEVEL", help="at least: landlock or full")]
CODES = (0, 1, 2, 3, 5, 7, 11, 75, 124, 130)


@manual("harness tools run search-logs --logs app.log", codes=CODES, foreign=True, streams=True,
        notes=("the tool's own code where it carries a class: 2 64 65 66 69 73 75 77 78 124",))  # fmt: skip
def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="a tool's name")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS…]", help="its arguments")] = None,
    skill: Annotated[str | None, typer.Option("--skill", metavar="S", help="the tool as this skill means it")] = None,
    allow: Allow = None,
    deny: Deny = None,
    sandbox: Sandbox = None,
) -> int:
    """Run one tool: its standard output is printed, its receipt kept."""
    said = globals_of(ctx)
    at = place(said, asks=True)
    tool = _of_skill(at, name, skill) if skill else find_tool(at, name)
    args = list(words or ())
    if tool.broken is None and wants_help(tool, args):
        typer.echo(escape(help_text(tool)))
        return 0
    _check(tool, args)
    from harness.cli.driving import drive, options_of
    from harness.cli.trusting import answered
    from harness.runs.session import start_tool
    from harness.runs.uses import tool_uses

    found = catalog(at)
    at = answered(said, at, tool_uses(found, tool))
    options = options_of(said, None, None, allow or (), deny or (), at)
    return drive(said, at, lambda world: start_tool(world, found, tool, args, options), sandbox=sandbox)


def _of_skill(at: Place, name: str, skill: str) -> Tool:
    """The tool that a skill means by a name. Raises HarnessError."""
    from harness.skills.check import resolve
    from harness.skills.names import find

    found = catalog(at)
    tools = resolve(found, find(found, skill)).tools
    tool = tools.get(name)
    if tool is None:
        raise HarnessError(f"{name} is no tool of {skill}{near_text(name, tools)}", f"harness skills show {skill}")
    return tool


def _check(tool: Tool, args: list[str]) -> None:
    """Refuse what cannot run before a folder is made for it."""
    if tool.effect not in EFFECTS:
        what = f"{tool.name} declares the unknown effect {tool.effect!r}{near_text(tool.effect, EFFECTS)}"
        raise DeniedError(what, f"write one of {' '.join(EFFECTS)}", str(tool.path))
    if tool.broken is not None:
        where = f"{tool.broken.file}:{tool.broken.line}"
        raise HarnessError(f"{tool.name} is broken: {tool.broken.message}", tool.broken.fix, where, code=78)
    problems = parse(tool, args)[1]
    if problems:
        raise HarnessError(refusal(tool, problems), f"harness tools show {tool.name}")
