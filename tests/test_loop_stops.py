"""How a run ends: every stop that a run of one process can come to, with its exit code and its last event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.loop.run import Said
from tests.journal_lines import Hands
from tests.loop_world import Person, Project, Ran, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("look", 'echo "look $@"', "@option --at <WHERE>  where\n@meta effect read")
    made.tool("report", "echo report")
    made.tool("send", 'echo sent >> "$PWD/sent"', "@option --to <WHO>  to whom\n@meta effect external")
    made.skill(tools="look report send", deps="report: look", requires="report")
    return made


def sent(project: Project) -> int:
    path = project.path / "sent"
    return len(path.read_text().splitlines()) if path.exists() else 0


def assert_last(ran: Ran, stop: str, code: int, kind: str = "run.end") -> None:
    assert (ran.stop.name, ran.stop.code, ran.events[-1]["kind"]) == (stop, code, kind)
    assert (ran.end["stop"], ran.end["exit"]) == (stop, code)
    assert sum(event["kind"] in ("run.end", "park") for event in ran.events) == 1


def assert_last_of(ran: Ran, stop: str, code: int) -> None:
    assert (ran.stop.name, ran.stop.code) == (ran.end["stop"], ran.end["exit"]) == (stop, code)


def test_passed(project: Project) -> None:
    ran = project.run([reply(call("look")), reply(call("report")), finish("all well")])
    assert_last(ran, "passed", 0)
    assert ran.answer == (ran.folder / "answer.md").read_text() == "all well"
    assert ran.spawned == ["look", "report"] and ran.end["unmet"] == [] and "unaccepted" not in ran.end


def test_text_without_a_call_is_finish(project: Project) -> None:
    ran = project.run([reply(call("look")), reply(call("report")), {"text": "All is well."}])
    assert_last(ran, "passed", 0)
    assert ran.answer == "All is well."
    assert ran.of("model.reply")[-1]["data"]["calls"][0]["implicit"] is True


def test_declined(project: Project) -> None:
    """A required tool that never ran, and a model that insists three times."""
    ran = project.run([finish("one"), finish("two"), finish("three")])
    assert_last(ran, "declined", 9)
    assert [event["data"]["missing"] for event in ran.of("verify")] == [
        [{"name": "report", "why": "report has no result yet"}]
    ] * 3
    assert (ran.answer, ran.end["unaccepted"], ran.spawned) == ("three", True, [])


def test_a_required_tool_that_failed_is_missing_by_name(project: Project) -> None:
    project.tool("report", "echo no; exit 1")
    ran = project.run([reply(call("look")), reply(call("report")), finish(), finish(), finish()])
    assert_last(ran, "declined", 9)
    assert ran.of("verify")[0]["data"]["missing"] == [{"name": "report", "why": "report ended FAILED"}]
    assert "report ended FAILED" in ran.end["error"]


def test_denied_a_required_tool(project: Project) -> None:
    ran = project.run([reply(call("look")), reply(call("report")), finish()], deny=["report"])
    assert_last(ran, "denied", 7)
    assert ran.spawned == ["look"]


def test_denied_by_a_person_at_the_terminal(project: Project) -> None:
    project.skill(tools="look send", requires="send")
    project.person = Person([Said("deny", "not today")])
    ran = project.run([reply(call("send", "--to", "ann")), reply(call("send", "--to", "ann")), finish()])
    assert_last(ran, "denied", 7)
    assert ran.codes() == ["ask", "DENIED", "DENIED"]
    assert ran.reasons()[1:] == ["not today", "a person refused this call: not today"]
    assert len(project.person.shown) == 1 and sent(project) == 0


def test_a_refused_call_with_other_arguments_may_be_asked_again(project: Project) -> None:
    project.person = Person([Said("deny", "not ann"), Said("allow")])
    ran = project.run([reply(call("send", "--to", "ann")), reply(call("send", "--to", "bob")), reply(call("look")),
                       reply(call("report")), finish()])  # fmt: skip
    assert_last(ran, "passed", 0)
    assert sent(project) == 1


def test_a_person_stops_the_run_before_any_call_of_the_turn(project: Project) -> None:
    project.person = Person([Said("allow"), Said("quit")])
    ran = project.run([reply(call("look"), call("send", "--to", "a"), call("send", "--to", "b")), finish()])
    assert_last(ran, "interrupted", 130)
    assert ran.spawned == [] and sent(project) == 0
    assert [unmet["name"] for unmet in ran.end["unmet"]] == ["look", "send", "send"]


@pytest.mark.parametrize("stop", ["refusal", "length"])
def test_a_reply_that_was_refused_or_cut_off_fails_the_run(project: Project, stop: str) -> None:
    ran = project.run([{**reply(call("look")), "stop": stop}])
    assert_last(ran, "failed", 1)
    assert ran.spawned == [] and not ran.of("model.reply") and ran.of("model.fail")[0]["data"]["reason"] == stop


def test_a_reply_that_was_too_long_for_the_model_is_a_budget(project: Project) -> None:
    ran = project.run([{**reply(call("look")), "stop": "overflow"}])
    assert_last(ran, "budget", 6)
    assert ran.end["limit"] == "context"


def test_no_credentials_and_no_service(project: Project) -> None:
    assert_last(project.run([{"fail": {"reason": "auth"}}]), "error", 4)
    away = {"fail": {"reason": "unavailable"}, "repeat": 5}
    ran = project.run([away, reply(call("look")), reply(call("report")), finish()])
    assert_last(ran, "waiting", 75, "park")
    assert project.resume(ran.folder).stop.name == "passed"


def test_a_script_that_does_not_fit(project: Project) -> None:
    ran = project.run([reply(call("look"), expect={"callable": ["report"]})])
    assert_last(ran, "failed", 1)
    assert "expected report to be callable" in ran.text(ran.of("model.fail")[0]["data"]["message"])
    assert ran.spawned == []


def test_a_reply_that_was_never_asked_for(project: Project) -> None:
    ran = project.run([reply(call("look")), reply(call("report")), finish(), finish()])
    assert_last(ran, "failed", 1)
    assert "reply 4 was never asked for" in ran.end["error"]


def test_finish_beside_other_calls_is_refused_and_they_run(project: Project) -> None:
    ran = project.run([reply(call("look"), {"finish": "early"}), reply(call("report")),
                       finish("late")])  # fmt: skip
    assert_last(ran, "passed", 0)
    assert (ran.answer, ran.spawned) == ("late", ["look", "report"])
    assert len(ran.of("verify")) == 1


def test_one_call_for_ever(project: Project) -> None:
    """A note after the 4th reply, the stop after the 7th."""
    ran = project.run([{**reply(call("look")), "repeat": "forever"}])
    assert_last(ran, "no-progress", 8)
    replies = [i for i, event in enumerate(ran.events) if event["kind"] == "model.reply"]
    notes = [i for i, event in enumerate(ran.events) if event["kind"] == "note"]
    assert len(replies) == 7 and len(notes) == 1
    assert replies[3] < notes[0] < replies[4]
    assert "repeated: look" in ran.notes()[0] and "never tried: report send" in ran.notes()[0]
    assert "still required: report" in ran.notes()[0]


def test_what_was_called_in_vain_is_not_called_untried(project: Project) -> None:
    ran = project.run([{**reply(call("look", "--nothing")), "repeat": "forever"}])
    assert "repeated: look" in ran.notes()[0] and "never tried: report send" in ran.notes()[0]


def replies(ran: Ran) -> int:
    return len(ran.of("model.reply"))


def test_strikes_are_lowered_by_a_skill_and_by_the_flag(project: Project) -> None:
    again = [{**reply(call("look")), "repeat": "forever"}]
    project.skill(tools="look", budget="strikes=2 turns=20")
    ran = project.run(again)
    assert_last(ran, "no-progress", 8)
    assert replies(ran) == 3 and len(ran.notes()) == 1
    assert [e["kind"] for e in ran.events if e["kind"] in ("model.reply", "note")][-2:] == ["note", "model.reply"]
    assert replies(project.run(again, budget="strikes=4")) == 5, "a person's figure takes the place of the skill's"
    project.skill(tools="look", budget="strikes=1")
    assert replies(project.run(again)) == 2


def test_nothing_raises_them(project: Project) -> None:
    with pytest.raises(HarnessError, match="no number from 1 to 6: it is only lowered"):
        project.run([finish()], budget="strikes=7")
    project.skill(tools="look", budget="strikes=7")
    with pytest.raises(HarnessError, match=r"bad-budget.*up to 6"):
        project.run([finish()])


def test_strikes_are_the_same_at_every_depth_and_a_worker_may_have_fewer(project: Project) -> None:
    again = [{**reply(call("look")), "repeat": "forever"}]
    project.skill(tools="helper other third")
    for name, most in (("helper", "strikes=6"), ("other", "turns=30"), ("third", "strikes=1")):
        project.skill(name, tools="look", budget=most)
    calls = [reply(call(name, "x")) for name in ("helper", "other", "third")]
    ran = project.run([*calls, finish()], budget="strikes=3 turns=100", helper=again, other=again, third=again)
    assert [replies(Ran(ran.stop, ran.child(n), [])) for n in range(3)] == [4, 4, 2]


def test_two_calls_in_turn_for_ever_stop_one_reply_later(project: Project) -> None:
    ran = project.run([reply(call("look", "--at", "ab"[n % 2])) for n in range(20)])
    assert_last(ran, "no-progress", 8)
    assert len(ran.of("model.reply")) == 8


def test_no_progress_two_levels_down(project: Project) -> None:
    """A worker's worker repeats itself: it stops by the same numbers, and its word reaches the top unchanged."""
    project.skill("middle", tools="deep")
    project.skill("deep", tools="look")
    project.skill(tools="middle")
    again = {**reply(call("middle", "go")), "repeat": "forever"}
    ran = project.run([again], budget="turns=500 calls=500", middle=[{**reply(call("deep", "x")), "repeat": "forever"}],
                      deep=[{**reply(call("look")), "repeat": "forever"}])  # fmt: skip
    assert_last(ran, "no-progress", 8)
    assert len(ran.of("model.reply")) == 6  # what a worker that did not pass brings is never progress
    ends = ran.of("tool.end")
    assert {(end["data"]["stop"], end["data"]["exit"]) for end in ends} == {("no-progress", 8)}


def test_empty_replies(project: Project) -> None:
    ran = project.run([{"text": " ", "repeat": "forever"}])
    assert_last(ran, "no-progress", 8)
    assert len(ran.of("model.reply")) == 6
    told = {"contains": ["Continue, or finish."]}
    ran = project.run([{"text": " "}, {"text": "", "expect": told}, reply(call("look"), expect=told),
                       reply(call("report")), finish()])  # fmt: skip
    assert_last(ran, "passed", 0)


def test_refusals_are_no_progress(project: Project) -> None:
    ran = project.run([reply(call("no-tool", str(n))) for n in range(9)])
    assert_last(ran, "no-progress", 8)
    assert len(ran.of("model.reply")) == 6


LIMITS = {
    "turns=2": ("turns", 6, 2, ["look", "report"]),
    "calls=1": ("calls", 6, 2, ["look"]),
    "read=1": ("read", 6, 2, ["look"]),
    "tokens=50": ("tokens", 6, 1, ["look"]),
}


@pytest.mark.parametrize("budget", LIMITS)
def test_each_limit_ends_the_run_before_the_step_over_it(project: Project, budget: str) -> None:
    limit, code, replies, spawned = LIMITS[budget]
    used = {"input": 40, "out": 20}
    ran = project.run([reply(call("look"), usage=used), reply(call("report"), usage=used), finish()], budget=budget)
    assert_last(ran, "budget", code)
    assert (ran.end["limit"], len(ran.of("model.reply")), ran.spawned) == (limit, replies, spawned)


def test_an_answer_that_was_proposed_before_comes_back_unaccepted(project: Project) -> None:
    ran = project.run([reply(call("look")), finish("my guess"), finish("again")], budget="turns=2")
    assert_last(ran, "budget", 6)
    assert (ran.answer, ran.end["unaccepted"], ran.end["limit"]) == ("my guess", True, "turns")


def test_the_time_is_over_between_two_steps(project: Project) -> None:
    project.clock = clock = Hands()
    project.tool("look", "sleep 0.1; echo look")

    class Slow(Person):
        """Takes a minute to answer: a wait for a person is free."""

        def approve(self, request: dict[str, Any], elsewhere: Any) -> Said:
            clock.pass_(60)
            return super().approve(request, elsewhere)

    project.person = Slow([Said("allow")])
    ran = project.run([reply(call("send")), reply(call("look")), reply(call("report")), finish()], budget="seconds=30")
    assert_last(ran, "passed", 0)
    assert ran.end["spent"]["waiting_s"] == 60 and ran.end["spent"]["active_s"] < 1


def test_seconds(project: Project) -> None:
    project.clock = clock = Hands()
    spawn = project.io.spawn

    def slow(*words: Any) -> Any:
        clock.pass_(50)
        return spawn(*words)

    project.io.spawn = slow  # type: ignore[method-assign]
    ran = project.run([reply(call("look")), reply(call("report")), finish()], budget="seconds=40")
    assert_last(ran, "budget", 124)
    assert (ran.end["limit"], ran.spawned) == ("seconds", ["look"])
    assert ran.ends() == [("look", "OK")]


def test_a_request_is_dropped_when_the_time_is_over(project: Project) -> None:
    ran = project.run([reply(call("look"), delay=20)], budget="seconds=0.3")
    assert_last(ran, "budget", 124)
    assert ran.end["spent"]["active_s"] < 5 and ran.spawned == []
    assert ran.of("model.fail")[0]["data"]["reason"] == "cancelled"


def test_a_yes_lifts_no_limit(project: Project) -> None:
    project.person = Person([Said("allow"), Said("allow"), Said("allow")])
    calls = [call("send", "--to", who) for who in "abc"]
    ran = project.run([reply(*calls), finish()], budget="external=2")
    assert_last(ran, "budget", 6)
    assert (ran.end["limit"], sent(project)) == ("external", 2)
    assert ran.codes() == ["ask", "ask", "ask", "allow", "allow", "OVER_BUDGET"]


def test_a_limit_that_was_raised_lets_the_run_go_on(project: Project) -> None:
    reports = [reply(call("report")) for _ in range(3)]
    ran = project.run([reply(call("look")), *reports, finish()], budget="calls=1")
    assert_last(ran, "budget", 6)
    again = project.resume(ran.folder)
    assert (again.stop.name, again.spawned) == ("budget", [])
    more = project.resume(ran.folder, budget="calls=9")
    assert (more.stop.name, more.spawned) == ("passed", ["report"])


def test_a_call_that_waited_beside_one_over_the_limit_is_still_asked(project: Project) -> None:
    ran = project.run([reply(call("look"), call("send"), call("look", "--at", "b")), reply(call("report")), finish()],
                      budget="calls=1")  # fmt: skip
    assert_last(ran, "budget", 6)
    assert ran.codes() == ["allow", "OVER_BUDGET", "OVER_BUDGET"]
    ran = project.run([reply(call("send"), call("look"), call("look", "--at", "b")), reply(call("report")), finish()],
                      budget="calls=1")  # fmt: skip
    assert (ran.codes(), ran.end["limit"]) == (["ask", "allow", "OVER_BUDGET"], "calls")
    more = project.resume(ran.folder, budget="calls=9")
    assert_last_of(more, "needs-approval", 5)
    project.say(ran.folder, "approve")
    assert project.resume(ran.folder).stop.name == "passed"
    assert sent(project) == 1


def test_a_run_that_gave_up_gets_new_turns_when_it_is_resumed(project: Project) -> None:
    replies = [{**reply(call("look")), "repeat": 7}, reply(call("report")), finish()]
    ran = project.run(replies)
    assert_last(ran, "no-progress", 8)
    assert project.resume(ran.folder).stop.name == "passed"


def test_a_run_that_declined_is_told_by_a_person(project: Project) -> None:
    ran = project.run([finish(), finish(), finish(), reply(call("look"), expect={"contains": ["run the report"]}),
                       reply(call("report")), finish("better")])  # fmt: skip
    assert_last(ran, "declined", 9)
    more = project.resume(ran.folder, "run the report")
    assert (more.stop.name, more.answer) == ("passed", "better")


def test_a_run_that_passed_goes_on_with_a_message_only(project: Project) -> None:
    from harness.errors import HarnessError

    replies = [reply(call("look")), reply(call("report")), finish("one")]
    replies += [reply(call("look", "--at", "b")), finish("two")]
    ran = project.run(replies[:3])
    assert_last(ran, "passed", 0)
    project.script(replies)
    before = (ran.folder / "events.jsonl").read_bytes()
    with pytest.raises(HarnessError, match="this run has passed"):
        project.resume(ran.folder)
    assert (ran.folder / "events.jsonl").read_bytes() == before
    more = project.resume(ran.folder, "and b?")
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "two", ["look"])


def test_budget_runs_low_notes_come_once(project: Project) -> None:
    replies = [reply(call("look", "--at", str(n))) for n in range(8)]
    ran = project.run([*replies, reply(call("report")), finish()], budget="turns=10")
    assert_last(ran, "passed", 0)
    assert ran.notes() == [f"{n} % or less of the budget turns=10 is left." for n in (50, 20, 10)]


def test_a_limit_of_tokens_is_told_like_the_others(project: Project) -> None:
    used = {"usage": {"input": 200, "out": 50}}
    replies = [reply(call("look", "--at", str(n)), **used) for n in range(3)]
    first = {**replies[0], "expect": {"contains": ["1600 tokens"]}}
    ran = project.run([first, *replies[1:], {**finish(), **used}], budget="tokens=1600")
    assert ran.notes() == ["50 % or less of the budget tokens=1600 is left."]


@pytest.fixture
def piped(project: Project) -> Project:
    """A skill that needs `send`, which is a stage of its pipeline."""
    project.stages("line", "a: {run: [look]}\nb: {run: [send, --to, x], needs: [a]}")
    project.skill(tools="line send", requires="send", pipeline="line")
    return project


def test_denied_a_required_tool_in_the_pipeline_that_stands_in_for_the_model(piped: Project) -> None:
    for deny in ("send", "line"):
        ran = piped.run("none", deny=[deny])
        assert_last(ran, "denied", 7)
        assert f"--deny {deny}" in ran.end["error"] and sent(piped) == 0


def test_denied_by_a_person_in_a_pipeline_of_the_run(piped: Project) -> None:
    for model in ("none", piped.script([reply(call("line")), finish("so")])):
        piped.person = Person([Said("deny", "no")])
        assert_last(piped.run(model), "denied", 7)
    assert sent(piped) == 0


def test_a_budget_that_the_pipeline_in_place_of_a_model_used_up_is_named(piped: Project) -> None:
    ran = piped.run("none", budget="calls=2", allow=["send"])
    assert_last(ran, "budget", 6)
    assert ran.end["limit"] == "calls"
