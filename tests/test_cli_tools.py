"""`harness tools` and `harness skills` as a person uses them: list, show, check, new."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.command import harness

SKILL = """---
name: late-batch
description: Looks at a late batch.
allowed-tools: check-lag write-note
metadata:
  tool-dependencies: |
    write-note: {need}
  requires: write-note
  budget: turns=5
---
Look at the lag first.
"""


def add_tool(project: Path, name: str, *tags: str) -> Path:
    tool = project / "bin" / name
    tool.parent.mkdir(exist_ok=True)
    tool.write_text("\n".join(["#!/bin/sh", f"# @describe What {name} does", *(f"# {tag}" for tag in tags), ""]))
    tool.chmod(0o755)
    return tool


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".harness").mkdir()
    add_tool(tmp_path, "check-lag", "@meta effect read", "@option --group! <NAME>  which group")
    add_tool(tmp_path, "write-note", "@meta effect external")
    skill = tmp_path / "skills" / "late-batch"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL.format(need="check-lag"))
    return tmp_path


def test_the_lists_name_what_is_in_the_project_first(project: Path) -> None:
    lines = harness("tools", cwd=project).stdout.splitlines()
    assert lines[0].split() == ["NAME", "EFFECT", "STATE", "PLACE", "DOES"]
    assert any(line.split()[:4] == ["check-lag", "read", "ok", "bin"] for line in lines)
    skills = json.loads(harness("skills", "--json", cwd=project).stdout)["skills"]
    assert skills[0]["name"] == "late-batch" and skills[0]["state"] == "ok" and skills[0]["available"] == 2


def test_a_project_is_found_from_a_folder_below_it(project: Path) -> None:
    below = project / "src" / "deep"
    below.mkdir(parents=True)
    assert "check-lag" in harness("tools", cwd=below).stdout


def test_a_tool_is_shown_as_usage_and_as_schema(project: Path) -> None:
    shown = harness("tools", "show", "check-lag", cwd=project)
    assert shown.returncode == 0 and "usage: check-lag --group NAME" in shown.stdout
    schema = json.loads(harness("tools", "show", "check-lag", "--json", cwd=project).stdout)
    assert schema["required"] == ["group"] and schema["additionalProperties"] is False


def test_a_skill_is_shown_in_sentences_as_drawing_and_as_body(project: Path) -> None:
    shown = harness("skills", "show", "late-batch", cwd=project).stdout
    assert "At the start check-lag may run." in shown
    assert "write-note (external, asks) waits until check-lag has a fresh result." in shown
    assert "It stops at 5 turns." in shown and "2 of 2 tools available" in shown
    assert harness("skills", "show", "late-batch", "--mermaid", cwd=project).stdout.startswith("flowchart")
    assert harness("skills", "show", "late-batch", "--body", cwd=project).stdout == "Look at the lag first.\n"


def test_check_is_0_without_errors_and_1_with_one(project: Path) -> None:
    for command in (["tools", "check"], ["skills", "check"], ["skills", "check", "late-batch", "skills"]):
        done = harness(*command, cwd=project)
        assert done.returncode == 0 and not done.stdout and "no errors" in done.stderr
    add_tool(project, "check-lag", "@meta effect raed")
    done = harness("tools", "check", "check-lag", cwd=project)
    assert done.returncode == 1 and done.stdout.startswith("bin/check-lag:3: error bad-value")
    found = json.loads(harness("skills", "check", "--json", cwd=project).stdout)
    assert {"tool-broken", "unreachable"} <= {finding["code"] for finding in found}


def test_case_15_a_cycle_and_an_unknown_tool_are_named_by_check(project: Path) -> None:
    (project / "skills/late-batch/SKILL.md").write_text(SKILL.format(need="chek-lag"))
    done = harness("skills", "check", cwd=project)
    assert done.returncode == 1 and "skills/late-batch/SKILL.md:7: error unknown-tool" in done.stdout
    assert "check-lag" in done.stdout.splitlines()[0]
    (project / "skills/late-batch/SKILL.md").write_text(SKILL.format(need="write-note"))
    assert "self-dependency" in harness("skills", "check", cwd=project).stdout


QUERIES = {
    "{op}": "",
    "{op} --batch={--batch}": "",
    "--of {op}": "bin/pay:5: error query-words the query of pay cannot be asked: paid: ",
    "{op} more": "bin/pay:5: error query-words the query of pay cannot be asked: paid: ",
    "": "bin/pay:5: error query-words the query of pay cannot be asked: paid: missing op",
}


@pytest.mark.parametrize("words", QUERIES)
def test_a_querys_own_words_are_judged_and_shown(project: Path, words: str) -> None:
    add_tool(project, "paid", "@meta effect read", "@arg op!", "@option --batch <NUM>  which")
    add_tool(project, "pay", "@meta effect money", "@meta repeat queryable", f"@meta query paid {words}",
             "@option --batch <NUM>  which")  # fmt: skip
    done = harness("tools", "check", "pay", cwd=project)
    assert (done.returncode, done.stdout[: len(QUERIES[words])]) == (1 if QUERIES[words] else 0, QUERIES[words])
    assert QUERIES[words] or not done.stdout
    assert f"asked with: paid {words}".rstrip() in harness("tools", "show", "pay", cwd=project).stdout


@pytest.mark.parametrize("effect", ["", "write"])
def test_a_query_that_nobody_can_answer_is_a_warning_of_the_tool(project: Path, effect: str) -> None:
    if effect:
        add_tool(project, "paid", f"@meta effect {effect}", "@arg op!")
    add_tool(project, "pay", "@meta effect money", "@meta repeat queryable", "@meta query paid {op}")
    done = harness("tools", "check", "pay", cwd=project)
    assert done.returncode == 0 and done.stdout.startswith("bin/pay:5: warning query-missing paid, the query of pay")


def test_strict_counts_warnings(project: Path) -> None:
    (project / "bin" / "check-lag").chmod(0o644)
    assert harness("tools", "check", cwd=project).returncode == 0
    assert harness("tools", "check", "--strict", cwd=project).returncode == 1


@pytest.mark.parametrize("command", [["tools", "show"], ["tools", "check"], ["skills", "show"], ["skills", "check"]])
def test_an_unknown_name_is_2_with_the_nearest(project: Path, command: list[str]) -> None:
    near = {"tools": ("chek-lag", "check-lag"), "skills": ("late-bach", "late-batch")}[command[0]]
    done = harness(*command, near[0], cwd=project)
    assert done.returncode == 2 and f"near: {near[1]}" in done.stderr.splitlines()[0]
    assert "looked in" in done.stderr and "fix: " in done.stderr


@pytest.mark.parametrize("lang", ["sh", "python"])
def test_a_new_tool_passes_the_check_and_runs(project: Path, lang: str) -> None:
    made = harness("tools", "new", "count-lines", "--lang", lang, cwd=project)
    assert (made.returncode, made.stdout) == (0, "bin/count-lines\n")
    assert harness("tools", "check", "count-lines", "--strict", cwd=project).returncode == 0
    tool = project / "bin" / "count-lines"
    calls = (["--subject", "x"], 0), (["--help"], 0), (["--subject=x", "--brief"], 0), (["--y"], 2), ([], 2)
    for arguments, code in calls:
        assert subprocess.run([tool, *arguments], capture_output=True, check=False).returncode == code
    again = harness("tools", "new", "count-lines", cwd=project)
    assert again.returncode == 2 and "there already" in again.stderr


@pytest.mark.parametrize(
    "arguments", [["Deploy"], ["finish"], ["../x"], ["x", "--lang", "perl"], ["x", "--effect", "raed"]]
)
def test_a_tool_that_could_not_be_one_is_not_written(project: Path, arguments: list[str]) -> None:
    before = sorted(project.rglob("*"))
    done = harness("tools", "new", *arguments, cwd=project)
    after = sorted(path for path in project.rglob("*") if path.name != ".home")
    assert done.returncode == 2 and "fix: " in done.stderr and after == before


def test_a_new_skill_passes_the_strict_check(project: Path) -> None:
    made = harness("skills", "new", "first-look", "--tools", "check-lag,write-note", cwd=project)
    assert (made.returncode, made.stdout) == (0, "skills/first-look/SKILL.md\n")
    assert harness("skills", "check", "first-look", "--strict", cwd=project).stdout == ""
    done = harness("skills", "new", "second-look", "--tools", "chek-lag", cwd=project)
    assert done.returncode == 2 and "near: check-lag" in done.stderr and not (project / "skills/second-look").exists()
    assert harness("skills", "new", "first-look", cwd=project).returncode == 2


def test_empty_lists_say_how_to_make_the_first(project: Path) -> None:
    done = harness("skills", "--shadowed", cwd=project)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr
    assert harness("skills", "--shadowed", "-q", cwd=project).stderr == ""


def test_bad_files_are_findings_and_never_a_traceback(project: Path) -> None:
    (project / "bin" / "blob").write_bytes(b"#!/bin/sh\n\0\xff\xfe" * 10)
    (project / "bin" / "blob").chmod(0o755)
    for name, data in (("binary", b"\xff\0\xfe"), ("empty", b""), ("brackets", b"---\n" + b"[" * 30_000 + b"\n---\n")):
        (project / "skills" / name).mkdir()
        (project / "skills" / name / "SKILL.md").write_bytes(data)
    (project / "skills" / "loop").symlink_to(project / "skills")
    for command in (["tools"], ["skills"], ["tools", "check"], ["skills", "check"]):
        done = harness(*command, cwd=project)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr
        assert "late-batch" in done.stdout or "check-lag" in done.stdout or "check" in command
    assert "yaml-bomb" in harness("skills", "check", cwd=project).stdout
    (project / ".harness" / "config.yaml").write_text("outptu: json\n")
    done = harness("skills", cwd=project)
    assert done.returncode == 2 and ".harness/config.yaml:1" in done.stderr and "near: output" in done.stderr
