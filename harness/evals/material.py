"""The arm with one model call: the skill's text and its inputs' files, all at once, in place of tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.evals.case import Case
from harness.loop.paths import hidden_reason
from harness.loop.question import Question
from harness.skills import Skill
from harness.skills.body import substitute
from harness.tools.regular import read_regular

MOST = 256 * 1024
"""Bytes of material in one call: what a large model takes in; what is left out is said."""


def single_question(skill: Skill, case: Case, workspace: Path) -> Question:
    """The case as one question with the same material."""
    body = substitute(skill.body, case.goal, case.inputs)
    given = {**case.inputs, "material": "\n".join(_material(case, workspace))}
    return Question(f"{case.goal}\n\n{ASKED}", given, body)


ASKED = "There are no tools: answer from what is given here, in the form that the instructions ask for."


def _material(case: Case, workspace: Path) -> Iterator[str]:
    """The files that the inputs name, one after another, until there is no room."""
    left = MOST
    for path in _named(case, workspace):
        try:
            raw = read_regular(path, left)
        except OSError:
            continue
        shown = path.relative_to(workspace.resolve())
        if len(raw) > left:
            yield f"## {shown} (its first {left} bytes)\n{raw[:left].decode('utf-8', 'replace')}"
            return
        left -= len(raw)
        yield f"## {shown}\n{raw.decode('utf-8', 'replace')}"


def _named(case: Case, workspace: Path) -> Iterator[Path]:
    for value in case.inputs.values():
        path = (workspace / value).resolve()
        if not value or not path.is_relative_to(workspace.resolve()) or not path.exists():
            continue
        below = sorted(one for one in path.rglob("*") if one.is_file() and not one.is_symlink())
        files = below if path.is_dir() else [path]
        yield from (one for one in files if not hidden_reason(one.relative_to(workspace.resolve()).parts, ""))
