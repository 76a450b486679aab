"""Results under one name: reducers, conflicts that name both operations, and files that two of a batch made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.loop_world import Project, Ran, after_end_of, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("say", 'printf "%s\\n" "$2"', "@option --w! <W>  what\n@meta effect read")
    made.tool("late", f'{after_end_of(2)}; printf "%s\\n" "$2"', "@option --w! <W>  what\n@meta effect read")
    made.tool("all", 'printf "%s|" "$@"', "@arg words* <W>  words\n@meta effect read")
    return made


def merged(project: Project, reducer: str, a: str, b: str, word: str = "${k}", first: str = "say") -> Ran:
    """Two stages write `k`, a third reads it. With `late` as the first, they end in the other order."""
    a, b, word = (json.dumps(text) for text in (a, b, word))
    stages = (f"  a: {{run: [{first}, --w, {a}], as: k}}\n  b: {{run: [say, --w, {b}], as: k}}\n"
              f"  c: {{run: [all, {word}]}}\n")  # fmt: skip
    text = f"#!/usr/bin/env -S harness pipeline\n# @describe line\nmerge: {{k: {reducer}}}\nstages:\n{stages}"
    return project.pipeline(project.file("bin/line", text, executable=True))


def test_two_stages_write_one_value(project: Project) -> None:
    for reducer in ("one", "''"):
        ran = merged(project, reducer, "x", "x")
        assert (ran.stop.name, ran.answer) == ("passed", "x|")


def test_two_stages_write_different_values(project: Project) -> None:
    ran = merged(project, "one", "x", "y")
    assert (ran.stop.name, ran.stop.code, "all" in ran.spawned) == ("failed", 73, False)
    [refused] = [e["data"] for e in ran.of("decide") if e["data"]["verdict"] == "deny"]
    assert refused["code"] == "CONFLICT"
    assert refused["reasons"] == ["operations 1 and 2 wrote different values of k"]
    assert ran.end["error"] == "stage c (all) ended CONFLICT: operations 1 and 2 wrote different values of k"


@pytest.mark.parametrize("first", ["say", "late"])
def test_append_keeps_the_order_of_the_pipeline_whatever_ends_first(project: Project, first: str) -> None:
    ran = merged(project, "append", "x", '["y", "z"]', first=first)
    ends = [e["op"] for e in ran.of("tool.end")]
    assert first == "say" or ends == [2, 1, 3]
    assert (ran.stop.name, ran.answer) == ("passed", "x|y|z|")


@pytest.mark.parametrize("first", ["say", "late"])
def test_last_is_the_last_in_the_pipeline(project: Project, first: str) -> None:
    assert merged(project, "last", "x", "y", first=first).answer == "y|"


def test_a_union_folds_equal_items_and_refuses_different_ones(project: Project) -> None:
    one, two, other = ('{"id": 1, "v": "p"}', '{"id": 2, "v": "q"}', '{"id": 1, "v": "r"}')
    ran = merged(project, "'union: id'", f"[{one}, {two}]", one)
    assert ran.answer == f"{one}|{two}|"
    assert merged(project, "{union: id}", one, two, "${k.1.v}").answer == "q|"
    ran = merged(project, "{union: id}", one, other)
    assert ran.stop.code == 73 and "operations 1 and 2 wrote different items of k for id 1" in ran.end["error"]
    ran = merged(project, "{union: id}", one, "text")
    assert ran.stop.code == 2 and "operation 2 wrote an item of k without id" in ran.end["error"]


def test_a_conflict_that_nobody_reads_stops_the_pipeline(project: Project) -> None:
    text = ("#!/usr/bin/env -S harness pipeline\n# @describe line\nmerge: {k: one}\nstages:\n"
            "  a: {run: [say, --w, x], as: k}\n  b: {run: [say, --w, y], as: k}\n")  # fmt: skip
    path = project.file("bin/line", text, executable=True)
    ran = project.pipeline(path)
    assert (ran.stop.name, ran.stop.code) == ("failed", 73)
    assert ran.end["error"] == "CONFLICT: operations 1 and 2 wrote different values of k"
    project.file("bin/line", text.replace("k: one", "k: append"), executable=True)
    assert project.pipeline(path).answer == '["x","y"]\n'


def test_a_conflict_can_be_handled(project: Project) -> None:
    text = ("#!/usr/bin/env -S harness pipeline\n# @describe line\nmerge: {k: one}\nstages:\n"
            "  a: {run: [say, --w, x], as: k}\n  b: {run: [say, --w, y], as: k}\n"
            "  c: {run: [all, '${k}'], on-failure: h}\n  h: {run: [say, --w, '${failed.class}']}\n")  # fmt: skip
    ran = project.pipeline(project.file("bin/line", text, executable=True))
    assert (ran.stop.name, ran.answer) == ("passed", "CONFLICT\n")


WRITES = """echo "$2" > out.csv; echo '{"artifacts": ["out.csv"]}'"""


def test_two_stages_that_run_together_make_one_file(project: Project) -> None:
    head = "@option --w! <W>  what\n@meta effect write"
    project.tool("make", f"sleep 0.2; {WRITES}", head)
    project.tool("after", f"{after_end_of(1)}; {WRITES}", head)
    stages = "a: {run: [make, --w, x]}\nb: {run: [after, --w, %s]}\nc: {run: [make, --w, z], needs: [a, b]}"
    ran = project.pipeline(project.stages("line", stages % "y"))
    assert (ran.stop.name, ran.stop.code, sorted(ran.spawned)) == ("failed", 73, ["after", "make"])
    assert "operations 1 and 2 both made out.csv, with different content" in ran.end["error"]
    ran = project.pipeline(project.stages("line", stages % "x"))  # the same bytes; c, later, may write what it likes
    assert (ran.stop.name, sorted(ran.spawned)) == ("passed", ["after", "make", "make"])


def test_two_calls_of_one_reply_make_one_file(project: Project) -> None:
    """Though they ran one after the other: nobody asked for an order."""
    project.parallel = 1
    project.tool("make", WRITES, "@option --w! <W>  what\n@meta effect write")
    project.skill(tools="make")
    two = [reply(call("make", "--w", "x"), call("make", "--w", "y"))]
    ran = project.run([*two, reply(call("make", "--w", "z")), finish("fin")])
    assert [name for _, name in ran.ends()] == ["OK", "CONFLICT", "OK"]
    assert "operations 1 and 2" in ran.of("tool.end")[1]["data"]["why"]
