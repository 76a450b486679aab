"""The grammar of one declared argument, as in `@option -s --name! <NOTATION> text`. What it accepts: `notation`."""

from __future__ import annotations

import re
from typing import Literal

from harness.tools import Parameter
from harness.tools.notation import expected, shown

MAX_NAME = 64
_LONG = re.compile(r"(?:-([A-Za-z0-9])[ \t]+)?--(?=[A-Za-z])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SPLIT_MOD = re.compile(r"[*+][,:@|/]")
_DEFAULT = re.compile(r'=(?:"([^"]*)"|([^ \t"\[<`][^ \t]*))(?=[ \t]|$)')
_CHOICES = re.compile(r"\[(=?)([^\]`]*)\]")
_NOTATION = re.compile(r"<([A-Z][A-Z0-9_-]*)>(?=[ \t]|$)")
_MORE_NOTATION = re.compile(r"<[A-Z][A-Z0-9_-]*[*+?]?>(?=[ \t]|$)")
_BOUND_ENV = re.compile(r"\$\$(?=[ \t]|$)")


class BadTag(ValueError):
    """A tag that cannot be read; the text says why."""


class Unsupported(ValueError):
    """Valid argc that is not supported here; the text names it."""


def read_parameter(kind: Literal["arg", "option", "flag"], text: str, line: int) -> Parameter:
    """What follows `@arg`, `@option` or `@flag`. Raises BadTag or Unsupported."""
    if kind == "arg":
        return _read(kind, None, text, line)
    found = _LONG.match(text)
    if found is None:
        if re.match(r"[-+][A-Za-z0-9]", text):
            raise Unsupported(f"{_first(text)}, an option without a long name")
        raise BadTag(f"@{kind} needs a name such as --name")
    return _read(kind, found[1], text[found.end() :], line)


def read_input(text: str, line: int) -> Parameter:
    """An `@option` without dashes, as a skill declares its inputs. Raises BadTag or Unsupported."""
    return _read("option", None, text, line)


def _read(kind: Literal["arg", "option", "flag"], short: str | None, text: str, line: int) -> Parameter:
    name, rest = _name(text)
    mod, rest = _mod(kind, rest)
    default, choices, rest = _value(kind, rest)
    if rest and rest[0] not in " \t":
        raise BadTag(f"{_first(rest)} after {name} cannot be read")
    notation, said = _notation(kind, rest.strip(" \t"))
    made = Parameter(name, kind, said, short, mod, default, choices, notation, line)
    _check(made)
    return made


def _name(text: str) -> tuple[str, str]:
    found = _NAME.match(text)
    if found is None:
        raise BadTag(f"{_first(text)} is no name" if text else "a name is missing")
    if len(found[0]) > MAX_NAME:
        raise BadTag(f"the name {found[0][:20]}… is longer than {MAX_NAME} characters")
    return found[0], text[found.end() :]


def _mod(kind: str, rest: str) -> tuple[str, str]:
    if rest.startswith("~") or _SPLIT_MOD.match(rest):
        raise Unsupported(f"the modifier {_first(rest)}")
    mod = rest[:1] if rest[:1] in ("!", "*", "+") else ""
    if kind == "flag" and mod in ("!", "+"):
        raise BadTag(f"a flag cannot have {mod}")
    return mod, rest[len(mod) :]


def _value(kind: str, rest: str) -> tuple[str | None, tuple[str, ...], str]:
    """(default, choices, what follows)"""
    if rest[:1] not in ("=", "["):
        return None, (), rest
    if kind == "flag":
        raise BadTag("a flag cannot have a value")
    if re.match(r"=`|\[=?[^\] \t]*`", rest):
        raise Unsupported(f"values from a function, {_first(rest)}")
    return _default(rest) if rest.startswith("=") else _choices(rest)


def _default(rest: str) -> tuple[str | None, tuple[str, ...], str]:
    found = _DEFAULT.match(rest)
    if found is None:
        raise BadTag(f"the default {_first(rest)} cannot be read")
    return found[1] if found[1] is not None else found[2], (), rest[found.end() :]


def _choices(rest: str) -> tuple[str | None, tuple[str, ...], str]:
    found = _CHOICES.match(rest)
    if found is None or not found[2] or " " in found[2] or "\t" in found[2]:
        raise BadTag(f"the choices {_first(rest)} cannot be read")
    choices = tuple(dict.fromkeys(found[2].split("|")))
    return choices[0] if found[1] else None, choices, rest[found.end() :]


def _notation(kind: str, rest: str) -> tuple[str | None, str]:
    if _BOUND_ENV.match(rest):
        raise Unsupported("$$, a value from the environment")
    if kind == "flag":
        return None, rest
    found = _NOTATION.match(rest)
    after = rest[found.end() :].lstrip(" \t") if found else rest
    if more := _MORE_NOTATION.match(after):
        raise Unsupported(f"the notation {shown(more[0])}")
    return found[1] if found else None, after


def _first(text: str) -> str:
    return shown(re.split(r"[ \t]", text, maxsplit=1)[0])


def _check(made: Parameter) -> None:
    if made.default is not None and made.mod:
        raise BadTag(f"{made.name} cannot have a default together with {made.mod}")
    for word in made.choices or (() if made.default is None else (made.default,)):
        if (want := expected(made.notation, word)) is not None:
            raise BadTag(f"{made.name}: {shown(word)} is no {made.notation}, which is {want}")


def is_spelled(text: str) -> bool:
    """Whether a text could be an argument as a header's other lines write it: `--name` or `name`."""
    return _NAME.fullmatch(text.removeprefix("--")) is not None
