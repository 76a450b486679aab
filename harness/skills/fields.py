"""The fields of a `SKILL.md` on top level, and from all of them the `Skill`. Resolves no name, reads no other file."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import cast

from harness.documents import Node
from harness.errors import Finding, Severity
from harness.graph.block import NAME
from harness.skills import Skill
from harness.skills.frontmatter import FrontMatter
from harness.skills.metadata import Ours, fold, is_empty, misspelt, read_metadata
from harness.skills.paragraph import first_paragraph

FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
MAX_DESCRIPTION = 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_OURS_IN_BASH = re.compile(r"Bash\((?:\./)?(?:bin|scripts)/([^()]*):\*\)")
_COMMAND = re.compile(r"(?:^|(?<=\s))!`[^`\n]+`|^```!", re.MULTILINE)


def make_skill(front: FrontMatter, skill: Skill) -> Skill:
    """`skill` (which knows its folder, file and name) with what the front matter and the body say."""
    if front.root is None:
        return dataclasses.replace(skill, findings=(*skill.findings, *front.findings))
    return _Reader(front, skill).read()


class _Reader:
    """Collects the findings of one file while its fields are read."""

    def __init__(self, front: FrontMatter, skill: Skill) -> None:
        assert front.root is not None and isinstance(front.root.value, dict)
        self.front, self.skill, self.root = front, skill, front.root
        self.values = {key: value for key, value in front.root.value.items() if not is_empty(value)}
        self.findings = [*skill.findings, *front.findings]

    def add(self, severity: Severity, code: str, key: str, message: str, fix: str) -> None:
        line = self.root.key_lines.get(key, self.front.line - 1)
        self.findings.append(Finding(code, severity, self.skill.shown, line, message, fix))

    def read(self) -> Skill:
        first, lines = self.front.line, self.front.text.split("\n")
        line = self.root.key_lines.get("metadata", 1)
        ours = read_metadata(self.values.get("metadata"), line, self.skill.shown, lines, first)
        declared, description = self._name(), self._description()
        allowed, foreign = self._allowed(ours)
        self._check_keys(ours)
        self._check_commands()
        self.findings += ours.findings
        off = self.values.get("disable-model-invocation")
        return dataclasses.replace(
            self.skill,
            declared_name=declared,
            description=description,
            body=self.front.body,
            body_line=self.front.body_line,
            allowed=allowed,
            foreign=foreign,
            closed="allowed-tools" in self._root_values(),
            graph=ours.graph,
            requires=ours.requires,
            verify=ours.verify,
            budget=ours.budget,
            model=ours.model,
            pipeline=ours.pipeline,
            agents_md=ours.agents_md,
            inputs=ours.inputs,
            native=ours.native,
            no_worker=off is not None and str(off.value).strip().lower() in ("true", "yes", "on"),
            fields=cast("dict[str, object]", self.root.plain()),
            lines={**ours.lines, **self.root.key_lines},
            findings=tuple(sorted(self.findings, key=lambda finding: (finding.line, finding.code))),
        )

    def _root_values(self) -> dict[str, Node]:
        return cast("dict[str, Node]", self.root.value)

    def _name(self) -> str:
        folder = self.skill.name
        node = self.values.get("name")
        if node is None:
            self.add("warning", "no-name", "name", f"has no name; {folder} is used", f"add name: {folder}")
            return ""
        if not isinstance(node.value, str):
            self.add("warning", "name-form", "name", f"name is not text; {folder} is used", f"write name: {folder}")
            return ""
        name = node.value.strip()
        if re.search(r"[/\\]|\.\.", name):
            self.add("refused", "bad-name", "name", f"the name {name} could be a path", f"write name: {folder}")
        elif not _NAME.fullmatch(name) or len(name) > 64:
            fix = "use at most 64 of a-z, 0-9 and single dashes"
            self.add("warning", "name-form", "name", f"{name} is no name of the standard's form", fix)
        if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder):
            self.add("warning", "name-mismatch", "name", f"the folder of {name} is {folder}", "make them equal")
        return name

    def _description(self) -> str:
        node = self.values.get("description")
        if node is not None and not isinstance(node.value, str):
            self.add("refused", "wrong-type", "description", "description is not text", "write it as one text")
            return ""
        text = " ".join(str(node.value).split()) if node else first_paragraph(self.front.body)
        fix = "say what the skill does and when to use it"
        if not text:
            message = "has no description, and no paragraph to take one from"
            self.add("refused", "description-missing", "description", message, fix)
        elif node is None:
            message = "has no description; the first paragraph is used"
            self.add("warning", "description-from-body", "description", message, fix)
        if len(text) > MAX_DESCRIPTION:
            message = f"description has {len(text)} characters, over {MAX_DESCRIPTION}"
            self.add("warning", "long-description", "description", message, "move the rest to the body")
        return text

    def _allowed(self, ours: Ours) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(our names, foreign names), each in order and once."""
        node = self._root_values().get("allowed-tools")
        if node is None:
            named = [name for target, needs in ours.graph.rules.items() for name in (target, *(n.name for n in needs))]
            return tuple(dict.fromkeys(named)), ()
        texts = node.value if isinstance(node.value, list) else [node]
        if isinstance(node.value, dict) or not all(isinstance(text.value, str) for text in texts):
            message = "allowed-tools: text or a list of texts is expected"
            self.add("refused", "wrong-type", "allowed-tools", message, "write the names on one line, with blanks")
            return (), ()
        words = dict.fromkeys(_ours(word) for text in texts for word in split_names(str(text.value)))
        return tuple(w for w in words if NAME.fullmatch(w)), tuple(w for w in words if not NAME.fullmatch(w))

    def _check_keys(self, ours: Ours) -> None:
        for key in self._root_values():
            if key not in FIELDS and (key in self.values or misspelt(key)):
                self._check_key(key, ours.native)

    def _check_key(self, key: str, native: bool) -> None:
        meant = misspelt(key)
        if meant:
            severity: Severity = "error" if meant == "tool-dependencies" or native else "note"
            self.add(severity, "misplaced-key", key, f"{key} on top level means nothing", f"put {meant} under metadata")
        elif known := next((name for name in ("metadata", "allowed-tools") if fold(key) == fold(name)), None):
            self.add("error", "misspelt-key", key, f"{key} means {known}", f"write {known}")
        elif key == "hooks":
            self.add("note", "not-run", key, "hooks of other clients are never run", "use metadata.verify")
        elif key != "disable-model-invocation":
            self.add("note", "unknown-key", key, f"{key} is no field of a skill", "put it under metadata")

    def _check_commands(self) -> None:
        found = _COMMAND.search(self.front.body)
        if found:
            line = self.front.body_line + self.front.body.count("\n", 0, found.start())
            message, fix = "commands in the body are never run", "make it a tool"
            self.findings.append(Finding("not-run", "note", self.skill.shown, line, message, fix))


def split_names(text: str) -> list[str]:
    """Words separated by blanks and commas that stand outside parentheses."""
    words, word, depth = [], "", 0
    for char in text:
        depth = max(depth + (char == "(") - (char == ")"), 0)
        if depth == 0 and (char == "," or char.isspace()):
            words.append(word)
            word = ""
        else:
            word += char
    return [each.strip() for each in [*words, word] if each.strip()]


def _ours(word: str) -> str:
    """`Bash(bin/x:*)` is the tool x; everything else is what it is."""
    found = _OURS_IN_BASH.fullmatch(word)
    return found[1] if found and NAME.fullmatch(found[1]) else word


