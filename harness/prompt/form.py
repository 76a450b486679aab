"""The form that a reply must have where one is wanted: one of several words, or JSON that fits a schema. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError

_FENCED = re.compile(r"```[a-z]*\n(.*)\n```", re.DOTALL)
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict), "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str), "boolean": lambda v: isinstance(v, bool), "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}  # fmt: skip
_ABOUT = frozenset({"title", "description", "default", "examples", "$schema", "$id", "$comment", "format"})
"""Keywords that say something and demand nothing here."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a reply must be: one of `choices`, or JSON that fits `schema`; without either, any text."""

    choices: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None

    @property
    def asked(self) -> str:
        """How it is asked for; empty where any text will do."""
        if self.choices:
            return f"answer with exactly one of these and nothing else: {', '.join(self.choices)}"
        if self.schema is None:
            return ""
        schema = json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))
        return f"answer with JSON that fits this schema, and nothing else: {schema}"

    def normal(self, text: str) -> str:
        """The reply itself, without what is around it: blanks, the fence of a code block."""
        if not self.asked:
            return text
        bare = text.strip()
        fenced = _FENCED.fullmatch(bare)
        return fenced[1].strip() if fenced else bare

    def misfit(self, text: str) -> str:
        """Why a reply does not fit, or an empty text."""
        bare = self.normal(text)
        if self.choices:
            return "" if bare in self.choices else f"it is none of {', '.join(self.choices)}"
        if self.schema is None:
            return "" if bare.strip() else "it is empty"
        try:
            value = json.loads(bare, parse_constant=_no_number)
        except (ValueError, RecursionError):
            return "it is no JSON"
        return "; ".join(_problems(value, self.schema, "")[:10])


ANY = Form()


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _problems(value: Any, schema: Any, at: str) -> list[str]:
    """Every rule that a value breaks, each with the place in it."""
    if isinstance(schema, bool):
        return [] if schema else [f"{at or 'it'} must not be there"]
    return [text for keyword, rule in _RULES.items() if keyword in schema for text in rule(value, schema, at)]


def _say(at: str, what: str) -> list[str]:
    return [f"{at or 'it'} {what}"]


def _type(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return [] if any(_TYPES[name](value) for name in wanted) else _say(at, f"must be {' or '.join(wanted)}")


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _enum(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    shown = ", ".join(json.dumps(item, ensure_ascii=False) for item in schema["enum"])
    return [] if any(_same(value, item) for item in schema["enum"]) else _say(at, f"must be one of {shown}")


def _const(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    same = _same(value, schema["const"])
    return [] if same else _say(at, f"must be {json.dumps(schema['const'], ensure_ascii=False)}")


def _required(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    gone = [name for name in schema["required"] if name not in value] if isinstance(value, dict) else []
    return _say(at, f"lacks {', '.join(gone)}") if gone else []


def _properties(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    known = schema["properties"]
    pairs = value.items() if isinstance(value, dict) else ()
    return [text for name, item in pairs if name in known for text in _problems(item, known[name], f"{at}.{name}")]


def _additional(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    known, rule = schema.get("properties") or {}, schema["additionalProperties"]
    pairs = value.items() if isinstance(value, dict) else ()
    return [text for name, item in pairs if name not in known for text in _problems(item, rule, f"{at}.{name}")]


def _items(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    items = enumerate(value) if isinstance(value, list) else ()
    return [text for n, item in items for text in _problems(item, schema["items"], f"{at}[{n}]")]


def _any_of(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    fits = any(not _problems(value, option, at) for option in schema["anyOf"])
    return [] if fits else _say(at, "fits none of the allowed forms")


def _length(keyword: str, kind: type[list[Any]] | type[str], fits: Callable[[int, int], bool], what: str) -> Any:
    def check(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
        wrong = isinstance(value, kind) and not fits(len(value), schema[keyword])
        return _say(at, f"must have {what} {schema[keyword]}") if wrong else []

    return check


def _bound(keyword: str, fits: Callable[[float, float], bool], what: str) -> Any:
    def check(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
        wrong = _TYPES["number"](value) and not fits(value, schema[keyword])
        return _say(at, f"must be {what} {schema[keyword]}") if wrong else []

    return check


def _pattern(value: Any, schema: Mapping[str, Any], at: str) -> list[str]:
    wrong = isinstance(value, str) and re.search(schema["pattern"], value) is None
    return _say(at, f"must match {schema['pattern']}") if wrong else []


_RULES: dict[str, Callable[[Any, Mapping[str, Any], str], list[str]]] = {
    "type": _type, "enum": _enum, "const": _const, "required": _required, "properties": _properties,
    "additionalProperties": _additional, "items": _items, "anyOf": _any_of, "pattern": _pattern,
    "minItems": _length("minItems", list, lambda a, b: a >= b, "at least"),
    "maxItems": _length("maxItems", list, lambda a, b: a <= b, "at most"),
    "minLength": _length("minLength", str, lambda a, b: a >= b, "at least"),
    "maxLength": _length("maxLength", str, lambda a, b: a <= b, "at most"),
    "minimum": _bound("minimum", lambda a, b: a >= b, "at least"),
    "maximum": _bound("maximum", lambda a, b: a <= b, "at most"),
}  # fmt: skip
_MEANT: dict[str, Callable[[Any], bool]] = {
    "type": lambda v: bool(v) and all(n in _TYPES for n in (v if isinstance(v, list) else [v]) if isinstance(n, str)),
    "enum": lambda v: isinstance(v, list) and bool(v), "const": lambda v: True,
    "required": lambda v: isinstance(v, list) and all(isinstance(n, str) for n in v),
    "properties": lambda v: isinstance(v, dict), "additionalProperties": lambda v: isinstance(v, dict | bool),
    "items": lambda v: isinstance(v, dict | bool), "anyOf": lambda v: isinstance(v, list) and bool(v),
    "pattern": lambda v: isinstance(v, str),
}  # fmt: skip


def read_schema(text: str, where: str) -> dict[str, Any]:
    """A schema that replies can be judged by. Raises HarnessError for what is none, or says more than is checked here.

    What would not be checked is refused, so that no answer passes for a form that nobody looked at.
    """
    try:
        schema = json.loads(text)
        problem = _unread(schema, "") if isinstance(schema, dict) else "it is no JSON object"
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"the schema is no JSON: {error}", "give a JSON schema", where) from error
    if problem:
        raise HarnessError(f"the schema cannot be used: {problem}", f"keywords: {', '.join(_RULES)}", where)
    return dict(schema)


def _unread(schema: Any, at: str) -> str:
    """The first thing in a schema that cannot be checked, or an empty text."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"{at or 'it'} is no schema"
    for keyword, value in schema.items():
        if keyword in _ABOUT:
            continue
        if keyword not in _RULES or not _MEANT.get(keyword, _is_count)(value):
            return f"{at}/{keyword} is not known" if keyword not in _RULES else f"{at}/{keyword} has a wrong value"
        if keyword == "pattern" and not _compiles(value):
            return f"{at}/pattern is no regular expression"
    below = [(name, schema[name]) for name in ("items", "additionalProperties") if name in schema]
    below += [(f"properties/{name}", item) for name, item in (schema.get("properties") or {}).items()]
    below += [(f"anyOf/{n}", item) for n, item in enumerate(schema.get("anyOf") or ())]
    return next((found for name, item in below if (found := _unread(item, f"{at}/{name}"))), "")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def read_choices(text: str) -> tuple[str, ...]:
    """`a,b,c` as choices. Raises HarnessError."""
    choices: Sequence[str] = [choice.strip() for choice in text.split(",")]
    if not all(choices) or len(set(choices)) != len(choices):
        raise HarnessError(f"--choice {text}: choices are given once each, parted by commas", "write --choice oom,disk")
    return tuple(choices)
