"""A refused call starts no process: counted where processes are started, not read from messages."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.loop_world import Project, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    head = "@option --at <WHERE>  where\n@option --kind[a|b]  kind\n@option --most <INT>  n\n@meta effect read"
    made.tool("look", 'echo "$@"', head)
    made.tool("write-report", "echo report")
    made.tool("spare", "echo spare")
    made.skill(tools="look write-report", deps="write-report: look")
    return made


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing-such",), "DENIED", "no tool of this skill is called 'nothing-such'"),
        (("lok",), "DENIED", "near: look"),
        (("spare",), "DENIED", "no tool of this skill is called 'spare'"),
        (("write-report",), "NOT_RELEASED", "needs look"),
        (("look", "--att", "x"), "INVALID_INPUT", "nearest: --at"),
        (("look", "--at", "a", "--at", "b", "--kind", "c"), "INVALID_INPUT", "--kind"),
        (("look", "--most", "many"), "INVALID_INPUT", "--most"),
        (("look", "--at", "x" * 200_000), "DENIED", "too large"),
        (("look", *["x"] * 300), "DENIED", "too large"),
        (("look", "--at", "a\0b"), "INVALID_INPUT", "NUL"),
        (("../look",), "DENIED", "no tool of this skill"),
        (("look; rm -rf .",), "DENIED", "no tool of this skill"),
    ],
)
def test_a_refused_call_starts_nothing(project: Project, words: tuple[str, ...], code: str, said: str) -> None:
    ran = project.run([reply(call(*words)), finish()])
    assert ran.codes() == [code]
    assert said in ran.reasons()[0]
    assert ran.spawned == [] and not ran.of("tool.start") and not list((ran.folder / "ops").iterdir())
    assert (ran.stop.name, ran.answer) == ("passed", "done")


def test_a_broken_header_starts_nothing(project: Project) -> None:
    project.tool("look", "echo", "@option --a!=1  x\n@meta effect read")
    project.skill(tools="look spare")
    ran = project.run([reply(call("look"), call("spare")), finish()])
    assert ran.codes() == ["MISCONFIGURED", "allow"]
    assert "bin/look:3" in ran.reasons()[0]
    assert ran.spawned == ["spare"]


def test_an_unknown_effect_is_denied(project: Project) -> None:
    project.tool("look", "echo", "@meta effect raed")
    project.skill(tools="look spare")
    ran = project.run([reply(call("look")), finish()])
    assert (ran.codes(), ran.spawned) == (["DENIED"], [])


def test_a_flag_denies_in_every_place(project: Project) -> None:
    ran = project.run([reply(call("look")), finish()], deny=["look"])
    assert (ran.codes(), ran.reasons(), ran.spawned) == (["DENIED"], ["--deny look"], [])


def test_deny_beats_allow(project: Project) -> None:
    project.tool("look", "echo", "@meta effect external")
    ran = project.run([reply(call("look")), finish()], deny=["look"], allow=["look"])
    assert (ran.codes(), ran.spawned) == (["DENIED"], [])


def test_an_empty_list_refuses_everything(project: Project) -> None:
    project.skill(tools="")
    ran = project.run([reply(call("look")), finish()])
    assert (ran.codes(), ran.spawned) == (["NOT_RELEASED"], [])


@pytest.mark.parametrize(
    "path",
    [".env", "sub/.ENV.local", "key.key", "id_rsa", "../outside", "/etc/passwd", ".harness/runs/x/events.jsonl",
     "skill:evals/a", "skill:../demo/SKILL.md", "", "a\0b"],
)  # fmt: skip
def test_a_hidden_path_is_not_read(project: Project, path: str) -> None:
    project.file(".env", "SECRET=1")
    ran = project.run([reply({"read": path}), finish()])
    assert "SECRET" not in (ran.folder / "events.jsonl").read_text()
    if path:
        assert ran.codes() == ["DENIED"]
        assert not ran.of("tool.end")


def test_a_link_out_of_the_workspace_is_not_followed(project: Project, tmp_path: Path) -> None:
    (project.path / "way").symlink_to("/etc/passwd")
    ran = project.run([reply({"read": "way"}), finish()])
    assert ran.codes() == ["DENIED"] and "lies outside" in ran.reasons()[0]
    assert "root:" not in (ran.folder / "events.jsonl").read_text()


def test_a_link_that_stays_in_the_workspace_is_followed(project: Project, tmp_path: Path) -> None:
    project.file("sub/notes.md", "a note")
    for name, to in (("near", "sub"), ("far", str(project.path / "sub")), ("back", f"{project.path}/sub/../sub")):
        (project.path / name).symlink_to(to)
    ran = project.run([reply(*({"read": f"{name}/notes.md"} for name in ("near", "far", "back"))), finish()])
    assert ran.codes() == ["allow"] * 3
    assert [ran.text(event["data"]["out"]) for event in ran.of("tool.end")] == ["a note"] * 3


@pytest.mark.parametrize(
    ("lines", "out"),
    [("2", "b\n"), ("2-3", "b\nc\n"), ("-1", "c\n"), ("-9", "a\nb\nc\n"), ("3-9", "c\n"), ("9", ""),
     ("-0", None), ("0", None), ("0-0", None), ("0-2", None), ("5-3", None), ("x", None)],
)  # fmt: skip
def test_lines_that_name_none_are_refused(project: Project, lines: str, out: str | None) -> None:
    project.file("n.txt", "a\nb\nc\n")
    ran = project.run([reply({"read": {"path": "n.txt", "lines": lines}}), finish()])
    assert ran.codes() == (["INVALID_INPUT"] if out is None else ["allow"])
    assert [ran.text(event["data"]["out"]) for event in ran.of("tool.end")] == ([] if out is None else [out])


def test_help_is_answered_from_the_header_of_a_waiting_tool_too(project: Project) -> None:
    ran = project.run([reply(call("write-report", "--help"), call("look", "--help")), finish()])
    assert ran.spawned == [] and not ran.of("tool.start")
    assert "--at" in ran.text(ran.of("tool.end")[1]["data"]["out"])


def test_the_fourth_level_of_runs_is_refused(project: Project) -> None:
    names = ["one", "two", "three", "four", "five"]
    for name, below in itertools.pairwise(names):
        project.skill(name, tools=below)
    project.skill("five", tools="look")
    down = {name: [reply(call(below, "go")), finish()] for name, below in itertools.pairwise(names)}
    ran = project.run([reply(call("two", "go")), finish()], name="one", **down)
    assert ran.stop.name == "passed"
    runs = sorted(p.name.split("-")[1] for p in (project.path / ".harness" / "runs").iterdir())
    assert runs == ["four", "one", "three", "two"]
    assert ran.spawned == []


def test_form_of_a_call_is_checked_before_the_gate(project: Project) -> None:
    block = [{"type": "tool_use", "id": "a", "name": "run", "input": {"tool": "look", "argz": []}},
             {"type": "tool_use", "id": "b", "name": "shell", "input": {"command": "ls"}}]  # fmt: skip
    ran = project.run([{"content": block}, finish()])
    calls = ran.of("model.reply")[0]["data"]["calls"]
    assert ["argz" in calls[0]["error"], "unknown verb" in calls[1]["error"]] == [True, True]
    assert (ran.codes(), ran.spawned) == ([], [])
