"""The file of a scripted model: read strictly, so that a typing error never passes as a different test.

Every key that is not known here is refused with its line and the nearest known one. Nothing is played here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.documents import Node, YamlError, read_yaml
from harness.errors import HarnessError
from harness.models import Failure, Usage
from harness.models.failures import REASONS, UNASKED, failure
from harness.models.fields import Fields
from harness.models.verbs import VERBS
from harness.tools.regular import read_regular

FOREVER = -1
MADE_WITH = "made-with"
MAX_BYTES = 16 << 20
STOPS = ("refusal", "length", "overflow", "pause")
FAILS = tuple(reason for reason in REASONS if reason not in UNASKED)


@dataclass(frozen=True, slots=True)
class Expect:
    """What a prompt must be for a reply to be given; None and () expect nothing. `result` is (tool, class)."""

    turn: int | None = None
    contains: tuple[str, ...] = ()
    not_contains: tuple[str, ...] = ()
    callable: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    result: tuple[str, str | None] | None = None
    tokens_at_most: int | None = None
    context: int | None = None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One reply of a script. `calls` are (verb, arguments); `repeat` is how often it is given, FOREVER without end.

    `message` is how a reply that was cut short is told, and `errors` what was wrong with a call's form, by its id:
    neither can be seen from the blocks.
    """

    number: int
    line: int
    expect: Expect = Expect()
    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    content: tuple[Mapping[str, Any], ...] | None = None
    usage: Usage | None = None
    fail: Failure | None = None
    stop: str | None = None
    message: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Replies:
    """A list of replies; with `match` the first unused one whose expectation holds is given, else the next one.

    `made_with` is what stood before every turn of the run that it was recorded from: `id@version` of a part → digest.
    """

    entries: tuple[Entry, ...]
    match: bool = False
    made_with: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """A whole file: the replies of the run's own skill, and those of its workers by name. `digest` is the file's."""

    file: str
    digest: str
    replies: Replies
    workers: Mapping[str, Replies] = field(default_factory=dict)


def load_script(path: Path) -> Script:
    """Read a script. Raises HarnessError naming file, line and a fix."""
    try:
        raw = read_regular(path, MAX_BYTES)
        if len(raw) > MAX_BYTES:
            raise HarnessError(f"the script is over {MAX_BYTES >> 20} MiB", "make several of it", str(path))
        document = read_yaml(raw.decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot read the script: {reason}", "name a file", str(path)) from error
    except UnicodeDecodeError as error:
        raise HarnessError("the script is no UTF-8 text", "save it as UTF-8", str(path)) from error
    except YamlError as error:
        raise HarnessError(f"no YAML: {error.message}", "mend the YAML", f"{path}:{error.line}") from error
    reader = _Reader(str(path))
    if document.root is None:
        raise reader.refuse("the script is empty", "begin with harness-script: 1", 1)
    return reader.script(document.root, sha256(raw).hexdigest())


class _Reader(Fields):
    """Turns nodes into entries."""

    def script(self, root: Node, digest: str) -> Script:
        keys = self.mapping(root, "a script", ("harness-script", MADE_WITH, "mode", "replies", "skills"))
        if "harness-script" not in keys or self.text(keys["harness-script"], "harness-script") != "1":
            raise self.refuse("not a script of version 1", "begin with harness-script: 1", root.line)
        skills = self.any_mapping(keys["skills"], "skills") if "skills" in keys else {}
        return Script(self.file, digest, self.replies(keys, root), {n: self.worker(v) for n, v in skills.items()})

    def worker(self, node: Node) -> Replies:
        return self.replies(self.mapping(node, "a skill's script", (MADE_WITH, "mode", "replies")), node)

    def replies(self, keys: Mapping[str, Node], node: Node) -> Replies:
        if "replies" not in keys:
            raise self.refuse("no replies", "add replies: with one reply or more", node.line)
        mode = self.one_of(keys["mode"], "mode", ("strict", "match")) if "mode" in keys else "strict"
        items = self.sequence(keys["replies"], "replies")
        entries = tuple(self.entry(item, number) for number, item in enumerate(items, 1))
        if not entries:
            raise self.refuse("no replies", "add one reply or more", keys["replies"].line)
        if mode == "match":
            self.check_match(entries)
        made = self.any_mapping(keys[MADE_WITH], MADE_WITH) if MADE_WITH in keys else {}
        return Replies(entries, mode == "match", {name: self.text(value, name) for name, value in made.items()})

    def check_match(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.fail is not None or entry.stop not in (None, "pause"):
                fix = "leave out mode: match, or the failing reply"
                raise self.refuse(f"reply {entry.number}: mode match takes no fail and no stop", fix, entry.line)

    def entry(self, node: Node, number: int) -> Entry:
        known = ("expect", "text", "calls", "content", "errors", "usage", "fail", "stop", "message", "delay", "repeat")
        keys = self.mapping(node, f"reply {number}", known)
        if not set(keys) & {"text", "calls", "content", "fail", "stop"}:
            raise self.refuse(f"reply {number} says nothing", "give it text, calls, content, fail or stop", node.line)
        if "fail" in keys and set(keys) & {"text", "calls", "content", "errors", "stop", "message", "usage"}:
            raise self.refuse(f"reply {number} fails and replies", "make two replies of it", node.line)
        if "message" in keys and "stop" not in keys:
            raise self.refuse(f"reply {number} has a message and no stop", "write it as text", node.line)
        if "content" in keys and set(keys) & {"text", "calls"}:
            raise self.refuse(f"reply {number} has content and text or calls", "keep one of them", node.line)
        return Entry(number, node.line, **self.values(keys))

    def values(self, keys: Mapping[str, Node]) -> dict[str, Any]:
        """The values given, each through the reader of its key."""
        readers: dict[str, Callable[[Node], Any]] = {
            "expect": self.expect,
            "text": lambda node: self.text(node, "text"),
            "calls": lambda node: tuple(self.call(item) for item in self.sequence(node, "calls")),
            "content": self.content,
            "usage": self.usage,
            "fail": self.fail,
            "stop": lambda node: self.one_of(node, "stop", STOPS),
            "message": lambda node: self.text(node, "message"),
            "errors": lambda node: {k: self.text(v, k) for k, v in self.any_mapping(node, "errors").items()},
            "delay": lambda node: self.number(node, "delay"),
            "repeat": self.repeat,
        }
        return {key: readers[key](node) for key, node in keys.items()}

    def expect(self, node: Node) -> Expect:
        readers: dict[str, Callable[[Node], Any]] = {
            "turn": lambda n: self.whole(n, "turn", 1),
            "contains": lambda n: self.texts(n, "contains"),
            "not-contains": lambda n: self.texts(n, "not-contains"),
            "callable": lambda n: self.texts(n, "callable"),
            "waiting": lambda n: self.texts(n, "waiting"),
            "result": self.result,
            "tokens-at-most": lambda n: self.whole(n, "tokens-at-most", 1),
            "context": lambda n: self.whole(n, "context", 0),
            "prefix": lambda n: self.text(n, "prefix"),
        }
        keys = self.mapping(node, "expect", tuple(readers))
        return Expect(**{key.replace("-", "_"): readers[key](value) for key, value in keys.items()})

    def result(self, node: Node) -> tuple[str, str | None]:
        keys = self.mapping(node, "result", ("tool", "class"))
        if "tool" not in keys:
            raise self.refuse("result names no tool", "add tool: NAME", node.line)
        return self.text(keys["tool"], "tool"), self.text(keys["class"], "class") if "class" in keys else None

    def call(self, node: Node) -> tuple[str, Mapping[str, Any]]:
        keys = self.mapping(node, "a call", VERBS)
        if len(keys) != 1:
            raise self.refuse("a call names one verb", "write one item a call", node.line)
        [(verb, value)] = keys.items()
        if verb == "run":
            tool, *args = self.texts(value, "run") or ("",)
            if not isinstance(value.value, list) or not tool:
                raise self.refuse("run takes a list", "write run: [TOOL, ARG, ...]", value.line)
            return verb, {"tool": tool, "args": args}
        if verb == "finish":
            return verb, {"answer": self.text(value, "finish")}
        return verb, self.read(value) if verb == "read" else self.ask(value)

    def read(self, node: Node) -> Mapping[str, Any]:
        if not isinstance(node.value, dict):
            return {"path": self.text(node, "read")}
        keys = self.mapping(node, "read", ("path", "lines"))
        return {key: self.text(value, key) for key, value in keys.items()}

    def ask(self, node: Node) -> Mapping[str, Any]:
        if not isinstance(node.value, dict):
            return {"question": self.text(node, "ask")}
        keys = self.mapping(node, "ask", ("question", "options"))
        given = {"question": self.text(keys["question"], "question")} if "question" in keys else {}
        return {**given, "options": list(self.texts(keys["options"], "options"))} if "options" in keys else given

    def content(self, node: Node) -> tuple[Mapping[str, Any], ...]:
        blocks = tuple(_typed(item) for item in self.sequence(node, "content"))
        if not all(isinstance(block, dict) for block in blocks):
            raise self.refuse("content is a list of blocks", "write one mapping a block", node.line)
        return blocks

    def usage(self, node: Node) -> Usage:
        counts = ("input", "out", "cached", "written", "written_1h", "thinking")
        given: dict[str, Any] = {
            key: self.whole(value, key, 0) for key, value in self.mapping(node, "usage", counts).items()
        }
        return Usage(**given)

    def fail(self, node: Node) -> Failure:
        keys = self.mapping(node, "fail", ("reason", "retry_after", "message"))
        if "reason" not in keys:
            raise self.refuse("fail names no reason", f"add reason: one of {', '.join(FAILS)}", node.line)
        reason = self.one_of(keys["reason"], "reason", FAILS)
        after = self.number(keys["retry_after"], "retry_after") if "retry_after" in keys else None
        message = self.text(keys["message"], "message") if "message" in keys else f"scripted: {reason}"
        return failure(reason, message, after)

    def repeat(self, node: Node) -> int:
        return FOREVER if node.value == "forever" else self.whole(node, "repeat", 1)


def _typed(node: Node) -> Any:
    """A node as JSON means it: plain scalars that are JSON numbers, true, false or null are these, all else is text."""
    if isinstance(node.value, dict):
        return {key: _typed(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [_typed(item) for item in node.value]
    if node.style:
        return node.value
    try:
        value = json.loads(node.value)
    except ValueError:
        return node.value
    return value if value is None or isinstance(value, bool | int) or _finite(value) else node.value


def _finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
