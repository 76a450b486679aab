"""Strict reading of YAML nodes: whatever is not what it should be is refused with file and line. It knows no format."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from harness.documents import Node
from harness.errors import HarnessError, near_text

_T = TypeVar("_T")


class Fields:
    """Reads the nodes of one file; holds the file's name for what it refuses."""

    def __init__(self, file: str) -> None:
        self.file = file

    def refuse(self, message: str, fix: str, line: int) -> HarnessError:
        return HarnessError(message, fix, f"{self.file}:{line}")

    def mapping(self, node: Node, what: str, known: tuple[str, ...]) -> dict[str, Node]:
        keys = self.any_mapping(node, what)
        for key in keys:
            if key not in known:
                near = near_text(key, known)
                fix = f"use one of {', '.join(known)}"
                raise self.refuse(f"unknown key {key!r} in {what}{near}", fix, node.key_lines.get(key, node.line))
        return keys

    def any_mapping(self, node: Node, what: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            raise self.refuse(f"{what} must be a mapping", "write key: value pairs", node.line)
        for key, line in node.duplicates:
            raise self.refuse(f"{key} stands twice in {what}", "keep one of them", line)
        return node.value

    def sequence(self, node: Node, what: str) -> list[Node]:
        if not isinstance(node.value, list):
            raise self.refuse(f"{what} must be a list", "write one item a line, after a dash", node.line)
        return node.value

    def text(self, node: Node, what: str) -> str:
        if not isinstance(node.value, str):
            raise self.refuse(f"{what} must be text", "quote it", node.line)
        return node.value

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A list of texts; one text stands for a list of one."""
        if isinstance(node.value, str):
            return (node.value,)
        return tuple(self.text(item, f"an item of {what}") for item in self.sequence(node, what))

    def one_of(self, node: Node, what: str, known: tuple[str, ...]) -> str:
        value = self.text(node, what)
        if value not in known:
            message = f"unknown {what} {value!r}{near_text(value, known)}"
            raise self.refuse(message, f"use one of {', '.join(known)}", node.line)
        return value

    def number(self, node: Node, what: str) -> float:
        value = self.parsed(node, what, float)
        if not math.isfinite(value) or value < 0:
            raise self.refuse(f"{what} must be seconds, 0 or more", "write a number", node.line)
        return value

    def whole(self, node: Node, what: str, least: int) -> int:
        value = self.parsed(node, what, int)
        if value < least:
            raise self.refuse(f"{what} must be {least} or more", "write a whole number", node.line)
        return value

    def parsed(self, node: Node, what: str, kind: Callable[[str], _T]) -> _T:
        try:
            return kind(self.text(node, what))
        except ValueError as error:
            raise self.refuse(f"{what} must be a number, not {node.value!r}", "write a number", node.line) from error
