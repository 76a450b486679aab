"""What a person is asked: whether one call may act, or what the model wants to know. Decides nothing.

The texts are pure functions of the request; what the model says comes last and labelled.
"""

from __future__ import annotations

import hashlib
import os
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.events.origins import LONG, origins, shortened
from harness.view.terminal import (
    CTRL_C,
    CTRL_D,
    ENTER,
    LostError,
    Poll,
    Terminal,
    answered,
    asking,
    read_key,
    read_line,
    settle,
)
from harness.view.text import escape, one_line, shown_argv, width, wrap

MOST_OF_FILE = 1 << 20
ACTS = {
    "read": "READ", "write": "WRITE", "external": "act EXTERNALLY", "money": "move MONEY",
    "destructive": "act DESTRUCTIVELY",
}  # fmt: skip
WIDEST = 100
"""Columns over which the parts of a line are not spread out."""
YOURS = "your words"
"""How a value that the person named says where it is from; all else is not."""
UNSEEN = "a value is longer than a screen: look at it with e first"
UNREAD = "the question is longer than a screen: read it to its end with e first"
NO_KEY = "that is none of the keys; nothing was answered"
ANY_HOST = "network any host"
"""What is really reachable where nothing holds a call to the hosts that it names."""
KEEPS = {"r": "run", "a": "always", "h": "host"}
"""A key → which remembered yes it gives."""
Request = dict[str, Any]
"""Keys: skill tool effect argv (without the tool) path cwd n of turn spent level network secrets sources (an option's)
digest reasons diff text (the model's), and which answers may be remembered: remember, for how many days, hosts."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's word. `verdict` None: nobody could be asked, or `why` says where else the word came from."""

    verdict: Literal["allow", "deny", "quit"] | None
    why: str | None = None
    grant: str = "once"


def approval_text(request: Request, columns: int) -> str:
    """The question for one call. Everything is escaped, nothing is cut without saying so."""
    who = f"{one_line(str(request.get('skill') or 'run'))} → {one_line(str(request['tool']))}"
    effect = str(request.get("effect") or "external")
    lines = _spread(f"? {who} wants to {ACTS.get(effect, one_line(effect))}", _place(request), columns, "  ")
    cwd = f"in {one_line(_at_home(str(request['cwd'])))}" if request.get("cwd") else ""
    lines += _spread(f"    {_command(request)}", cwd, columns, "    ")
    for value in request["argv"]:
        lines += wrap(_cut_note(value), columns, "    ") if len(value) > LONG else []
    for what, sources in origins(request.get("sources") or {}):
        lines += wrap(_origin(what, sources), columns, "    ")
    lines += wrap(_facts(request), columns, "    ")
    for reason in request.get("reasons") or ():
        lines += wrap(f"rule: {one_line(str(reason))}", columns, "    ")
    for line in request.get("diff") or ():
        lines += wrap(one_line(line), columns, "    ")
    if request.get("text"):
        lines += wrap(f'the model says: "{one_line(shortened(str(request["text"])))}"', columns, "    ")
    return "\n".join(lines) + "\n"


def _spread(left: str, right: str, columns: int, indent: str) -> list[str]:
    """Two parts on one line, at its ends, where they fit; else below each other."""
    most = min(columns, WIDEST)
    if right and width(left) + 3 + width(right) <= most:
        return [left + " " * (most - width(left) - width(right)) + right]
    pad = left[: len(left) - len(left.lstrip())]
    return wrap(left.lstrip(), columns, pad) + (wrap(right, columns, indent) if right else [])


def _at_home(path: str) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a text is wanted, and there may be no home
    return f"~{path.removeprefix(home)}" if home != "/" and (path == home or path.startswith(f"{home}/")) else path


def _origin(what: str, sources: Sequence[str]) -> str:
    """Where an argument's value is from: `--request-id r-1841  from search-logs #7, not your words`."""
    others = [one_line(source) for source in sources if source != YOURS]
    told = [YOURS, *others] if YOURS in sources else [*others, "not your words"]
    return f"{one_line(what)}  {'from ' if len(told) > 1 or YOURS in sources else ''}{', '.join(told)}"


def _place(request: Request) -> str:
    parts = [f"{request.get('n', 1)} of {request.get('of', 1)}"]
    parts += [f"turn {request['turn']}"] if request.get("turn") else []
    parts += [one_line(str(request["spent"]))] if request.get("spent") else []
    return " · ".join(parts)


def _command(request: Request) -> str:
    """The argv as it will run; long values stand in it with head, tail and length."""
    path = one_line(str(request.get("path") or request["tool"]))
    return f"{path} {shown_argv(map(shortened, request['argv']))}".rstrip()


def _facts(request: Request) -> str:
    parts = [f"confinement {one_line(str(request['level']))}"] if request.get("level") else []
    parts += [one_line(str(request["network"]))] if request.get("network") else []
    parts += [f"secrets {' '.join(map(one_line, request['secrets']))}"] if request.get("secrets") else []
    parts += [f"digest {one_line(str(request['digest']))[:8]}"] if request.get("digest") else []
    return " · ".join(parts)


def _cut_note(value: str) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"a value of {len(value)} characters (sha256 {digest}) is cut here; e shows it whole"


def over_a_screen(request: Request, columns: int, lines: int) -> bool:
    """True when a value is longer than a screen: it must have been paged before `y` counts."""
    return any(len(wrap(escape(value), columns)) > lines for value in request["argv"])


def long_values(request: Request) -> str:
    """What `e` shows first: the values whole that the prompt cuts. Escaped."""
    return escape("\n\n".join(f"a value of {len(v)} characters:\n{v}" for v in request["argv"] if len(v) > LONG))


def tool_text(request: Request) -> str:
    """What `e` shows then: the tool's file. Escaped."""
    path = Path(str(request.get("cwd") or "")) / str(request.get("path") or request["tool"])
    try:
        with path.open("rb") as file:
            text = file.read(MOST_OF_FILE).decode("utf-8", "replace")
        return escape(f"{path}:\n{request['hide'](text) if 'hide' in request else text}")
    except OSError as failure:
        return escape(f"{path}: cannot be read: {failure.strerror}")


def approve(request: Request, poll: Poll | None = None, path: str = "/dev/tty") -> Approval:
    """Ask for one approval. Enter and Ctrl-D are no, Ctrl-C is `q`, another key asks again; a lost terminal is None."""
    with asking(path) as terminal:
        if terminal is None:
            return Approval(None)
        try:
            return _approve(terminal, request, poll)
        except LostError as ended:
            return Approval(None, str(ended) or None)
        except (OSError, termios.error):
            return Approval(None)


def _approve(terminal: Terminal, request: Request, poll: Poll | None) -> Approval:
    seen = _show(terminal, request, poll)
    paged = not over_a_screen(request, *terminal.size())
    while True:
        terminal.write(keys_text(terminal.size()[0], request) + "> ")
        key = read_key(terminal.fd, poll)
        terminal.write((key if len(key) == 1 and key.isprintable() else "") + "\n")  # a paste is no key, and no `y`
        yes = key == "y" or KEEPS.get(key) in (request.get("remember") or ())
        if yes and seen and paged:
            return Approval("allow", grant=KEEPS.get(key, "once"))
        if yes:
            terminal.write(f"    {UNSEEN if seen else UNREAD}\n")
        elif key == "e":
            seen = seen or _show(terminal, request, poll)
            paged = page(terminal, long_values(request), poll) or paged
            page(terminal, tool_text(request), poll)
        elif key in ("q", CTRL_C):
            return Approval("quit")
        elif key == "n":
            return Approval("deny", _why(terminal, poll))
        elif key in (*ENTER, CTRL_D):
            return Approval("deny")
        else:
            terminal.write(f"    {NO_KEY}\n")


def _show(terminal: Terminal, request: Request, poll: Poll | None) -> bool:
    """The question for one call; one that is longer than the screen in pages, and its first lines again at their end.

    True when the whole of it was shown.
    """
    columns, lines = terminal.size()
    text = approval_text(request, columns)
    if text.count("\n") + keys_text(columns, request).count("\n") < lines:
        terminal.write(text)
        return True
    whole = page(terminal, text.rstrip("\n"), poll)
    terminal.write("\n".join(text.splitlines()[:2]) + "\n")
    return whole


def keys_text(columns: int, request: Request) -> str:
    """The keys, as many on a line as fit whole. Those that remember a yes stand there where it would count."""
    days = f"{request.get('days', 0)} days"
    hosts = " ".join(map(one_line, request.get("hosts") or ()))
    host = f"h any call to {hosts}, {days}"
    if request.get("network") == ANY_HOST:  # below full nothing keeps it there
        host = f"h any call that names {hosts}, {days}, though it could reach any host"
    kept = {"run": "r this run", "always": f"a always, {days}", "host": host}
    keys = ["y once", *(kept[word] for word in request.get("remember") or () if word in kept)]
    keys += ["e show the tool", "n no, and tell it why", "q stop", "[n] no"]
    lines, torn = [f"    {keys[0]}"], False
    for key in keys[1:]:
        if not torn and width(f"{lines[-1]}   {key}") <= columns:
            lines[-1] += f"   {key}"
            continue
        more = wrap(key, columns, "    ")
        torn = len(more) > 1  # what follows must not stand behind the rest of it
        lines += more
    return "\n".join(lines) + "\n"


def _why(terminal: Terminal, poll: Poll | None) -> str | None:
    """The sentence for the model. None given, or a terminal that is lost meanwhile, is still a no."""
    terminal.write("    why (Enter for no reason): ")
    try:
        return read_line(terminal, poll) or None
    except (LostError, OSError, termios.error):
        return None


def page(terminal: Terminal, text: str, poll: Poll | None = None) -> bool:
    """Show a long text a screen at a time; any key goes on, `q` leaves. True when all of it was shown."""
    columns, lines = terminal.size()
    room = max(1, lines - 2)
    rest = wrap(text, columns) if text else []
    while rest:
        terminal.write("\n".join(rest[:room]) + "\n")
        rest = rest[room:]
        if rest:
            terminal.write(f"-- {len(rest)} more lines; a key goes on, q leaves -- ")
            key = read_key(terminal.fd, poll, dead=0.0)
            terminal.write("\n")
            if key in ("q", CTRL_C, CTRL_D):
                return False
    return True


def question_text(question: str, options: Sequence[str], columns: int, asker: str) -> str:
    """A question, labelled as the words of who asks, and numbered options. Escaped; set in from its second line."""
    first, *more = wrap(f"? {one_line(asker)} asks: {escape(question)}", max(1, columns - 4))
    lines = [first, *(f"    {line}" for line in more)]
    for number, option in enumerate(options, 1):
        lines += wrap(f"{number}  {one_line(option)}", columns, "    ")
    hint = "a number, or your own words" if options else "your own words"
    return "\n".join([*lines, *wrap(f"{hint}; Ctrl-D to answer later", columns, "    ")]) + "\n"


def ask_own(question: str, path: str = "/dev/tty") -> bool:
    """A question of the harness's own, about its own files: only `y` or `yes` is yes."""

    def ask(terminal: Terminal) -> bool:
        terminal.write(f"{escape(question)} y yes · [n] no\n> ")
        settle(terminal.fd)
        return (read_line(terminal) or "").lower() in ("y", "yes")

    return answered(path, ask) or False


def ask_question(
    question: str, options: Sequence[str] = (), poll: Poll | None = None, path: str = "/dev/tty",
    asker: str = "the model",
) -> str | None:  # fmt: skip
    """The person's answer: an option's text for its number, or what was typed. None: later, or the terminal is lost."""
    return answered(path, lambda terminal: _answer(terminal, question, options, poll, asker))


def _answer(terminal: Terminal, question: str, options: Sequence[str], poll: Poll | None, asker: str) -> str | None:
    terminal.write(question_text(question, options, terminal.size()[0], asker))
    settle(terminal.fd)
    while True:
        terminal.write("> ")
        line = read_line(terminal, poll)
        if line is None:
            return None
        if line in map(str, range(1, len(options) + 1)):
            return options[int(line) - 1]
        if line:
            return line
