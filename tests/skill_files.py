"""Folders for tests of skills: a project, its tools, and the shared cases where they are there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from harness.skills import Skill
from harness.skills.discovery import Catalog, read_catalog

HEADER = "#!/bin/sh\n# @describe {describe}\n# @option --batch <ID>  the batch\n# @meta effect {effect}\n"
LOADERS = ("c", "pure")


def shared_cases() -> Path:
    """The folder of irregular skills, or a visible skip."""
    named = os.environ.get("HARNESS_SHARED")
    above = [folder / "shared" for folder in Path(__file__).resolve().parents]
    for shared in [Path(named)] if named else above:
        if (shared / "cases" / "skills").is_dir():
            return shared / "cases" / "skills"
    pytest.skip("the shared cases are not here")


def use_loader(monkeypatch: pytest.MonkeyPatch, loader: str) -> None:
    """Take PyYAML's C loader away for the test when `loader` is `pure`."""
    if loader == "pure":
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)


def make_tool(project: Path, name: str, effect: str = "read", header: str = HEADER, folder: str = "bin") -> Path:
    path = project / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header.format(describe=f"What {name} does", effect=effect))
    path.chmod(0o755)
    return path


def make_skill(project: Path, name: str, front: str = "", body: str = "Do it.\n", place: str = "skills") -> Path:
    """A skill with this front matter, or a plain one; `front` without name and description gets them."""
    if "description:" not in front:
        front = f"description: Does a thing. Use for tests.\n{front}"
    if "name:" not in front:
        front = f"name: {name}\n{front}"
    path = project / place / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front.rstrip()}\n---\n\n{body}")
    return path


def catalog_of(project: Path, *paths: Path) -> Catalog:
    """The project's catalog, with an empty home and nothing shipped."""
    (project / ".harness").mkdir(exist_ok=True)
    return read_catalog(project, project.parent / "no-home", paths, project.parent / "no-package")


def only_skill(project: Path, name: str) -> Skill:
    return next(skill for skill in catalog_of(project).skills if skill.name == name)


def codes(findings: object, *severities: str) -> list[str]:
    """Codes of findings, sorted, of these severities or of all."""
    return sorted(f.code for f in findings if not severities or f.severity in severities)  # type: ignore[attr-defined]


def copy_cases(project: Path) -> Path:
    """The cases as the project's `skills/`, the link a link again, and the two tools they name."""
    target = project / "skills"
    shutil.copytree(shared_cases(), target, symlinks=True)
    link = target / "linked-skill"
    if not link.is_symlink():  # a checkout without links
        to = link.read_text().strip()
        target.chmod(0o755)
        link.unlink()
        link.symlink_to(to)
    for name in ("count-lines", "show-total"):
        make_tool(project, name)
    return target
