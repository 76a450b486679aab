"""What a provider sends, read so that a journal can hold it: numbers that are some, characters that are whole. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

MOST_COUNTED = 10**12
"""No request has more tokens; a larger number could not be paid for, nor written down."""
Pairs = Callable[[list[tuple[str, Any]]], Any]


def decoded(text: str | bytes, pairs: Pairs | None = None) -> Any:
    """The value of a JSON text; `pairs` makes each object of its keys and values.

    Raises ValueError for what is no JSON or is nested too deep, and for a number that is none: NaN, an infinity, 1e999.
    """
    try:
        return json.loads(text, parse_constant=_number, parse_float=_number, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose key that is given again is another key: no reader may choose which of two holds."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        made[f"{key} (given twice)" if key in made else key] = value
    return made


def paired(text: str) -> str:
    """The text with its halves of characters joined; what is left of them is U+FFFD, as in the journal."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def count_in(said: object, key: str) -> int | None:
    """A number of tokens as a provider counts them; None where it is no such number."""
    found = said.get(key) if isinstance(said, Mapping) else None
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST_COUNTED
    return found if is_count else None


def shares(whole: int, cached: int | None, written: int | None) -> tuple[int, int]:
    """The cached and the written tokens of an input, together never more than all of it: not every server counts so."""
    read = min(cached or 0, whole)
    return read, min(written or 0, whole - read)
