"""The four verbs a model speaks: the exact objects that are sent, and the check of a call's form.

What a call may do is decided elsewhere; here only its shape counts. The bytes of `TOOLS` are part of every request's
cached prefix, so a changed letter is a changed product: a test pins them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.errors import TOO_LARGE, near_text
from harness.models import Call, Reply
from harness.tools.notation import MAX_DEPTH, json_depth

_READ = (
    "Read a file. A relative path is in the workspace; `skill:FILE` is in the skill, `run:FILE` in this run; "
    "`op:7` is all output of operation 7."
)
_RUN = (
    "Run a callable tool. `args` is its argument vector, one string a word: no shell, no quoting; "
    "`--help` alone explains it. Independent calls in one reply run at the same time."
)
_ASK = "Ask the person what neither reading nor running can tell."
_FINISH = (
    "Propose the answer, alone in its reply. It is accepted when the required results are fresh "
    "and the checks pass; otherwise you get what is missing."
)
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_LINES: dict[str, Any] = {"type": "string", "description": "`1-200`, or `-50` for the last 50"}


def _verb(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


TOOLS: tuple[dict[str, Any], ...] = (
    _verb("read", _READ, {"path": _TEXT, "lines": _LINES}, ["path"]),
    _verb("run", _RUN, {"tool": _TEXT, "args": _TEXTS}, ["tool", "args"]),
    _verb("ask", _ASK, {"question": _TEXT, "options": _TEXTS}, ["question"]),
    _verb("finish", _FINISH, {"answer": _TEXT}, ["answer"]),
)
VERBS = tuple(tool["name"] for tool in TOOLS)
_SCHEMAS: dict[str, dict[str, Any]] = {tool["name"]: tool["input_schema"] for tool in TOOLS}


def tools_json() -> str:
    """The value of `tools` as it is sent: one line of compact JSON."""
    return json.dumps(TOOLS, ensure_ascii=False, separators=(",", ":"))


def check_call(verb: str, arguments: object) -> str | None:
    """Every rule of form that a call breaks, joined by `; `; None for a well-formed one."""
    if depth_of(arguments) > MAX_DEPTH:
        return f"{TOO_LARGE}: JSON nested more than {MAX_DEPTH} deep"
    schema = _SCHEMAS.get(verb)
    if schema is None:
        return f"unknown verb {verb!r}{near_text(verb, VERBS)}; verbs: {', '.join(VERBS)}"
    if not isinstance(arguments, Mapping):
        return f"the arguments of {verb} must be an object"
    broken = [f"missing {key}" for key in schema["required"] if key not in arguments]
    for key, value in arguments.items():
        broken += _check_value(key, value, schema["properties"])
    return "; ".join(broken) or None


def _check_value(key: str, value: object, properties: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if key not in properties:
        return [f"unknown argument {key!r}{near_text(key, properties)}"]
    if properties[key]["type"] == "string":
        if not isinstance(value, str):
            return [f"{key} must be text"]
        return [f"{key} is empty"] if key in ("path", "tool", "question") and not value.strip() else []
    if not isinstance(value, list):
        return [f"{key} must be a list of texts"]
    return [f"{key}[{i}] must be text" for i, item in enumerate(value) if not isinstance(item, str)]


def make_call(call_id: str, verb: str, arguments: object) -> Call:
    """A call with its form checked; arguments that are no object, or nest too deep, are dropped, the error says so."""
    kept = dict(arguments) if isinstance(arguments, Mapping) and depth_of(arguments) <= MAX_DEPTH else {}
    return Call(call_id, verb, kept, check_call(verb, arguments))


def depth_of(value: object, most: int = MAX_DEPTH) -> int:
    """How deep lists and objects nest in a value, counted up to `most` + 1; a text counts as the JSON it is."""
    if isinstance(value, str):
        return json_depth(value) if value.lstrip()[:1] in ("{", "[") else 0
    depth, layer = 0, [value]
    while layer and depth <= most:
        layer = [part for one in layer for part in _parts(one)]
        depth += bool(layer)
    return depth


def _parts(value: object) -> list[object]:
    """What a list or an object holds; a plain value where it is empty, so that it counts as a layer."""
    found = list(value.values()) if isinstance(value, Mapping) else list(value) if isinstance(value, list) else None
    return [] if found is None else found or [None]


def proposal(turn: int, verb: str, arguments: Mapping[str, Any], served: str) -> Reply:
    """A reply of one call, from whoever speaks without a request."""
    call = make_call(f"call_{turn}_1", verb, arguments)
    content = [{"type": "tool_use", "id": call.id, "name": verb, "input": dict(arguments)}]
    return Reply(content, "anthropic", "", (call,), served=served)


def calls_or_finish(text: str, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """A reply with text and no call counts as `finish` with that text; an empty reply has no call."""
    if calls or not text.strip():
        return calls
    return (Call("", "finish", {"answer": text}, implicit=True),)
