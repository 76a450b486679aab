"""What an ended tool means: its exit code as an error class, its stdout as data. Judges bytes, never touches files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard, TypeVar

from harness.events.spending import NOTHING_HAPPENED
from harness.tools import Tool

CLASSES: Mapping[int, str] = {
    0: "OK",
    2: "INVALID_INPUT",
    64: "INVALID_INPUT",
    65: "INVALID_INPUT",
    66: "INVALID_INPUT",
    69: "RETRYABLE",
    75: "RETRYABLE",
    73: "CONFLICT",
    77: "NEEDS_AUTH",
    78: "MISCONFIGURED",
    124: "TIMEOUT",
}
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that can be cited: `source` is `path#L10-L20`, an address or an id."""

    id: str
    source: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """A next step that a tool suggests. It is data: it releases and approves nothing."""

    tool: str
    args: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What stdout says. `data` is None when it is text. `notes` tell of keys in a wrong shape, which stay data."""

    data: dict[str, object] | None = None
    evidence: tuple[Evidence, ...] = ()
    artifacts: tuple[str, ...] = ()
    next: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()


def error_class(exit: int) -> str:
    """`OK`, or the class of an exit code; a signal, given as a negative number, is `FAILED`."""
    return CLASSES.get(exit, "FAILED")


def no_effect(tool: Tool, exit: int) -> bool:
    """Whether this exit code proves that nothing happened: only whoever wrote a header knew what the codes mean."""
    return tool.header and exit in NOTHING_HAPPENED


def structured(stdout: bytes) -> dict[str, object] | None:
    """The one JSON object that stdout is, or None when it is text."""
    if not stdout.lstrip().startswith(b"{"):
        return None
    try:
        made = json.loads(stdout.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


def read_result(stdout: bytes) -> Result:
    """Data, and the three keys that mean something."""
    data = structured(stdout)
    if data is None:
        return Result()
    notes: list[str] = []
    evidence = _read(data, "evidence", _evidence, notes)
    ids = [item.id for item in evidence]
    if len(set(ids)) < len(ids):
        notes.append("evidence gives one id to several items")
        evidence = ()
    artifacts = _read(data, "artifacts", _artifact, notes)
    advice = _read(data, "next", _advice, notes)
    return Result(data, evidence, artifacts, advice, tuple(notes))


def _read(
    data: Mapping[str, object], key: str, read: Callable[[object, int], _Item | None], notes: list[str]
) -> tuple[_Item, ...]:
    """The items of a key, all or none: half a list would stand for less than the tool said."""
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        notes.append(f"{key} is no list")
        return ()
    made: list[_Item] = []
    for number, item in enumerate(value, 1):
        if (one := read(item, number)) is None:
            notes.append(f"item {number} of {key} has another shape")
            return ()
        made.append(one)
    return tuple(made)


def _evidence(item: object, number: int) -> Evidence | None:
    if not isinstance(item, dict):
        return None
    source, text, name = item.get("source"), item.get("text"), item.get("id", f"E{number}")
    if not (_filled(source) and _filled(name) and isinstance(text, str | None)):
        return None
    return Evidence(name, source, text)


def _artifact(item: object, number: int) -> str | None:
    path = item.get("path") if isinstance(item, dict) else item
    return path if _filled(path) else None


def _advice(item: object, number: int) -> Advice | None:
    if not isinstance(item, dict):
        return None
    tool, args, why = item.get("tool"), item.get("args", []), item.get("why")
    if not (_filled(tool) and isinstance(why, str | None) and isinstance(args, list)):
        return None
    return Advice(tool, tuple(args), why) if all(isinstance(word, str) for word in args) else None


def _filled(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def _no_constant(word: str) -> object:
    raise ValueError(word)
