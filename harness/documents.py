"""YAML as plain text with line numbers: the one function that parses it. It knows no tags, no types and no copies.

Scalars stay text, `<<` is an ordinary key, aliases are shared and never expanded. The C loader is used where it is
there; whatever it refuses is judged again by the pure one, so that both give the same result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

MAX_DEPTH = 20
MAX_NODES = 10_000
TOO_DEEP = f"nested more than {MAX_DEPTH} deep"


class YamlError(ValueError):
    """The text is no YAML. `line` and `column` count from 1, in the file the text was taken from."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class YamlBomb(YamlError):
    """The text is nested too deep, refers to itself, or expands to too many nodes."""


@dataclass(slots=True)
class Node:
    """One value: text, a list of nodes, or a mapping of text to nodes. `line` is where it begins in the file.

    `key_lines` gives the line of each key; `duplicates` the keys given again, with their lines (the last one holds).
    `style` is the scalar's quoting (`'`, `"`, `|`, `>` or empty); `flow` marks `[…]` and `{…}`.
    """

    value: str | list[Node] | dict[str, Node]
    line: int
    column: int = 1
    style: str = ""
    flow: bool = False
    key_lines: dict[str, int] = field(default_factory=dict)
    duplicates: list[tuple[str, int]] = field(default_factory=list)

    def plain(self) -> object:
        """The value as str, list and dict; shared parts stay shared."""
        return _plain(self, {})


@dataclass(slots=True)
class Document:
    """A parsed text: `root` is None for an empty one; `aliases` are the lines of the nodes used more than once."""

    root: Node | None
    aliases: list[int] = field(default_factory=list)


def read_yaml(text: str, line: int = 1) -> Document:
    """Parse one document whose first line is line `line` of its file. Raises YamlError or YamlBomb."""
    text = _join_surrogates(text)
    try:
        root = _compose(text, line)
    except RecursionError as error:
        raise YamlBomb(TOO_DEEP, line, 1) from error
    if root is None:
        return Document(None)
    document = Document(None)
    document.root = _Reader(line, document).read(root)
    return document


# What the two loaders read differently: tabs, tags, `?` before a key or in a flow, a `#` glued to `|`, odd line ends.
_UNEVEN = re.compile(r"[\t\x85\u2028\u2029\ufeff]|(?:^|[\s\[\]{},:?-])[!?]|[|>][0-9+-]*#")


def _is_uneven(text: str) -> bool:
    return bool(_UNEVEN.search(text)) or ("?" in text and ("[" in text or "{" in text))


def _compose(text: str, line: int) -> yaml.Node | None:
    fast = getattr(yaml, "CBaseLoader", None)
    if fast is not None and not _is_uneven(text):
        try:
            return yaml.compose(text, fast)
        except yaml.YAMLError:
            pass  # the pure loader has the last word, with or without the C one
    try:
        return yaml.compose(text, _Shallow)
    except _TooDeep as error:
        raise YamlBomb(TOO_DEEP, line, 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = (mark.line + line, mark.column + 1) if mark else (line, 1)
        raise YamlError(str(error.problem or error.context or "no YAML"), *at) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error).splitlines()[0], line, 1) from error


class _TooDeep(Exception):
    pass


class _Shallow(yaml.BaseLoader):
    """The pure loader, stopped where nesting is too deep for us: by itself it reads on for a second, or to its end."""

    def fetch_flow_collection_start(self, kind: type[yaml.Token]) -> None:
        if self.flow_level >= MAX_DEPTH:
            raise _TooDeep
        super().fetch_flow_collection_start(kind)

    def add_indent(self, column: int) -> bool:
        if len(self.indents) >= MAX_DEPTH:
            raise _TooDeep
        return bool(super().add_indent(column))


class _Reader:
    """Turns composed nodes into ours, once each; counts what the text would expand to."""

    def __init__(self, line: int, document: Document) -> None:
        self.first, self.document = line, document
        self.memo: dict[int, tuple[Node, int]] = {}
        self.open: set[int] = set()

    def read(self, node: yaml.Node) -> Node:
        return self._read(node, 1, (self.first, 1))[0]

    def _read(self, node: yaml.Node, depth: int, owner: tuple[int, int]) -> tuple[Node, int]:
        at = (node.start_mark.line + self.first, node.start_mark.column + 1)
        if isinstance(node, yaml.ScalarNode) and not node.value and not node.style:
            at = owner  # nothing is written there, and each loader has its own idea of where that nothing is
        if depth > MAX_DEPTH:
            raise YamlBomb(TOO_DEEP, self.first, 1)  # where exactly depends on the loader and on the stack
        if id(node) in self.open:
            raise YamlBomb("an alias refers to itself", *at)
        if id(node) in self.memo:
            self.document.aliases.append(at[0])
            return self.memo[id(node)]
        self.open.add(id(node))
        made, size = self._make(node, depth, *at)
        self.open.discard(id(node))
        if size > MAX_NODES:
            raise YamlBomb(f"expands to more than {MAX_NODES} values", *at)
        self.memo[id(node)] = (made, size)
        return made, size

    def _make(self, node: yaml.Node, depth: int, line: int, column: int) -> tuple[Node, int]:
        flow = bool(getattr(node, "flow_style", False))
        if isinstance(node, yaml.ScalarNode):
            if _HALF.search(node.value):
                raise YamlError("an escaped half of a character", line, column)
            return Node(node.value, line, column, node.style or ""), 1
        if isinstance(node, yaml.SequenceNode):
            items = [self._read(item, depth + 1, (line, column)) for item in node.value]
            return Node([item for item, _ in items], line, column, flow=flow), 1 + sum(size for _, size in items)
        made = Node({}, line, column, flow=flow)
        return made, 1 + sum(self._pair(made, key, value, depth) for key, value in node.value)

    def _pair(self, made: Node, key: yaml.Node, value: yaml.Node, depth: int) -> int:
        assert isinstance(made.value, dict)
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError("a key must be text", key.start_mark.line + self.first, key.start_mark.column + 1)
        line, column = key.start_mark.line + self.first, key.start_mark.column + 1
        if key.value == "" and not key.style:
            line, column = made.line, made.column
        if key.value in made.value:
            made.duplicates.append((key.value, line))
        child, size = self._read(value, depth + 1, (line, column))
        made.value[key.value] = child
        made.key_lines[key.value] = line
        return size + 1


_ESCAPED_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


_HALF = re.compile(r"[\ud800-\udfff]")


def _join_surrogates(text: str) -> str:
    """`\\ud83d\\udee1`, a JSON habit, as the one character it means: only one of the loaders reads the pair."""
    return _ESCAPED_PAIR.sub(_joined, text) if "\\u" in text else text


def _joined(found: re.Match[str]) -> str:
    high, low = int(found[2], 16), int(found[3], 16)
    return found[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _plain(node: Node, memo: dict[int, object]) -> object:
    if id(node) in memo:
        return memo[id(node)]
    made: object
    if isinstance(node.value, str):
        made = node.value
    elif isinstance(node.value, list):
        made = [_plain(item, memo) for item in node.value]
    else:
        made = {key: _plain(item, memo) for key, item in node.value.items()}
    memo[id(node)] = made
    return made


def walk(node: Node) -> Iterator[Node]:
    """Every node once, shared ones included."""
    seen: set[int] = set()
    todo = [node]
    while todo:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item.value, list):
            todo.extend(item.value)
        elif isinstance(item.value, dict):
            todo.extend(item.value.values())
