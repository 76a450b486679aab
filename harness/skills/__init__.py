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
    """A place where skills are found, and the `bin/` it brings. `origin`: project, config, user, package or path.

    `path` is the parent of a skill that was named by its path and lies in none of the places.
    """

    skills: Path
    bin: Path | None
    origin: str


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as read. `name` is its folder's, `declared_name` the one in the file, empty when absent.

    `allowed` keeps the order of `allowed-tools` (`closed`), else holds the names of the block; foreign names apart.

    `graph` is the dependency block; `verify` holds the words of each verifier; `budget` maps a key of `budget:` to
    its number (seconds in seconds, usd as text). `body` is the Markdown after the front matter, without CR.
    `shown` is the file as findings name it, `lines` the line of each key in it, `body_line` that of the body's first.
    `native` is True when the metadata limits a run in our words. `refused` keeps it from being used at all.
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
    agents_md: bool = True
    native: bool = False
    closed: bool = False
    shown: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    body_line: int = 1
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
    """What a skill's names mean here: tools and workers by name, and the findings about the whole skill.

    `tools` holds also the verifiers and the pipeline; what may be called is `skill.allowed`, which names the tools in
    `scripts/` when neither `allowed-tools` nor a block names any.
    """

    skill: Skill
    tools: Mapping[str, Tool] = field(default_factory=dict)
    workers: Mapping[str, Skill] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
