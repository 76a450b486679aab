"""What a model that only chooses is given in place of the turns: a short text, and what there is to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blank:
    """One required argument to fill in: its name, and the values it may have; without any, 1 to 64 characters."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing a model may choose: a tool, what it fills in, and `argv`, which makes the argument vector of that."""

    tool: str
    blanks: tuple[Blank, ...]
    argv: Callable[[Mapping[str, str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Brief:
    """The same moment for a model that only chooses: its whole prompt in ChatML, and what there is to choose.

    `choices` stand in the order of `text`. `answer` is what was found, as code says it; None while `finish` is none of
    the choices. `seed` follows from run and turn.
    """

    text: str
    choices: tuple[Choice, ...]
    answer: str | None
    seed: int
