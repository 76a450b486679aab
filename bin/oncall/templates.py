"""Messages → groups of the same template. Pure and deterministic; knows no one product's messages.

Two steps. Each word that carries a value (digits, addresses, paths, identifiers) becomes `<*>`, so most lines of one
template already agree. Then templates of equal length that differ in one word are merged where that word takes many
values or looks like an identifier, because a word that takes two or three plain values ("started", "stopped") is what
the message says, not whom it speaks of.
"""

from __future__ import annotations

import re

ANY = "<*>"
MANY = 8
"""Plain words seen at one place before that place counts as a variable."""
_PIECES = re.compile(r"([\s=:,;()\[\]{}<>\"'|@#]+)")
_PREFIX = re.compile(r"([A-Za-z]{2,}[_-]?)(?=[\d_.-]*\d)")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F-]{6,}$")
_RUN = re.compile(r"<\*>(?:[-+:./,@#=]*<\*>)+")
_DATES = frozenset((
    "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep",
    "Oct", "Nov", "Dec"))
_EMPTY = frozenset(("()", "[]", "{}", "<>", '""', "''"))
_NAME = re.compile(r"[A-Za-z_.-]+[=:](?=.)")
_MAX_WORDS = 120

Words = tuple[str, ...]


def words(message: str, cache: dict[str, str]) -> Words:
    """The message as template words. `cache` remembers masked words across calls."""
    out: list[str] = []
    parts = message.split(None, _MAX_WORDS)[:_MAX_WORDS]
    for place, word in enumerate(parts):
        if word in _EMPTY or (word in _DATES and _is_date(parts[place + 1:place + 2])):
            word = ANY
        elif not word.isalpha():
            masked = cache.get(word)
            if masked is None:
                masked = mask(word)
                if len(cache) < 200_000:
                    cache[word] = masked
            word = masked
        if word.rstrip(",;") == ANY and out and out[-1].rstrip(",;") == ANY:
            continue
        out.append(word)
    return tuple(out)


def _is_date(after: list[str]) -> bool:
    return bool(after) and (after[0] in _DATES or after[0][0].isdigit())


def mask(word: str) -> str:
    """One word with its values replaced by `<*>`."""
    if "/" in word and (word.count("/") > 1 or word.startswith("/")):
        return _path(word)
    pieces = _PIECES.split(word)
    masked = "".join(piece if index % 2 else _piece(piece) for index, piece in enumerate(pieces))
    return _RUN.sub(ANY, masked)


def _path(word: str) -> str:
    head, _, rest = word.partition("/")
    tail = len(rest) - len(rest.rstrip(",;:.)]}'\""))
    end = rest[len(rest) - tail:] if tail else ""
    return _RUN.sub(ANY, (mask(head) if head and not head.endswith(":") else head) + ANY + end)


def _piece(piece: str) -> str:
    if not any(char.isdigit() for char in piece):
        return piece
    if _HEX.match(piece):
        return ANY
    prefix = _PREFIX.match(piece)
    return prefix[1] + ANY if prefix else ANY


def merge(counts: dict[Words, int]) -> dict[Words, Words]:
    """Each template as it came → the one it belongs to. `counts`: how many lines each has."""
    final = {key: key for key in counts}
    lengths: dict[int, list[Words]] = {}
    for key in counts:
        lengths.setdefault(len(key), []).append(key)
    for length, keys in lengths.items():
        if length > 1 and len(keys) > 1:
            _merge_length(keys, final)
    return final


def _merge_length(keys: list[Words], final: dict[Words, Words]) -> None:
    members: dict[Words, list[Words]] = {key: [key] for key in keys}
    changed = True
    while changed:
        changed = False
        for place in range(len(keys[0])):
            changed = _merge_place(members, place) or changed
    for key, origins in members.items():
        for origin in origins:
            final[origin] = key


def _merge_place(members: dict[Words, list[Words]], place: int) -> bool:
    families: dict[Words, list[Words]] = {}
    for key in members:
        families.setdefault((*key[:place], ANY, *key[place + 1:]), []).append(key)
    changed = False
    for joined, family in families.items():
        if len(family) > 1 and _is_variable([key[place] for key in family], joined):
            origins = [origin for key in family for origin in members.pop(key)]
            members[joined] = members.get(joined, []) + origins
            changed = True
    return changed


def _is_variable(values: list[str], joined: Words) -> bool:
    """Whether words seen at one place are values: a few plain words are not, identifiers or many words are."""
    if not any(word != ANY and any(char.isalpha() for char in word) for word in joined):
        return False
    if len(values) >= MANY:
        return True
    return not any(_is_plain(value) for value in values) and len({_key(value) for value in values}) == 1


def _is_plain(value: str) -> bool:
    return value.strip("()[]{}<>,.:;\"'!").isalpha()


def _key(value: str) -> str:
    """The name in `name=value` or `name:value`: two names are two things said, whatever their values."""
    found = _NAME.match(value)
    return found[0] if found else ""


def assign(messages: list[str]) -> list[Words]:
    """The final template of each message."""
    cache: dict[str, str] = {}
    keys = [words(message, cache) for message in messages]
    counts: dict[Words, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    final = merge(counts)
    return [final[key] for key in keys]
