"""Which state of each skill was promoted: digests in a project's own file, newest last, and what they were tried on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.io import IO
from harness.runs.kit import skill_kit, tool_pins
from harness.skills import Skill
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.tools.regular import read_regular

FILE = Path(".harness") / "promoted.json"
SHOWN = 12
MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class Promotion:
    """One state of a skill that passed: `cases` are those it was tried on, with their digests; `passed` of them."""

    digest: str
    eval: str
    model: str
    at: str
    cases: Mapping[str, str]
    passed: tuple[str, ...]


def skill_digest(catalog: Catalog, skill: Skill) -> str:
    """SHA-256 of all that a skill's run is bound to: its file, its tools, and the same of the workers it may call."""
    seen: dict[str, Any] = {}
    left = [skill]
    while left:
        one = left.pop()
        if str(one.name) in seen:
            continue
        resolved = resolve(catalog, one)
        own = hashlib.sha256(one.file.read_bytes()).hexdigest()
        seen[one.name] = [own, sorted(tool_pins(skill_kit(resolved).tools).items())]
        left += resolved.workers.values()
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def promotions(project: Path, name: str) -> list[Promotion]:
    """What was promoted of a skill, oldest first. Raises HarnessError (exit 2) for a file that cannot be used."""
    return [_read(one, project / FILE) for one in _book(project).get(name, [])]


def put(project: Path, name: str, found: Sequence[Promotion]) -> None:
    """Remember what is promoted of a skill; nothing forgets it."""
    book = {**_book(project), name: [asdict(one) for one in found]}
    (project / FILE).parent.mkdir(exist_ok=True)
    said = {skill: kept for skill, kept in book.items() if kept}
    IO().put(project / FILE, (json.dumps(said, indent=1, sort_keys=True) + "\n").encode(), 0o644)


def _book(project: Path) -> dict[str, list[Any]]:
    path = project / FILE
    try:
        found = json.loads(read_regular(path, MOST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path) from error
    if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
        raise _unreadable(path)
    return found


def _unreadable(path: Path) -> HarnessError:
    return HarnessError("what is promoted cannot be read", "put the file back from git", str(path))


def _read(one: Any, path: Path) -> Promotion:
    try:
        made = Promotion(**{**one, "passed": tuple(map(str, one["passed"]))})
        if not isinstance(made.cases, dict) or not all(isinstance(text, str) for text in _texts(made)):
            raise TypeError
        return made
    except (TypeError, KeyError, AttributeError) as error:
        raise _unreadable(path) from error


def _texts(made: Promotion) -> tuple[Any, ...]:
    return (made.digest, made.eval, made.model, made.at, *made.cases, *made.cases.values())


def unpromoted(project: Path, catalog: Catalog, skill: Skill) -> str | None:
    """What to say of a skill that is not what was promoted; None where it is, or where nothing ever was."""
    found = promotions(project, skill.name)
    if not found or found[-1].digest == skill_digest(catalog, skill):
        return None
    newest = found[-1]
    fix = f"harness skills promote {skill.name}"
    return f"{skill.name} is not what was promoted on {newest.at[:10]} ({newest.digest[:SHOWN]}): {fix}"


def regressed(promoted: Promotion, cases: Mapping[str, str], passed: Sequence[str]) -> list[str]:
    """The cases that the promoted state passed and this one does not, where the case is the same still."""
    same = [case for case in promoted.passed if cases.get(case) == promoted.cases.get(case)]
    return sorted(set(same) - set(passed))
