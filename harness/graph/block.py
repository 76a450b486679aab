"""The dependency block: `target: prerequisites | order-only`, as text or as a mapping, and cycles in it. Pure.

Whether the names mean anything is not asked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.documents import Node
from harness.errors import Finding
from harness.graph import Graph, Need

_SEGMENT = r"[a-z0-9][a-z0-9._-]{0,63}"
_NAME = rf"{_SEGMENT}(?:/{_SEGMENT}){{0,3}}"
_OPTION = r"--[A-Za-z][A-Za-z0-9_-]{0,63}"
NAME = re.compile(_NAME)
"""What a tool may be called: its path below `bin/`."""
_NEED = re.compile(rf"({_NAME})(?:\(({_OPTION}(?:,{_OPTION})*)\))?(\?)?")
_WORD = re.compile(r"[:|]|[^ \t:|]+")
MAX_EDGES = 10_000


@dataclass(frozen=True, slots=True)
class _Line:
    """A logical line: its characters, each with its line and column in the file."""

    text: str
    lines: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(slots=True)
class _Builder:
    """Collects rules and findings; a target on several lines adds up."""

    file: str
    rules: dict[str, dict[tuple[str, tuple[str, ...], bool], Need]] = field(default_factory=dict)
    edges: int = 0
    findings: list[Finding] = field(default_factory=list)

    def graph(self) -> Graph:
        return Graph({name: tuple(needs.values()) for name, needs in self.rules.items()})

    def add(self, targets: list[str], needs: list[Need]) -> None:
        self.edges += len(targets) * len(needs)
        if self.edges > MAX_EDGES:  # two long lists around one colon multiply
            self.wrong(needs[0].line, 1, f"more than {MAX_EDGES} dependencies")
            return
        for target in targets:
            known = self.rules.setdefault(target, {})
            for need in needs:
                self._add(target, known, need)

    def _add(self, target: str, known: dict[tuple[str, tuple[str, ...], bool], Need], need: Need) -> None:
        key = (need.name, need.options, need.kind == "ended")
        twin = known.setdefault(key, need)
        if twin.kind != need.kind:
            message = f"{target} waits for {need.name} both before and after |; the plain one holds"
            fix = f"remove one {need.name}"
            self.findings.append(Finding("dep-duplicate", "warning", self.file, need.line, message, fix))
            known[key] = twin if twin.kind == "fresh" else need

    def wrong(self, line: int, column: int, message: str) -> None:
        message = f"line {line}, column {column}: {message}"
        fix = "write `target: prerequisites | order-only`"
        self.findings.append(Finding("dep-syntax", "error", self.file, line, message, fix))

    def empty(self, line: int) -> None:
        message = "tool-dependencies is empty"
        fix = "write a rule such as `write-report: search-logs`, or remove the key"
        self.findings.append(Finding("dep-empty", "error", self.file, line, message, fix))


def parse_block(text: str, file: str, line: int, column: int = 1, spread: bool = True) -> tuple[Graph, list[Finding]]:
    """Read a block. `line` and `column` are where its first character stands in the file.

    `spread` is False when the lines of the text are not lines of the file (a quoted scalar): all then count as `line`.
    """
    built = _Builder(file)
    for each in _logical_lines(text, line, column, spread):
        _read_rule(built, each)
    if not built.rules and not built.findings:
        built.empty(line)
    return built.graph(), built.findings


def from_mapping(node: Node, file: str) -> tuple[Graph, list[Finding]]:
    """Read the block written as nested YAML: target → prerequisites as text, a list of single ones, or nothing."""
    built = _Builder(file)
    if not isinstance(node.value, dict):
        built.wrong(node.line, node.column, "a mapping of targets to prerequisites is expected")
        return built.graph(), built.findings
    for target, value in node.value.items():
        line = node.key_lines[target]
        names = [name for name in re.split("[ \t]+", target) if name]
        bad = next((name for name in names if not NAME.fullmatch(name)), None)
        if bad is not None or not names:
            built.wrong(line, node.column, f"{bad or 'an empty text'} is no name of a tool")
            continue
        needs = list(_value_needs(built, value))
        built.add(names, needs)
    if not node.value:
        built.empty(node.line)
    return built.graph(), built.findings


def place(node: Node) -> tuple[int, int, bool]:
    """Line and column of a scalar's first character, and whether its lines are lines of the file."""
    if node.style in ("|", ">"):
        return node.line + 1, 1, node.style == "|"
    return node.line, node.column + len(node.style), False


def _value_needs(built: _Builder, value: Node) -> Iterator[Need]:
    if isinstance(value.value, str):
        for each in _logical_lines(value.value, *place(value)):
            yield from _read_list(built, each, 0)
    elif isinstance(value.value, list):
        for item in value.value:
            text = item.value.strip(" \t\n") if isinstance(item.value, str) else ""
            need = _need(text, False, item.line)
            if need:
                yield need
            else:
                built.wrong(item.line, item.column, f"{text or 'this'} is no single prerequisite")
    else:
        built.wrong(value.line, value.column, "prerequisites are text or a list")


def _logical_lines(text: str, line: int, column: int, spread: bool) -> Iterator[_Line]:
    """Lines without comments, joined at `\\`, split at `;`."""
    chars: list[tuple[str, int, int]] = []
    for offset, raw in enumerate(re.split(r"\r\n|\r|\n", text)):
        at = line + offset if spread else line
        first = column if spread or offset == 0 else 1
        code = re.sub(r"(?:^|(?<=[ \t]))#.*", "", raw)
        bare = code.rstrip(" \t")
        goes_on = bare.endswith("\\") and code == raw
        chars += [(char, at, first + n) for n, char in enumerate(bare[:-1] if goes_on else bare)]
        if goes_on:
            chars.append((" ", at, first + len(bare)))
        else:
            yield from _split(chars)
            chars = []
    yield from _split(chars)


def _split(chars: list[tuple[str, int, int]]) -> Iterator[_Line]:
    start = 0
    for at in [n for n, (char, _, _) in enumerate(chars) if char == ";"] + [len(chars)]:
        part = chars[start:at]
        start = at + 1
        if any(char not in " \t" for char, _, _ in part):
            yield _Line("".join(c for c, _, _ in part), tuple(n for _, n, _ in part), tuple(n for _, _, n in part))


def _read_rule(built: _Builder, line: _Line) -> None:
    targets: list[str] = []
    for word in _WORD.finditer(line.text):
        at = word.start()
        if word[0] == ":" and targets:
            needs = list(_read_list(built, line, word.end()))
            return built.add(targets, needs)
        if not NAME.fullmatch(word[0]):
            return built.wrong(line.lines[at], line.columns[at], _no_name(word[0]))
        targets.append(word[0])
    at = len(line.text) - len(line.text.lstrip(" \t"))
    return built.wrong(line.lines[at], line.columns[at], f"a : is missing after {targets[-1]}")


def _no_name(word: str) -> str:
    return f"a target is missing before {word}" if word in ":|" else f"{word} is no name of a tool"


def _read_list(built: _Builder, line: _Line, start: int) -> Iterator[Need]:
    once = False
    for word in _WORD.finditer(line.text, start):
        at = word.start()
        need = _need(word[0], once, line.lines[at])
        if need:
            yield need
        elif word[0] == "|" and not once:
            once = True
        else:
            built.wrong(line.lines[at], line.columns[at], _no_need(word[0]))
            if word[0] == ":":
                return


def _no_need(word: str) -> str:
    if word == ":":
        return "a second : in one line; use `|`, not `>`, for the block"
    return "a second | in one rule" if word == "|" else f"{word} is no prerequisite"


def _need(word: str, once: bool, line: int) -> Need | None:
    found = _NEED.fullmatch(word)
    if found is None:
        return None
    options = tuple(dict.fromkeys(option[2:] for option in found[2].split(","))) if found[2] else ()
    return Need(found[1], "ended" if found[3] else "once" if once else "fresh", options, line)


def check_cycles(graph: Graph, file: str) -> list[Finding]:
    """`self-dependency` and `cycle`, over edges of every kind, each cycle once from its first rule in the file."""
    findings = [
        Finding("self-dependency", "error", file, need.line, f"{name} waits for itself", f"remove {name} from its list")
        for name, needs in graph.rules.items()
        for need in needs
        if need.name == name
    ]
    order = {name: at for at, name in enumerate(graph.rules)}
    reported: set[str] = set()
    for cycle in _cycles(graph.rules):
        if reported.isdisjoint(cycle):
            reported.update(cycle)
            first = min(range(len(cycle)), key=lambda at: order[cycle[at]])
            findings.append(_cycle(graph, file, cycle[first:] + cycle[:first]))
    return findings


def _cycle(graph: Graph, file: str, names: list[str]) -> Finding:
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    lines = [next(need.line for need in graph.needs(name) if need.name == other) for name, other in pairs]
    chain = " waits for ".join([*names, names[0]])
    listed = ", ".join(str(line) for line in lines)
    return Finding("cycle", "error", file, lines[0], f"{chain} (lines {listed})", "remove one of these")


def _cycles(rules: Mapping[str, tuple[Need, ...]]) -> Iterator[list[str]]:
    """Depth first without recursion: each edge back into the path that is open closes a cycle."""
    done: set[str] = set()
    for start in rules:
        path, todo = [start], [iter(rules[start])]
        place_of = {start: 0}
        while todo and start not in done:
            need = next(todo[-1], None)
            if need is None:
                todo.pop()
                name = path.pop()
                del place_of[name]
                done.add(name)
            elif need.name in place_of:
                if need.name != path[-1]:
                    yield path[place_of[need.name] :]
            elif need.name in rules and need.name not in done:
                place_of[need.name] = len(path)
                path.append(need.name)
                todo.append(iter(rules[need.name]))
