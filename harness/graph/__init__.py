"""Dependencies between tools: what waits for what, what is released, what is fresh. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["fresh", "once", "ended"]


@dataclass(frozen=True, slots=True)
class Need:
    """One prerequisite. `fresh`: holds a fresh success; `once`: succeeded at least once; `ended`: ended, well or badly.

    With `options` (long names without dashes) the success must carry the same values of these options.
    """

    name: str
    kind: Kind = "fresh"
    options: tuple[str, ...] = ()
    line: int = field(default=1, compare=False)

    def text(self) -> str:
        """As it is written in a dependency block: `x`, `x(--a)`, `x?`."""
        options = f"({','.join('--' + o for o in self.options)})" if self.options else ""
        return f"{self.name}{options}{'?' if self.kind == 'ended' else ''}"


@dataclass(frozen=True, slots=True)
class Graph:
    """The rules of a skill: target → its needs, in the order written. A name without a rule is a root."""

    rules: Mapping[str, tuple[Need, ...]] = field(default_factory=dict)

    def needs(self, name: str) -> tuple[Need, ...]:
        return self.rules.get(name, ())
