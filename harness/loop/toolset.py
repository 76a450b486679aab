"""What a run may call, and what the words of a call come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.graph import Graph
from harness.graph.fresh import Ground, Values
from harness.prompt.brief import Moment
from harness.prompt.form import Form
from harness.tools import Tool
from harness.tools.arguments import parse
from harness.tools.compare import as_texts


@dataclass(frozen=True, slots=True)
class Toolset:
    """What a run may call: its closed list, what the names mean, and what waits for what.

    `workers` holds the interface of each skill that may be called; `stand_in` is the pipeline that speaks where there
    is no model; `verify` the words of each verifier. With a `form` a single reply is wanted, and no call is possible.
    `locked` says of a worker what it lacks, so that it cannot be called in this run.
    """

    tools: Mapping[str, Tool]
    workers: Mapping[str, Tool] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    graph: Graph = field(default_factory=Graph)
    requires: tuple[str, ...] = ()
    verify: tuple[tuple[str, ...], ...] = ()
    stand_in: str | None = None
    folder: Path | None = None
    form: Form | None = None
    locked: Mapping[str, str] = field(default_factory=dict)

    @property
    def available(self) -> list[str]:
        """The listed names that mean something here and are not broken."""
        return [n for n in self.listed if n in self.workers or (n in self.tools and self.tools[n].broken is None)]


def values_of(kit: Toolset, name: str, argv: tuple[str, ...]) -> Values:
    """A canonical argv as comparable values."""
    tool = kit.tools.get(name) or kit.workers.get(name)
    if tool is None:
        return {"args": argv}
    return as_texts(tool, parse(tool, argv)[0])


def moment(
    kit: Toolset, ground: Ground, goal: str, run: str, turn: int, text: Callable[[object], str]
) -> Moment:
    """What there is to go by for a model that only chooses."""
    return Moment(ground, kit.tools, tuple(kit.available), kit.graph, kit.requires, goal, run, turn, text)
