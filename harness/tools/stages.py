"""A pipeline's YAML as stages: read, with what is wrong in each place. Whether it can run: `wiring`. Runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.documents import Node, YamlError, read_yaml
from harness.errors import Finding, near_text
from harness.tools import Tool
from harness.tools.block import HEAD_BYTES, read_block
from harness.tools.expression import BadExpression, When, Word, read_when, read_word
from harness.tools.notation import shown

MAX_BYTES = 1024 * 1024
RESERVED = ("inputs", "failed")
REDUCERS = ("append", "union", "one", "last")
_KEYS = ("run", "needs", "when", "on-failure", "as")
_NAME = re.compile(r"[a-z0-9-]+")
_NEED = re.compile(r"([a-z0-9-]+)(\??)")
_FLOW_NEEDS = re.compile(r"""(needs["']?\s*:\s*\[)([^\]"'#]*)""")


@dataclass(frozen=True, slots=True)
class Stage:
    """One step. `needs` are those written out, as (name, whether it may have ended badly or been skipped).

    `as_name` is the name its result is kept under, its own if none is given. `lines` are those of its keys.
    """

    name: str
    run: tuple[Word, ...]
    needs: tuple[tuple[str, bool], ...] = ()
    when: When | None = None
    on_failure: str | None = None
    as_name: str = ""
    line: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reducer:
    """How results that share a name become one; `field` names what `union` compares."""

    kind: Literal["append", "union", "one", "last"]
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages in the order written, and how shared names merge. With findings it cannot run."""

    stages: tuple[Stage, ...] = ()
    merge: Mapping[str, Reducer] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def sharing(self, name: str) -> tuple[Stage, ...]:
        """The stages that `${name}` means: the stage of that name, or those that keep their result under it."""
        return tuple(stage for stage in self.stages if name in (stage.name, stage.as_name))


def read_pipeline(tool: Tool) -> Pipeline:
    """The pipeline in the tool's file, below its header."""
    reader = _Reader(tool.file or str(tool.path))
    try:
        with tool.path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reader.wrong(1, f"cannot be read: {(error.strerror or str(error)).lower()}")
        return reader.made({}, {})
    if len(data) > MAX_BYTES:
        reader.wrong(1, f"is larger than {MAX_BYTES} bytes")
        return reader.made({}, {})
    end = read_block(data[:HEAD_BYTES], reader.file).end
    try:
        text = b"\n".join(data.split(b"\n")[end - 1 :]).decode("utf-8")
        root = read_yaml(_FLOW_NEEDS.sub(_quoted, text), end).root
    except UnicodeDecodeError:
        reader.wrong(end, "is not UTF-8")
    except YamlError as error:
        reader.wrong(error.line, f"is no YAML: {error.message}")
    else:
        return reader.read(root or Node({}, end))
    return reader.made({}, {})


def _quoted(found: re.Match[str]) -> str:
    """`[a, b?]` with `b?` in quotes, because only one of the YAML loaders reads it plain."""
    return found[1] + re.sub(r"([a-z0-9-]+\?)", r'"\1"', found[2])


_PLAIN_REDUCERS = {"": Reducer("one"), "one": Reducer("one"), "append": Reducer("append"), "last": Reducer("last")}


class _Reader:
    """Turns nodes into stages and collects what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []

    def wrong(self, line: int, message: str, fix: str = "correct it") -> None:
        self.findings.append(bad_pipeline(self.file, line, message, fix))

    def made(self, stages: Mapping[str, Stage], merge: Mapping[str, Reducer]) -> Pipeline:
        return Pipeline(tuple(stages.values()), merge, tuple(self.findings))

    def read(self, root: Node) -> Pipeline:
        top = self.mapping(root, "the pipeline", ("stages", "merge"))
        stages: dict[str, Stage] = {}
        if top and "stages" not in top:
            self.wrong(root.line, "there are no stages", "add stages: {NAME: {run: [TOOL, ...]}}")
        elif top:
            for name, node in self.mapping(top["stages"], "stages").items():
                if stage := self.stage(name, node, top["stages"].key_lines.get(name, node.line)):
                    stages[name] = stage
        merge = self.merge(top["merge"]) if "merge" in top else {}
        return self.made(stages, merge)

    def mapping(self, node: Node, what: str, known: Iterable[str] | None = None) -> dict[str, Node]:
        """The entries of a mapping with these keys; anything else is complained of and left out."""
        if not isinstance(node.value, dict) or not node.value:
            self.wrong(node.line, f"{what} holds no keys", "write KEY: VALUE")
            return {}
        for key, line in node.duplicates:
            self.wrong(line, f"{shown(key)} is given twice in {what}", "remove one of them")
        for key in node.value:
            if known is not None and key not in known:
                fix = f"use one of {', '.join(known)}, or remove it"
                self.wrong(node.key_lines[key], f"unknown key {shown(key)} in {what}{near_text(key, known)}", fix)
        return {key: child for key, child in node.value.items() if known is None or key in known}

    def stage(self, name: str, node: Node, line: int) -> Stage | None:
        if not _NAME.fullmatch(name) or name in RESERVED:
            self.wrong(line, f"{shown(name)} cannot be the name of a stage", "use letters a-z, digits and -")
            return None
        keys = self.mapping(node, f"stage {name}", _KEYS)
        run = self.words(name, keys.get("run"), line)
        return Stage(
            name=name,
            run=run,
            needs=self.needs(name, keys["needs"]) if "needs" in keys else (),
            when=self.when(keys["when"]) if "when" in keys else None,
            on_failure=self.name(keys["on-failure"], "on-failure") if "on-failure" in keys else None,
            as_name=(self.name(keys["as"], "as") if "as" in keys else None) or name,
            line=line,
            lines=dict(node.key_lines),
        )

    def words(self, name: str, node: Node | None, line: int) -> tuple[Word, ...]:
        if node is None or not isinstance(node.value, list) or not node.value:
            self.wrong(node.line if node else line, f"stage {name} has no list of words to run", "add run: [TOOL, ...]")
            return ()
        made = []
        for item in node.value:
            try:
                made.append(read_word(_need_text(item), item.line))
            except BadExpression as error:
                self.wrong(item.line, f"in stage {name}, {error}")
        if made and not made[0].text:
            self.wrong(node.line, f"the first word of stage {name} is empty", "begin with a tool")
        return tuple(made)

    def needs(self, name: str, node: Node) -> tuple[tuple[str, bool], ...]:
        if not isinstance(node.value, list):
            self.wrong(node.line, f"needs of stage {name} is no list", "write needs: [x, y?]")
            return ()
        made = []
        for item in node.value:
            found = _NEED.fullmatch(item.value) if isinstance(item.value, str) else None
            if found:
                made.append((found[1], bool(found[2])))
            else:
                self.wrong(item.line, f"needs of stage {name} holds what is no stage", "write needs: [x, y?]")
        return tuple(made)

    def when(self, node: Node) -> When | None:
        try:
            return read_when(_need_text(node))
        except BadExpression as error:
            self.wrong(node.line, str(error), "write one comparison")
            return None

    def name(self, node: Node, key: str) -> str | None:
        if isinstance(node.value, str) and _NAME.fullmatch(node.value) and node.value not in RESERVED:
            return node.value
        self.wrong(node.line, f"{key} is no name", f"write {key}: NAME with letters a-z, digits and -")
        return None

    def merge(self, node: Node) -> dict[str, Reducer]:
        made = {}
        for name, child in self.mapping(node, "merge").items():
            if reducer := _reducer(child):
                made[name] = reducer
            else:
                fix = "write append, union: FIELD, one or last"
                self.wrong(child.line, f"merge of {shown(name)} is no known reducer{_near_reducer(child)}", fix)
        return made


def bad_pipeline(file: str, line: int, message: str, fix: str) -> Finding:
    return Finding("bad-pipeline", "error", file, line, message, fix)


def _need_text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise BadExpression("a list or mapping stands where text should")
    if "\0" in node.value:
        raise BadExpression("a word holds a NUL")
    return node.value


def _reducer(node: Node) -> Reducer | None:
    """`append`, `one`, `last`, or `union: FIELD` as text or as a mapping; nothing is `one`."""
    if isinstance(node.value, dict):
        wanted = node.value.get("union") if len(node.value) == 1 else None
        return Reducer("union", wanted.value) if wanted and isinstance(wanted.value, str) and wanted.value else None
    if not isinstance(node.value, str):
        return None
    kind, _, name = (part.strip() for part in node.value.partition(":"))
    if kind == "union" and name:
        return Reducer("union", name)
    return None if name else _PLAIN_REDUCERS.get(kind)


def _near_reducer(node: Node) -> str:
    return near_text(node.value, REDUCERS) if isinstance(node.value, str) else ""
