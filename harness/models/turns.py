"""The turns of a conversation, as every model is given them: what a person and tools said, what a model replied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Raw = Callable[[str], bytes]
"""Reads the bytes of a blob by their SHA-256."""


@dataclass(frozen=True, slots=True)
class Said:
    """Texts that stand in a user turn: the task, the state, a person's words."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that was read: its kind (png or jpeg), the SHA-256 of its bytes, their number; `label` says whose."""

    kind: str
    sha: str
    size: int
    label: str


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one call: `blocks` are texts; the last result of a turn also carries notes and releases."""

    call_id: str
    blocks: tuple[str, ...]
    failed: bool
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """One user turn: a result for every call of the reply before it, in call order, then a person's words."""

    results: tuple[Result, ...]
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replied:
    """An assistant turn: the provider's own blocks, verbatim."""

    dialect: str
    content: list[Any]


Turn = Said | Results | Replied
