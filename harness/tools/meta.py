"""The `@meta` lines of a header: what each key means, and what is wrong with its value. Never what is done about it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from harness.errors import Finding, near_text
from harness.tools import Effect, EnvVar, Parameter, Repeat
from harness.tools.notation import is_host, parse_duration, shown

DAY = 86400.0
ONCE = ("effect", "repeat", "timeout", "ttl", "query")
ROLES = ("writes", "dest", "amount", "limit")
KEYS = (*ONCE, "known", "produces", "net", *ROLES)
ARGC_KEYS = (
    *("version", "author", "require-tools", "dotenv", "symbol", "man-section", "default-subcommand"),
    *("inherit-flag-options", "combine-shorts", "no-inherit-env"),
)
PLACE = re.compile(r"\{((?:--)?[A-Za-z][A-Za-z0-9_-]*)\}")
_SHELL_VARIABLE = re.compile(r"\$[A-Za-z_{]")
_CURRENCY = re.compile(r"[A-Z]{3}")
_LIMIT = re.compile(r"(?:(?:memory|file_size|output)=[1-9][0-9]{0,11}[KMGT]?|(?:procs|files)=[1-9][0-9]{0,8})")


class BadValue(ValueError):
    """A value that its key does not take; the text says why."""


@dataclass(slots=True)
class Meta:
    """The values as far as they could be read. `effect` keeps a word that is no effect, so that calls can be denied."""

    effect: str | None = None
    repeat: str | None = None
    timeout: float = 60.0
    ttl: float | None = None
    query: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    produces: tuple[str, ...] = ()
    net: tuple[str, ...] = ()
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Names:
    """The names a header declares, as its other lines write them: `--option`, `arg`, `ENV_NAME`."""

    arguments: tuple[str, ...]
    env: tuple[str, ...]

    @classmethod
    def of(cls, parameters: Sequence[Parameter], env: Sequence[EnvVar]) -> Names:
        return cls(tuple(spelled(parameter) for parameter in parameters), tuple(variable.name for variable in env))

    def need(self, word: str) -> str:
        """`word`, if it is a declared argument. Raises BadValue."""
        if word not in self.arguments:
            raise BadValue(f"{shown(word)} is not declared{near_text(word, self.arguments)}")
        return word


def spelled(parameter: Parameter) -> str:
    """`--name` of an option or flag, `name` of a positional one."""
    return parameter.name if parameter.kind == "arg" else f"--{parameter.name}"


def read_meta(lines: Sequence[tuple[int, str]], names: Names, file: str) -> Meta:
    """`lines` are what follows `@meta`, with their line numbers."""
    made = Meta()
    seen: dict[str, int] = {}
    for line, text in lines:
        key, _, value = text.replace("\t", " ").partition(" ")
        if key not in KEYS:
            made.findings += _unknown(key, file, line)
            continue
        try:
            if key in ONCE and key in seen:
                raise BadValue(f"is given again, first on line {seen[key]}")
            seen.setdefault(key, line)
            _set(made, key, value.strip(" "), names)
        except BadValue as error:
            made.findings.append(_bad(file, line, key, str(error)))
    made.findings += _together(made, seen, file)
    return made


def _set(made: Meta, key: str, value: str, names: Names) -> None:
    if not value:
        raise BadValue("has no value")
    if key in ROLES:
        made.roles[key] = (*made.roles.get(key, ()), *_ROLE_READERS[key](value.split(), names))
    elif key == "known":
        made.known = (*made.known, *(names.need(word).removeprefix("--") for word in value.split()))
    elif key == "produces":
        made.produces = (*made.produces, _produced(value, names))
    elif key == "net":
        made.net = _net(made.net, value.split(), names)
    elif key == "query":
        made.query = _query(value, names)
    elif key == "effect":
        made.effect = value
        _one_of(value, get_args(Effect))
    elif key == "repeat":
        made.repeat = _one_of(value, get_args(Repeat))
    elif key == "timeout":
        made.timeout = _seconds(value, 1.0, DAY)
    else:
        made.ttl = _seconds(value, 0.0, float("inf"))


def _one_of(word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise BadValue(f"cannot be {shown(word)}{near_text(word, known)}; it is one of {', '.join(known)}")
    return word


def _seconds(text: str, least: float, most: float) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise BadValue(f"{shown(text)} is no duration, such as 90, 2h or 1d12h")
    if not least <= seconds <= most:
        raise BadValue(f"{shown(text)} is out of range" + (", which is 1s to 24h" if most == DAY else ""))
    return seconds


def _produced(path: str, names: Names) -> str:
    if path.startswith("/"):
        raise BadValue(f"{shown(path)} is absolute; the path is relative to the workspace")
    if ".." in path.split("/"):
        raise BadValue(f"{shown(path)} leaves the workspace")
    for word in PLACE.findall(path):
        names.need(word)
    return path


def _net(before: tuple[str, ...], words: Sequence[str], names: Names) -> tuple[str, ...]:
    every = (*before, *words)
    if "none" in every and len(every) > 1:
        raise BadValue("cannot be none beside others")
    for word in words:
        if word != "none" and word not in names.env and word not in names.arguments:
            _need_host(word, names)
    return every


def _need_host(word: str, names: Names) -> None:
    """A host of one word needs its port: without one it cannot be told from a mistyped name."""
    if word.startswith("-") or not is_host(word) or not (set(".:") & set(word) or word == "localhost"):
        known = (*names.arguments, *names.env)
        if word.startswith("{") and word.strip("{}") in known:
            raise BadValue(f"{shown(word)} is written {word.strip('{}')} here, without braces")
        raise BadValue(f"{shown(word)} is neither host[:port] nor declared{near_text(word, known)}")


def _query(text: str, names: Names) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadValue(f"{shown(text)} cannot be split into words: {str(error).lower()}") from error
    for word in words:
        if _SHELL_VARIABLE.search(word):  # it would be asked about as it stands, and the answer be "it did not happen"
            raise BadValue(f"{shown(word)} is no place for a value: write {{--option}}, {{arg}} or {{op}}")
        for place in PLACE.findall(word):
            if place != "op":
                names.need(place)
    return words


def _writes(words: Sequence[str], names: Names) -> tuple[str, ...]:
    return tuple(names.need(word) if word.startswith("-") else word for word in words)


def _dest(words: Sequence[str], names: Names) -> tuple[str, ...]:
    return tuple(names.need(word) for word in words)


def _amount(words: Sequence[str], names: Names) -> tuple[str, ...]:
    if len(words) != 2 or not _CURRENCY.fullmatch(words[1]):
        raise BadValue(f"{shown(' '.join(words))} is not an option and a currency, such as --amount EUR")
    return (f"{names.need(words[0])} {words[1]}",)


def _limit(words: Sequence[str], names: Names) -> tuple[str, ...]:
    for word in words:
        if not _LIMIT.fullmatch(word):
            known = "memory=4G, procs=64, files=256, file_size=1G or output=8M"
            raise BadValue(f"{shown(word)} is no limit, such as {known}")
    return tuple(words)


_ROLE_READERS: Mapping[str, Callable[[Sequence[str], Names], tuple[str, ...]]] = {
    "writes": _writes,
    "dest": _dest,
    "amount": _amount,
    "limit": _limit,
}


def _together(made: Meta, lines: Mapping[str, int], file: str) -> list[Finding]:
    """What only shows when all lines are read; settles `repeat` when its query is missing."""
    found: list[Finding] = []
    if made.repeat == "pure" and made.effect in ("money", "destructive"):
        found.append(_bad(file, lines["repeat"], "repeat", f"cannot be pure with effect {made.effect}"))
    if "query" in lines and made.repeat != "queryable":
        found.append(_bad(file, lines["query"], "query", "is given without repeat queryable"))
    if made.repeat == "queryable" and "query" not in lines:
        made.repeat = "opaque"
        message = "repeat queryable has no @meta query, so it counts as opaque"
        fix = "add @meta query TOOL ARGS, or say repeat opaque"
        found.append(Finding("query-missing", "warning", file, lines["repeat"], message, fix))
    return found


def _unknown(key: str, file: str, line: int) -> list[Finding]:
    if not key:
        return [Finding("bad-tag", "error", file, line, "@meta has no key", "write @meta KEY VALUE, or remove it")]
    if key in ARGC_KEYS:
        return []
    if close := difflib.get_close_matches(key, KEYS, n=1, cutoff=0.8):
        message = f"@meta {shown(key)} is not known; near: {close[0]}"
        return [Finding("unknown-meta", "error", file, line, message, f"write @meta {close[0]}, or another word")]
    message = f"@meta {shown(key)} is not known{near_text(key, KEYS)}"
    return [Finding("unknown-meta", "warning", file, line, message, f"use one of {', '.join(KEYS)}, or remove it")]


def _bad(file: str, line: int, key: str, why: str) -> Finding:
    return Finding("bad-value", "error", file, line, f"@meta {key} {why}", f"correct or remove @meta {key}")
