"""What a person is shown of a project before anything of it may act, from its headers and files as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.policy import EFFECTS
from harness.policy.effects import effect_of
from harness.policy.pins import bytes_of, copy_of, cut_lines, difference
from harness.policy.settings import PROJECT_FILE as POLICY
from harness.policy.trust import Entry
from harness.policy.vouching import SETTINGS, Scope, said_in
from harness.prompt.texts import GUIDES
from harness.runs.uses import Part, Uses, name_of
from harness.skills import Skill
from harness.tools import Tool

MOST_LINES = 120
"""Lines of one file's difference."""
FOREIGN = "it was not begun here, but came with the folder: what it holds as approved would be done"
Line = tuple[str, str]
"""A label and what stands behind it, not escaped."""


def listing(uses: Uses, scope: Scope, parts: Iterable[Part]) -> list[Line]:
    """What would be used, one line a thing, what ships with the harness on one line, and the sums at the end."""
    paths = {path for part in parts for path in part.paths}
    theirs = [tool for tool in uses.tools.values() if tool.path in paths]
    skills = [found.skill for found in uses.skills.values() if scope.owner(found.skill.file)]
    lines = [line for skill in skills for line in _skill(skill, uses, scope)]
    lines += [(_role(tool, uses), _tool(tool, scope)) for tool in theirs]
    others = sorted(tool.name for tool in uses.tools.values() if tool.path not in paths)
    lines += [("trusted already", ", ".join(others))] if others else []
    lines += [("run", FOREIGN)] if uses.is_foreign else []
    return [*lines, *_said(scope.project, paths), ("in all", _sums(theirs))]


def _skill(skill: Skill, uses: Uses, scope: Scope) -> Iterator[Line]:
    label = "skill" if str(skill.file) == uses.key or not uses.key else "worker"
    yield label, f"{skill.name} ({_shown(skill.folder, scope)})"
    if skill.inputs:
        yield "inputs", ", ".join(f"{p.name} {p.notation}" if p.notation else p.name for p in skill.inputs)
    ignored = [*skill.foreign, *(f.message for f in skill.findings if f.code == "not-run")]
    if ignored:
        yield "ignored here", ", ".join(ignored)


def _role(tool: Tool, uses: Uses) -> str:
    if tool.pipeline:
        return "pipeline"
    return "verifier" if tool.name in uses.verifiers else "tool"


def _tool(tool: Tool, scope: Scope) -> str:
    said = [f"{_shown(tool.path, scope)} {'stages, each decided by itself' if tool.pipeline else effect_of(tool)[0]}"]
    said += [] if tool.header else ["no header"]
    said += [f"broken: {tool.broken.message}"] if tool.broken else []
    said += [f"network {host}" for host in tool.net if host != "none"]
    said += [f"secret {variable.name}" for variable in tool.env]
    return " · ".join(said)


def _shown(path: Path, scope: Scope) -> str:
    return name_of(scope.project, path)


def _said(project: Path, paths: Iterable[Path]) -> Iterator[Line]:
    for path in paths:
        if path == project / SETTINGS:
            keys = said_in(project)
            sets = "cannot be read" if keys is None else f"sets {', '.join(sorted(keys))}"
            yield "settings", f"{SETTINGS} {sets}"
        elif path == project / POLICY:
            yield "policy", f"{POLICY} (it can only narrow yours)"
        elif path.parent == project and path.name in GUIDES:
            yield "words", f"{path.name}, told to the model as the project's own"


def _sums(tools: list[Tool]) -> str:
    plain = [tool for tool in tools if not tool.pipeline]
    count = {effect: sum(effect_of(tool)[0] == effect for tool in plain) for effect in EFFECTS}
    total = f"{len(plain)} tool{'' if len(plain) == 1 else 's'}"
    said = [total, *(f"{number} {effect}" for effect, number in count.items() if number)]
    networked = sum(any(host != "none" for host in tool.net) for tool in plain)
    secret = sum(bool(tool.env) for tool in plain)
    said += [f"{networked} with network"] if networked else []
    return ", ".join([*said, *([f"{secret} with a secret"] if secret else [])])


def changes(part: Part, entry: Entry | None, copies: Path) -> list[str]:
    """What differs from what was trusted, file by file, as lines of a diff; nothing where nothing was."""
    standing, lines = part.standing, list[str]()
    if standing.word != "changed" or entry is None:
        return lines
    for name in standing.changed:
        lines += _difference(name, part.owner / name, entry.files[name], part.pins[name], copies)
    for name in standing.added:
        lines += [f"new: {name}", *cut_lines(_body(bytes_of(part.owner / name), "+"))]
    return [*lines, *(f"gone: {name}" for name in standing.removed)]


def _difference(name: str, path: Path, before: str, now: str, copies: Path) -> list[str]:
    kinds = before.split()[0], now.split()[0]
    first = f"changed: {name}" + (f" (was a {kinds[0]}, is a {kinds[1]})" if kinds[0] != kinds[1] else "")
    return [first, *difference(copy_of(copies, before), path)]


def _body(data: bytes | None, mark: str) -> list[str]:
    if data is None or b"\0" in data:
        return ["  (its bytes cannot be shown)"]
    return [f"{mark}{line}" for line in data.decode("utf-8", "replace").splitlines()]
