"""What can go wrong, in words a person can act on. Not a place for events: a tool's or a model's failure is an event.

Exit codes of every command (the only copy of this table; help, README and tests are checked against it):

    0    passed
    1    ran, not passed (verifier, refused or cut-off reply, wiki that fails lint, eval under its bar)
    2    usage, or what you wrote cannot be used (skill, policy, model name)
    3    bug in harness, or its journal is damaged or cannot be written; path printed
    4    no model to use; no or bad credentials
    5    needs an approval it could not get (resumable)
    6    a budget other than time used up (resumable)
    7    denied by policy
    8    no progress
    9    required tool declined
    10   needs an answer from a person (resumable)
    11   an operation's outcome is unknown; a person must settle it
    75   waiting: model unavailable, run locked, not before a time (resumable)
    124  wall-clock budget used up
    130  interrupted
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

MAX_LINE = 400
TOO_LARGE = "too large"
"""What the reason of a refusal begins with where a call breaks a bound."""
# Blank letters and variation selectors that carry data unseen; their categories alone do not tell.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800") | frozenset(
    map(chr, range(0xE0100, 0xE01F0))
)
Severity = Literal["refused", "error", "warning", "note"]


class HarnessError(Exception):
    """A refusal with its way out: `message` says what, `where` names the place, `fix` is one thing to do."""

    exit_code = 2

    def __init__(self, message: str, fix: str, where: str | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message, self.fix, self.where = message, fix, where
        if code is not None:
            self.exit_code = code


class JournalError(HarnessError):
    """The journal is damaged, is written by somebody else, or cannot be written."""

    exit_code = 3


class BusyError(HarnessError):
    """Another process owns the run."""

    exit_code = 75


class NoModelError(HarnessError):
    """There is no model to use, or no credential for it."""

    exit_code = 4


class DeniedError(HarnessError):
    """Policy forbids what was asked for."""

    exit_code = 7


@dataclass(frozen=True, slots=True)
class Finding:
    """One complaint about a file. `line` counts in the file on disk, 1 for a whole file; `fix` is one thing to do."""

    code: str
    severity: Severity
    file: str
    line: int
    message: str
    fix: str

    def text(self) -> str:
        """The one-line form: `FILE:LINE: SEVERITY CODE MESSAGE; fix: FIX`, printable, long parts cut."""
        return f"{self.file}:{self.line}: {self.severity} {self.code} {_line(self.message)}; fix: {_line(self.fix)}"


def _line(text: str) -> str:
    """The text on one line that no word of a file can leave or repaint."""
    cut = text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)


def is_seen(char: str) -> bool:
    """Whether a reader sees the character for what it is: no control, nothing invisible, reordering or unassigned."""
    if char.isprintable():
        return char not in _UNSEEN
    return unicodedata.category(char) in ("Zs", "Co")


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known names closest to `word`, at most three, nearest first; empty when none is close."""
    import difflib  # only needed once something went wrong

    return difflib.get_close_matches(word, sorted(set(known)), n=3, cutoff=0.6)


def near_text(word: str, known: Iterable[str]) -> str:
    """`; near: a, b` for a message, or nothing when no known name is close."""
    close = nearest(word, known)
    return f"; near: {', '.join(close)}" if close else ""
