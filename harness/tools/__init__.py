"""Tools: executables with a comment header. Reading a tool never runs anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.errors import Finding

Effect = Literal["read", "write", "external", "money", "destructive"]
Repeat = Literal["pure", "keyed", "queryable", "opaque"]
Value = str | bool | int | tuple[str, ...]
"""An argument's value: text as given, a flag (bool, or a count when repeatable), or the texts of a repeatable one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared argument. `name` is the long name without dashes; `mod` is "" or one of `!`, `*`, `+`."""

    name: str
    kind: Literal["arg", "option", "flag"]
    text: str = ""
    short: str | None = None
    mod: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    notation: str | None = None
    line: int = 1

    @property
    def required(self) -> bool:
        return self.mod in ("!", "+")

    @property
    def many(self) -> bool:
        return self.mod in ("*", "+")


@dataclass(frozen=True, slots=True)
class EnvVar:
    """A secret by name: `required` for `NAME!`, `file` when the variable holds the path of a file with the value."""

    name: str
    required: bool = False
    file: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """An executable and what its header says.

    `header` is False for a tool without one (free argv, effect external, repeat opaque). `declared` is False when it
    declares no arguments (free argv). `effect_declared` is False when the effect is the default; `effect` keeps a word
    that is no effect (the tool is broken then). `timeout` and `ttl` are seconds; `ttl` None lasts as long as the run.
    `known` names parameters. `query` is the words of `@meta query`. `roles` holds the words of `writes`, `dest` and
    `limit`, and `NAME CURRENCY` for `amount`; there and in `net` (without `none`) arguments stand as the header writes
    them, `--opt` or `arg`. `pipeline` marks a `harness pipeline` script. `file` is the path as findings show it. A tool
    with an error among its findings is broken.
    """

    name: str
    path: Path
    describe: str = ""
    long: str = ""
    parameters: tuple[Parameter, ...] = ()
    header: bool = False
    effect: str = "external"
    effect_declared: bool = False
    repeat: str = "opaque"
    timeout: float = 60.0
    ttl: float | None = None
    known: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    net: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    env: tuple[EnvVar, ...] = ()
    pipeline: bool = False
    script: bool = False
    file: str = ""
    findings: tuple[Finding, ...] = ()

    @property
    def declared(self) -> bool:
        return bool(self.parameters)

    @property
    def broken(self) -> Finding | None:
        """The first finding that keeps the tool from being offered, or None."""
        return next((f for f in self.findings if f.severity == "error"), None)


def can_answer(tool: Tool | None) -> bool:
    """Whether a tool may be asked about what another did: it reads, and may run twice."""
    return tool is not None and tool.effect == "read" and tool.repeat == "pure" and tool.broken is None
