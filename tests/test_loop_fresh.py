"""Freshness in real runs: time to live, files, a tool's own file, results that come back, and values of options."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.loop.ending import best_evidence
from tests.journal_lines import Hands
from tests.loop_world import Project, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_example_two_of_a_skill(project: Project) -> None:
    """The clock moves while tools run: 0 s all four, 200 s a first answer and an expired prerequisite, 210 s, 300 s."""
    project.clock = clock = Hands()
    project.tool("lookup-runbook", "echo runbook")
    project.tool("check-pods", "cat pods", "@meta effect read\n@meta ttl 120")
    project.tool("search-logs", 'echo "logs $2"', "@option --since=2h <D>  since\n@meta effect read")
    project.tool("write-report", "echo report")
    project.skill(
        tools="lookup-runbook check-pods search-logs write-report",
        deps="search-logs: lookup-runbook check-pods\nwrite-report: search-logs", requires="write-report",
    )  # fmt: skip
    project.file("pods", "p1\n")
    first = [reply(call("lookup-runbook"), call("check-pods")), reply(call("search-logs")), reply(call("write-report")),
             finish("at 0 s")]  # fmt: skip
    since = call("search-logs", "--since", "1d")
    rest = [finish("at 200 s"), reply(since), reply(call("check-pods")), reply(since), reply(call("check-pods")),
            finish("at 300 s"), reply(call("search-logs")), reply(call("write-report")), finish("again")]  # fmt: skip
    ran = project.run(first)
    assert (ran.stop.name, ran.answer) == ("passed", "at 0 s")
    project.script([*first, rest[0]])
    clock.pass_(200)
    ran = project.resume(ran.folder, "and now?")
    assert (ran.stop.name, ran.answer) == ("passed", "at 200 s")

    project.script([*first, *rest])

    def moved(message: str, seconds: float, budget: str) -> None:
        nonlocal ran
        clock.pass_(seconds)
        ran = project.resume(ran.folder, message, budget=budget)

    moved("since yesterday", 0, "turns=6")
    assert (ran.codes()[-1], ran.reasons()[-1]) == ("NOT_RELEASED", "check-pods expired 80 s ago")
    assert (ran.stop.name, ran.spawned) == ("budget", [])
    moved("go on", 10, "turns=8")
    assert ran.spawned == ["check-pods", "search-logs"]
    assert [line.rsplit("  ", 1)[1] for line in evidence_of(project, ran.folder)] == ["fresh"] * 5
    project.file("pods", "p2\n")
    moved("go on", 90, "turns=10")
    missing = [{"name": "write-report", "why": "write-report ← search-logs ← check-pods changed"}]
    assert ran.of("verify")[-1]["data"]["missing"] == missing
    moved("go on", 0, "turns=20")
    assert (ran.stop.name, ran.answer, ran.spawned) == ("passed", "again", ["search-logs", "write-report"])


def evidence_of(project: Project, folder: Path) -> list[str]:
    from harness.runs import session as sessions
    from harness.runs.session import Options
    from tests.skill_files import catalog_of

    session = sessions.resume(project.world(), catalog_of(project.path), folder, "look", Options())
    session.run.log.close()
    return best_evidence(session.run.ground(), "turns", "").splitlines()[1:]


def made(project: Project, file: str = "out.csv") -> list[object]:
    """A tool that names a file, one that stands on it, and a required end."""
    project.tool("make", f"""echo data > {file}; echo '{{"artifacts": ["{file}"]}}'""", "@meta effect write")
    project.tool("spoil", f"echo other > {file}", "@meta effect write")
    project.tool("drop", f"rm {file}", "@meta effect write")
    project.tool("mend", f"echo data > {file}", "@meta effect write")
    project.tool("use", "echo used")
    project.skill(tools="make spoil drop mend use", deps="use: make", requires="use")
    return [reply(call("make")), reply(call("use"))]


@pytest.mark.parametrize("spoil", ["spoil", "drop"])
def test_a_file_that_changed_or_vanished_and_came_back(project: Project, spoil: str) -> None:
    ran = project.run([*made(project), reply(call(spoil)), finish("early"), reply(call("use")), reply(call("mend")),
                       finish("late")])  # fmt: skip
    assert (ran.stop.name, ran.answer) == ("passed", "late")
    assert ran.of("verify")[0]["data"]["missing"] == [{"name": "use", "why": "use ← make: out.csv changed"}]
    assert ran.codes()[3] == "NOT_RELEASED" and ran.reasons()[3] == "make: out.csv changed"


def test_the_same_bytes_again_leave_everything_as_it_was(project: Project) -> None:
    ran = project.run([*made(project), reply(call("drop")), reply(call("make")), finish("so")])
    assert (ran.stop.name, ran.spawned) == ("passed", ["make", "use", "drop", "make"])


def test_a_file_that_was_read_is_what_the_reading_stands_on(project: Project) -> None:
    project.file("notes.md", "one\n")
    project.tool("edit", "echo two > notes.md", "@meta effect write")
    project.skill(tools="edit")
    ran = project.run([reply({"read": "notes.md"}), reply(call("edit")), finish()])
    lines = evidence_of(project, ran.folder)
    assert [line.split("  ")[1:] for line in lines] == [["read notes.md", "stale"], ["edit", "fresh"]]


def test_a_success_that_names_a_missing_file_is_a_failure(project: Project) -> None:
    project.tool("make", """echo '{"artifacts": ["gone.csv"]}'""")
    project.tool("chart", "echo x", "@option --out=chart.svg <PATH>  file\n@meta effect write\n@meta produces {--out}")
    project.skill(tools="make chart", deps="chart: make?")
    ran = project.run([reply(call("make")), reply(call("chart")), reply(call("chart", "--out", "b.svg")), finish()])
    assert ran.ends() == [("make", "FAILED"), ("chart", "FAILED"), ("chart", "FAILED")]
    whys = [e["data"]["why"] for e in ran.of("tool.end")]
    assert ["gone.csv" in whys[0], "chart.svg" in whys[1], "b.svg" in whys[2]] == [True, True, True]


@pytest.mark.parametrize(("path", "ok"), [("$HARNESS_OUT/a.csv", True), ("sub/a.csv", True), ("$PWD/a.csv", True),
                                          ("/etc/passwd", False), ("../a.csv", False)])  # fmt: skip
def test_where_files_may_lie(project: Project, path: str, ok: bool) -> None:
    body = f"""mkdir -p sub; [ -e "{path}" ] || echo x > "{path}"; echo "{{\\"artifacts\\": [\\"{path}\\"]}}" """
    project.tool("make", body, "@meta effect write")
    project.skill(tools="make", requires="make")
    ran = project.run([reply(call("make")), *([finish()] if ok else [finish()] * 3)])
    assert ran.ends() == [("make", "OK" if ok else "FAILED")]
    assert ran.stop.name == ("passed" if ok else "declined")
    assert ok or "lies outside the workspace" in ran.of("tool.end")[0]["data"]["why"]


def test_a_receipt_stands_on_the_tool_itself(project: Project) -> None:
    project.tool("look", "echo look")
    project.tool("edit", "printf '#!/bin/sh\\n# @describe l\\n# @meta effect read\\necho other\\n' > bin/look",
                 "@meta effect write")  # fmt: skip
    project.skill(tools="look edit", requires="look")
    ran = project.run([reply(call("look")), reply(call("edit")), finish("no"), reply(call("look")), finish("yes")])
    assert (ran.stop.name, ran.answer) == ("passed", "yes")
    assert ran.of("verify")[0]["data"]["missing"] == [{"name": "look", "why": "look: its own file changed"}]


def test_a_tool_that_changes_its_own_file_is_never_fresh(project: Project) -> None:
    project.tool("look", 'echo "# $$" >> "$0"')
    project.skill(tools="look", requires="look")
    ran = project.run([reply(call("look")), finish(), reply(call("look")), finish(), finish()])
    assert (ran.stop.name, ran.stop.code) == ("declined", 9)
    assert ran.end["error"] == "look: look: its own file changed"


def test_the_same_value_again_naming_the_one_that_is_missing(project: Project) -> None:
    table = "@option --table+ <T>  table\n@meta effect read"
    project.tool("describe", 'echo "$@"', table)
    project.tool("query", 'echo "$@"', table)
    project.skill(tools="describe query", deps="query: describe(--table)")
    both = call("query", "--table", "a", "--table", "b")
    ran = project.run([reply(call("describe", "--table", "a")), reply(both), reply(call("describe", "--table", "b")),
                       reply(both), finish()])  # fmt: skip
    assert ran.codes() == ["allow", "NOT_RELEASED", "allow", "allow"]
    assert ran.reasons()[1] == "needs describe with the same --table b"
    assert ran.of("tool.start")[-1]["data"]["needs"] == [1, 3]


def test_refused_by_form_is_not_ended(project: Project) -> None:
    """`x?`: after x exited 1 it is released; after x was refused it is not."""
    project.tool("x", "exit 1", "@option --n <INT>  n\n@meta effect read")
    project.tool("y", "echo y")
    project.skill(tools="x y", deps="y: x?")
    ran = project.run([reply(call("x", "--n", "no")), reply(call("y")), reply(call("x", "--n", "1")), reply(call("y")),
                       finish()])  # fmt: skip
    assert ran.codes() == ["INVALID_INPUT", "NOT_RELEASED", "allow", "allow"]


def test_a_call_of_the_same_reply_does_not_count_yet(project: Project) -> None:
    project.tool("a", "echo a")
    project.tool("b", "echo b")
    project.skill(tools="a b", deps="b: a")
    ran = project.run([reply(call("a"), call("b")), reply(call("b")), finish()])
    assert ran.codes() == ["allow", "NOT_RELEASED", "allow"]


def test_the_wall_clock_goes_back(project: Project) -> None:
    """`at` never falls, and what has expired stays expired."""
    project.clock = clock = Hands()
    project.tool("a", "echo a", "@meta effect read\n@meta ttl 120")
    project.tool("b", "echo b")
    project.skill(tools="a b", deps="b: a")
    ran = project.run([reply(call("a")), reply(call("b")), finish()], budget="turns=1")
    clock.pass_(130)
    assert project.resume(ran.folder).stop.name == "budget"
    clock.at -= 3600
    more = project.resume(ran.folder, budget="turns=9")
    assert more.codes()[-1] == "NOT_RELEASED"
    times = [event["at"] for event in more.events]
    assert times == sorted(times)


def test_a_worker_stands_on_what_it_waited_for(project: Project) -> None:
    project.tool("a", "cat a.txt")
    project.tool("change", "echo two > a.txt", "@meta effect write")
    project.tool("c", "echo c")
    project.file("a.txt", "one\n")
    project.skill("helper", tools="c")
    project.skill(tools="a change helper", deps="helper: a", requires="helper")
    ran = project.run([reply(call("helper", "x")), reply(call("a")), reply(call("helper", "x")), reply(call("change")),
                       reply(call("a")), finish(), reply(call("helper", "x")), finish("so")],
                      helper=[reply(call("c")), finish("helped")])  # fmt: skip
    assert ran.codes()[0] == "NOT_RELEASED"
    assert ran.of("verify")[0]["data"]["missing"] == [{"name": "helper", "why": "helper ← a changed"}]
    assert ran.stop.name == "passed"


def test_a_pipe_that_a_tool_made_in_place_of_its_file_is_not_waited_for(project: Project) -> None:
    project.tool("chart", "mkfifo chart.svg", "@meta effect write\n@meta produces chart.svg")
    project.skill(tools="chart")
    ran = project.run([reply(call("chart")), finish("done")])
    assert (ran.codes()[0], ran.ends()) == ("allow", [("chart", "FAILED")])
    assert "chart.svg is not there" in ran.of("tool.end")[0]["data"]["why"]
