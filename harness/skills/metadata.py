"""Our keys of a skill's `metadata`, as text or as nested YAML: dependencies, required tools, verifiers, budget, inputs.

Each limits what a run may do, so a value that cannot be read is an error, never an absent one. No name is resolved.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from harness.documents import Node, walk
from harness.errors import Finding, Severity, near_text
from harness.graph import Graph
from harness.graph.block import NAME, check_cycles, from_mapping, parse_block, place
from harness.skills.frontmatter import OUR_KEYS
from harness.tools import Parameter
from harness.tools.notation import BUDGET_KEYS, MOST_STRIKES, read_limit
from harness.tools.parameter import BadTag, Unsupported, read_input

LIMITS = ("requires", "verify", "budget", "inputs")
_MODEL = re.compile(r"strong|cheap|none|(?:anthropic|openai|ollama|local|exec|scripted):\S.*")


@dataclass(slots=True)
class Ours:
    """What our keys say. `native`: the author limited a run with them. `present`: which keys were given."""

    graph: Graph = field(default_factory=Graph)
    requires: tuple[str, ...] = ()
    verify: tuple[tuple[str, ...], ...] = ()
    budget: dict[str, str] = field(default_factory=dict)
    model: str | None = None
    pipeline: str | None = None
    agents_md: bool = True
    inputs: tuple[Parameter, ...] = ()
    native: bool = False
    present: set[str] = field(default_factory=set)
    lines: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    file: str = ""

    def add(self, severity: Severity, code: str, key: str, message: str, fix: str) -> None:
        self.findings.append(Finding(code, severity, self.file, self.lines.get(key, 1), message, fix))


class _Unreadable(ValueError):
    """Why a value cannot be read; `fix` when there is more to say than the key's form."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def read_metadata(node: Node | None, line: int, file: str, lines: list[str], first: int) -> Ours:
    """Read `metadata`, whose key stands in `line`; `lines` are those of the front matter, the first in line `first`."""
    ours = Ours(file=file)
    if node is None:
        return ours
    if not isinstance(node.value, dict):
        _check_form(ours, node, line)
        return ours
    ours.lines = dict(node.key_lines)
    for key, value in node.value.items():
        if key in OUR_KEYS:
            if key == "tool-dependencies" or not is_empty(value):
                ours.present.add(key)
                _read_key(ours, key, value, lines, first)
        elif meant := misspelt(key):
            ours.add("error", "misspelt-key", key, f"{key} in metadata means {meant}", f"write {meant}")
        elif near := _near(key):
            message = f"{key} in metadata means nothing here; near: {near}"
            ours.add("warning", "misspelt-key", key, message, f"write {near}, or leave it if it is another client's")
    ours.native = not ours.present.isdisjoint(("tool-dependencies", "requires", "verify"))
    return ours


def is_empty(node: Node) -> bool:
    """Nothing, or blanks: counts as absent."""
    return isinstance(node.value, str) and not node.value.strip()


def misspelt(key: str) -> str | None:
    """The one of our keys that was meant: the same but for case, `_` and `-`, or close to `tool-dependencies`."""
    folded = fold(key)
    for ours in OUR_KEYS:
        if folded == fold(ours):
            return ours
    if 12 < len(key) < 24:
        import difflib  # only for a key long enough to be that one

        close = difflib.get_close_matches(key.lower().replace("_", "-"), ["tool-dependencies"], 1, 0.85)
        return close[0] if close else None
    return None


def _near(key: str) -> str | None:
    """The limit that a stranger's key resembles: it may be another client's, or one that was meant."""
    import difflib  # only for keys that are not ours

    close = difflib.get_close_matches(key.lower(), LIMITS, 1, 0.7)
    return close[0] if close else None


def fold(key: str) -> str:
    """A key without what people vary: case, `_` and `-`."""
    return key.lower().replace("_", "").replace("-", "")


def _check_form(ours: Ours, node: Node, line: int) -> None:
    texts = [each.value for each in walk(node) if isinstance(each.value, str)]
    texts += [key for each in walk(node) if isinstance(each.value, dict) for key in each.value]
    words = {fold(word): word for text in texts for word in re.findall(r"[A-Za-z_-]+", text)}
    held = next((words[fold(key)] for key in OUR_KEYS if fold(key) in words), None)
    severity: Severity = "error" if held else "warning"
    message = "metadata is no mapping" + (f", but names {held}" if held else " and is ignored")
    fix = "write it as indented lines of `key: value`"
    ours.findings.append(Finding("metadata-form", severity, ours.file, line, message, fix))


def _read_key(ours: Ours, key: str, node: Node, lines: list[str], first: int) -> None:
    try:
        if key == "tool-dependencies":
            _read_block(ours, node, lines, first)
        elif key == "requires":
            _read_requires(ours, node)
        elif key == "verify":
            ours.verify = _verifiers(node)
        elif key == "budget":
            ours.budget = _budget(node)
        elif key == "inputs":
            ours.inputs = _inputs(node)
        else:
            _read_word(ours, key, node)
    except _Unreadable as error:
        ours.add("error", f"bad-{key}", key, f"{key}: {error.message}", error.fix or _FORMS[key])


_FORMS = {
    "requires": "write names of tools, separated by blanks",
    "verify": "write one command a line",
    "budget": "write it as `turns=20 usd=0.50`",
    "inputs": "write one a line: `name! <ID> what it is`",
    "pipeline": "write the name of one pipeline",
}


def _read_block(ours: Ours, node: Node, lines: list[str], first: int) -> None:
    if isinstance(node.value, str):
        line, column, spread = place(node)
        if spread:
            column = _indent(node.value, lines[line - first :]) + 1
        ours.graph, findings = parse_block(node.value, ours.file, line, column, spread)
    else:
        ours.graph, findings = from_mapping(node, ours.file)
    ours.findings += [*findings, *check_cycles(ours.graph, ours.file)]


def _indent(text: str, lines: list[str]) -> int:
    """How far a `|` block is indented: its first line with text against the same line in the file."""
    for written, raw in zip(text.split("\n"), lines, strict=False):
        if written.strip():
            return max(len(raw) - len(written), 0)
    return 0


def _texts(node: Node, separator: str) -> list[str]:
    """Text split at `separator`, or a list of texts as it is; anything else is unreadable."""
    if isinstance(node.value, str):
        return [word for word in re.split(separator, node.value) if word.strip()]
    if isinstance(node.value, list) and all(isinstance(item.value, str) for item in node.value):
        return [str(item.value) for item in node.value]
    raise _Unreadable("text or a list of texts is expected")


def _read_requires(ours: Ours, node: Node) -> None:
    if isinstance(node.value, dict):
        ours.present.discard("requires")
        ours.add("note", "unknown-key", "requires", "requires is a mapping, which is another client's", "leave it")
        return
    names = [name.strip() for name in _texts(node, r"[\s,]+")]
    for name in names:
        if not NAME.fullmatch(name):
            raise _Unreadable(f"{name or 'an empty text'} is no name of a tool")
    ours.requires = tuple(dict.fromkeys(names))


def _verifiers(node: Node) -> tuple[tuple[str, ...], ...]:
    made = []
    for line in _texts(node, r"\n"):
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise _Unreadable(f"{line.strip()} has a quote that is not closed") from error
        if not words or not words[0]:
            raise _Unreadable("a command is empty")
        made.append(tuple(words))
    return tuple(made)


def _budget(node: Node) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, value in _pairs(node):
        if key in made:
            raise _Unreadable(f"{key} is given twice")
        made[key] = _limit(key, value)
    return made


def _pairs(node: Node) -> list[tuple[str, str]]:
    if isinstance(node.value, dict):
        if not all(isinstance(value.value, str) for value in node.value.values()):
            raise _Unreadable("a limit is one number")
        return [(key, str(value.value).strip()) for key, value in node.value.items()]
    if not isinstance(node.value, str):
        raise _Unreadable("text or a mapping is expected")
    pairs = []
    for word in re.split(r"[\s,]+", node.value.strip().strip(",")):
        key, equals, value = word.partition("=")
        if not equals:
            raise _Unreadable(f"{word} is no key=value")
        pairs.append((key, value))
    return pairs


def _limit(key: str, value: str) -> str:
    if key not in BUDGET_KEYS:
        near = near_text(key, BUDGET_KEYS)
        raise _Unreadable(f"{key or 'an empty key'} is no limit{near}", f"use {', '.join(BUDGET_KEYS)}")
    if (limit := read_limit(key, value)) is not None:
        return limit
    wanted = {"usd": "a positive decimal", "seconds": "seconds or a duration such as 15m",
              "money": "an amount with its currency, such as 50.00EUR",
              "strikes": f"a number up to {MOST_STRIKES}, which is only lowered"}  # fmt: skip
    raise _Unreadable(f"{key}={value} is not {wanted.get(key, 'a positive integer')}")


def _inputs(node: Node) -> tuple[Parameter, ...]:
    made: dict[str, Parameter] = {}
    for text, line in _declarations(node):
        try:
            parameter = read_input(text, line)
        except (BadTag, Unsupported) as error:
            raise _Unreadable(f"{text.strip()[:60]!r}: {error}") from error
        if parameter.name in made:
            raise _Unreadable(f"{parameter.name} is declared twice")
        made[parameter.name] = parameter
    return tuple(made.values())


def _declarations(node: Node) -> list[tuple[str, int]]:
    if isinstance(node.value, dict):
        if not all(isinstance(value.value, str) for value in node.value.values()):
            raise _Unreadable("each input is a line of text")
        return [
            (f"{key} {' '.join(str(value.value).split())}".strip(), node.key_lines[key])
            for key, value in node.value.items()
        ]
    if not isinstance(node.value, str):
        raise _Unreadable("text or a mapping is expected")
    line, _, spread = place(node)
    lines = enumerate(node.value.split("\n"))
    return [(text.strip(), line + at * spread) for at, text in lines if text.strip()]


def _read_word(ours: Ours, key: str, node: Node) -> None:
    word = node.value.strip() if isinstance(node.value, str) else ""
    if key == "pipeline":
        if not NAME.fullmatch(word):
            raise _Unreadable(f"{word or 'this'} is no name of a pipeline")
        ours.pipeline = word
    elif key == "model":
        if _MODEL.fullmatch(word):
            ours.model = word
        else:
            message = f"model: {word or 'this'} is no model here and is ignored"
            ours.add("note", "unknown-model", key, message, "write strong, cheap or SCHEME:NAME")
    elif word == "off":
        ours.agents_md = False
    else:
        ours.add("note", "bad-value", key, f"agents-md: {word or 'this'} means nothing", "write off, or remove the key")
