"""A skill's text: what is filled in for goal and inputs, and how long it is. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from harness.tools import Value

MAX_TOKENS = 5000
MAX_LINES = 500
_PLACE = re.compile(r"(\\?)\$ARGUMENTS(?![A-Za-z0-9_])(?:\[([0-9]{1,6})\])?|\$\{inputs\.([A-Za-z][A-Za-z0-9_-]*)\}")
_INPUT = re.compile(r"\$\{inputs\.([^}\n]{0,80})\}")


def substitute(body: str, goal: str, inputs: Mapping[str, Value]) -> str:
    """The body with goal and inputs filled in, once: what is filled in is not looked at again.

    `$ARGUMENTS` is the goal, `$ARGUMENTS[N]` its N-th word, `${inputs.NAME}` a value; an optional input that was not
    given is nothing. `\\$ARGUMENTS` is the text `$ARGUMENTS`.
    """
    words: list[str] = []

    def fill(found: re.Match[str]) -> str:
        if found[3]:
            return value_text(inputs[found[3]]) if found[3] in inputs else ""
        if found[1]:
            return found[0][1:]
        if found[2] is None:
            return goal
        words[:] = words or goal_words(goal)
        return words[int(found[2])] if int(found[2]) < len(words) else found[0]

    return _PLACE.sub(fill, body)


def goal_words(goal: str) -> list[str]:
    """The goal's words with POSIX quoting, or split at blanks when a quote is open (an apostrophe)."""
    try:
        return shlex.split(goal)
    except ValueError:
        return goal.split()


def value_text(value: Value) -> str:
    """A value as a person writes it: true or false for a flag, a JSON list for a repeatable one."""
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def inputs_used(body: str) -> Iterator[tuple[str, int]]:
    """Each input the body names, once, with the line of the body (from 0) where it is first named."""
    seen: set[str] = set()
    line = last = 0
    for found in _INPUT.finditer(body):
        line, last = line + body.count("\n", last, found.start()), found.start()
        if found[1] not in seen:
            seen.add(found[1])
            yield found[1], line


def tokens(text: str) -> int:
    """An estimate: a token for four bytes, rounded up."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def is_long(body: str) -> bool:
    """Over MAX_TOKENS or MAX_LINES, so that it costs every run more than it should."""
    return tokens(body) > MAX_TOKENS or body.count("\n") + 1 > MAX_LINES
