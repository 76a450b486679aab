"""Takes the values of secrets out of whatever is shown or kept: by exact value, in every form, to `[secret:NAME]`."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from harness.secrets.forms import SHORTEST, forms
from harness.secrets.grams import Grams
from harness.secrets.prefixes import looks
from harness.secrets.unseen import Gaps, seen

LINE = 60
"""Columns of the narrowest lines that are taken for a wrapped text."""
MOST_HELD = 1 << 16
"""Bytes that are held back at most of a text in pieces, whatever nobody sees of them."""
_ENDS = b"\r\n"
Span = tuple[int, int, str]
"""Where a secret stands: start, end, name."""


class Masker:
    """The values that must not show, by name. It learns more as secrets are read; threads may use it at once.

    `longest` is the length of the longest form, `reach` the same with what may end the lines of a wrapped one.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.longest = self.reach = 0
        self._known: set[str] = set()
        self._forms: dict[bytes, tuple[str, int]] = {}
        self._grams: Grams[tuple[str, int]] = Grams(())
        self._learning = Lock()
        self.learn(values or {})

    def learn(self, values: Mapping[str, str]) -> None:
        """Mask these values from now on, too; what is too short for a secret is none."""
        with self._learning:
            fresh = {name: value for name, value in values.items() if value not in self._known}
            if not fresh:
                return
            for name, value in fresh.items():
                self._known.add(value)
                for form in forms(value) if len(value) >= SHORTEST else ():
                    line = form.translate(None, _ENDS)
                    most = 2 * form.count(b"\n") + _breaks(len(form))
                    if len(line) >= SHORTEST:
                        self._forms.setdefault(line, (name, most))
                        self.longest, self.reach = max(self.longest, len(form)), max(self.reach, len(form) + most)
            self._grams = Grams(self._forms.items())

    def raw(self, raw: bytes, found: set[str] | None = None, *, net: bool = False) -> bytes:
        """`raw` with every secret masked; the same object where there is none. `found` is given their names.

        With `net` also what looks like a credential, by the name of its kind.
        """
        spans = self.spans(raw, net=net)
        if not spans:
            return raw
        if found is not None:
            found.update(name for _, _, name in spans)
        return replaced(raw, merged(spans))

    def text(self, text: str, found: set[str] | None = None, *, net: bool = False) -> str:
        """The same for a text."""
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.raw(raw, found, net=net)
        return text if masked is raw else masked.decode("utf-8", "surrogatepass")

    def spans(self, raw: bytes, *, net: bool = False) -> list[Span]:
        """Every occurrence of a form, overlapping ones too, also of one that is whole only once `raw` is cleaned."""
        found, plain = self._spans(raw, net), seen(raw)
        if plain is raw or not (hidden := self._spans(plain, net)):
            return found
        gaps = Gaps(raw)
        return [*found, *((gaps.start(start), gaps.end(end), name) for start, end, name in hidden)]

    def _spans(self, raw: bytes, net: bool) -> list[Span]:
        return [*self._wrapped(raw), *(looks(raw) if net else ())]

    def _wrapped(self, raw: bytes) -> list[Span]:
        """Some forms are wrapped, so it looks as if all were one line."""
        joined = raw.translate(None, _ENDS) if b"\n" in raw or b"\r" in raw else raw
        found = [(start, start + len(form), about) for start, form, about in self._grams.found(joined)]
        if joined is raw or not found:
            return [(start, end, name) for start, end, (name, _) in found]
        ends = [end.start() - n for n, end in enumerate(re.finditer(rb"[\r\n]", raw))]
        return [
            (start + before, end + within, name) for start, end, (name, most) in found
            if (within := bisect_left(ends, end)) - (before := bisect_right(ends, start)) <= most
        ]  # fmt: skip


def _breaks(size: int) -> int:
    """How many bytes of line ends a wrapped text of so many bytes may hold."""
    return 2 * (1 + size // LINE)


def merged(spans: Iterable[Span]) -> list[Span]:
    """In order, those that overlap as one, by the name of the longest: no part of either is left."""
    found: list[Span] = []
    size = 0
    for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or start >= found[-1][1]:
            found.append((start, end, name))
            size = end - start
            continue
        first, before, longest = found[-1]
        if end - start > size:
            longest, size = name, end - start
        found[-1] = (first, max(before, end), longest)
    return found


def replaced(raw: bytes, spans: Iterable[Span]) -> bytes:
    """`raw` with what stands for a secret in place of each span."""
    parts, at = [], 0
    for start, end, name in spans:
        parts += [raw[at:start], f"[secret:{name}]".encode()]
        at = end
    return b"".join([*parts, raw[at:]])


def _begin(raw: bytes, size: int) -> int:
    """Where the last `size` bytes begin, not counting what nobody sees, nor a letter that the end divides."""
    start = max(0, len(raw) - size - MOST_HELD)
    end = raw[start:]
    plain = seen(end)
    if plain is end or not size:
        return len(raw) - size
    return start + Gaps(end).end(max(0, len(plain) - size - 3))


class Pieces:
    """Bytes that come in pieces, masked: what a secret could still begin in is held back from each piece.

    `found` is given the names of the secrets that were masked.
    """

    def __init__(self, masker: Masker, found: set[str]) -> None:
        self._masker, self._found, self._rest = masker, found, b""

    def feed(self, piece: bytes, reach: int | None = None) -> bytes:
        """Take a piece; what is safe by now. `reach` is how many bytes a secret may take."""
        self._rest += piece
        return self._taken(_begin(self._rest, max(0, (self._masker.reach if reach is None else reach) - 1)))

    def flush(self) -> bytes:
        """The rest: nothing follows."""
        return self._taken(len(self._rest))

    def _taken(self, upto: int) -> bytes:
        spans = merged(self._masker.spans(self._rest)) if upto > 0 else []
        for _ in range(3):  # no letter is divided
            upto -= upto < len(self._rest) and upto > 0 and self._rest[upto] & 0xC0 == 0x80
        upto = min([upto, *(start for start, end, _ in spans if end > upto)])  # and no secret
        if upto <= 0:
            return b""
        safe, self._rest = self._rest[:upto], self._rest[upto:]
        before = [span for span in spans if span[1] <= upto]
        self._found.update(name for _, _, name in before)
        return replaced(safe, before)


class Stream:
    """The same for the texts of a view, where no text is wrapped by whoever wrote it."""

    def __init__(self, masker: Masker, on: Callable[[str], None]) -> None:
        self._masker, self._pieces, self._on = masker, Pieces(masker, set()), on

    def feed(self, text: str) -> None:
        """Take a piece, and pass on what is safe."""
        self._pass(self._pieces.feed(text.encode("utf-8", "surrogatepass"), self._masker.longest))

    def flush(self) -> None:
        """The text has ended: pass on all of it."""
        self._pass(self._pieces.flush())

    def _pass(self, raw: bytes) -> None:
        if raw:
            self._on(raw.decode("utf-8", "surrogatepass"))
