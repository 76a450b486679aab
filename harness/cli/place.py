"""Where a command works: the project, its settings, the pairs of folders with skills and tools, and what is in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.cli.options import Globals
from harness.config import Config, load
from harness.errors import Finding, HarnessError, near_text
from harness.skills import Root
from harness.skills.discovery import find_project, find_roots
from harness.tools import Tool


@dataclass(frozen=True, slots=True)
class Place:
    """A project as a command sees it. `roots` are in the order in which a name is looked for."""

    project: Path
    config: Config
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Bin:
    """The tools of one folder, and the findings that belong to none of them."""

    folder: Path
    root: Root
    tools: dict[str, Tool]
    findings: tuple[Finding, ...]


def project_root() -> Path:
    return find_project(Path.cwd())


def place(said: Globals, flags: dict[str, tuple[str, str]] | None = None) -> Place:
    """Read settings and find the roots; warnings of the settings go to stderr. Raises HarnessError."""
    project = project_root()
    if said.output is not None and said.output != "stream-json":
        flags = {"output": (said.output, "--output"), **(flags or {})}
    config = load(project, flags)
    apply(said, config)
    return Place(project, config, tuple(find_roots(project, config.value("skills.paths"))))


def apply(said: Globals, config: Config) -> None:
    """Let the settings fill in what no global option said."""
    if said.output is None:
        said.output = config.value("output")
    said.plain = said.plain or config.value("view") == "plain"
    said.no_color = said.no_color or config.value("color") == "never"
    if not said.quiet:
        for warning in config.warnings:
            print(f"warning: {warning}", file=sys.stderr)
