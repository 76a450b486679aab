"""Skills: directories with a `SKILL.md`. Reading one never blocks on what it can mend, and never runs anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Finding
from harness.graph import Graph
from harness.tools import Parameter, Tool


@dataclass(frozen=True, slots=True)
class Root:
    """A place where skills are found, and the `bin/` it brings. `origin`: project, config, user or package."""

    skills: Path
    bin: Path | None
    origin: str


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as read. `allowed` keeps the order of `allowed-tools` (or what stands in for it), foreign names apart.

    `graph` is the dependency block; `verify` holds the words of each verifier; `budget` maps a key of `budget:` to
    its number (seconds in seconds, usd as text). `body` is the Markdown after the front matter, without CR.
    `refused` is the finding that keeps it from being used at all.
    """

    name: str
    folder: Path
    file: Path
    root: Root
    description: str = ""
    body: str = ""
    allowed: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    graph: Graph = field(default_factory=Graph)
    requires: tuple[str, ...] = ()
    verify: tuple[tuple[str, ...], ...] = ()
    budget: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    pipeline: str | None = None
    inputs: tuple[Parameter, ...] = ()
    declared_name: str = ""
    aliases: tuple[str, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    no_worker: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def refused(self) -> Finding | None:
        return next((f for f in self.findings if f.severity == "refused"), None)

    @property
    def broken(self) -> Finding | None:
        """The first finding that stops `harness run`, or None."""
        return next((f for f in self.findings if f.severity in ("refused", "error")), None)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a skill's names mean here: tools and workers by name, and the findings about the whole skill (2.6)."""

    skill: Skill
    tools: Mapping[str, Tool] = field(default_factory=dict)
    workers: Mapping[str, Skill] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
