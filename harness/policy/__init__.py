"""What may follow a proposal. The model proposes; nothing here asks it, and nothing it says about itself counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

Level = Literal["none", "limits", "landlock", "full"]
LEVELS: tuple[Level, ...] = ("none", "limits", "landlock", "full")
"""Levels of confinement, weakest first."""

Require = Literal["auto", "none", "limits", "landlock", "full"]

Verdict = Literal["allow", "ask", "deny"]
Setting = Literal["allow", "named", "ask", "deny"]
SETTINGS: tuple[Setting, ...] = ("allow", "named", "ask", "deny")
"""What a policy says of an effect, weakest first. `named`: allow where the user named every destination, else ask."""

EFFECTS = ("read", "write", "external", "money", "destructive")
"""What a call may do, weakest first."""
RELAXABLE = ("read", "write", "external")
"""Effects that a rule or a grant can allow; the others ask a person each time."""
DEFAULT_EFFECTS: Mapping[str, Setting] = {
    "read": "allow", "write": "allow", "external": "named", "money": "ask", "destructive": "ask",
}  # fmt: skip

Unattended = Literal["park", "deny"]
Word = Literal["run", "always", "host"]
"""How long and how widely a yes is remembered: in this run, this call for days, this tool at this host for days."""
WORDS: tuple[Word, ...] = ("run", "always", "host")
Operator = Literal["eq", "in", "max", "len_max", "under", "from", "host"]
Source = Literal["system", "user", "project", "skill", "run"]
"""Whose word a rule or a limit is; `run` is a flag of this run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one attempt: bytes, counts. `output` is what is kept of stdout and of stderr each."""

    memory: int = 4 * 1024**3
    files: int = 256
    file_size: int = 1024**3
    procs: int = 128
    output: int = 8 * 1024**2


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison of an argument. `wanted` are its words, paths resolved; `whole` marks a list for eq."""

    __test__ = False  # no test of pytest's

    operator: Operator
    wanted: tuple[str, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """A call that its rule must match, or must not. `line` is where it stands in the rule's file."""

    tool: str
    args: tuple[str, ...]
    goal: str
    skill: str
    matches: bool
    line: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of policy: a verdict for the calls it matches.

    Empty `tools`, `effects` or `skills` mean every one. `where` holds (argument as the header writes it, test); all of
    them must hold. `place` is `file:line` or the flag, as a person is shown it.
    """

    verdict: Verdict
    tools: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    where: tuple[tuple[str, Test], ...] = ()
    why: str = ""
    place: str = ""
    source: Source = "user"
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that a policy file sets. `currency` is for money alone; `place` is `file:line`."""

    key: str
    value: str
    place: str
    source: Source
    currency: str = ""

    @property
    def name(self) -> str:
        return f"{self.key} {self.currency}".strip()


@dataclass(frozen=True, slots=True)
class Policy:
    """What a call is decided by: the merged word of all layers.

    `budget` are the limits in force as events hold them; `places` names the file that sets one, by its key.
    """

    effects: Mapping[str, Setting] = field(default_factory=lambda: DEFAULT_EFFECTS)
    rules: tuple[Rule, ...] = ()
    unattended: Unattended = "park"
    budget: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """A remembered yes to one call: this tool with these bytes, all these values, here, confined at least so.

    With `hosts` it is one to every call of a tool that only reads and reaches none but these; `values` are empty then.
    It counts from `since` up to `until`, in epoch seconds. `by` is who said it, `pin` what a copy of the tool's file is
    kept under.
    """

    id: str
    tool: str
    digest: str
    values: Mapping[str, tuple[str, ...]]
    cwd: str
    level: Level
    path: str = ""
    hosts: tuple[str, ...] = ()
    since: float = 0.0
    until: float = inf
    by: str = ""
    pin: str = ""

    @property
    def word(self) -> Word:
        """Which answer it stands for; the yeses of a run are named by its operation, `#9`."""
        return "run" if self.id.startswith("#") else "host" if self.hosts else "always"
