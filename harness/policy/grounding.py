"""Whether a value was given or found: an index over what the run knows. A text is read once, when it is filed.

What a text counts as, and which words its call was made of, is told by the caller; nothing here reads a file.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from harness.errors import is_seen

MAX_TEXT = 8 * 1024 * 1024
"""Characters of one text that count."""
MAX_NEAR, MAX_LOOKED_AT = 5, 20_000
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SAID = "\0"
GIVEN = ("user", "input")
"""Kinds of sources that no call of the run brought about."""
_TOKEN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"""[^\s"'`,;()\[\]{}<>=|\0]+""")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a text came from: `kind` is user, input, file, tool, tool:NAME or skill; `label` is for people."""

    kind: str
    label: str


Near = tuple[tuple[str, Source], ...]
"""Known values that look like another one, nearest first, each with a source."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a value: its sources; without one the nearest known values, and what it is an echo of.

    `echo` says in words where it stands all the same. `written`: nothing but a person's word makes it known any more.
    """

    sources: tuple[Source, ...] = ()
    near: Near = ()
    echo: str = ""
    written: bool = False


@dataclass(frozen=True, slots=True)
class _Text:
    """One filed text in its normal form, and what was said to get it, which it cannot make known."""

    source: Source
    text: str
    said: str


@dataclass(slots=True)
class Known:
    """What a run knows. A look-up costs the same however much there is: words and pairs of words lead to the texts.

    `_holders` are, by kind of source, the texts that hold a key and whose call did not say it; a pair that it did say
    stands under another key, since a longer value may be built on it. `_written` are words that went into the world,
    with the number of texts before them: what is found after that may be their echo.
    """

    _texts: list[_Text] = field(default_factory=list)
    _holders: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    _written: list[tuple[int, str]] = field(default_factory=list)
    _writers: dict[str, list[int]] = field(default_factory=dict)
    _labels: list[str] = field(default_factory=list)

    def file(self, source: Source, text: str, said: Sequence[str] = ()) -> None:
        """Take in a text. `said` are the words of the call that brought it: an echo makes nothing known."""
        whole = "\0".join((normal(text[:MAX_TEXT]), *map(normal, leaves(text[:MAX_TEXT]))))
        filed = _Text(source, whole, _folded(said))
        echoed, holders = _keys(filed.said), self._holders.setdefault(source.kind, {})
        for key in _keys(whole.casefold()):
            holders.setdefault(_SAID + key if key in echoed else key, []).append(len(self._texts))
        self._texts.append(filed)

    def wrote(self, said: Sequence[str], label: str = "a call") -> None:
        """A call with these words may have changed something: from here on no text makes them known."""
        self._labels.append(label)
        words = _folded(said)
        for key in _keys(words):
            self._writers.setdefault(key, []).append(len(self._written))
        self._written.append((len(self._texts), words))

    def sources(self, value: str) -> tuple[Source, ...]:
        """The first source of a value of each kind; empty when it is not known."""
        sought = normal(value).casefold()
        if not _TOKEN.search(sought) or not all(map(is_seen, value)):
            return ()
        before = self._first_written(sought)
        found = (self._first(sought, holders, before) for holders in self._holders.values())
        return tuple(source for source in found if source)

    def _first_written(self, sought: str) -> int:
        """How many texts were filed before a call wrote the value; all of them where none did."""
        writers = (self._written[at] for at in _candidates(sought, self._writers))
        return next((before for before, words in writers if occurs(sought, words)), len(self._texts))

    def _first(self, sought: str, holders: Mapping[str, list[int]], before: int) -> Source | None:
        for at in _candidates(sought, holders):
            text = self._texts[at]
            if at >= before and text.source.kind not in GIVEN:
                return None
            if occurs(sought, text.text.casefold()) and not occurs(sought, text.said):
                return text.source
        return None

    def echo(self, value: str) -> tuple[str, bool]:
        """Why a value is not known though it may stand somewhere: the call or text that said it, or an empty label.

        True: that was a call which may have changed something, so nothing found from then on makes it known.
        """
        sought = normal(value).casefold()
        for label, (_, words) in zip(self._labels, self._written, strict=True):
            if occurs(sought, words):
                return label, True
        holders = (text.source.label for text in self._texts if occurs(sought, text.text.casefold()))
        return next(holders, ""), False

    def near(self, value: str) -> Near:
        """Up to five known values that look like this one, nearest first, with their source: newest texts first."""
        import difflib  # only needed once something was refused

        words: dict[str, tuple[str, Source]] = {}
        for word, source in islice(self._words(), MAX_LOOKED_AT):
            words.setdefault(word.casefold(), (word, source))
        close = difflib.get_close_matches(normal(value).casefold(), words, 4 * MAX_NEAR)
        return tuple(islice((words[word] for word in close if self.sources(word)), MAX_NEAR))

    def _words(self) -> Iterator[tuple[str, Source]]:
        for text in reversed(self._texts):
            for found in _WORD.finditer(text.text):
                word = found[0].strip(".:")
                if _TOKEN.search(word) and not occurs(word.casefold(), text.said):
                    yield word, text.source


def _folded(said: Iterable[str]) -> str:
    """The words of a call, and what they say to whoever takes them for JSON: an echo may be decoded on its way."""
    forms = (form for word in said for form in (word, _ESCAPE.sub(_decoded, word), *leaves(word)))
    return joined(forms)


def joined(words: Iterable[str]) -> str:
    """Words in the form that `occurs` compares, so that none goes over into the next."""
    return "\0".join(map(normal, words)).casefold()


def _decoded(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else escape[2]


def _words_and_pairs(text: str) -> tuple[list[str], list[str]]:
    """The words of a folded text, and the pairs of neighbours with what stands between them, in their order."""
    places = [found.span() for found in _TOKEN.finditer(text)]
    pairs = [text[start:end] for (start, _), (_, end) in pairwise(places)]
    return [text[start:end] for start, end in places], pairs


def _keys(text: str) -> set[str]:
    words, pairs = _words_and_pairs(text)
    return {*words, *pairs}


def _candidates(sought: str, holders: Mapping[str, list[int]]) -> Sequence[int]:
    """The texts that hold what is rarest of the value."""
    words, pairs = _words_and_pairs(sought)
    if len(pairs) <= 1:
        return holders.get((pairs or words)[0], ())
    return min(([*holders.get(pair, ()), *holders.get(_SAID + pair, ())] for pair in pairs), key=len)


def normal(text: str) -> str:
    """NFC, runs of white space as one space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def occurs(sought: str, text: str) -> bool:
    """Whether `sought` stands in `text` with no letter, digit or mark directly before or after it."""
    at = text.find(sought)
    while at >= 0:
        end = at + len(sought)
        if not _joins(text[at - 1 : at]) and not _joins(text[end : end + 1]):
            return True
        at = text.find(sought, at + 1)
    return False


def _joins(char: str) -> bool:
    return bool(char) and (char.isalnum() or unicodedata.category(char)[0] == "M")


def leaves(text: str) -> Iterable[str]:
    """The strings and numbers of a JSON document, or of JSON lines, as they read without escapes."""
    if text.lstrip()[:1] not in ("{", "["):
        return ()
    try:
        documents = [json.loads(text)]
    except (ValueError, RecursionError):
        documents = list(_lines(text))
    return [leaf for document in documents for leaf in _leaves(document)]


def _lines(text: str) -> Iterator[object]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def _leaves(document: object) -> Iterator[str]:
    """Without recursion: a document may be nested deeper than the stack."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield str(value)
