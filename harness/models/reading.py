"""Reads the body of a chat-completions reply: a stream of events, or one object, whatever the header calls it."""

from __future__ import annotations

import time
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from harness.models import Failure
from harness.models.answers import broken_off, error_of
from harness.models.assembly import Assembly, MalformedReplyError
from harness.models.decoding import decoded
from harness.models.failures import failure


def timed(pieces: Iterator[bytes], first: list[float]) -> Iterator[bytes]:
    """The pieces, with the time of the first one put into `first`."""
    for piece in pieces:
        if not first:
            first.append(time.monotonic())
        yield piece


def take(pieces: Iterator[bytes], whole: Assembly) -> Failure | None:
    """Read a stream, or a reply in one piece, to its end; an error that stands in it is returned.

    Raises MalformedReplyError or ValueError for what is no reply.
    """
    pieces, start = _without_mark(pieces), b""
    for piece in pieces:
        start = piece.lstrip()
        if start:
            break
    if start[:1] in (b"{", b"["):
        return _whole(b"".join((start, *pieces)), whole)
    if start[:1] == b"<":
        return failure("unavailable", "a page for a browser came in place of a reply")
    for data in payloads(_again(start, pieces)):
        if data.strip() == b"[DONE]":
            break
        chunk = decoded(data)
        broken = _error_in(chunk)
        if broken is not None:
            return replace(broken, began=True)  # as far as it came, it has to be paid for
        whole.chunk(chunk)
    return None


def _without_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces without the mark of UTF-8 that a stream may begin with, and that a JSON text must not."""
    start = b""
    for piece in pieces:
        start += piece
        if len(start) >= len(BOM_UTF8):
            break
    yield start.removeprefix(BOM_UTF8)
    yield from pieces


def _again(start: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from pieces


def _whole(raw: bytes, whole: Assembly) -> Failure | None:
    body = decoded(raw)
    broken = _error_in(body)
    if broken is None:
        whole.whole(body)
    return broken


def _error_in(body: Any) -> Failure | None:
    error = error_of(body)
    if not error and not isinstance(body, dict):
        raise MalformedReplyError(f"not an object: {str(body)[:100]}")
    return broken_off(error) if error else None


def payloads(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event, however the pieces cut it; the last one also without its empty line."""
    held: list[bytes] = []
    for line in _lines(pieces):
        if line.startswith(b"data:"):
            held.append(line[5:].removeprefix(b" "))
        elif not line and held:
            yield b"\n".join(held)
            held = []
    if held:
        yield b"\n".join(held)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their ends; what came before a line's end is put together once, however long it grew."""
    waiting: list[bytes] = []
    for piece in pieces:
        waiting.append(piece)
        if b"\n" not in piece and b"\r" not in piece and not waiting[0].endswith(b"\r"):
            continue
        text = b"".join(waiting)
        rows = text.splitlines(keepends=True)
        last = rows.pop() if not rows[-1].endswith(b"\n") else b""  # a lone CR may be half of a line's end
        waiting = [last] if last else []
        yield from (row.rstrip(b"\r\n") for row in rows)
    yield from (row.rstrip(b"\r\n") for row in b"".join(waiting).splitlines())
