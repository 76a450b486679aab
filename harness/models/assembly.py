"""Puts the chunks of a chat-completions stream together into the message they are parts of, and reads its counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.models import Usage
from harness.models.decoding import count_in, paired, shares

Json = dict[str, Any]


class MalformedReplyError(ValueError):
    """The stream holds what no chunk may hold."""


class _Pieces:
    """A text that still grows: put together once, however small its pieces are."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)

    def equals(self, text: str) -> bool:
        return self._size == len(text) and self.text == text

    @property
    def text(self) -> str:
        return paired("".join(self._pieces))


class Assembly:
    """One message as it grows. `on` is given its text. Calls are joined by their index, and stand in its order."""

    def __init__(self, on: Callable[[str], None]) -> None:
        self.finish: str | None = None
        self.usage: Mapping[str, Any] | None = None
        self.served, self.id = "", ""
        self.fingerprint = ""
        self._on = on
        self._message: Json = {"role": "assistant", "content": None}
        self._calls: list[tuple[int, Json]] = []
        self._newest: dict[int, Json] = {}
        self._highest = -1

    @property
    def message(self) -> Json:
        """The message so far, without its calls."""
        return _joined(self._message)

    def chunk(self, chunk: Json) -> None:
        """Take one event of a stream. Raises MalformedReplyError."""
        self._about(chunk)
        for choice in _list(chunk.get("choices")):
            if _index(_object(choice).get("index")) not in (None, 0):
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
        ordered = sorted(self._calls, key=lambda pair: pair[0])
        return [{**call, "function": _joined(call["function"])} for _, call in ordered]

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
        if isinstance(value, str):
            _add(self._message, key, value)
        elif value is not None:
            self._message[key] = value
        if key == "content" and isinstance(value, str) and value:
            self._on(paired(value))

    def _join(self, part: Json) -> None:
        call = self._call_of(part)
        for key, value in part.items():
            if key == "function":
                _join_function(call["function"], _object(value or {}))
            elif key not in ("index", "id", "type"):
                call[key] = value  # a server may need it back
        call["id"] = call["id"] or _text(part.get("id")) or ""

    def _call_of(self, part: Json) -> Json:
        """The call that a part belongs to: that of its index, unless it brings another id; without one, the newest."""
        index, name = _index(part.get("index")), _text(part.get("id"))
        newest = self._calls[-1][1] if self._calls else None
        known = newest if index is None else self._newest.get(index)
        if known is not None and (not name or known["id"] in ("", name)):
            return known
        number = self._highest + 1 if index is None else index
        self._highest = max(self._highest, number)
        call: Json = {"id": "", "type": "function", "function": {"name": _Pieces(), "arguments": _Pieces()}}
        self._calls.append((number, call))
        self._newest[number] = call
        return call


def _index(value: Any) -> int | None:
    """The index of a call; there are servers that write 0.0 or "0"."""
    if value is None:
        return None
    try:
        found = int(value)
        if found >= 0 and found == float(value):
            return found
    except (TypeError, ValueError, OverflowError):
        pass
    raise MalformedReplyError(f"a call with the index {json.dumps(value)[:100]}")


def _join_function(function: Json, part: Json) -> None:
    for key, value in part.items():
        if key == "name":
            name = _text(value) or ""
            if not function["name"].equals(name):  # said again
                function["name"].add(name)
        elif key == "arguments":
            given = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
            function["arguments"].add(given)
        else:
            function[key] = value


def _add(held: Json, key: str, text: str) -> None:
    if not isinstance(held.get(key), _Pieces):
        held[key] = _Pieces()
    held[key].add(text)


def _joined(held: Json) -> Json:
    return {key: value.text if isinstance(value, _Pieces) else value for key, value in held.items()}


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
    counted = count_in(given, "prompt_tokens"), count_in(given, "completion_tokens")
    details, more = given.get("prompt_tokens_details"), given.get("completion_tokens_details")
    whole = estimate_in if counted[0] is None else counted[0]
    cached, written = shares(whole, count_in(details, "cached_tokens"), count_in(details, "cache_write_tokens"))
    return Usage(
        input=whole,
        out=estimate_out if counted[1] is None else counted[1],
        cached=cached,
        written=written,
        thinking=count_in(more, "reasoning_tokens") or 0,
        estimated=None in counted,
    )
