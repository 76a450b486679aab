"""Whether a destination stands whole in the user's words: the one thing that lets a call act outside unasked. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_JOINS_BEFORE, _JOINS_AFTER = frozenset("_@.-/+"), frozenset("_@-/+")
_URL_IS_OVER = re.compile(r"[.,;:!?)\]}'*]*+(?=[\s<>\"`]|\Z)")
"""What may follow a URL without being a part of it: the end of a sentence, of brackets, of a quotation."""


def named(value: str, words: Iterable[str]) -> bool:
    """Whether `value` stands whole, without case, in one of the user's texts. A non-ASCII value never does."""
    if not value.isascii() or not any(letter.isalnum() for letter in value):
        return False
    pattern = re.compile(re.escape(value), re.IGNORECASE | re.ASCII)
    return any(_stands_in(pattern, text, "://" in value) for text in words)


def code_points(value: str) -> str:
    """The value with what is not ASCII spelled out: `exámple` → `ex\\u00e1mple (U+00E1)`."""
    odd = dict.fromkeys(f"U+{ord(letter):04X}" for letter in value if not letter.isascii())
    return f"{ascii(value)[1:-1]} ({' '.join(odd)})"


def _stands_in(pattern: re.Pattern[str], text: str, is_url: bool) -> bool:
    at = 0
    while (found := pattern.search(text, at)) is not None:
        start, end = found.span()
        if _begins(text, start) and _ends(text, end) and (not is_url or _URL_IS_OVER.match(text, end)):
            return True  # of a URL its query is a part: it names other things
        at = start + 1
    return False


def _begins(text: str, start: int) -> bool:
    return start == 0 or not (text[start - 1] in _JOINS_BEFORE or _is_part(text[start - 1]))


def _ends(text: str, end: int) -> bool:
    after = text[end : end + 2]
    if not after:
        return True
    if after[0] in _JOINS_AFTER or _is_part(after[0]):
        return False
    return not (after[0] == "." and len(after) > 1 and _is_part(after[1]))


def _is_part(letter: str) -> bool:
    """A letter, a digit, a mark on one, or what nobody sees: with it the word is another one."""
    return letter.isalnum() or unicodedata.category(letter)[0] == "M" or unicodedata.category(letter) in ("Cf", "Co")
