"""One event as one line: framing, its checksum, and reading it back. No file is touched here."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from harness.errors import HarnessError

VERSION = 1
MAX_LINE = 65_536
KINDS = frozenset(
    {"run.start", "user.say", "note", "model.start", "model.reply", "model.fail", "decide", "tool.start", "tool.end"}
    | {"verify", "park", "resume", "amend", "run.end", "context", "secret.leak"}
)

Lift = Callable[[dict[str, Any]], dict[str, Any]]
LIFTS: Mapping[int, Lift] = {}
"""What makes an event of each older version one of the next; version 1 is the first."""

REDACTED = "redacted"
_CRC = b',"crc":"'
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


_decode = json.JSONDecoder(parse_constant=_no_number).decode

# What could act on a terminal that prints the raw line, or hide text on it: JSON lets each be written as an escape.
_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadLine(ValueError):
    """A line that is no event: its frame, checksum or JSON is wrong."""


def to_json(value: object) -> str:
    """Compact JSON, non-ASCII kept, invisible and control characters as escapes; half a character becomes U+FFFD.

    Raises ValueError for NaN, an infinity, and what is nested too deep.
    """
    try:
        text = _encode(value)
    except RecursionError as error:
        raise ValueError("nested too deep for a journal") from error
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE.sub(_escaped, whole(text))


def whole(text: str) -> str:
    """The text with U+FFFD for each half of a character, so that it can be encoded."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def at_text(at: float) -> str:
    """Epoch seconds as UTC with milliseconds: `2026-11-30T11:45:23.000Z`."""
    ms = round(at * 1000)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def at_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def frame(seq: int, epoch: int, at: str, kind: str, data: dict[str, Any], op: int | None = None) -> bytes:
    """The bytes of one event, newline included. Raises ValueError for a value that no journal can hold."""
    number = "" if op is None else f'"op":{op},'
    head = f'{{"v":{VERSION},"seq":{seq},"epoch":{epoch},"at":"{at}","kind":"{kind}",{number}"data":'
    body = (head + to_json(data)).encode()
    line = body + _CRC + f'{zlib.crc32(body):08x}"}}\n'.encode()
    if len(line) > MAX_LINE:
        raise ValueError(f"event {kind} is {len(line)} bytes; a line holds at most {MAX_LINE}")
    return line


def with_data(event: dict[str, Any], data: dict[str, Any]) -> bytes:
    """The line of an event with other data, newline included. Raises ValueError where it would be too long."""
    kept = {key: value for key, value in event.items() if key != "crc"}
    body = to_json({**kept, "data": data})[:-1].encode()
    line = body + _CRC + f'{zlib.crc32(body):08x}"}}\n'.encode()
    if len(line) > MAX_LINE:
        raise ValueError(f"event {event['seq']} would be {len(line)} bytes; a line holds at most {MAX_LINE}")
    return line


def tombstone(size: int) -> dict[str, int]:
    """What stands in place of a value of so many bytes that a person had removed."""
    return {REDACTED: size}


def told(value: Any) -> Any:
    """A value with a text in place of each tombstone: whoever reads an event finds a text where a text is due."""
    if isinstance(value, list):
        return [told(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and isinstance(value.get(REDACTED), int):
        return f"[redacted: {value[REDACTED]} bytes]"
    return {key: told(item) for key, item in value.items()}


def lifted(event: dict[str, Any], lifts: Mapping[int, Lift] = LIFTS, version: int = VERSION) -> dict[str, Any]:
    """The event as version `version` says it, lifted step by step. Files are never rewritten."""
    for old in range(event["v"], version):
        event = {**lifts[old](event), "v": old + 1}
    return event


def parse(line: bytes) -> dict[str, Any]:
    """An event from its line (without the newline). Raises BadLine."""
    if line[-18:-10] != _CRC or line[-2:] != b'"}':
        raise BadLine("not an event line")
    if f"{zlib.crc32(line[:-18]):08x}".encode() != line[-10:-2]:
        raise BadLine("checksum differs")
    try:
        event = _decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise BadLine("not JSON") from error
    if not isinstance(event, dict) or not isinstance(event.get("data"), dict):
        raise BadLine("not an event")
    return event


def check_known(event: dict[str, Any], where: str) -> None:
    """Refuse what a newer harness wrote: an unknown kind or a higher version."""
    version = event.get("v")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise HarnessError(
            f"the journal has format {version}; this harness reads up to {VERSION}",
            "use the harness that wrote it",
            where,
        )
    if event.get("kind") not in KINDS:
        raise HarnessError(
            f"the journal has an event of unknown kind {event.get('kind')!r}", "use the harness that wrote it", where
        )
