"""A skill as what calls it sees it: its inputs are options, its goal is what stands behind them. Starts nothing."""

from __future__ import annotations

from collections.abc import Sequence

from harness.skills import Skill
from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import parse

GOAL = "GOAL"
"""The name of the words that are no input; what is given with `-i` is written small."""


def as_tool(skill: Skill, name: str) -> Tool:
    """The interface of a worker, for reading calls of it; there is nothing to spawn."""
    goal = Parameter(GOAL, "arg", "what to do", mod="*")
    return Tool(
        name, skill.file, skill.description, parameters=(*skill.inputs, goal), header=True, effect="read",
        effect_declared=True, repeat="pure", file=str(skill.file),
    )  # fmt: skip


def words_of(worker: Tool, argv: Sequence[str]) -> tuple[str, dict[str, Value], list[str]]:
    """A worker's goal and inputs from its argv, and every problem."""
    values, problems = parse(worker, argv)
    goal = values.pop(GOAL, ())
    return " ".join(goal) if isinstance(goal, tuple) else "", values, problems
