"""The question whether a project may act, and the answer at the terminal. Decides nothing; everything is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.view.ask import NO_KEY, page
from harness.view.terminal import CTRL_C, CTRL_D, ENTER, Terminal, answered, read_key
from harness.view.text import one_line, wrap

Answer = Literal["y", "o", "n"]
YES, ONCE, NO = "y trust it", "o only this run, confined", "[n] no"
OWN = "y it is my own work"
PROMISE = "What is trusted runs under your policy, as any tool does; a change asks again."
OWNED = (
    "Of your own work nothing is pinned: its tools run under your policy, and no change of it ever asks.",
    "If somebody else wrote it, look at what it brings instead: harness trust",
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: what is to be run, where, what it would use, and what has changed since it was trusted.

    `once` says that "only this run" is an answer.
    """

    what: str
    places: Sequence[str]
    lines: Sequence[tuple[str, str]]
    changes: Sequence[str] = ()
    once: bool = True


def question_text(question: Question, columns: int) -> str:
    """The question without its keys, in lines of at most so many columns."""
    state = "has changed since you trusted it" if question.changes else "is not trusted yet"
    places = ", ".join(map(one_line, question.places))
    lines = [*wrap(f"? {places} {state}", columns), *wrap(f"to run: {one_line(question.what)}", columns, "    ")]
    for label, text in question.lines:
        first, *rest = wrap(f"{label}: {one_line(text)}", columns - 4)
        lines += [f"    {first}", *(f"      {line}" for part in rest for line in wrap(part, columns - 6))]
    for change in question.changes:
        lines += wrap(one_line(change), columns, "  ")
    return "\n".join([*lines, *wrap(PROMISE, columns, "    ")]) + "\n"


def keys_text(question: Question) -> str:
    """The keys, one a line."""
    return _keys_text((YES, ONCE, NO) if question.once else (YES, NO))


def _keys_text(keys: Sequence[str]) -> str:
    return "".join(f"    {key}\n" for key in keys) + "> "


def own_text(project: str, columns: int) -> str:
    """The question whether a folder is the person's own work, without its keys."""
    lines = wrap(f"? is {one_line(project)} your own work?", columns)
    return "\n".join([*lines, *(line for text in OWNED for line in wrap(text, columns, "    "))]) + "\n"


def ask_trust(question: Question, path: str = "/dev/tty") -> Answer | None:
    """The person's word; Enter, Ctrl-C and Ctrl-D are no, another key asks again. None: nobody could be asked."""
    return answered(path, lambda terminal: _ask(terminal, question))


def ask_own(project: str, path: str = "/dev/tty") -> Answer | None:
    """The same about a folder that is said to be the person's own work."""
    def ask(terminal: Terminal) -> Answer:
        terminal.write(own_text(project, terminal.size()[0]))
        return _picked(terminal, _keys_text((OWN, NO)), once=False)

    return answered(path, ask)


def _ask(terminal: Terminal, question: Question) -> Answer:
    columns, lines = terminal.size()
    text = question_text(question, columns)
    if text.count("\n") + 4 > lines:
        page(terminal, text)
    else:
        terminal.write(text)
    return _picked(terminal, keys_text(question), question.once)


def _picked(terminal: Terminal, keys: str, once: bool) -> Answer:
    while True:
        terminal.write(keys)
        key = read_key(terminal.fd)
        terminal.write((key[:1] if key.isprintable() else "") + "\n")
        if key == "y":
            return "y"
        if key == "o" and once:
            return "o"
        if key in ("n", CTRL_C, CTRL_D, *ENTER):
            return "n"
        terminal.write(f"    {NO_KEY}\n")
