"""What is typed, as values: texts and their source, pairs. Standard input only where `-` says so."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError

MAX_BYTES = 1024 * 1024
Source = Literal["user", "input"]


@dataclass(frozen=True, slots=True)
class Words:
    """A text and whose it is: typed words are the user's own, what came from a file or a pipe is input."""

    text: str
    source: Source = "user"


class Pipe:
    """Standard input of one command: read at most once, and only when something names it."""

    def __init__(self) -> None:
        self.taken_by: str | None = None

    def read(self, name: str) -> str:
        if self.taken_by is not None:
            raise HarnessError(f"both {self.taken_by} and {name} want standard input", "put one of them into a file")
        self.taken_by = name
        return decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")


def text_of(words: Iterable[str], file: str | None, pipe: Pipe) -> Words | None:
    """The words joined by one blank, or the text of `-` or `-f FILE`; None without any. Raises HarnessError."""
    typed = list(words)
    if typed and file is not None:
        raise HarnessError("there is a text and -f FILE", "give one of them")
    if file is not None:
        return Words(pipe.read("-f -") if file == "-" else from_file(file), "input")
    if typed == ["-"]:
        return Words(pipe.read("-"), "input")
    if any("\0" in word for word in typed):
        raise HarnessError("the text holds a NUL byte", "take it out")
    return Words(" ".join(typed)) if typed else None


def pairs_of(items: Iterable[str], pipe: Pipe) -> Mapping[str, Words]:
    """`K=V`, `K=@FILE`, `K=-`, `K=@@x` as K → value, in the order given. Raises HarnessError."""
    found: dict[str, Words] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_.-]*", key):
            raise HarnessError(f"-i {item} is no NAME=VALUE", "write it as -i name=value, the name in small letters")
        if key in found:
            raise HarnessError(f"-i {key} is given twice", 'give it once; a list is written as JSON: ["a","b"]')
        found[key] = input_value(key, value, pipe)
    return found


def input_value(key: str, value: str, pipe: Pipe) -> Words:
    if value == "-":
        return Words(pipe.read(f"-i {key}=-"), "input")
    if value.startswith("@@"):
        return Words(value[1:])
    if value.startswith("@"):
        return Words(from_file(value[1:]), "input")
    return Words(value)


def from_file(name: str) -> str:
    """The text of a file without its last line break."""
    try:
        with open(Path(name), "rb") as file:
            return decoded(file.read(MAX_BYTES + 1), name)
    except OSError as error:
        raise HarnessError(f"cannot read {name}: {error.strerror}", "name a readable file") from error


def decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise HarnessError(f"{name} is over 1 MiB", "give the path as an input and let a tool read it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HarnessError(f"{name} is not UTF-8 (line {line})", "give text, or its path") from error
    if "\0" in text:
        raise HarnessError(f"{name} holds a NUL byte: it is no text", "give text, or its path")
    return text.removesuffix("\n").removesuffix("\r")


def since_seconds(text: str) -> float:
    """A span of time in seconds. Raises HarnessError."""
    from harness.tools.arguments import parse_duration

    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise HarnessError(f"{text} is no span of time", "write 90s, 15m, 2h or 7d")
    return seconds
