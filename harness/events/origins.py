"""Where the values of a call are from, as the event of a question holds it: [value, sources] by option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LONG = 200
"""Characters of a value above which head, tail and length are shown."""


def shortened(value: str) -> str:
    """A long value as its head and tail with the length between them."""
    if len(value) <= LONG:
        return value
    return f"{value[:80]} [… {len(value) - 140} characters …] {value[-60:]}"


def origins(sources: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Sequence[str]]]:
    """What an event says of where values are from: (`--option value`, sources); in old events by option alone."""
    for option, found in sources.items():
        if all(isinstance(one, str) for one in found):
            yield option, found
            continue
        for value, labels in found:
            yield f"{option} {value}", labels
