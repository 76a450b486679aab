"""`@meta known`: a value that the model made up is refused where it would do something, whatever way it came in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.loop.run import Stop
from tests.command import harness
from tests.loop_world import Project, Ran, call, finish, reply

FIND = call("find")
REPLAY = call("replay", "--id", "r-1841")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool(
        "find",
        'echo "${2:-nothing} is no id; failed: r-1841 r-1842"',
        "@option --about <TEXT>  what\n@meta effect read",
    )
    made.tool("replay", 'echo "replayed $2"', "@option --id! <ID>  which\n@meta known --id\n@meta effect read")
    made.tool("note", 'echo "$1" > notes.txt', "@arg text! <TEXT>\n@meta effect write")
    made.skill(tools="find replay note", body="For example: replay --id r-7777")
    return made


def replayed(ran: Ran) -> list[str]:
    """How each call of replay ended: the class of its refusal, or OK."""
    tools, ends = ran.tools(), {event["op"]: event["data"]["class"] for event in ran.of("tool.end")}
    codes = {event["op"]: event["data"].get("code") for event in ran.of("decide")}
    return [str(codes.get(op) or ends.get(op)) for op, tool in sorted(tools.items()) if tool == "replay"]


def test_a_value_that_was_found_is_carried_out(project: Project) -> None:
    ran = project.run([reply(FIND), reply(REPLAY), finish()])
    assert (replayed(ran), ran.spawned) == (["OK"], ["find", "replay"])


def test_a_value_that_was_made_up_is_refused_with_the_nearest_and_where_they_are_from(project: Project) -> None:
    ran = project.run([reply(FIND), reply(call("replay", "--id", "r-1840")), finish()])
    assert (replayed(ran), ran.spawned) == (["UNGROUNDED"], ["find"])
    assert "r-1840 is in nothing that the user or a result said; nearest: r-1842 from find #1" in ran.reasons()[-1]
    assert ran.end["spent"]["calls"] == 1


@pytest.mark.parametrize("said", [{"goal": "replay R-1841 now"}, {"given": {"id": "r-1841"}}])
def test_the_goal_and_the_inputs_make_known(project: Project, said: dict[str, Any]) -> None:
    project.skill(tools="replay", inputs="id <ID>  which")
    assert replayed(project.run([reply(REPLAY), finish()], **said)) == ["OK"]


def test_what_a_person_says_later_makes_known(project: Project) -> None:
    first = project.run([reply(REPLAY), finish(), reply(REPLAY), finish()])
    again = project.resume(first.folder, "it is r-1841")
    assert replayed(again) == ["UNGROUNDED", "OK"]


@pytest.mark.parametrize(
    "before",
    [
        [call("find", "--about", "r-9999")],
        [call("find", "--about", "r-9999"), {"read": "op:1"}],
        [call("note", "r-9999"), {"read": "notes.txt"}],
        [call("note", "look at r-9999 again"), call("find", "--about", "x")],
        [{"read": "skill:SKILL.md"}],
        [{"read": "skills/demo/SKILL.md"}],
        [{"read": "run:events.jsonl"}],
        [{"read": "AGENTS.md"}],
    ],
)
def test_no_way_round_makes_a_value_known_that_the_model_says(project: Project, before: list[dict[str, Any]]) -> None:
    project.file("AGENTS.md", "like r-9999 and r-7777")
    project.tool("find", 'echo "${2:-nothing} is no id"; cat notes.txt 2>/dev/null; true',
                 "@option --about <TEXT>  what\n@meta effect read")  # fmt: skip
    asked = [reply(call("replay", "--id", "r-9999"), call("replay", "--id", "r-7777"))]
    ran = project.run([*(reply(one) for one in before), *asked, finish()])
    assert replayed(ran) == ["UNGROUNDED", "UNGROUNDED"]
    assert "replay" not in ran.spawned


ECHOES = [
    ([call("find", "--about", "r-9999")], "stands in what find #1 brought only because its own call said it", True),
    ([call("note", "r-9999"), {"read": "notes.txt"}], "was said by note #1 before anything made it known", False),
    ([{"read": "AGENTS.md"}], "stands in AGENTS.md #1, which makes nothing known", True),
    ([], "stands in the skill's own text, which makes nothing known", True),
]


@pytest.mark.parametrize(("before", "why", "reads"), ECHOES)
def test_a_refusal_says_where_a_value_stands_and_names_only_ways_that_lead_out(
    project: Project, before: list[dict[str, Any]], why: str, reads: bool
) -> None:
    project.file("AGENTS.md", "like r-9999")
    project.skill(tools="find replay note", body="" if before else "For example: replay --id r-9999")
    project.tool("find", 'echo "${2:-nothing} is no id; r-9998"', "@option --about <TEXT>  what\n@meta effect read")
    ran = project.run([*(reply(one) for one in before), reply(call("replay", "--id", "r-9999")), finish()])
    said = ran.reasons()[-1]
    assert f"--id r-9999 {why}" in said and "is in nothing" not in said, said
    assert ("read a file that holds it" in said) == ("find it with find" in said) == reads
    assert "ask the user to name it" in said
    assert ("use one of these" in said) == ("nearest: r-9998" in said) == (before[:1] == [ECHOES[0][0][0]]), said


def test_what_is_itself_not_known_is_no_nearest_value(project: Project) -> None:
    said = [reply(call("note", "r-9998")), reply({"read": "notes.txt"}), reply(call("replay", "--id", "r-9999"))]
    assert "nearest" not in project.run([*said, finish()]).reasons()[-1]


def test_the_models_question_makes_nothing_known_and_the_answer_does(project: Project) -> None:
    ran = project.run([reply({"ask": "is it r-9999?"}), reply(call("replay", "--id", "r-9999"), REPLAY), finish()])
    project.say(ran.folder, "answer", text="no, r-1841")
    assert replayed(project.resume(ran.folder)) == ["UNGROUNDED", "OK"]


def test_a_file_and_a_failure_make_known(project: Project) -> None:
    project.file("log.txt", "request r-1841 failed\n")
    project.tool("find", "echo r-55 >&2; exit 1", "@meta effect read")
    asked = reply(REPLAY, call("replay", "--id", "r-55"))
    assert replayed(project.run([reply({"read": "log.txt"}, FIND), asked, finish()])) == ["OK", "OK"]


def test_a_long_output_makes_known_what_the_model_was_not_shown(project: Project) -> None:
    project.tool("find", "seq -f 'line %.0f' 20000; echo r-1841; seq -f 'line %.0f' 20000", "@meta effect read")
    assert replayed(project.run([reply(FIND), reply(REPLAY), finish()])) == ["OK"]


def test_a_default_of_the_header_needs_no_source(project: Project) -> None:
    project.tool("replay", "echo ok", "@option --id=last <ID>  which\n@meta known --id\n@meta effect read")
    assert replayed(project.run([reply(call("replay")), reply(call("replay", "--id", "first")), finish()])) == [
        "OK", "UNGROUNDED",
    ]  # fmt: skip


def test_a_killed_run_knows_again_what_it_knew(project: Project) -> None:
    first = project.run([reply(FIND), finish(), reply(REPLAY), finish()])
    assert replayed(project.resume(first.folder, "go on")) == ["OK"]


STAGES = """
one: {run: [replay, --id, "${inputs.id}"]}
two: {run: [replay, --id, r-1], needs: [one]}
"""


@pytest.mark.parametrize(("goal", "stop"), [("replay r-5", "passed"), ("replay it", "failed")])
def test_a_stage_knows_what_the_run_above_knew_and_what_its_file_says(project: Project, goal: str, stop: str) -> None:
    project.stages("both", STAGES, "@option --id! <ID>  which")
    project.skill(tools="both", requires="both")
    ran = project.run([reply(call("both", "--id", "r-5")), finish(), finish(), finish()], goal=goal)
    below = Ran(ran.stop, ran.child(), [])
    assert below.end["stop"] == stop
    assert [code for code in below.codes() if code != "allow"] == ([] if stop == "passed" else ["UNGROUNDED"])


def test_a_worker_is_given_no_value_that_its_manager_made_up(project: Project) -> None:
    project.skill("helper", tools="find replay")
    project.skill(tools="helper replay")
    helps = [reply(call("replay", "--id", "r-5"), REPLAY), reply(FIND), finish("it was r-4242, see r-1841")]
    ran = project.run(
        [reply(call("helper", "replay r-5")), reply(REPLAY, call("replay", "--id", "r-4242")), finish()], helper=helps
    )
    below = Ran(ran.stop, ran.child(), [])
    assert replayed(below) == ["UNGROUNDED", "UNGROUNDED"]
    assert replayed(ran) == ["OK", "UNGROUNDED"]  # its tool found one, its model said the other


def test_a_worker_knows_what_was_passed_on_and_no_more(project: Project) -> None:
    project.skill("helper", tools="replay")
    project.skill(tools="helper find")
    helps = [reply(REPLAY, call("replay", "--id", "r-1842")), finish()]
    ran = project.run([reply(FIND), reply(call("helper", "replay r-1841")), finish()], helper=helps)
    assert replayed(Ran(ran.stop, ran.child(), [])) == ["OK", "UNGROUNDED"]


def test_an_input_from_a_file_and_a_default_ground_and_are_nobodys_words(tmp_path: Path) -> None:
    made = Project(tmp_path / "project")
    made.tool("replay", "echo ok", "@option --id! <ID>\n@meta known --id\n@meta dest --id\n@meta effect external")
    made.skill(tools="replay", inputs="id <ID>  which\nother=r-2 <ID>  another\nmine <ID>  mine")
    (made.path / "id.txt").write_text("r-1\n")
    calls = [reply(*(call("replay", "--id", name) for name in ("r-1", "r-2", "r-3", "r-4"))), finish()]
    said = harness("run", "demo", "go", "-i", "id=@id.txt", "-i", "mine=r-3", "-m", made.script(calls), cwd=made.path)
    assert said.returncode == 5, said.stderr
    ran = Ran(Stop("needs-approval", 5, True), next((made.path / ".harness" / "runs").glob("*-demo-*")), [])
    assert ran.codes() == ["ask", "ask", "allow", "UNGROUNDED"]
