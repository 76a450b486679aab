"""Where one of many words stands in a text, at a cost that does not depend on how many there are.

Four bytes at every fourth place of the text are looked up in one table: any occurrence of a word holds such a place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import compress, count
from typing import Generic, TypeVar

T = TypeVar("T")

_PLACES = 64
"""How far into a word its rarest bytes are looked for."""
_CHUNK = 1 << 12
SIZE = 4


class Grams(Generic[T]):
    """Words of at least 2 * SIZE - 1 bytes, with what each stands for."""

    def __init__(self, words: Iterable[tuple[bytes, T]]) -> None:
        self._table: dict[int, list[tuple[int, bytes, T]]] = {}
        for word, value in words:
            at = _rarest(word)
            for start in range(at, at + SIZE):
                key = int.from_bytes(word[start : start + SIZE], sys.byteorder)
                self._table.setdefault(key, []).append((start, word, value))
        self._keys = frozenset(self._table)

    def found(self, raw: bytes) -> Iterator[tuple[int, bytes, T]]:
        """Every occurrence: where it begins, the word, what it stands for. Overlapping ones too."""
        whole = memoryview(raw)[: len(raw) & -SIZE].cast("I")
        for base in range(0, len(whole) if self._keys else 0, _CHUNK):
            view = whole[base : base + _CHUNK]
            if self._keys.isdisjoint(view):  # most of a text: looked through once
                continue
            for n in compress(count(), map(self._keys.__contains__, view)):
                for at, word, value in self._table[view[n]]:
                    start = (base + n) * SIZE - at
                    if start >= 0 and raw.startswith(word, start):
                        yield start, word, value


def _rarest(word: bytes) -> int:
    """Where the bytes begin by which a word is looked for: capitals, digits and signs are rare in prose."""
    width = 2 * SIZE - 1
    rare = [not (97 <= byte <= 122 or byte in b" -") for byte in word[: _PLACES + width]]
    return max(range(min(len(word) - width, _PLACES) + 1), key=lambda at: sum(rare[at : at + width]))
