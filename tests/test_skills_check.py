"""What a skill's names mean where it stands, and what is wrong with it as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from skill_files import catalog_of, codes, make_skill, make_tool

from harness.errors import Finding, HarnessError
from harness.skills import Resolved
from harness.skills.body import substitute
from harness.skills.check import check_skill, resolve
from harness.skills.describe import describe
from harness.skills.discovery import read_catalog
from harness.skills.names import find
from harness.skills.new import new_skill

DEPS = "metadata:\n  tool-dependencies: |\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("search-logs", "check-pods", "check-report"):
        make_tool(folder, name)
    make_tool(folder, "write-report", "write")
    make_tool(folder, "send-mail", "external")
    return folder


def checked(project: Path, front: str, body: str = "Do it.\n", strict: bool = False) -> list[Finding]:
    make_skill(project, "s", f"name: s\ndescription: D\n{front}", body)
    catalog = catalog_of(project)
    return check_skill(catalog, find(catalog, "s"), strict)


def resolved(project: Path, name: str = "s") -> Resolved:
    catalog = catalog_of(project)
    return resolve(catalog, find(catalog, name))


def said(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(f.code, f.severity, f.line) for f in findings]


def test_a_misspelt_prerequisite(project: Path) -> None:
    findings = checked(project, DEPS + "    write-report: serach-logs\n    check-pods: | write-report")
    assert said(findings) == [("unknown-tool", "error", 6), ("unreachable", "error", 6), ("unreachable", "error", 7)]
    assert findings[0].text() == (
        "skills/s/SKILL.md:6: error unknown-tool write-report waits for serach-logs, which is no tool; "
        "near: search-logs; fix: correct it, or create bin/serach-logs"
    )
    assert findings[2].message.startswith("check-pods waits for write-report waits for serach-logs")


PIPELINE = "#!/usr/bin/env -S harness pipeline\n# @describe Stages\nstages:\n"


def make_pipeline(project: Path, name: str, stages: str, folder: str = "bin") -> None:
    make_tool(project, name, folder=folder).write_text(PIPELINE + stages)


def test_the_stages_of_its_pipelines_are_looked_into(project: Path) -> None:
    wrong = "  a: {run: [check-pods]}\n  b: {run: [serach-logs], needs: [look]}\n  c: {run: [inner]}\n"
    make_pipeline(project, "line", wrong)
    make_pipeline(project, "inner", "  x: {run: [mine, '${y.z}']}\n", folder="skills/s/scripts")
    make_tool(project, "mine", folder="skills/s/scripts")
    for front in ("metadata:\n  pipeline: line", "allowed-tools: line check-pods"):
        findings = checked(project, front)
        assert {(f.code, f.severity) for f in findings} == {("bad-pipeline", "error")}
        told = " ".join(f.text() for f in findings)
        for words in ("bin/line:5", "serach-logs", "near: search-logs", "look", "skills/s/scripts/inner:4", "${y.z}"):
            assert words in told, (words, told)
    make_pipeline(project, "line", "  a: {run: [check-pods]}\n  b: {run: [mine]}\n")
    assert not checked(project, "allowed-tools: check-pods\nmetadata:\n  pipeline: line")


def test_a_cycle_stops_the_skill(project: Path) -> None:
    block = "    search-logs: check-pods\n    check-pods: write-report\n    write-report: search-logs"
    findings = checked(project, DEPS + block)
    assert said(findings) == [("cycle", "error", 6)]
    assert "search-logs waits for check-pods waits for write-report waits for search-logs" in findings[0].message


@pytest.mark.parametrize(
    ("front", "found"),
    [
        ("allowed-tools: search-logs\nmetadata:\n  requires: send-mail", [("requires-not-allowed", "error", 6)]),
        ("allowed-tools: search-logs\nmetadata:\n  requires: gone", [("requires-not-allowed", "error", 6)]),
        ("allowed-tools: search-logs\n" + DEPS + "    send-mail: search-logs", [("not-allowed", "error", 7)]),
        ("allowed-tools: gone search-logs", [("unknown-tool", "warning", 4)]),
        ("allowed-tools: gone send-mail\nmetadata:\n  verify: check-report", [("unknown-tool", "error", 4)]),
        ("allowed-tools: gone search-logs\nmetadata:\n  requires: gone", [("unknown-tool", "error", 6)]),
        ("allowed-tools:", [("no-tools", "note", 4)]),
        (
            "allowed-tools: Bash(git:*) Read",
            [("no-tools", "note", 4), ("unavailable-tool", "note", 4), ("unavailable-tool", "note", 4)],
        ),
        ("allowed-tools: Bash(bin/search-logs:*)", []),
        ("", []),
        (DEPS + "    write-report: search-logs(--batch)", []),
        (DEPS + "    write-report: search-logs(--bach)", [("unknown-option", "error", 6)] * 2),
        ("metadata:\n  verify: check-report --strict", []),
        ("metadata:\n  verify: chek-report", [("verify-missing", "error", 5)]),
        ("metadata:\n  verify: send-mail", [("verify-effect", "error", 5)]),
        ("metadata:\n  verify: write-report", []),
        ("metadata:\n  pipeline: gone", [("bad-pipeline", "error", 5)]),
        ("metadata:\n  pipeline: search-logs", [("bad-pipeline", "error", 5)]),
    ],
)
def test_names_and_what_they_may_be(project: Path, front: str, found: list[tuple[str, str, int]]) -> None:
    assert said(checked(project, front)) == found


def test_a_broken_tool_is_an_error_only_where_it_is_needed(project: Path) -> None:
    make_tool(project, "bad", header="#!/bin/sh\n# @option --a!=1\n")
    assert said(checked(project, "allowed-tools: bad search-logs")) == [("tool-broken", "warning", 4)]
    findings = checked(project, DEPS + "    search-logs: bad")
    assert said(findings) == [("tool-broken", "error", 6), ("unreachable", "error", 6)]
    assert "bin/bad:2 bad-tag" in findings[0].message
    assert said(checked(project, "metadata:\n  verify: bad")) == [("tool-broken", "error", 5)]


def test_a_tool_without_a_header_declares_no_option_and_verifies_nothing(project: Path) -> None:
    make_tool(project, "plain", header="#!/bin/sh\n")
    front = "metadata:\n  tool-dependencies: 'search-logs: plain(--batch)'\n  verify: plain"
    assert codes(checked(project, front), "error") == ["unknown-option", "verify-effect"]


def test_scripts_stand_in_when_nothing_is_named(project: Path) -> None:
    make_skill(project, "s")
    make_tool(project, "own.py", folder="skills/s/scripts")
    found = resolved(project)
    assert found.skill.allowed == ("own.py",) and found.tools["own.py"].script
    make_skill(project, "s", "allowed-tools:")
    assert resolved(project).skill.allowed == ()
    make_skill(project, "s", DEPS + "    write-report: search-logs")
    assert resolved(project).skill.allowed == ("write-report", "search-logs")


def test_one_name_in_bin_and_in_scripts_is_ambiguous(project: Path) -> None:
    make_tool(project, "search-logs", folder="skills/s/scripts")
    findings = checked(project, "allowed-tools: search-logs")
    assert said(findings) == [("ambiguous-tool", "error", 4)]
    assert "bin/search-logs and skills/s/scripts/search-logs" in findings[0].message


def test_the_project_replaces_a_shipped_tool_and_says_so(tmp_path: Path) -> None:
    package, project = tmp_path / "package", tmp_path / "empty"
    project.mkdir()
    make_skill(package, "s", "allowed-tools: search-logs")
    shipped = make_tool(package, "search-logs")
    catalog = read_catalog(project, tmp_path / "home", (), package)
    found = resolve(catalog, find(catalog, "s"))
    assert found.tools["search-logs"].path == shipped and found.findings == ()
    own = make_tool(project, "search-logs")
    catalog = read_catalog(project, tmp_path / "home", (), package)
    found = resolve(catalog, find(catalog, "s"))
    assert found.tools["search-logs"].path == own and codes(found.findings) == ["shadowed-tool"]
    assert "bin/search-logs" in found.findings[0].message and str(shipped) in found.findings[0].message


def test_another_skill_is_a_worker(project: Path) -> None:
    make_skill(project, "helper", "metadata:\n  inputs: batch! the batch")
    make_skill(project, "shy", "disable-model-invocation: true")
    make_skill(project, "broken", "tool-dependencies: x")
    make_skill(project, "send-mail")
    front = "allowed-tools: helper search-logs\n" + DEPS + "    search-logs: helper(--batch)"
    assert checked(project, front) == []
    assert resolved(project).workers["helper"].inputs[0].name == "batch"
    findings = checked(project, DEPS + "    search-logs: shy s")
    assert codes(findings) == ["unknown-tool", "unknown-tool", "unreachable"]
    assert codes(checked(project, DEPS + "    search-logs: broken")) == ["tool-broken", "unreachable"]
    assert codes(checked(project, "allowed-tools: send-mail")) == ["shadowed-tool"]


def test_the_body_names_declared_inputs(project: Path) -> None:
    inputs = "metadata:\n  inputs: batch the batch"
    findings = checked(project, inputs, "One ${inputs.batch}\n\n${inputs.bach} and ${inputs.bach}\n")
    assert said(findings) == [("unknown-input", "error", 10)] and "near: batch" in findings[0].message


def test_long_bodies_are_noted(project: Path) -> None:
    assert said(checked(project, "", "line\n" * 501)) == [("long-body", "note", 5)]
    assert codes(checked(project, "", "word " * 4001)) == ["long-body"]


@pytest.mark.parametrize(
    "front",
    [
        *("k: v", "license: [a]", "metadata: {a: b}", "metadata:\n  a: [b]", f"compatibility: {'x' * 501}"),
        *("license: &a b", "license: !!str b", "license: a---b", "license: <<", "allowed-tools:\n- search-logs"),
    ],
)
def test_strict_finds_what_is_not_portable(project: Path, front: str) -> None:
    assert set(codes(checked(project, front, strict=True), "error")) == {"not-portable"}
    assert codes(checked(project, front), "error") == []


def test_strict_looks_at_the_bytes(project: Path) -> None:
    path = make_skill(project, "s")
    plain = path.read_text()
    for text in (f"\n{plain}", plain.replace("---\n", "--- \n"), f"\ufeff{plain}", "---\nname: s\ndescription: D\n---"):
        path.write_text(text)
        catalog = catalog_of(project)
        assert "not-portable" in codes(check_skill(catalog, find(catalog, "s"), strict=True))


def test_a_skill_in_sentences(project: Path) -> None:
    make_skill(project, "s", "metadata:\n  tool-dependencies: 'send-mail: search-logs'\n  requires: send-mail")
    assert describe(resolved(project)) == [
        "At the start search-logs may run.",
        "send-mail (external, asks) waits until search-logs has a fresh result.",
        "It passes when send-mail has a fresh result.",
    ]


@pytest.mark.parametrize(
    ("body", "filled"),
    [
        ("$ARGUMENTS!", "say $ARGUMENTS 'two words'!"),
        ("$ARGUMENTS[0] $ARGUMENTS[2] $ARGUMENTS[9]", "say two words $ARGUMENTS[9]"),
        (r"\$ARGUMENTS \$ARGUMENTS[0]", "$ARGUMENTS $ARGUMENTS[0]"),
        ("awk '{print $1}' $NAME $ARGUMENTS_X ${x}", "awk '{print $1}' $NAME $ARGUMENTS_X ${x}"),
        ("${inputs.batch} ${inputs.tags} ${inputs.dry} ${inputs.none}.", '${inputs.x} ["a", "é"] true .'),
    ],
)
def test_goal_and_inputs_are_filled_in_once(body: str, filled: str) -> None:
    inputs = {"batch": "${inputs.x}", "tags": ("a", "é"), "dry": True}
    assert substitute(body, "say $ARGUMENTS 'two words'", inputs) == filled


def test_an_open_quote_in_a_goal_is_a_letter() -> None:
    assert substitute("$ARGUMENTS[0]", "don't stop", {}) == "don't"


def test_a_new_skill_is_clean_under_strict(project: Path) -> None:
    new_skill(project / "skills", "one")
    new_skill(project / "skills", "two-b", ["search-logs", "write-report"])
    catalog = catalog_of(project)
    for name in ("one", "two-b"):
        assert check_skill(catalog, find(catalog, name), strict=True) == []
    assert find(catalog, "two-b").allowed == ("search-logs", "write-report")


@pytest.mark.parametrize(("name", "tools"), [("one", []), ("Bad", []), ("../x", []), ("ok", ["Bad Tool"])])
def test_new_refuses_bad_names_and_existing_skills(project: Path, name: str, tools: list[str]) -> None:
    first = make_skill(project, "one").read_text()
    with pytest.raises(HarnessError) as raised:
        new_skill(project / "skills", name, tools)
    assert raised.value.exit_code == 2 and raised.value.fix
    assert (project / "skills" / "one" / "SKILL.md").read_text() == first and not (project / "skills" / "ok").exists()
