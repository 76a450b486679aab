"""Results of stages that share a name, made into one value. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.tools.outcome import structured
from harness.tools.stages import Reducer

Written = tuple[int, str]
"""(operation, its stdout)"""


class Conflict(ValueError):
    """Two operations wrote different things where one was wanted; the text names both."""


def merged(name: str, reducer: Reducer, written: Sequence[Written]) -> object:
    """One value of what was written under a name, in the order of the pipeline, whatever ended first.

    A text is without its last newline; a JSON object or list is that. Raises Conflict, and ValueError for an item of
    a `union` that lacks its field.
    """
    values = [(n, _value(text)) for n, text in written]
    if reducer.kind == "append":
        return [item for _, value in values for item in _items(value)]
    if reducer.kind == "union":
        return _union(name, reducer.field or "", values)
    if reducer.kind == "last":
        return values[-1][1]
    first, value = values[0]
    for n, other in values[1:]:
        if other != value:
            raise Conflict(f"operations {first} and {n} wrote different values of {name}")
    return value


def _value(text: str) -> object:
    """What a stage printed: an object, a list, or the text itself."""
    made: object = structured(text.encode())
    if made is None and text.lstrip().startswith("["):
        try:
            made = json.loads(text)
        except (ValueError, RecursionError):
            made = None
    return text.removesuffix("\n") if made is None else made


def _items(value: object) -> list[object]:
    """A list is several items, anything else is one."""
    return value if isinstance(value, list) else [value]


def _union(name: str, field: str, values: Sequence[tuple[int, object]]) -> list[object]:
    """The items of all, each once: those with the same value of the field must be the same."""
    found: dict[str, tuple[int, object]] = {}
    for n, value in values:
        for item in _items(value):
            if not isinstance(item, dict) or field not in item:
                raise ValueError(f"operation {n} wrote an item of {name} without {field}")
            key = json.dumps(item[field], sort_keys=True)
            first, known = found.setdefault(key, (n, item))
            if known != item:
                raise Conflict(f"operations {first} and {n} wrote different items of {name} for {field} {key}")
    return [item for _, item in found.values()]
