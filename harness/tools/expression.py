"""`${…}` in the words of a pipeline, and the one comparison of `when:`. Evaluates nothing else, and calls nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from harness.tools.notation import shown

FAILED_FIELDS = ("stage", "class", "err")
_REF = re.compile(r"\$\{([a-z0-9-]+)((?:\.[^.{}\s]+)*)\}")
_WHEN = re.compile(r"(\$\{[^{}]*\})\s*(?:(==|!=)\s*'([^']*)'|(in)\s*\[\s*('[^']*'(?:\s*,\s*'[^']*')*)\s*\]|(exists))")


class Missing:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()
"""What a lookup gives for a path that is not there."""


@dataclass(frozen=True, slots=True)
class Ref:
    """`${root.path.to.field}`: `root` is `inputs`, `failed` or a stage."""

    root: str
    path: tuple[str, ...] = ()

    def text(self) -> str:
        return "${" + ".".join((self.root, *self.path)) + "}"


Lookup = Callable[[Ref], object]
"""Gives the JSON value of a reference (a stage without path: its stdout as text), or MISSING."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word as written, and its parts: plain texts and references in turn."""

    text: str
    parts: tuple[str | Ref, ...]
    line: int = 1

    @property
    def refs(self) -> tuple[Ref, ...]:
        return tuple(part for part in self.parts if isinstance(part, Ref))

    @property
    def lone(self) -> bool:
        """Whether it is nothing but one reference, and so may give any number of words."""
        return len(self.parts) == 1 and bool(self.refs)


@dataclass(frozen=True, slots=True)
class When:
    """One comparison of a reference with texts. `exists` has no values, `==` and `!=` have one."""

    ref: Ref
    operator: Literal["==", "!=", "in", "exists"]
    values: tuple[str, ...]
    text: str


class BadExpression(ValueError):
    """A word or comparison that cannot be read; the text says why."""


class Unbound(ValueError):
    """A word refers to something that is not there; `ref` is the reference."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(f"{ref.text()} is not there")
        self.ref = ref


def read_word(text: str, line: int = 1) -> Word:
    """Raises BadExpression for a `${` that begins no reference."""
    parts: list[str | Ref] = []
    at = 0
    for found in _REF.finditer(text):
        parts += [text[at : found.start()]] if found.start() > at else []
        parts.append(_ref(found))
        at = found.end()
    if at < len(text) or not parts:
        parts.append(text[at:])
    for part in parts:
        if isinstance(part, str) and "${" in part:
            raise BadExpression(f"{shown(part[part.index('${') :])} is no reference, such as ${{stage.field}}")
    return Word(text, tuple(parts), line)


def read_when(text: str) -> When:
    """Raises BadExpression for anything but one comparison."""
    found = _WHEN.fullmatch(text.strip())
    ref = _REF.fullmatch(found[1]) if found else None
    if found is None or ref is None:
        wanted = "${x} == 'v', ${x} != 'v', ${x} in ['v', 'w'] or ${x} exists"
        raise BadExpression(f"when: {shown(text.strip())} is not one comparison, which is {wanted}")
    if found[6]:
        return When(_ref(ref), "exists", (), text)
    if found[4]:
        return When(_ref(ref), "in", tuple(re.findall(r"'([^']*)'", found[5])), text)
    return When(_ref(ref), "==" if found[2] == "==" else "!=", (found[3],), text)


def bind(word: Word, lookup: Lookup) -> list[str]:
    """The words it stands for: one, or for a lone reference to a list one for each item. Raises Unbound."""
    values = [part if isinstance(part, str) else _there(part, lookup) for part in word.parts]
    if word.lone and isinstance(values[0], list | tuple):
        return [as_text(item) for item in values[0]]
    return ["".join(as_text(value) for value in values)]


def holds(when: When, lookup: Lookup) -> bool:
    """Whether the comparison is true. A path that is not there equals nothing."""
    value = lookup(when.ref)
    if when.operator == "exists":
        return value is not MISSING
    equal = value is not MISSING and as_text(value) in when.values
    return not equal if when.operator == "!=" else equal


def field(value: object, path: tuple[str, ...]) -> object:
    """The value at `path` of a JSON value (a number indexes a list), or MISSING."""
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and re.fullmatch(r"[0-9]{1,9}", name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def as_text(value: object) -> str:
    """Text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _ref(found: re.Match[str]) -> Ref:
    return Ref(found[1], tuple(found[2].split(".")[1:]))


def _there(ref: Ref, lookup: Lookup) -> object:
    value = lookup(ref)
    if value is MISSING:
        raise Unbound(ref)
    return value
