"""The leading comment block of an executable: the only place where a header is looked for. No tag is judged here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import Finding

MAX_BYTES = 16 * 1024
MAX_LINES = 200
HEAD_BYTES = MAX_BYTES + 1
"""How much of a file `read_block` wants: one byte more than a block may have, to see that it goes on."""

TAGS = ("describe", "arg", "option", "flag", "env", "meta")
_BOM = b"\xef\xbb\xbf"
_LEADERS = ("#", "//", "--", ";")
_BELOW = re.compile(r"[ \t]*(#|//|--|;)[ \t]*@(?:" + "|".join(TAGS) + r")(?:[ \t]|$)")
_FENCE_START = re.compile(r" ///[ \t]+[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class Block:
    """What stands before the code.

    `shebang` is the first line without `#!`. `lines` are the comment lines as (line number, text after the leader),
    without inline script metadata. `end` is the number of the first line after the block. `below` is the first line
    under it that looks like a tag. `binary`: the file holds a NUL, so there is no block.
    """

    shebang: str | None = None
    lines: tuple[tuple[int, str], ...] = ()
    end: int = 1
    below: int | None = None
    binary: bool = False
    findings: tuple[Finding, ...] = ()


def read_block(data: bytes, file: str) -> Block:
    """The block at the start of `data`, the first HEAD_BYTES of a file that findings call `file`."""
    if b"\0" in data[:MAX_BYTES]:
        return Block(binary=True)
    raw = data[:MAX_BYTES].removeprefix(_BOM).split(b"\n")
    cut = len(data) > MAX_BYTES
    findings = _first_line(data, raw[0], file)
    shebang = _text(raw[0][2:]) if raw[0].startswith(b"#!") else None
    leader, lines, end = _comments(raw, 1 if shebang is not None else 0)
    if (lines and lines[-1][0] > MAX_LINES) or (end == len(raw) and cut):
        findings.append(_too_long(file))
    findings += _encoding(raw, [number for number, _ in lines], file)
    below = _first_below(raw, end, leader)
    return Block(shebang, _without_script_metadata(lines), end + 1, below, False, tuple(findings))


def _comments(raw: Sequence[bytes], start: int) -> tuple[str | None, list[tuple[int, str]], int]:
    """The leader, the comment lines, and the index of the line that ends the block."""
    leader: str | None = None
    lines: list[tuple[int, str]] = []
    for index in range(start, len(raw)):
        text = _text(raw[index]).lstrip(" \t")
        if not text:
            continue
        leader = leader or next((mark for mark in _LEADERS if text.startswith(mark)), None)
        if leader is None or not text.startswith(leader):
            return leader, lines, index
        lines.append((index + 1, text[len(leader) :]))
    return leader, lines, len(raw)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip(" \t\r")


def _without_script_metadata(lines: list[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Leave out `/// x` … `///`; one that is never closed is ordinary comment."""
    kept: list[tuple[int, str]] = []
    index = 0
    while index < len(lines):
        close = _fence_end(lines, index) if _FENCE_START.fullmatch(lines[index][1]) else None
        if close is None:
            kept.append(lines[index])
        index = index + 1 if close is None else close + 1
    return tuple(kept)


def _fence_end(lines: list[tuple[int, str]], start: int) -> int | None:
    return next((index for index in range(start + 1, len(lines)) if lines[index][1] == " ///"), None)


def _first_below(raw: Sequence[bytes], end: int, leader: str | None) -> int | None:
    for index in range(end, len(raw)):
        found = _BELOW.match(_text(raw[index])) if b"@" in raw[index] else None
        if found:  # whatever its leader: a tag that is not read is told
            return index + 1
    return None


def _first_line(data: bytes, line: bytes, file: str) -> list[Finding]:
    wrong = []
    if data.startswith(_BOM):
        wrong.append(("a byte order mark before the first line keeps it from starting", "remove the mark"))
    if line.startswith(b"#!") and line.endswith(b"\r"):
        wrong.append(("a carriage return ends the #! line, so the interpreter is not found", "use LF line ends"))
    return [Finding("shebang-bytes", "error", file, 1, message, fix) for message, fix in wrong]


def _encoding(raw: Sequence[bytes], numbers: Sequence[int], file: str) -> list[Finding]:
    for number in numbers:
        try:
            raw[number - 1].decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"byte 0x{raw[number - 1][error.start]:02x} in the header is not UTF-8"
            return [Finding("header-encoding", "error", file, number, message, "save the file as UTF-8")]
    return []


def _too_long(file: str) -> Finding:
    message = f"the leading comment does not end within {MAX_LINES} lines and {MAX_BYTES // 1024} KiB"
    return Finding("header-too-long", "error", file, 1, message, "move what is no header below the code's first line")
