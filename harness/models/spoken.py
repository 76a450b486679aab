"""A call that came as text: one JSON object that names a verb and its arguments.

Models without a tool parser in front of them write calls so. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from harness.models.decoding import decoded, unambiguous
from harness.models.verbs import VERBS, check_call

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_WRAPPED = re.compile(r"<(tool_call|function_call)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_VERB_KEYS = ("verb", "name", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "input")


def parsed(text: str) -> Any:
    """The JSON value of a text; None for what is none, holds a number that is none, or is nested too deep."""
    try:
        return decoded(text, unambiguous)
    except ValueError:
        return None


def whole_call(text: str, names: Iterable[str]) -> tuple[str, Any] | None:
    """(verb, arguments) when all of the text is one call. `names` are words that may be mistaken for a verb."""
    text = text.strip()
    for form in (_FENCE, _WRAPPED):
        found = form.fullmatch(text)
        text = found[found.re.groups].strip() if found else text
    return _call(parsed(text), names) if text.startswith("{") else None


def last_call(text: str, names: Iterable[str]) -> tuple[str, Any] | None:
    """The same, or the last fenced JSON object of the text when that is a call."""
    objects = [inner for inner in _FENCE.findall(text) if isinstance(parsed(inner), dict)]
    return whole_call(text, names) or (_call(parsed(objects[-1]), names) if objects else None)


def _call(value: Any, names: Iterable[str]) -> tuple[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("function"), Mapping):  # as a provider would have wrapped it
        value = value["function"]
    verb = next((value[key] for key in _VERB_KEYS if isinstance(value.get(key), str)), None)
    given = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if verb is not None and given is not None and (verb in VERBS or verb in set(names)):
        return verb, arguments(given)
    return _keyed(value)


def _keyed(value: Mapping[str, Any]) -> tuple[str, Any] | None:
    """`{"run": {"tool": …}}`: the verb is the only key. A well-formed call alone counts: an answer may look like it."""
    [verb, given] = next(iter(value.items())) if len(value) == 1 else ("", None)
    return (verb, given) if verb in VERBS and check_call(verb, given) is None else None


def arguments(given: Any) -> Any:
    """Arguments as a provider gives them: an object, or a text that should be one. What is neither is kept as it is."""
    if not isinstance(given, str):
        return given
    found = parsed(given) if given.strip() else {}
    return found if isinstance(found, Mapping) else given
