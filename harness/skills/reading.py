"""One skill from its folder: which file it is, where its links lead, its bytes. Opens nothing but that file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.errors import Finding
from harness.skills import Root, Skill
from harness.skills.fields import make_skill
from harness.skills.frontmatter import MAX_FILE, read_front_matter
from harness.tools.regular import read_regular


def shown(path: Path | str, project: Path) -> str:
    """The path for findings: relative to the project where it lies below it, always printable and on one line."""
    text, base = str(path), str(project).rstrip("/") + "/"
    text = text[len(base) :] if text.startswith(base) else text
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def is_skill_file(path: Path) -> bool:
    """Whether a path has the name of a skill's file, in any spelling."""
    return path.name.lower() == "skill.md"


def skill_file(names: list[str]) -> str | None:
    """Which of a folder's files is its skill: `SKILL.md`, else `skill.md`, else another spelling."""
    spellings = sorted(name for name in names if len(name) == 8 and name.lower() == "skill.md")
    for name in ("SKILL.md", "skill.md"):
        if name in spellings:
            return name
    return spellings[0] if spellings else None


def read_skill(folder: Path, name: str, root: Root, project: Path) -> Skill:
    """The skill in `folder`, whose file is called `name`. Whatever is wrong is among its findings; never raises."""
    file = folder / name
    skill = Skill(shown(folder.name, project), folder, file, root, shown=shown(file, project))
    link = next(_links_out(folder), None)
    if link is not None:
        message = f"{shown(link, project)} is a link that leads out of the skill"
        return refuse(skill, "link-outside", message, "put a copy of the file there")
    if name not in ("SKILL.md", "skill.md"):
        message = f"the file is called {name}, which other clients do not read"
        skill = _with(skill, Finding("file-case", "warning", skill.shown, 1, message, "rename it to SKILL.md"))
    try:
        data = read_bytes(file)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return refuse(skill, "unreadable", f"cannot be read: {why}", "make it a readable file")
    return make_skill(read_front_matter(data, skill.shown), skill)


def read_bytes(file: Path) -> bytes:
    """A regular file, or its first MAX_FILE + 1 bytes. Raises OSError, also for what is no regular file."""
    return read_regular(file, MAX_FILE)


def refuse(skill: Skill, code: str, message: str, fix: str) -> Skill:
    """The skill with one more finding that keeps it from being used."""
    return _with(skill, Finding(code, "refused", skill.shown, 1, message, fix))


def _with(skill: Skill, finding: Finding) -> Skill:
    return dataclasses.replace(skill, findings=(*skill.findings, finding))


def is_inside(path: str, folder: str) -> bool:
    """Whether a real path is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _links_out(folder: Path) -> Iterator[str]:
    """Links anywhere in the skill that lead out of it."""
    real = os.path.realpath(folder)
    return (link for link in links_in(str(folder)) if not is_inside(os.path.realpath(link), real))


def links_in(folder: str) -> Iterator[str]:
    """The links anywhere in a folder. None is followed."""
    todo = [folder]
    while todo:
        for entry in entries(todo.pop()):
            if entry.is_symlink():
                yield entry.path
            elif is_folder(entry):
                todo.append(entry.path)


def entries(folder: str, report: Callable[[str, str], None] | None = None) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; nothing when it cannot be read, and then `report` is told the folder and why."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        if report:
            report(folder, (error.strerror or str(error)).lower())
        return []


def is_folder(entry: os.DirEntry[str], follow: bool = False) -> bool:
    """Whether it is a folder, or with `follow` a link to one."""
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False
