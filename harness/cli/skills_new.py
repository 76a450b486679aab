"""`harness skills new`: a folder with a `SKILL.md` that passes the strict check, ready to be filled in."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_json, say
from harness.cli.place import find_tool, place
from harness.errors import HarnessError

HEAD = """\
---
name: {name}
description: Say in one sentence what {name} finds out or does, and when to use it.
"""

WITH_TOOLS = """\
allowed-tools: {tools}
metadata:
  tool-dependencies: |
{block}
  requires: {last}
"""

BODY = """\
---
# {name}

The task: $ARGUMENTS

Say what a good answer contains, what to look at first, and what to do when a result is empty or a tool fails.
"""


@manual("harness skills new first-look", "harness skills new late-batch --tools check-pods,search-logs")
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="its name: small letters and digits, with - between")],
    tools: Annotated[str, typer.Option("--tools", metavar="A,B", help="tools, each waits for the one before")] = "",
) -> int:
    """Write skills/NAME/SKILL.md in the project."""
    said = globals_of(ctx)
    if len(name) > 64 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise HarnessError(f"{name} is no name for a skill", "use small letters and digits with - between: late-batch")
    at = place(said)
    names = list(dict.fromkeys(re.findall(r"[^\s,]+", tools)))
    for tool in names:
        find_tool(at, tool)
    path = at.project / "skills" / name / "SKILL.md"
    write_new(path, skill_text(name, names))
    shown = os.path.relpath(path)
    if said.json:
        print_json({"paths": [shown]})
    else:
        print(shown)
    say(said, f"next: edit it, then harness skills check {name}")
    return 0


def skill_text(name: str, tools: list[str]) -> str:
    """The file: with tools, each waits for a fresh result of the one before, and the last is required."""
    block = "\n".join(f"    {second}: {first}" for first, second in pairwise(tools))
    if len(tools) == 1:
        block = f"    {tools[0]}:"
    middle = WITH_TOOLS.format(tools=" ".join(tools), block=block, last=tools[-1]) if tools else ""
    return HEAD.format(name=name) + middle + BODY.format(name=name)


def write_new(path: Path, text: str) -> None:
    """A file that was not there before. Raises HarnessError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise HarnessError("the skill is there already", "take another name, or edit it", str(path)) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot write it: {reason}", "make the folder writable", str(path)) from error
