"""A case of a suite: what a trial is given and what is expected of it. Read strictly: an unknown key is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.documents import Node, YamlError, read_yaml
from harness.errors import HarnessError
from harness.models.fields import Fields
from harness.tools.regular import read_regular

MAX_BYTES = 1 << 20
SUITES = ("capability", "regression", "safety", "robustness", "efficiency")
SPLITS = ("dev", "held-out")
LIMITS = ("turns", "calls", "tokens", "usd", "seconds")


@dataclass(frozen=True, slots=True)
class FileTest:
    """What a file of the workspace must be after a trial: there or not, and what its text holds."""

    path: str
    absent: bool = False
    contains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expect:
    """What is expected of a trial; an empty field expects nothing. `json` are (path, text) pairs of the answer."""

    stop: tuple[str, ...] = ("passed",)
    ran: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    json: tuple[tuple[str, str], ...] = ()
    files: tuple[FileTest, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `fixture` is a folder of `evals/fixtures/`, `script` a file of `evals/scripts/`, `rubric` of
    `evals/rubrics/`; `file` is its own.

    `setup` and `graders` are argvs of tools that the skill's place has.
    """

    name: str
    file: Path
    goal: str = ""
    skill: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    fixture: str = ""
    setup: tuple[str, ...] = ()
    script: str = ""
    suite: str = "capability"
    split: str = "dev"
    deny: tuple[str, ...] = ()
    expect: Expect = field(default_factory=Expect)
    graders: tuple[tuple[str, ...], ...] = ()
    rubric: str = ""


def read_case(path: Path) -> Case:
    """Read one case. Raises HarnessError (exit 2) naming file, line and a fix."""
    return _Cases(str(path)).case(read_root(path, "case"), path)


def read_root(path: Path, what: str) -> Node:
    """The mapping of a small YAML file. Raises HarnessError (exit 2)."""
    try:
        raw = read_regular(path, MAX_BYTES)
        if len(raw) > MAX_BYTES:
            raise HarnessError(f"the {what} is over 1 MiB", "put its material into evals/fixtures/", str(path))
        root = read_yaml(raw.decode("utf-8")).root
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot read the {what}: {reason}", "make it readable", str(path)) from error
    except UnicodeDecodeError as error:
        raise HarnessError(f"the {what} is no UTF-8 text", "save it as UTF-8", str(path)) from error
    except YamlError as error:
        raise HarnessError(f"no YAML: {error.message}", "mend the YAML", f"{path}:{error.line}") from error
    if root is None:
        raise HarnessError(f"the {what} is empty", "write its keys, or delete it", str(path))
    return root


class Reader(Fields):
    """Reads mappings whose keys each have a reader of their own."""

    def values(self, node: Node, what: str, readers: Mapping[str, Callable[[Node, str], Any]]) -> dict[str, Any]:
        return {key: readers[key](value, key) for key, value in self.mapping(node, what, tuple(readers)).items()}


class _Cases(Reader):
    """Turns the nodes of one case into its values."""

    def case(self, root: Node, path: Path) -> Case:
        values = self.values(root, "a case", {
            "goal": self.text, "skill": self.text, "script": self._plain_path, "fixture": self._plain_path,
            "inputs": lambda node, what: {k: self.text(v, k) for k, v in self.any_mapping(node, what).items()},
            "setup": self.texts, "deny": self.texts,
            "suite": lambda node, what: self.one_of(node, what, SUITES),
            "split": lambda node, what: self.one_of(node, what, SPLITS),
            "expect": self._expect, "graders": self._graders, "rubric": self._plain_path,
        })  # fmt: skip
        if "expect" not in values and "graders" not in values:
            raise self.refuse("the case expects nothing", "add expect: with stop, answer or tools", root.line)
        return Case(path.stem, path, **values)

    def _plain_path(self, node: Node, what: str) -> str:
        """A path below a folder that is the suite's own."""
        text = self.text(node, what)
        if not text or Path(text).is_absolute() or ".." in Path(text).parts:
            raise self.refuse(f"{what} must be a path below evals/", "leave out / at its begin and ..", node.line)
        return text

    def _graders(self, node: Node, what: str) -> tuple[tuple[str, ...], ...]:
        found = tuple(self.texts(item, "a grader") for item in self.sequence(node, what))
        if not all(found):
            raise self.refuse("a grader names no command", "write - [TOOL, ARG, ...]", node.line)
        return found

    def _expect(self, node: Node, what: str) -> Expect:
        keys = self.values(node, what, {
            "stop": self.texts, "tools": self._tools, "answer": self._answer, "files": self._files,
            "limits": self._limits,
        })  # fmt: skip
        return Expect(**{**keys.pop("tools", {}), **keys.pop("answer", {}), **keys})

    def _tools(self, node: Node, what: str) -> dict[str, Any]:
        found = self.values(node, what, {"run": self.texts, "never": self.texts, "order": self.texts})
        return {{"run": "ran"}.get(key, key): value for key, value in found.items()}

    def _answer(self, node: Node, what: str) -> dict[str, Any]:
        return self.values(node, what, {
            "contains": self.texts, "lacks": self.texts, "matches": self._patterns, "json": self._json,
        })  # fmt: skip

    def _patterns(self, node: Node, what: str) -> tuple[str, ...]:
        found = self.texts(node, what)
        for pattern in found:
            try:
                re.compile(pattern)
            except re.error as error:
                fix = "write a regular expression of Python"
                raise self.refuse(f"{pattern!r} is no pattern: {error}", fix, node.line) from error
        return found

    def _json(self, node: Node, what: str) -> tuple[tuple[str, str], ...]:
        return tuple((key, self.text(value, key)) for key, value in self.any_mapping(node, what).items())

    def _files(self, node: Node, what: str) -> tuple[FileTest, ...]:
        return tuple(self._file(path, value) for path, value in self.any_mapping(node, what).items())

    def _file(self, path: str, node: Node) -> FileTest:
        self._plain_path(Node(path, node.line), "a file")
        if node.value in ("absent", "present"):
            return FileTest(path, node.value == "absent")
        keys = self.mapping(node, f"file {path}", ("contains",))
        return FileTest(path, contains=self.texts(keys["contains"], "contains") if keys else ())

    def _limits(self, node: Node, what: str) -> dict[str, float]:
        return {key: self._limit(value, key) for key, value in self.mapping(node, what, LIMITS).items()}

    def _limit(self, node: Node, what: str) -> float:
        value = self.parsed(node, what, float)
        if not 0 <= value < float("inf"):
            raise self.refuse(f"{what} must be 0 or more", "write a number", node.line)
        return value
