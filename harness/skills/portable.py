"""What we read, but the standard's own validator or other clients do not. Only asked for by a strict check."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from harness.documents import Node
from harness.errors import Finding
from harness.skills import Skill
from harness.skills.fields import FIELDS
from harness.skills.frontmatter import FrontMatter, read_front_matter
from harness.skills.reading import read_bytes

MAX_COMPATIBILITY = 500
_TOKENS = {
    yaml.FlowSequenceStartToken: "a list in brackets",
    yaml.FlowMappingStartToken: "a mapping in braces",
    yaml.AnchorToken: "an anchor",
    yaml.AliasToken: "an alias",
    yaml.TagToken: "a tag",
    yaml.DirectiveToken: "a directive",
}


def not_portable(skill: Skill) -> list[Finding]:
    """One finding for each thing that keeps other clients from reading the file; reads it again."""
    try:
        data = read_bytes(skill.file)
    except OSError:
        return []  # said when the skill was read
    front = read_front_matter(data, skill.shown)
    if front.root is None:
        return []
    found = [*_file(skill, data, front), *_yaml(front), *_values(front.root)]
    return [
        Finding("not-portable", "error", skill.shown, line, message, "write it as other clients read it")
        for line, message in found
    ]


def _file(skill: Skill, data: bytes, front: FrontMatter) -> Iterator[tuple[int, str]]:
    if skill.file.name != "SKILL.md":
        yield 1, f"the file is called {skill.file.name}, not SKILL.md"
    if not data.startswith(b"---"):
        yield 1, "the first byte of the file does not begin ---"
    lines = front.text.split("\n")
    end = front.line + len(lines) - 1
    for line, mark in zip((front.line - 1, end), front.marks, strict=True):
        if mark != "---":
            yield line, "a marker is not exactly ---"
    for line, text in enumerate(lines, front.line):
        if "---" in text:
            yield line, "--- stands inside the front matter"
    if not front.body and not data.endswith((b"\n", b"\r")):
        yield end, "the last marker has no line end"


def _yaml(front: FrontMatter) -> Iterator[tuple[int, str]]:
    for token in yaml.scan(front.text, yaml.BaseLoader):
        if isinstance(token, yaml.ScalarToken) and token.plain and token.value == "<<":
            yield front.line + token.start_mark.line, "<< is not quoted"
        elif type(token) in _TOKENS:
            yield front.line + token.start_mark.line, f"{_TOKENS[type(token)]} stands in the front matter"


def _values(root: Node) -> Iterator[tuple[int, str]]:
    assert isinstance(root.value, dict)
    for key, node in root.value.items():
        line = root.key_lines[key]
        if key not in FIELDS:
            yield line, f"{key} is none of the standard's fields"
        elif key == "metadata":
            if not isinstance(node.value, dict) or not all(isinstance(v.value, str) for v in node.value.values()):
                yield line, "metadata is not text to text"
        elif not isinstance(node.value, str):
            yield line, f"{key} is not text"
        elif key == "compatibility" and len(node.value) > MAX_COMPATIBILITY:
            yield line, f"compatibility is over {MAX_COMPATIBILITY} characters"
