"""Puts the chunks of a chat-completions stream together into the message they are parts of, and reads its counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.models import Usage

Json = dict[str, Any]


class MalformedReplyError(ValueError):
    """The stream holds what no chunk may hold."""


class Assembly:
    """One message as it grows. `on` is given its text. Calls are joined by their index, and stand in its order."""

    def __init__(self, on: Callable[[str], None]) -> None:
        self.message: Json = {"role": "assistant", "content": None}
        self.finish: str | None = None
        self.usage: Mapping[str, Any] | None = None
        self.served, self.id = "", ""
        self.fingerprint = ""
        self._on = on
        self._calls: list[tuple[int, Json]] = []

    def chunk(self, chunk: Json) -> None:
        """Take one event of a stream. Raises MalformedReplyError."""
        self._about(chunk)
        for choice in _list(chunk.get("choices")):
            if _object(choice).get("index") not in (None, 0):
                continue
            self._delta(_object(choice.get("delta") or {}))
            self.finish = _text(choice.get("finish_reason")) or self.finish

    def whole(self, body: Json) -> None:
        """Take a reply that came in one piece. Raises MalformedReplyError."""
        self._about(body)
        choices = _list(body.get("choices"))
        if not choices:
            raise MalformedReplyError("a reply without choices")
        message = _object(_object(choices[0]).get("message"))
        calls = [{**_object(call), "index": i} for i, call in enumerate(_list(message.get("tool_calls")))]
        self._delta({**message, "tool_calls": calls})
        self.finish = _text(choices[0].get("finish_reason"))

    def calls(self) -> list[Json]:
        """The calls so far, in index order."""
        return [call for _, call in sorted(self._calls, key=lambda pair: pair[0])]

    def _about(self, body: Json) -> None:
        self.usage = body["usage"] if isinstance(body.get("usage"), Mapping) else self.usage
        self.served = _text(body.get("model")) or self.served
        self.id = _text(body.get("id")) or self.id
        self.fingerprint = _text(body.get("system_fingerprint")) or self.fingerprint

    def _delta(self, delta: Json) -> None:
        for key, value in delta.items():
            if key == "tool_calls":
                for part in _list(value):
                    self._join(_object(part))
            elif key == "content" and not isinstance(value, str | None):
                self._grow(key, _parts(value))
            elif key != "role":
                self._grow(key, value)

    def _grow(self, key: str, value: Any) -> None:
        """Texts grow; of anything else that a server adds the newest stands."""
        before = self.message.get(key)
        if isinstance(value, str) and isinstance(before, str):
            self.message[key] = before + value
        elif value is not None:
            self.message[key] = value
        if key == "content" and isinstance(value, str) and value:
            self._on(value)

    def _join(self, part: Json) -> None:
        call = self._call_of(part)
        for key, value in part.items():
            if key == "function":
                _join_function(call["function"], _object(value))
            elif key not in ("index", "id", "type"):
                call[key] = value  # a server may need it back
        call["id"] = call["id"] or _text(part.get("id")) or ""

    def _call_of(self, part: Json) -> Json:
        """The call that a part belongs to: that of its index, unless it brings another id; without one, the newest."""
        index, name = part.get("index"), _text(part.get("id"))
        if index is not None and (not isinstance(index, int) or index < 0):
            raise MalformedReplyError(f"a call with the index {index!r}")
        known = [pair for pair in self._calls if index is None or pair[0] == index]
        if known and (not name or known[-1][1]["id"] in ("", name)):
            return known[-1][1]
        number = index if index is not None else max((pair[0] for pair in self._calls), default=-1) + 1
        call: Json = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        self._calls.append((number, call))
        return call


def _join_function(function: Json, part: Json) -> None:
    for key, value in part.items():
        if key == "name":
            name = _text(value) or ""
            function["name"] += "" if name == function["name"] else name
        elif key == "arguments":
            given = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
            function["arguments"] += given
        else:
            function[key] = value


def _parts(value: Any) -> str:
    """The text of a content that comes in typed parts."""
    return "".join(_text(part.get("text")) or "" for part in _list(value) if isinstance(part, dict))


def _list(value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise MalformedReplyError(f"not a list: {json.dumps(value)[:100]}")
    return value or []


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise MalformedReplyError(f"not an object: {json.dumps(value)[:100]}")
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def figures(usage: Mapping[str, Any] | None, estimate_in: int, estimate_out: int) -> Usage:
    """Token counts as reported; where there are none the estimates, marked as such."""
    given = usage or {}
    counted = _count(given, "prompt_tokens"), _count(given, "completion_tokens")
    details, more = _details(given, "prompt_tokens_details"), _details(given, "completion_tokens_details")
    return Usage(
        input=estimate_in if counted[0] is None else counted[0],
        out=estimate_out if counted[1] is None else counted[1],
        cached=_count(details, "cached_tokens") or 0,
        written=_count(details, "cache_write_tokens") or 0,
        thinking=_count(more, "reasoning_tokens") or 0,
        estimated=None in counted,
    )


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = usage.get(name)
    return found if isinstance(found, Mapping) else {}


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    found = usage.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
