"""What nobody sees in a text: sequences for a terminal, control and invisible characters. Pure.

`prompt.observation.clean` takes them out of whatever a model is shown, so a secret with one inside would be whole
there: the masker looks through all that goes there, and through a few more that only join or shape their neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

_CONTROLS = bytes({*range(9), 11, 12, *range(14, 32), 127})
_FIRST = b"\xc2\xcd\xd8\xe1\xe2\xef\xf3"
"""What the letters below begin with: most texts hold none of it, and are looked through only for that."""
_BLANK = rb"(?:[ -/]|\r(?!\n))"  # clean makes a blank of a lone carriage return before it looks for sequences
_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*%(blank)s*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|\x1b\[[0-?]*%(blank)s*\Z|\x1b%(blank)s*[0-~]" % {b"blank": _BLANK}
)  # one that is cut off at the end of a piece counts, too
_LETTER = re.compile(
    rb"\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1\xa0[\x8b-\x8f]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]"
    rb"|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xf3\xa0[\x80-\x87][\x80-\xbf]"
)
_CONTROL = re.compile(rb"[" + re.escape(_CONTROLS) + rb"]+")
_STEPS = (_SEQUENCE, _LETTER, _CONTROL)


def seen(raw: bytes) -> bytes:
    """`raw` (UTF-8) without what nobody sees; line ends stay. The same object where it holds none of it."""
    found = _SEQUENCE.sub(b"", raw) if b"\x1b" in raw else raw
    if len(found.translate(None, _FIRST)) != len(found):
        found = _LETTER.sub(b"", found)
    found = found.translate(None, _CONTROLS)
    return raw if len(found) == len(raw) else found


class Gaps:
    """Leads from places in `seen(raw)` back to places in `raw`."""

    def __init__(self, raw: bytes) -> None:
        self._steps: list[tuple[list[int], list[int]]] = []
        for step in _STEPS:  # what is left after each of them, as in `seen`
            self._steps.insert(0, _gone(step, raw))
            raw = step.sub(b"", raw)

    def start(self, place: int) -> int:
        """Where what begins at a seen place begins: behind a gap that is there."""
        for at, gone in self._steps:
            place += gone[bisect_right(at, place)]
        return place

    def end(self, place: int) -> int:
        """Where what ends before a seen place ends: before a gap that is there."""
        for at, gone in self._steps:
            place += gone[bisect_left(at, place)]
        return place


def _gone(step: re.Pattern[bytes], raw: bytes) -> tuple[list[int], list[int]]:
    """Where something is missing in what is left, and how many bytes are, from none to all."""
    at, gone = list[int](), [0]
    for gap in step.finditer(raw):
        at.append(gap.start() - gone[-1])
        gone.append(gone[-1] + gap.end() - gap.start())
    return at, gone
