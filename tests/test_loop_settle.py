"""Attempts whose end nobody saw are settled by evidence: recorded, waited for, tried again, asked about, or parked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.attempts import pause_s
from harness.events.line import at_seconds
from harness.events.log import follow
from harness.loop.inbox import SETTLED
from harness.loop.run import Said
from tests.loop_world import Person, Project, Ran, Skipping, call, finish, reply

PURE, KEYED = "@meta effect write\n@meta repeat pure", "@meta effect write\n@meta repeat keyed"
QUERYABLE, OPAQUE = "@meta effect write\n@meta repeat queryable\n@meta query asked {op}", "@meta effect write"
CLASSES = {"pure": PURE, "keyed": KEYED, "queryable": QUERYABLE, "opaque": OPAQUE}
PAY = 'echo "$HARNESS_OP_ID" >> done; echo paid'
"""An effect outside the run: a line with the operation's id."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.clock = Skipping()
    return made


def cut_in_tool(ran: Ran, started: bool | None = True, rc: str | None = None, op: int = 1) -> Ran:
    """Leave the run as a kill inside its first tool would. `started` None: the attempt's folder is gone."""
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start" and e["op"] == op)
    path.write_bytes(b"".join(lines[: at + 1]))
    for later in (ran.folder / "ops").iterdir():
        if int(later.name) > op:
            shutil.rmtree(later)
    folder = ran.folder / "ops" / str(op) / "1"
    if started is None:
        folder.rename(folder.with_name("gone"))
        return ran
    (folder / "started").write_text("." if started else "")
    (folder / "rc").write_text(rc or "....")
    return ran


def effects(project: Project) -> list[str]:
    return project.noted("done")


def outcomes(ran: Ran) -> list[str]:
    return [event["data"]["outcome"] for event in ran.of("tool.end")]


def paying(project: Project, kind: str, body: str = PAY) -> Ran:
    """A run that called `pay` once and passed. Its query says what the file of effects says."""
    project.tool("pay", body, CLASSES[kind])
    project.tool("asked", 'echo asked >> asking; grep -q "$1" done', "@meta effect read\n@arg op!")
    project.skill(tools="pay")
    return project.run([reply(call("pay")), finish()])


@pytest.mark.parametrize("kind", CLASSES)
def test_case_14_a_kill_before_the_spawn_is_no_start(project: Project, kind: str) -> None:
    ran = cut_in_tool(paying(project, kind), started=False)
    (project.path / "done").unlink()
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned, outcomes(more)) == ("passed", ["pay"], ["not-started", "done"])
    assert effects(project) == [f"{ran.folder.name}/1"]
    assert [e["data"].get("try", 1) for e in more.of("tool.start")] == [1, 2]


@pytest.mark.parametrize("kind", CLASSES)
def test_case_14_a_noted_end_is_recorded_and_nothing_is_spawned(project: Project, kind: str) -> None:
    ran = cut_in_tool(paying(project, kind), rc="000\n")
    more = project.resume(ran.folder)
    end = more.of("tool.end")[0]["data"]
    assert (more.stop.name, more.spawned, end["by"], end["out"], end["exit"]) == ("passed", [], "shim", "paid\n", 0)
    assert len(effects(project)) == 1


def test_a_noted_failure_keeps_its_class(project: Project) -> None:
    ran = cut_in_tool(paying(project, "opaque"), rc="073\n")
    end = project.resume(ran.folder).of("tool.end")[0]["data"]
    assert (end["by"], end["class"], end["outcome"]) == ("shim", "CONFLICT", "failed")


@pytest.mark.parametrize("there", [True, None], ids=["begun", "folder gone"])
@pytest.mark.parametrize("kind", ["pure", "keyed"])
def test_case_15_what_may_run_twice_runs_again_under_its_id(project: Project, kind: str, there: bool | None) -> None:
    ran = cut_in_tool(paying(project, kind), started=there)
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned, outcomes(more)) == ("passed", ["pay"], ["cut", "done"])
    assert effects(project) == [f"{ran.folder.name}/1"] * 2


def test_case_15_a_query_that_says_it_happened_is_the_evidence(project: Project) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned, len(effects(project))) == ("passed", ["asked"], 1)
    start, end = more.of("tool.start")[-1]["data"], more.of("tool.end")[-1]["data"]
    assert (start["role"], start["try"], end["by"], end["class"]) == ("query", 2, "query", "OK")


def test_case_15_that_it_did_not_happen_counts_after_five_seconds(project: Project) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    (project.path / "done").write_text("")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["asked", "pay"])
    assert outcomes(more) == ["cut", "not-started", "done"]
    assert len(effects(project)) == 1
    asked = next(e for e in more.of("tool.start") if e["data"].get("role") == "query")
    assert at_seconds(asked["at"]) - at_seconds(more.of("tool.end")[0]["at"]) >= 5


@pytest.mark.parametrize("body", ["exit 3", "kill -9 $$"])
def test_a_query_that_cannot_tell_leaves_it_to_a_person(project: Project, body: str) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    project.tool("asked", body, "@meta effect read\n@arg op!")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.stop.code, len(effects(project))) == ("unknown-outcome", 11, 1)
    assert outcomes(more)[-1] == "unknown"


def test_a_query_whose_words_no_longer_fit_is_said_before_anything_happens(project: Project) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    project.tool("asked", "exit 0", "@meta effect read\n@option --other!")
    with pytest.raises(HarnessError, match="the query of pay cannot be asked: asked: missing --other"):
        project.resume(ran.folder, accept=True)
    assert len(effects(project)) == 1


@pytest.mark.parametrize("now", ["gone", "a write", "named no more"])
def test_a_query_that_can_no_longer_be_asked_leaves_it_to_a_person(project: Project, now: str) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    if now == "gone":
        (project.path / "bin" / "asked").unlink()
    elif now == "a write":
        project.tool("asked", "echo asked >> asking", "@meta effect write\n@arg op!")
    else:
        project.tool("pay", PAY, OPAQUE)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.spawned, more.end["ops"]) == ("unknown-outcome", [], [1])
    project.say(ran.folder, "settle", word="happened")
    assert (project.resume(ran.folder).stop.name, len(effects(project))) == ("passed", 1)


def test_a_tool_that_is_gone_leaves_its_queryable_call_to_a_person(project: Project) -> None:
    ran = cut_in_tool(paying(project, "queryable"))
    (project.path / "bin" / "pay").unlink()
    project.skill(tools="asked")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.spawned, more.end["ops"]) == ("unknown-outcome", [], [1])


def test_a_noted_end_is_recorded_though_its_tool_is_gone(project: Project) -> None:
    ran = cut_in_tool(paying(project, "opaque"), rc="000\n")
    (project.path / "bin" / "pay").unlink()
    project.tool("other")
    project.skill(tools="other")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, outcomes(more), more.of("tool.end")[0]["data"]["by"]) == ("passed", ["done"], "shim")


def test_no_approval_is_said_to_be_void_of_a_call_that_needed_none(project: Project) -> None:
    ran = cut_in_tool(paying(project, "keyed"))
    project.tool("pay", f"{PAY}; true", KEYED)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, set(effects(project))) == ("passed", {f"{ran.folder.name}/1"})
    assert [note for note in more.notes() if "operation 1" in note] == [
        "operation 1 is judged anew: pay is not what it was."
    ]


def test_a_query_cut_short_is_asked_again(project: Project) -> None:
    ran = paying(project, "queryable")
    cut_in_tool(ran)
    more = project.resume(ran.folder)
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = max(i for i, e in enumerate(more.events) if e["kind"] == "tool.start")
    path.write_bytes(b"".join(lines[: at + 1]))
    again = project.resume(ran.folder)
    assert (again.stop.name, again.spawned, len(effects(project))) == ("passed", ["asked"], 1)


def test_a_value_that_reads_as_an_option_is_never_asked_with(project: Project) -> None:
    """`--all` in place of an id would ask about something else, and a wrong no would pay twice."""
    project.tool("pay", PAY, "@meta effect write\n@meta repeat queryable\n@meta query asked {id}\n@arg id!")
    project.tool("asked", "exit 1", "@meta effect read\n@flag --all\n@arg id")
    project.skill(tools="pay")
    ran = project.run([reply(call("pay", "--", "--all")), finish()])
    more = project.resume(cut_in_tool(ran).folder)
    assert (more.stop.name, more.spawned, len(effects(project))) == ("unknown-outcome", [], 1)


def test_a_query_that_is_no_read_makes_the_tool_opaque(project: Project) -> None:
    project.tool("pay", PAY, QUERYABLE)
    project.tool("asked", "exit 1", "@meta effect write\n@arg op!")
    project.skill(tools="pay")
    ran = project.run([reply(call("pay")), finish()])
    assert ran.of("decide")[0]["data"]["repeat"] == "opaque"


@pytest.mark.parametrize("there", [True, None], ids=["begun", "folder gone"])
def test_case_15_what_may_not_be_repeated_parks(project: Project, there: bool | None) -> None:
    ran = cut_in_tool(paying(project, "opaque"), started=there)
    for _ in range(2):
        more = project.resume(ran.folder)
        assert (more.stop.name, more.stop.code, more.spawned) == ("unknown-outcome", 11, [])
        assert more.end["ops"] == [1] and str(ran.folder / "ops" / "1" / "1") in more.end["hint"]
    assert len(effects(project)) == 1


@pytest.mark.parametrize("kind", ["keyed", "queryable"])
def test_cuts_count_and_the_last_one_parks(project: Project, kind: str) -> None:
    """Three attempts that may have had an effect, then a person."""
    ran = paying(project, kind, body="echo x >> done; kill -9 $PPID; sleep 30")
    (project.path / "done").write_text("")
    more = project.resume(ran.folder) if ran.stop.name != "unknown-outcome" else ran
    assert (more.stop.name, more.stop.code) == ("unknown-outcome", 11)
    assert sum(e["data"].get("role") != "query" for e in more.of("tool.start")) == 3


@pytest.mark.parametrize(
    ("word", "stop", "spawned"),
    [("happened", "passed", []), ("did-not-happen", "passed", ["pay"]), ("unknown", "passed", [])],
)
def test_what_a_person_knows(project: Project, word: str, stop: str, spawned: list[str]) -> None:
    ran = cut_in_tool(paying(project, "opaque"))
    project.resume(ran.folder)
    project.say(ran.folder, "settle", word=word, output="ref 7")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == (stop, spawned)
    settled = next(e["data"] for e in more.of("tool.end") if e["data"].get("by") == "person")
    assert (settled["outcome"], settled.get("class", "")) == SETTLED[word]
    assert settled["out"] == "ref 7" and settled["inbox"]
    assert not list((ran.folder / "inbox").iterdir())


def test_case_16_other_arguments_do_not_pay_twice(project: Project) -> None:
    project.tool("pay", PAY, OPAQUE + "\n@arg what!")
    project.skill(tools="pay")
    replies = [reply(call("pay", "a")), reply(call("pay", "b")), finish()]
    ran = cut_in_tool(project.run(replies))
    (project.path / "done").write_text("one\n")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("unknown-outcome", [])
    project.say(ran.folder, "settle", word="unknown")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned, effects(project)) == ("passed", [], ["one"])
    assert more.codes()[-1] == "UNKNOWN_OUTCOME"


def test_an_outcome_that_stays_unknown_holds_for_the_runs_below_and_above(project: Project) -> None:
    project.tool("pay", PAY, OPAQUE)
    project.stages("line", "one: {run: [pay]}")
    project.skill("helper", tools="pay")
    project.skill(tools="pay line helper")
    replies = [reply(call("line")), reply(call("pay")), reply(call("helper", "go")), finish()]
    helper = [reply(call("pay")), finish("refused")]
    ran = project.run(replies, helper=helper)
    for later in (ran.child(1), ran.folder / "ops" / "2"):
        shutil.rmtree(later)
    cut_in_tool(Ran(ran.stop, ran.child(), []))
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 1 + next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start")]))
    assert project.resume(ran.folder).stop.name == "unknown-outcome"
    project.say(ran.folder, "settle", word="unknown")
    before = len(effects(project))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned, len(effects(project))) == ("passed", [], before)
    assert more.codes().count("UNKNOWN_OUTCOME") == 1
    worker = Ran(more.stop, more.child(1), [])
    assert "UNKNOWN_OUTCOME" in worker.codes()


def test_over_budget_an_open_attempt_is_unmet_and_settled_only_by_who_goes_on(project: Project) -> None:
    ran = cut_in_tool(paying(project, "opaque"))
    more = project.resume(ran.folder, budget="seconds=0.001")
    assert (more.stop.name, more.stop.code, more.end["limit"], more.spawned) == ("budget", 124, "seconds", [])
    assert [(item["op"], item["name"]) for item in more.end["unmet"]] == [(1, "pay")]
    again = project.resume(ran.folder, budget="seconds=900")
    assert (again.stop.name, again.end["ops"], again.spawned) == ("unknown-outcome", [1], [])


@pytest.mark.parametrize(("kind", "stop", "spawned"), [("pure", "passed", ["pay"]), ("opaque", "unknown-outcome", [])])
def test_case_19_after_a_reboot_the_files_are_hints(
    project: Project, kind: str, stop: str, spawned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cut_in_tool(paying(project, kind), rc="000\n")
    monkeypatch.setattr("harness.runs.facts._boot", lambda: "another boot")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == (stop, spawned)
    if stop != "passed":
        assert "its note says exit 0" in more.end["hint"]


def test_case_21_an_exit_without_a_header_says_nothing(project: Project) -> None:
    for code in (1, 75):
        project.tool(f"bare{code}", f"echo x >> done; exit {code}", head="")
        project.skill(tools=f"bare{code}")
        ran = project.run([reply(call(f"bare{code}")), finish()], allow=[f"bare{code}"])
        project.person = Person([Said("allow")])
        if ran.stop.name == "needs-approval":
            project.say(ran.folder, "approve")
            ran = project.resume(ran.folder)
        project.person = None
        assert (ran.stop.name, len(ran.of("tool.start"))) == ("unknown-outcome", 1), code
    assert len(effects(project)) == 2


FAIL_TWICE = 'echo "$HARNESS_OP_ID" >> tries; [ "$(wc -l < tries)" -gt 2 ] || exit 75; echo ok'


@pytest.mark.parametrize("kind", ["pure", "keyed"])
def test_case_27_what_may_be_retried_is_after_a_pause(project: Project, kind: str) -> None:
    ran = paying(project, kind, FAIL_TWICE)
    assert (ran.stop.name, ran.spawned) == ("passed", ["pay"] * 3)
    tries = (project.path / "tries").read_text().split()
    assert tries == [f"{ran.folder.name}/1"] * 3
    pauses = [e["data"]["retry"]["after"] for e in ran.of("tool.end") if "retry" in e["data"]]
    assert pauses == [pause_s(tries[0], 1), pause_s(tries[0], 2)]
    assert 0.5 <= pauses[0] <= 1 and 1 <= pauses[1] <= 2
    assert [e["data"].get("class") for e in ran.of("tool.end")] == ["RETRYABLE", "RETRYABLE", "OK"]
    assert ran.end["spent"]["calls"] == 1


def test_case_27_a_queryable_one_is_asked_before_it_is_tried_again(project: Project) -> None:
    ran = paying(project, "queryable", "[ -e done ] || { touch done; exit 75; }; echo ok")
    assert (ran.stop.name, ran.spawned) == ("passed", ["pay", "asked", "pay"])


def test_case_27_an_opaque_one_is_not_retried(project: Project) -> None:
    ran = paying(project, "opaque", "exit 75")
    assert (ran.spawned, [e["data"].get("class") for e in ran.of("tool.end")]) == (["pay"], ["RETRYABLE"])


def test_a_third_failure_is_the_last(project: Project) -> None:
    ran = paying(project, "pure", "exit 69")
    assert ran.spawned == ["pay"] * 3
    assert [("retry" in e["data"]) for e in ran.of("tool.end")] == [True, True, False]


def test_a_stage_is_retried_too(project: Project) -> None:
    project.tool("pay", FAIL_TWICE, KEYED)
    ran = project.pipeline(project.stages("line", "one: {run: [pay]}"))
    assert (ran.stop.name, ran.spawned, ran.answer) == ("passed", ["pay"] * 3, "ok\n")


def test_a_retry_that_was_announced_is_carried_out_after_a_kill(project: Project) -> None:
    ran = paying(project, "keyed", FAIL_TWICE)
    path = ran.folder / "events.jsonl"
    at = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.end")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: at + 1]))
    (project.path / "tries").write_text("one\n")
    for attempt in (2, 3):
        folder = ran.folder / "ops" / "1" / str(attempt)
        folder.rename(folder.with_name(f"old-{attempt}"))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["pay"] * 2)


def test_a_tool_that_needs_a_retry_does_not_hold_up_the_others(project: Project) -> None:
    project.tool("flaky", FAIL_TWICE, "@meta effect read")
    project.tool("quick", "echo quick")
    project.skill(tools="flaky quick")
    ran = project.run([reply(call("flaky"), call("quick")), finish()])
    assert (ran.stop.name, sorted(ran.spawned)) == ("passed", ["flaky"] * 3 + ["quick"])


def test_case_27_a_breaker_opens_lets_one_try_and_closes(project: Project) -> None:
    project.tool("down", "[ -e up ] || exit 69; echo ok", "@meta effect read\n@meta repeat opaque\n@arg n!")
    project.tool("wait", "echo waited", "@meta effect read\n@arg n!")
    project.skill(tools="down wait")
    calls = [reply(call("down", str(n))) for n in range(3)]
    ran = project.run([*calls, reply(call("down", "4"), call("wait", "1")), finish()])
    assert ran.spawned == ["down"] * 3 + ["wait"]
    assert ran.codes() == ["allow"] * 3 + ["RETRYABLE", "allow"]
    assert "breaker" in ran.of("decide")[3]["data"]["rules"] and "rests for" in ran.reasons()[3]


def test_a_breaker_gives_one_call_a_try_when_its_time_is_over(project: Project) -> None:
    clock = project.clock
    assert isinstance(clock, Skipping)
    project.tool("down", "[ -e up ] || exit 69; echo ok", "@meta effect read\n@meta repeat opaque\n@arg n!")
    project.skill(tools="down")
    script = [*[reply(call("down", str(n))) for n in range(3)], reply({"ask": "go on?"}),
              reply(call("down", "4"), call("down", "5")), finish()]  # fmt: skip

    class Slow(Person):
        """Takes half a minute to answer, and mends what was down meanwhile."""

        def question(self, *_: Any) -> str:
            clock.pass_(31)
            (project.path / "up").touch()
            return "yes"

    project.person = Slow()
    ran = project.run(script)
    assert ran.codes() == ["allow"] * 3 + ["allow", "RETRYABLE"]
    assert (ran.stop.name, "is being tried again by operation 5" in ran.reasons()[-1]) == ("passed", True)


@pytest.mark.parametrize("code", [77, 78])
def test_a_lack_that_no_repeat_mends_opens_the_breaker_at_once_and_a_resume_closes_it(
    project: Project, code: int
) -> None:
    project.tool("shut", f"[ -e key ] || exit {code}; echo ok", "@meta effect read\n@arg n!")
    project.skill(tools="shut")
    ran = project.run([reply(call("shut", "1")), reply(call("shut", "2")), reply({"ask": "key?"}),
                       reply(call("shut", "3")), finish()])  # fmt: skip
    name = {77: "NEEDS_AUTH", 78: "MISCONFIGURED"}[code]
    assert (ran.stop.name, ran.spawned, ran.codes()) == ("needs-answer", ["shut"], ["allow", name])
    (project.path / "key").touch()
    project.say(ran.folder, "answer", text="yes")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["shut"])


def test_a_good_end_closes_a_breaker(project: Project) -> None:
    project.tool("t", "[ $1 = ok ] || exit 69; echo ok", "@meta effect read\n@meta repeat opaque\n@arg n!")
    project.skill(tools="t")
    words = ["a", "b", "ok", "c", "d", "e"]
    ran = project.run([*[reply(call("t", word)) for word in words], finish()])
    assert ran.spawned == ["t"] * 6


def test_case_4_an_effect_without_an_intent_is_damage(project: Project) -> None:
    ran = paying(project, "opaque")
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start")
    path.write_bytes(b"".join(lines[:at]))
    with pytest.raises(JournalError, match="ops/1/1"):
        project.resume(ran.folder)
    (ran.folder / "ops" / "1" / "1" / "started").write_text("")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["pay"])


def test_settle_is_refused_where_nothing_waits(project: Project) -> None:
    ran = paying(project, "opaque")
    with pytest.raises(HarnessError, match="waits for no outcome"):
        project.say(ran.folder, "settle", word="happened")


@pytest.mark.parametrize(
    ("words", "spawned"), [(("did-not-happen", "happened"), []), (("happened", "did-not-happen"), ["pay"])]
)
def test_a_person_who_corrects_a_settlement_is_believed_the_second_time(
    project: Project, words: tuple[str, ...], spawned: list[str]
) -> None:
    ran = cut_in_tool(paying(project, "opaque"))
    project.resume(ran.folder)
    for at, word in enumerate(words):
        before = set((ran.folder / "inbox").iterdir())
        project.say(ran.folder, "settle", word=word)
        for path in set((ran.folder / "inbox").iterdir()) - before:
            os.utime(path, (at + 1, at + 1))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", spawned)
    assert more.notes() == [f"'{words[0]}' on operation 1 was taken back by a newer word."]




def test_a_settlement_is_taken_once(project: Project) -> None:
    ran = cut_in_tool(paying(project, "opaque"))
    project.resume(ran.folder)
    project.say(ran.folder, "settle", word="did-not-happen")
    message = next((ran.folder / "inbox").iterdir())
    raw = message.read_bytes()
    first = project.resume(ran.folder)
    assert first.spawned == ["pay"]
    message.write_bytes(raw)
    assert json.loads(raw)["word"] == "did-not-happen"
    events = len(follow(ran.folder))
    project.resume(ran.folder, "go on")
    assert sum(e["data"].get("by") == "person" for e in follow(ran.folder)[events:]) == 0
    assert not list((ran.folder / "inbox").iterdir())


def test_a_query_that_must_rest_is_waited_for_before_another_operation_is_left_to_a_person(project: Project) -> None:
    project.tool("mail", PAY, OPAQUE)
    project.tool("pay", PAY, QUERYABLE)
    project.tool("asked", 'grep -q "$1" done && echo paid', "@meta effect read\n@arg op!")
    project.skill(tools="mail pay")
    ran = project.run([reply(call("mail"), call("pay")), finish()])
    path, lines = ran.folder / "events.jsonl", (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    kinds = [event["kind"] for event in ran.events]
    path.write_bytes(b"".join(lines[: len(kinds) - kinds[::-1].index("tool.start")]))  # killed with both in flight
    for n in ("1", "2"):
        (ran.folder / "ops" / n / "1" / "rc").write_text("....")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.end["ops"], more.spawned) == ("unknown-outcome", [1], ["asked"])
    assert len(effects(project)) == 2
