"""Writes the first file of a new skill, one that passes a strict check. Never overwrites anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError
from harness.graph.block import NAME

_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TEXT = """---
name: {name}
description: Says in a sentence what {name} does. Use when a person asks for it in these words.
{tools}---

# {title}

Goal: $ARGUMENTS

1. Say here what to look at first{first}.
2. Say what to decide, and from what.
3. Say what the answer must hold.
"""


def new_skill(folder: Path, name: str, tools: Sequence[str] = ()) -> list[Path]:
    """Write `folder/NAME/SKILL.md` (`folder` is a `skills/`) and give the paths written. Raises HarnessError."""
    if not _SKILL_NAME.fullmatch(name) or len(name) > 64:
        raise HarnessError(f"{name!r} is no name of a skill", "use at most 64 of a-z, 0-9 and single dashes")
    for tool in tools:
        if not NAME.fullmatch(tool):
            raise HarnessError(f"{tool!r} is no name of a tool", "use its path below bin/, in lower case")
    path = folder / name / "SKILL.md"
    if path.parent.exists() or path.parent.is_symlink():
        raise HarnessError(f"{name!r} is there already", "choose another name, or edit it", str(path.parent))
    try:
        path.parent.mkdir(parents=True)
        path.write_text(_text(name, list(dict.fromkeys(tools))), encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise HarnessError(f"the skill cannot be written: {why}", "look at the owner and mode", str(path)) from error
    return [path]


def _text(name: str, tools: list[str]) -> str:
    return _TEXT.format(
        name=name,
        title=name.replace("-", " ").capitalize(),
        tools=f"allowed-tools: {' '.join(tools)}\n" if tools else "",
        first=f" (`{tools[0]}` is there for it)" if tools else "",
    )
