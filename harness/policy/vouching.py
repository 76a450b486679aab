"""Whose a file is, and whether it may act: the facts of a workspace that a decision rests on. Asks nobody."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.config import Setting, read_file
from harness.errors import HarnessError
from harness.skills.discovery import find_project, package_folder
from harness.skills.reading import is_inside

Fact = Literal["trusted", "once", "untrusted"]
SETTINGS = Path(".harness") / "config.yaml"
CLIENTS = (".agents", ".claude")


def shipped() -> tuple[str, str]:
    """The two folders that come with the package."""
    folder = package_folder()
    return str(folder / "skills"), str(folder / "bin")


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose files are: `spared` folders need nobody's word, what lies in `project` is its own."""

    project: Path
    spared: tuple[str, ...] = ()

    def owner(self, path: Path) -> Path | None:
        """The folder that must be trusted before a file may act; None for one that needs no trust."""
        if is_spared(path, self.spared):
            return None
        if is_inside(_plain(path), str(self.project)):
            return self.project
        return find_project(path.resolve().parent)


@dataclass(frozen=True, slots=True)
class Trust:
    """Which files may act in a run: those of `files` (path → how), all below `own` and `spared`, and no others."""

    files: Mapping[str, Fact] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    spared: tuple[str, ...] = field(default_factory=shipped)

    def of(self, path: Path) -> Fact:
        """How the file at a path may act."""
        plain = _plain(path)
        if is_spared(path, self.spared) or any(is_inside(plain, folder) for folder in self.own):
            return "trusted"
        return self.files.get(plain, "untrusted")


def scope_of(project: Path, home: Path, named: Iterable[str]) -> Scope:
    """The scope at a project. `named` are the folders of the user's own `skills.paths`.

    What ships with the package needs no trust, nor do a person's own skills and what their own settings name; but
    nothing in the project is spared by these.
    """
    mine = [str(home / client / "skills") for client in CLIENTS]
    theirs = [folder for folder in map(_plain, map(Path, named)) if not is_inside(folder, str(project))]
    return Scope(project, (*shipped(), *mine, *theirs))


def said_in(project: Path) -> Mapping[str, Setting] | None:
    """What a project's settings say, to be looked at before anybody believes it; None where they cannot be read."""
    try:
        return read_file(project / SETTINGS, "project", project)
    except HarnessError:
        return None


def is_spared(path: Path, spared: Iterable[str]) -> bool:
    """Whether a path lies in one of these folders; of what ships the file itself must, too, not only a link to it."""
    plain = _plain(path)
    return any(is_inside(plain, folder) and _is_real(plain, folder) for folder in spared)


def _is_real(plain: str, folder: str) -> bool:
    return folder not in shipped() or is_inside(os.path.realpath(plain), os.path.realpath(folder))


def _plain(path: Path) -> str:
    """The path as it is written, without `.` and `..`: where links lead is not asked."""
    return os.path.normpath(path.absolute())
