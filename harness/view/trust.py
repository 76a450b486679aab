"""The question whether a project may act, and the answer at the terminal. Decides nothing; everything is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.view.ask import page
from harness.view.terminal import CTRL_C, CTRL_D, ENTER, Terminal, answered, read_key
from harness.view.text import one_line, wrap

Answer = Literal["y", "o", "n"]
YES, ONCE, NO = "y trust it", "o only this run, confined", "[n] no"
PROMISE = "What is trusted runs under your policy, as any tool does; a change asks again."


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
    keys = (YES, ONCE, NO) if question.once else (YES, NO)
    return "".join(f"    {key}\n" for key in keys) + "> "


def ask_trust(question: Question, path: str = "/dev/tty") -> Answer | None:
    """The person's word; Enter, Ctrl-C and Ctrl-D are no, another key asks again. None: nobody could be asked."""
    return answered(path, lambda terminal: _ask(terminal, question))


def _ask(terminal: Terminal, question: Question) -> Answer:
    columns, lines = terminal.size()
    text = question_text(question, columns)
    if text.count("\n") + 4 > lines:
        page(terminal, text)
    else:
        terminal.write(text)
    while True:
        terminal.write(keys_text(question))
        key = read_key(terminal.fd)
        terminal.write((key[:1] if key.isprintable() else "") + "\n")
        if key == "y":
            return "y"
        if key == "o" and question.once:
            return "o"
        if key in ("n", CTRL_C, CTRL_D, *ENTER):
            return "n"
