"""Where a command works: the project, its settings, the pairs of folders with skills and tools, and what is in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import Globals
from harness.config import Config, load
from harness.errors import Finding, HarnessError, near_text
from harness.policy.files import state_folder
from harness.policy.vouching import SETTINGS, Scope, Trust, said_in, scope_of
from harness.skills import Root
from harness.skills.discovery import find_project, find_roots
from harness.tools import Tool

if TYPE_CHECKING:
    from harness.policy.ledger import Ledger
    from harness.skills.discovery import Catalog

EVALS = Path(".harness") / "evals"
"""Where evaluations are kept, below the project."""


@dataclass(frozen=True, slots=True)
class Place:
    """A project as a command sees it. `roots` are in the order in which a name is looked for.

    `paths` are the folders of `skills.paths`. `trust` says which files may act; until somebody has answered none of the
    project's, and its settings are `withheld`: not read but for the places of its skills, so that these can be listed.
    `lent` are the files, by folder, that only the run that is begun may use.
    """

    project: Path
    config: Config
    roots: tuple[Root, ...]
    paths: tuple[Path, ...] = ()
    trust: Trust = field(default_factory=Trust)
    withheld: bool = False
    lent: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bin:
    """The tools of one folder, and the findings that belong to none of them."""

    folder: Path
    root: Root
    tools: dict[str, Tool]
    findings: tuple[Finding, ...]


def project_root() -> Path:
    """The folder of the project we are in. Raises HarnessError where the current folder is gone."""
    try:
        return find_project(Path.cwd())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot work in the current folder: {reason}", "go to another folder") from error


def place(said: Globals, flags: dict[str, tuple[str, str]] | None = None, asks: bool = False) -> Place:
    """Read settings and find the roots; warnings of the settings go to stderr. Raises HarnessError.

    A project's settings that nobody trusts are left out, and that is said unless the command `asks` about them.
    """
    project = project_root()
    withheld = (project / SETTINGS).exists() and not is_believed(project)
    at = settled(said, project, withheld, flags)
    warnings = list(at.config.warnings)
    if withheld and not asks:
        warnings.append(f"{SETTINGS} is not read: nobody trusts this project yet; fix: harness trust")
    for warning in () if said.quiet else warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return at


def settled(
    said: Globals, project: Path, withheld: bool = False, flags: dict[str, tuple[str, str]] | None = None
) -> Place:
    """The place with the project's settings, or without them, and what they fill in. Raises HarnessError."""
    if said.output is not None and said.output != "stream-json":
        flags = {"output": (said.output, "--output"), **(flags or {})}
    config = load(None if withheld else project, flags)
    apply(said, config)
    named = config.settings["skills.paths"]
    if withheld:
        named = (said_in(project) or {}).get("skills.paths", named)
    paths = tuple(Path(folder) for folder in named.value)
    return Place(project, config, find_roots(project, Path.home(), paths), paths, withheld=withheld)


def is_believed(project: Path) -> bool:
    """Whether a project's settings count: its own person trusts them as they are, or they say nothing."""
    from harness.policy.pins import pin
    from harness.policy.trust import read_book

    try:
        entry = read_book(state_folder(os.environ), Path.home()).of(project)
        if entry is not None and (entry.own or entry.files.get(str(SETTINGS)) == pin(project / SETTINGS)):
            return True
    except HarnessError:
        return False  # whoever starts anything is told why
    return said_in(project) == {}


def scope(at: Place) -> Scope:
    """Whose files are, at this place."""
    named = at.config.own.get("skills.paths")
    return scope_of(at.project, Path.home(), named.value if named is not None else ())


def catalog(at: Place) -> Catalog:
    """Every skill that is found from here."""
    from harness.skills.discovery import read_catalog

    return read_catalog(at.project, Path.home(), at.paths)


def apply(said: Globals, config: Config) -> None:
    """Let the settings fill in what no global option said."""
    if said.output is None:
        said.output = config.value("output")
    said.plain = said.plain or config.value("view") == "plain"
    said.glyphs = config.value("glyphs")
    said.no_color = said.no_color or config.value("color") == "never"


def bins(at: Place) -> Iterator[Bin]:
    """Each `bin/` that brings tools, in the order in which a name is looked for."""
    from harness.tools.discovery import read_bin

    seen: set[Path] = set()
    for root in at.roots:
        if root.bin is None or root.bin in seen:
            continue
        seen.add(root.bin)
        tools, findings = read_bin(root.bin, at.project if root.origin == "project" else None)
        yield Bin(root.bin, root, tools, tuple(findings))


def scripts(at: Place) -> Iterator[tuple[Root, Path]]:
    """The `scripts/` of each skill that is found."""
    for root in at.roots:
        for folder in sorted(root.skills.glob("*/scripts")) if root.skills.is_dir() else ():
            yield root, folder


def found_tool(at: Place, name: str) -> Tool | None:
    """The same as `find_tool`, or None where a name means nothing here."""
    try:
        return find_tool(at, name)
    except HarnessError:
        return None


def find_tool(at: Place, name: str) -> Tool:
    """What a name means here: the first `bin/` that has it, else a skill's own script. Raises HarnessError."""
    from harness.tools.discovery import read_bin

    known: list[str] = []
    for found in bins(at):
        if name in found.tools:
            return found.tools[name]
        known += found.tools
    for root, folder in scripts(at):
        tools, _ = read_bin(folder, at.project if root.origin == "project" else None, script=True)
        if name in tools:
            return tools[name]
        known += tools
    for found in bins(at):
        if (found.folder / name).is_file():
            where = shown(at, found.folder / name)
            raise HarnessError(f"{where} is no tool: it is not executable", f"chmod +x {where}")
    looked = ", ".join(shown(at, root.bin) for root in at.roots if root.bin is not None)
    fix = f"harness tools lists them; a new one: harness tools new {name}"
    raise HarnessError(f"there is no tool {name}{near_text(name, known)}", fix, f"looked in {looked}")


def runs_dir(at: Place) -> Path:
    """Where runs are kept: below the project unless the user says otherwise."""
    return at.project / Path(at.config.value("runs.dir")).expanduser()


def logs() -> Path:
    """Where the digests of journals and of a person's words are kept, out of reach of every tool."""
    return state_folder(os.environ) / "logs"


def ledger(at: Place) -> Ledger:
    """What this person remembers of approvals, for runs of the project."""
    from harness.events.io import IO
    from harness.policy.ledger import Ledger

    return Ledger(state_folder(os.environ), Path.home(), at.project, IO())


def shown(at: Place, path: Path) -> str:
    """A path as a person knows it: below the project, below `~`, or as it is."""
    if path.is_relative_to(at.project):
        return str(path.relative_to(at.project))
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def label(at: Place, root: Root, path: Path) -> str:
    """Where something came from, for a table."""
    return "shipped" if root.origin == "package" else shown(at, path)
