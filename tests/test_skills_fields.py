"""The fields of a skill and our metadata keys: values, findings with the key's line, and what is never dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from skill_files import LOADERS, make_skill, only_skill, use_loader

from harness.skills import Skill
from harness.skills.paragraph import first_paragraph


@pytest.fixture(params=LOADERS, autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_loader(monkeypatch, request.param)
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def skill_of(project: Path, front: str, body: str = "Do it.\n") -> Skill:
    make_skill(project, "s", f"name: s\ndescription: D\n{front}", body)
    return only_skill(project, "s")


def said(skill: Skill) -> list[tuple[str, str, int]]:
    return [(f.code, f.severity, f.line) for f in skill.findings]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("My Skill", ["name-form", "name-mismatch"]),
        ("s--s", ["name-form", "name-mismatch"]),
        ("a" * 65, ["name-form", "name-mismatch"]),
        ("../s", ["bad-name", "name-mismatch"]),
        ("a\\b", ["bad-name", "name-mismatch"]),
        ("[s]", ["name-form"]),
        ("''", ["no-name"]),
        ("ｓ", ["name-form"]),
    ],
)
def test_names(project: Path, name: str, found: list[str]) -> None:
    make_skill(project, "s", f"name: {name}\ndescription: D")
    skill = only_skill(project, "s")
    assert [f.code for f in skill.findings] == found
    assert bool(skill.refused) == ("bad-name" in found)


@pytest.mark.parametrize(
    ("value", "code"), [(" [a]", "wrong-type"), ("\n  a: b", "wrong-type"), ("", "description-missing")]
)
def test_descriptions_are_text(project: Path, value: str, code: str) -> None:
    make_skill(project, "s", f"name: s\ndescription:{value}", "# Only a heading\n")
    refused = only_skill(project, "s").refused
    assert refused and refused.code == code


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("# H\n\nOne\ntwo.\n\nThree.\n", "One two."),
        ("Title\n=====\n\n- a\n\n  more of a\n\nText.\n", "Text."),
        ("1. a\n2. b\n\n> quote\n\n| a | b |\n|---|---|\n\na | b\n--|--\n\nText.\n", "Text."),
        ("```\ncode\n\nmore code\n```\n\n    indented\n\nText.\n", "Text."),
        ("![i](x.png)\n\n[![b](x)](y)\n\n<p>\nhtml\n</p>\n\n<!-- a\n\nb -->\nText.\n", "Text."),
        ("***\n\n[ref]: http://x\n\n**Bold** text.\n- list\n", "**Bold** text."),
        ("## H\nText right below.\n", "Text right below."),
        ("~~~\nnever closed\n\ntext\n", ""),
        ("- a\n", ""),
    ],
)
def test_the_first_paragraph_is_plain_text(body: str, text: str) -> None:
    assert first_paragraph(body) == text


@pytest.mark.parametrize(
    ("front", "allowed", "foreign"),
    [
        ("allowed-tools: a, b  c,a", ("a", "b", "c"), ()),
        ("allowed-tools:\n- a\n- b c", ("a", "b", "c"), ()),
        ("allowed-tools: Bash(git:*) Read", (), ("Bash(git:*)", "Read")),
        ("allowed-tools: Bash(bin/count-lines:*)", ("count-lines",), ()),
        ("allowed-tools: Bash(./bin/a:*),Bash(scripts/b.py:*)", ("a", "b.py"), ()),
        ("allowed-tools: Bash(git log:*, git diff:*), mcp__x__y A/b", (), ("Bash(git log:*, git diff:*)", "A/b")),
        ("allowed-tools: Bash(open a b", (), ("Bash(open a b",)),
        ("allowed-tools:", (), ()),
        ("metadata:\n  tool-dependencies: 'a: b | c'", ("a", "b", "c"), ()),
    ],
)
def test_allowed_tools(project: Path, front: str, allowed: tuple[str, ...], foreign: tuple[str, ...]) -> None:
    skill = skill_of(project, front)
    assert (tuple(n for n in skill.allowed if n != "mcp__x__y"), skill.foreign) == (allowed, foreign)
    assert skill.closed == ("allowed" in front)
    assert skill.findings == ()


@pytest.mark.parametrize("value", ["{a: b}", "[a, [b]]", "[{a: b}]"])
def test_allowed_tools_of_another_shape_are_refused(project: Path, value: str) -> None:
    assert said(skill_of(project, f"allowed-tools: {value}")) == [("wrong-type", "refused", 4)]


@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("tool-dependencies: 'a: b'", [("misplaced-key", "error", 4)]),
        ("tool_dependencies: 'a: b'", [("misplaced-key", "error", 4)]),
        ("tool-dependencies:", [("misplaced-key", "error", 4)]),
        ("model: x", [("misplaced-key", "note", 4)]),
        ("requires: x", [("misplaced-key", "note", 4)]),
        ("requires: x\nmetadata:\n  verify: v", [("misplaced-key", "error", 4)]),
        ("allowed_tools: x", [("misspelt-key", "error", 4)]),
        ("Metadata: {a: b}", [("misspelt-key", "error", 4)]),
        ("hooks: {a: b}", [("not-run", "note", 4)]),
        ("disable-model-invocation: true", []),
        ("license:", []),
        ("version: 1", [("unknown-key", "note", 4)]),
        ("metadata: text", [("metadata-form", "warning", 4)]),
        ("metadata: ['tool-dependencies: a']", [("metadata-form", "error", 4)]),
        ("metadata: '{\"requires\": \"a\"}'", [("metadata-form", "error", 4)]),
        ("metadata:\n  tool_dependencies: 'a: b'", [("misspelt-key", "error", 5)]),
        ("metadata:\n  toolDependencies: 'a: b'", [("misspelt-key", "error", 5)]),
        ("metadata:\n  tool-dependecies: 'a: b'", [("misspelt-key", "error", 5)]),
        ("metadata:\n  Requires: a", [("misspelt-key", "error", 5)]),
        ("metadata:\n  dependencies: a", []),
        ("metadata:\n  requires: {bins: [wc]}", [("unknown-key", "note", 5)]),
        ("metadata:\n  tool-dependencies:", [("dep-empty", "error", 5)]),
        ("metadata:\n  tool-dependencies: {}", [("dep-empty", "error", 5)]),
        ("metadata:\n  tool-dependencies: [a]", [("dep-syntax", "error", 5)]),
        ("metadata:\n  tool-dependencies: |\n    a: b\n    c\n", [("dep-syntax", "error", 7)]),
        ("metadata:\n  tool-dependencies: |\n\n    a: a\n", [("self-dependency", "error", 7)]),
        ("metadata:\n  requires: A", [("bad-requires", "error", 5)]),
        ("metadata:\n  requires: [[a]]", [("bad-requires", "error", 5)]),
        ("metadata:\n  verify: \"check 'x\"", [("bad-verify", "error", 5)]),
        ("metadata:\n  verify: {a: b}", [("bad-verify", "error", 5)]),
        ("metadata:\n  budget: turn=3", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: usd=-1", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: usd=nan", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: turns=0", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: turns=1 turns=2", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: twenty", [("bad-budget", "error", 5)]),
        ("metadata:\n  budget: [turns=1]", [("bad-budget", "error", 5)]),
        ("metadata:\n  inputs: 'batch!=1'", [("bad-inputs", "error", 5)]),
        ("metadata:\n  inputs: |\n    a one\n    a two", [("bad-inputs", "error", 5)]),
        ("metadata:\n  inputs: [a]", [("bad-inputs", "error", 5)]),
        ("metadata:\n  pipeline: A b", [("bad-pipeline", "error", 5)]),
        ("metadata:\n  model: opus", [("unknown-model", "note", 5)]),
        ("metadata:\n  agents-md: on", [("bad-value", "note", 5)]),
    ],
)
def test_keys_and_values(project: Path, front: str, found: list[tuple[str, str, int]]) -> None:
    assert said(skill_of(project, front)) == found


def test_columns_count_in_the_file(project: Path) -> None:
    skill = skill_of(project, "metadata:\n  tool-dependencies: |\n    a: b\n    c: d >\n")
    assert "line 7, column 10: " in skill.findings[0].message


def test_a_finding_stays_on_one_line(project: Path) -> None:
    skill = skill_of(project, 'allowed-tools: ["a"]\n"x\\ny": "z"')
    assert [finding.code for finding in skill.findings] == ["unknown-key"]
    assert "\n" not in skill.findings[0].text() and r"x\ny" in skill.findings[0].text()


def test_commands_in_the_body_are_not_run(project: Path) -> None:
    assert said(skill_of(project, "", "One\n\nNow: !`date`\n")) == [("not-run", "note", 8)]


TEXT = """metadata:
  requires: a, b
  verify: |
    check --x 'one two'

    other
  budget: turns=3, usd=0.5 seconds=1h30m
  model: strong
  pipeline: p
  agents-md: off
  inputs: |
    batch! <ID> the batch
    kind[=a|b] which
"""
NESTED = """metadata:
  requires: [a, b]
  verify: ["check --x 'one two'", other]
  budget: {turns: 3, usd: 0.5, seconds: 1h30m}
  model: strong
  pipeline: p
  agents-md: off
  inputs:
    batch!: <ID> the batch
    kind[=a|b]: which
"""


@pytest.mark.parametrize("front", [TEXT, NESTED])
def test_our_keys_mean_the_same_in_both_forms(project: Path, front: str) -> None:
    skill = skill_of(project, f"allowed-tools: a b\n{front}")
    assert skill.findings == () and skill.native
    assert skill.requires == ("a", "b")
    assert skill.verify == (("check", "--x", "one two"), ("other",))
    assert skill.budget == {"turns": "3", "usd": "0.5", "seconds": "5400"}
    assert (skill.model, skill.pipeline, skill.agents_md) == ("strong", "p", False)
    batch, kind = skill.inputs
    assert (batch.name, batch.required, batch.notation, batch.text) == ("batch", True, "ID", "the batch")
    assert (kind.name, kind.default, kind.choices) == ("kind", "a", ("a", "b"))
