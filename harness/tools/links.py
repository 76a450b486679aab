"""Other names of a tool's file: links on the way to it. What writes under another name changes the tool."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import Finding
from harness.tools.notation import shown as quoted

_MAX_LINKS = 40


def links_on(path: Path) -> dict[Path, str]:
    """Every symbolic link on the way to where `path` ends, with its text, in the order in which they are met."""
    found: dict[Path, str] = {}
    while len(found) < _MAX_LINKS:
        step = next((step for step in (*reversed(path.parents), path) if step.is_symlink()), None)
        if step is None:
            break
        found[step] = text = str(step.readlink())
        path = Path(os.path.normpath(step.parent / text)) / path.relative_to(step)
    return found


def second_name(path: Path, shown: str, names: int, root: str, base: str) -> Finding | None:
    """An error if a tool below `root` could be changed in the project `base`, both real, by another name than its own.

    `names` is how many hard links the file has. Where its links end is protected like the tool; a hard link's other
    name, and a link on the way, are not.
    """
    if names > 1:
        message = "the file has a second name (a hard link), and what is written there changes the tool"
        fix = f"make it a file of its own: cp {shown} {shown}~ && mv {shown}~ {shown}"
        return Finding("hard-link", "error", shown, 1, message, fix)
    way = [step for step in links_on(path) if step.is_relative_to(base) and not step.is_relative_to(root)]
    if not way:
        return None
    message = f"the way to the file leads over another link, {quoted(str(way[0].relative_to(base)))}"
    return Finding("link-outside", "error", shown, 1, message, "link to the file itself, or copy it")
