"""What a call says, with secrets masked before it is written down: no proposal brings a value to a tool.

A tool's name, a path and a destination are left as they are: whoever approves a call must see where it goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.events.hiding import masked, masked_text
from harness.loop.run import Run
from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import parse
from harness.tools.meta import spelled

PLACES = ("PATH", "FILE", "DIR")
SEEN_ROLES = ("dest", "writes")


def arguments(run: Run, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model's call, as they are journaled, judged and carried out."""
    args, tool = given.get("args"), given.get("tool")
    found: dict[str, Any] = hide_all(run, given)
    if verb == "run" and isinstance(tool, str) and _is_named(run, tool):
        found["tool"] = tool
        if isinstance(args, list) and all(isinstance(word, str) for word in args):
            found["args"] = words(run, tool, args)
    path = given.get("path")
    if verb == "read" and isinstance(path, str) and _is_there(run, path):
        found["path"] = path
    return found


def words(run: Run, name: str, args: Sequence[str]) -> list[str]:
    """The words of a call of this tool."""
    found = [text(run, word) for word in args]
    tool = run.toolset.tools.get(name) or run.toolset.workers.get(name)
    if found == list(args) or tool is None:
        return found
    seen = _seen_values(tool, args)
    return [word if _shows(word, seen) else made for word, made in zip(args, found, strict=True)]


def inputs(run: Run, values: Mapping[str, Value], parameters: Iterable[Parameter] = ()) -> dict[str, Any]:
    """The inputs that a run begins with; a path stays one."""
    paths = {parameter.name for parameter in parameters if parameter.notation in PLACES}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: value if key in paths else hide_all(run, value) for key, value in plain.items()}


def text(run: Run, given: str) -> str:
    """Any other text of a person or a model."""
    return masked_text(given, run.masker.raw, run.log.found)


def hide_all(run: Run, value: Any) -> Any:
    """Everything in a value of a person or a model."""
    return masked(value, run.masker.raw, run.log.found)


def _is_named(run: Run, tool: str) -> bool:
    return tool in run.toolset.tools or tool in run.toolset.workers


def _is_there(run: Run, path: str) -> bool:
    return "\0" not in path and os.path.lexists(run.project / path)


def _seen_values(tool: Tool, args: Sequence[str]) -> set[str]:
    """The values of paths and destinations in these words."""
    open_words = {word for role in SEEN_ROLES for word in tool.roles.get(role, ())} | set(tool.net)
    values = parse(tool, args)[0]
    found: set[str] = set()
    for parameter in tool.parameters:
        value = values.get(parameter.name)
        if parameter.notation in PLACES or spelled(parameter) in open_words:
            found.update((value,) if isinstance(value, str) else value if isinstance(value, tuple) else ())
    return found


def _shows(word: str, seen: set[str]) -> bool:
    """Whether a word is such a value, alone or behind its option."""
    return word in seen or (word.startswith("--") and word.partition("=")[2] in seen)
