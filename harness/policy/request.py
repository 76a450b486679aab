"""One call as it would be carried out, and what was decided on it: data, built before anything is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from harness.policy import Verdict

Values = Mapping[str, tuple[str, ...]]
"""Option name → its values as text, defaults filled in; `args` for a tool that declares no arguments."""


@dataclass(frozen=True, slots=True)
class Typed:
    """An argument as its header types it. A flag's text is true or false; `many` marks a list."""

    kind: Literal["text", "number", "flag"]
    texts: tuple[str, ...]
    many: bool = False


@dataclass(frozen=True, slots=True)
class CheckedPath:
    """A value that is a path, or may be taken for one. `real` is absolute, links resolved.

    `inside` says whether it lies in a root that the mode may use. `protected` and `hidden` name the rule that forbids
    to write or to read it, empty where none does. `linked`: the file has more than one name.
    """

    option: str
    given: str
    real: str
    mode: Literal["read", "write"]
    inside: bool
    exists: bool = False
    protected: str = ""
    hidden: str = ""
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Destination:
    """Who or what receives something. `named`: it stands whole in the user's words."""

    option: str
    value: str
    named: bool


@dataclass(frozen=True, slots=True)
class Grounding:
    """A value that must be known: where it is from; nearest known values where it is from nowhere, what it echoes.

    `written`: nothing but a person's word makes it known any more.
    """

    option: str
    value: str
    sources: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    echo: str = ""
    written: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it would be carried out.

    `known` is False for a name that is no tool of the skill, `listed` False for one outside its closed list (`near`
    holds close names). `large` says which bound the call breaks; `broken` is the finding that keeps the tool from being
    offered; `problems` what is wrong with the arguments; `needs` why it is not released. `effect_declared` is False
    when the header names no effect, `effect_from` says how it came about; `refused_before` is a person's earlier no to
    the same call; `outside` why a path may not be read. `level` is the confinement it would get, `caged` why it gets
    too little; `unconfined` that the person's policy lets the tool run without any. `auth` says which of its secrets it
    lacks, `lacking` which have no value, `ungranted` which the person's policy does not give to the tool. `halted` is
    (class, rule, reason) when calls of the tool may not start now, whatever their arguments.

    `finders` are tools that may bring a value which is not known.
    `typed` are the arguments by the name that the header writes, `--opt` or `arg`; one without a value is not there.
    `sources` says for each text of an argument where it is from (`user`, `input`, `file`, `skill`, `tool:NAME`);
    `traced` is False while only `user` was looked for. `amounts` are sums by currency. `tainted`: untrusted text is in
    the run. `attended`: somebody can be asked.
    `run`, `op` and `depth` say for whom it would be made: the run's folder, the operation, how far below the first run.
    `digest` is the SHA-256 of the tool's executable, of a skill's script that of all its scripts. `reads`: nothing but
    its network makes the call more than a read.
    `trust` says how a person stands to the tool's own file: trusted, once (only in this run) or untrusted.
    """

    tool: str
    argv: tuple[str, ...] = ()
    effect: str = "external"
    effect_declared: bool = True
    effect_from: Literal["header", "absent", "raised"] = "header"
    reads: bool = False
    repeat: str = ""
    run: str = ""
    op: int = 0
    skill: str = ""
    depth: int = 0
    path: str = ""
    digest: str = ""
    cwd: str = ""
    known: bool = True
    listed: bool = True
    near: str = ""
    empty_list: bool = False
    large: str = ""
    broken: str | None = None
    problems: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    refused_before: str | None = None
    caged: str | None = None
    auth: tuple[str, ...] = ()
    unconfined: bool = False
    level: str = ""
    values: Values = field(default_factory=dict)
    typed: Mapping[str, Typed] = field(default_factory=dict)
    outside: str | None = None
    halted: tuple[str, str, str] | None = None
    paths: tuple[CheckedPath, ...] = ()
    dests: tuple[Destination, ...] = ()
    sources: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    traced: bool = False
    grounding: tuple[Grounding, ...] = ()
    finders: tuple[str, ...] = ()
    amounts: Mapping[str, Decimal] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    ungranted: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    tainted: bool = False
    attended: bool = True
    trust: Literal["trusted", "once", "untrusted"] = "trusted"


@dataclass(frozen=True, slots=True)
class Decision:
    """`code` is the error class of a denial; `rules` what decided; `reasons` lines for the model and the person.

    `fix` is one thing to do about it, empty where there is none.
    """

    verdict: Verdict
    code: str | None = None
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = field(default=())
    fix: str = ""
