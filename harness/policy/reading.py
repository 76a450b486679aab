"""Reading one policy file strictly: every complaint names file, line and fix. What the keys mean is said elsewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from harness.documents import Node
from harness.errors import HarnessError, near_text
from harness.policy.names import folded
from harness.tools.notation import shown

Kind = Literal["system", "user", "project", "skill"]

T = TypeVar("T")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_TOOL = re.compile(rf"{_NAME}(?:/{_NAME}){{0,3}}")


@dataclass(frozen=True, slots=True)
class Reader:
    """One file being read. Relative paths in it are the workspace's; `~/` is the home."""

    path: Path
    kind: Kind
    workspace: Path
    home: Path

    @property
    def narrows(self) -> bool:
        """Whether the file comes with a project or a skill, and so may grant nothing."""
        return self.kind in ("project", "skill")

    def place(self, line: int) -> str:
        """Where a line is, as a person is shown it."""
        path = self.path
        text = f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)
        if path.is_relative_to(self.workspace):
            text = str(path.relative_to(self.workspace))
        return f"{text}:{line}"

    def error(self, message: str, fix: str, line: int) -> HarnessError:
        return HarnessError(message, fix, f"{self.path}:{line}")

    def mapping(self, node: Node, name: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            raise self.error(f"{name or 'the file'} wants `key: value` lines", "write them one a line", node.line)
        for key, line in node.duplicates:
            raise self.error(f"{shown(key)} is given twice", "keep one of them", line)
        return node.value

    def keys(self, node: Node, prefix: str, known: Sequence[str]) -> dict[str, Node]:
        """The keys of a mapping, all of them known."""
        found = self.mapping(node, prefix.removesuffix("."))
        for key in found:
            if key not in known:
                message = f"unknown key {shown(prefix + key)}{near_text(key, known)}"
                raise self.error(message, "correct the key or take it out", node.key_lines[key])
        return found

    def table(
        self, node: Node, name: str, check: Callable[[str, int], str], read: Callable[[Node, str], T]
    ) -> dict[str, T]:
        """A mapping of names of one kind to values of one kind."""
        found = self.mapping(node, name)
        return {check(one, node.key_lines[one]): read(child, f"{name}.{one}") for one, child in found.items()}

    def text(self, node: Node, name: str) -> str:
        if not isinstance(node.value, str) or not node.value.strip():
            raise self.error(f"{name} wants a text", "write one value after it", node.line)
        return node.value.strip()

    def word(self, node: Node, name: str, known: Sequence[str]) -> str:
        """One of a few words."""
        if node.value not in known:
            near = near_text(node.value, known) if isinstance(node.value, str) else ""
            raise self.error(f"{name} cannot be that{near}", f"write one of {', '.join(known)}", node.line)
        return str(node.value)

    def items(self, node: Node, name: str) -> list[Node]:
        """A list of texts."""
        if not isinstance(node.value, list) or any(not isinstance(item.value, str) for item in node.value):
            raise self.error(f"{name} wants a list of names", f"write `{name.rpartition('.')[2]}: [NAME]`", node.line)
        return node.value

    def names(self, node: Node, name: str, check: Callable[[str, int], str]) -> tuple[str, ...]:
        return tuple(sorted({check(str(item.value), item.line) for item in self.items(node, name)}))

    def one_or_more(self, node: Node, name: str, check: Callable[[str, int], str]) -> tuple[str, ...]:
        """A name, or a list of them that is not empty."""
        if isinstance(node.value, str):
            return (check(self.text(node, name), node.line),)
        if not node.value:
            raise self.error(f"{name} is empty", "name one at least", node.line)
        return self.names(node, name, check)

    def tool(self, text: str, line: int) -> str:
        if not _TOOL.fullmatch(text):
            raise self.error(f"{shown(text)} is no name of a tool", "name each tool", line)
        return text

    def root(self, text: str, line: int) -> str:
        """A folder or file, absolute, with links resolved: `.` is the workspace, `~/` the home."""
        if not text or "\0" in text or (text.startswith("~") and text != "~" and not text.startswith("~/")):
            raise self.error(f"{shown(text)} is no path", "write one below the workspace, or below ~/", line)
        if set(text) & set("*?"):  # taken as letters it would hold for nothing, and say so to nobody
            fix = "name the folder, all in it is meant; in hide and protect a name alone may be a pattern: *.pem"
            raise self.error(f"{shown(text)} is a pattern, and a path is none", fix, line)
        start, rest = (self.home, text[1:].lstrip("/")) if text.startswith("~") else (self.workspace, text)
        return os.path.realpath(start / rest)

    def name_or_place(self, text: str, line: int) -> str:
        """A file's name at any depth, folded, `*` for anything in it; with a slash a place in the workspace."""
        if "/" in text:
            return self.root(text, line)
        if not text or set(text) & set("?[]\0") or text in (".", ".."):
            raise self.error(f"{shown(text)} is no file's name", "write a name such as *.pem, or a path", line)
        return folded(text)
