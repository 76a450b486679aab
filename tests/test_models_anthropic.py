"""Anthropic's models through whole runs, against a server as strict as the real one: what is sent, what is retried."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.events.line import at_seconds
from harness.loop.run import Stop
from harness.models.choice import Named, StandIn, Wishes
from harness.models.exchange import PATIENCE, client_of
from tests.fake_anthropic import (
    COUNTED,
    KEY,
    Answer,
    FakeAnthropic,
    fails,
    failures,
    finishes,
    looking_and_touching,
    runs,
    serving,
    text,
    thinks,
    use,
)
from tests.loop_world import Project, Skipping

HAIKU = "anthropic:claude-haiku-5-5"
SONNET = "anthropic:claude-sonnet-5-5"
OPUS = "anthropic:claude-opus-5-5"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return looking_and_touching(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from serving(monkeypatch)


def slept(project: Project) -> float:
    assert isinstance(project.clock, Skipping)
    return project.clock.slept


def test_case_5_blocks_go_back_verbatim_over_ten_turns(project: Project, serve: Any) -> None:
    odd = [{"type": "text", "text": "so", "odd": {"b": [1, None], "a": "ü"}}, {"type": "tomorrow", "payload": [1, {}]}]
    turns = [Answer([thinks(f"hm {n} ß🙂"), *odd, runs(n, "look", str(n))]) for n in range(1, 10)]
    fake = serve(*turns, finishes(99))
    project.tool("look", "echo looked $1", "@arg n  which\n@meta effect read")
    ran = project.run(HAIKU)
    assert (ran.stop.name, fake.refused, len(fake.requests)) == ("passed", [], 10)
    for before, after in pairwise(fake.requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert (after["system"], after["tools"]) == (before["system"], before["tools"])
    assert all(list(event["data"]["content"][2]) == ["type", "payload"] for event in ran.of("model.reply")[:9])


def test_case_4_a_resume_in_another_process_sends_the_same_bytes(project: Project, serve: Any) -> None:
    fake = serve(Answer([thinks(), runs(1, "look")]), *[fails(529, "overloaded_error")] * 5, finishes(2))
    first = project.run(HAIKU)
    again = project.resume(first.folder)
    assert (again.stop.name, fake.refused) == ("passed", [])
    assert fake.raw[6] == fake.raw[5] == fake.raw[1]


def test_the_prefix_is_paid_for_once_over_forty_turns(project: Project, serve: Any) -> None:
    """Each request reads what the one before it had kept; two runs of a skill share what comes before the task."""
    project.tool("look", "seq 1 200 | sed s/^/$1:/", "@arg n  which\n@meta effect read")
    turns = [Answer([runs(n, "look", str(n))], usage=COUNTED) for n in range(40)]
    last = Answer([use(40, "finish", answer="done")], usage=COUNTED)
    fake = serve(*turns, last, last)
    ran = project.run(HAIKU, budget="turns=50 calls=50")
    assert (ran.stop.name, fake.refused) == ("passed", [])
    usage = [event["data"]["usage"] for event in ran.of("model.reply")]
    assert len(usage) == 41
    for before, after in pairwise(usage):
        assert after["cached"] == before.get("cached", 0) + before["written"]
    share = sum(used.get("cached", 0) for used in usage) / sum(used["input"] for used in usage)
    assert share > 0.9, share
    other = project.run(HAIKU, goal="another").of("model.reply")[0]["data"]["usage"]
    head = fake.requests[0]
    assert other["cached"] == sum(len(json.dumps(block)) for block in (*head["tools"], *head["system"])) // 4


def test_what_a_request_holds_and_what_it_never_holds(project: Project, serve: Any) -> None:
    fake = serve(finishes(1))
    project.run(SONNET)
    [body] = fake.requests
    assert set(body) == {"max_tokens", "messages", "model", "cache_control", "stream", "system", "thinking", "tools"}
    assert (body["max_tokens"], body["thinking"]) == (16_000, {"type": "adaptive", "display": "summarized"})
    assert body["cache_control"] == body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(body["tools"]) + str(body["messages"]) + str(body["system"][0])


def test_a_prefix_that_is_kept_for_an_hour(project: Project, serve: Any) -> None:
    project.wishes = Wishes(cache="1h")
    fake = serve(finishes(1))
    project.run(HAIKU)
    marker = {"type": "ephemeral", "ttl": "1h"}
    assert fake.requests[0]["cache_control"] == fake.requests[0]["system"][-1]["cache_control"] == marker


def test_the_effort_that_the_user_set_is_sent_and_none_is_not(project: Project, serve: Any) -> None:
    fake = serve(finishes(1), finishes(2))
    project.run(HAIKU)
    project.wishes = Wishes(effort="low")
    project.run(HAIKU)
    assert [body.get("output_config") for body in fake.requests] == [None, {"effort": "low"}]


def test_an_empty_reply_and_an_empty_text_are_never_sent_back(project: Project, serve: Any) -> None:
    fake = serve(Answer([], "end_turn"), Answer([text("done, I think")], "end_turn"))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.answer, fake.refused) == ("passed", "done, I think", [])


def test_parallel_calls_are_answered_in_call_order(project: Project, serve: Any) -> None:
    project.tool("slow", "sleep 0.2; echo slow")
    project.skill(tools="look slow")
    fake = serve(Answer([runs(1, "slow"), runs(2, "look"), use(3, "odd", x=1)]), finishes(4))
    ran = project.run(HAIKU)
    results = fake.requests[1]["messages"][-1]["content"]
    assert (ran.stop.name, fake.refused) == ("passed", [])
    assert [(block["tool_use_id"], block.get("is_error", False)) for block in results] == [
        ("toolu_1", False), ("toolu_2", False), ("toolu_3", True),
    ]  # fmt: skip


def test_many_long_calls_in_one_reply_fit_into_the_journal(project: Project, serve: Any) -> None:
    calls = [runs(n, "look", "x" * 3000) for n in range(40)]
    fake = serve(Answer(calls), Answer([runs(n + 50, "look") for n in range(400)]), finishes(999))
    ran = project.run(HAIKU)
    assert (ran.stop.name, failures(ran), fake.refused) == ("passed", ["protocol"], [])
    assert len(ran.of("model.reply")[0]["data"]["calls"]) == 40


ELSEWHERE = {"location": "http://127.0.0.1:9/", "request-id": "req_e"}
REFUSED = {
    "401": (fails(401, "authentication_error"), "error", 4, "auth"),
    "403": (fails(403, "permission_error"), "error", 4, "auth"),
    "402": (fails(402, "billing_error"), "error", 4, "account"),
    "400 on hold": (fails(400, "invalid_request_error", "organization_on_hold"), "error", 4, "account"),
    "429 spent": (fails(429, "rate_limit_error", "contract_spend_limit_reached"), "error", 4, "account"),
    "429 enforced": (fails(429, "rate_limit_error", "enforced_spend_limit_reached"), "error", 4, "account"),
    "404": (fails(404, "not_found_error"), "error", 2, "unknown_model"),
    "400": (fails(400, "invalid_request_error"), "error", 3, "bad_request"),
    "422": (fails(422, "invalid_request_error"), "error", 3, "bad_request"),
    "413": (fails(413, "request_too_large"), "budget", 6, "overflow"),
    # case 18: not followed, and the key is sent once: a second try would only show it to the same server again
    "redirect": (Answer(status=302, fault="redirect", headers=ELSEWHERE), "error", 2, "redirected"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_case_7_what_is_not_retried_ends_after_one_request(project: Project, serve: Any, name: str) -> None:
    answer, stop, code, reason = REFUSED[name]
    fake = serve(answer)
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, failures(ran), len(fake.requests)) == (stop, code, [reason], 1)
    data = ran.of("model.fail")[0]["data"]
    assert (data["status"], data.get("code"), data["request_id"]) == (answer.status, answer.code, "req_e")
    assert "req_e" in ran.end["error"] and ran.end["spent"]["nanos"] == 0
    if reason == "auth":
        assert "ANTHROPIC_API_KEY" in ran.end["error"]
    if reason == "redirected":
        assert ELSEWHERE["location"] in ran.end["error"]
    assert not [path for path in project.path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_case_7_a_key_that_comes_back_as_a_code_is_in_no_file(project: Project, serve: Any) -> None:
    for answer in (fails(400, KEY, KEY), Answer([text("hi")], fault="error", kind=KEY)):
        serve(answer, finishes(1))
        project.run(HAIKU)
    assert not [path for path in project.path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_a_code_longer_than_an_event_is_cut(project: Project, serve: Any) -> None:
    serve(fails(400, "x", "c" * 70_000))
    ran = project.run(HAIKU)
    assert (ran.stop.code, ran.of("model.fail")[0]["data"]["code"]) == (3, "c" * 500)


def test_case_7_without_a_credential_nothing_is_sent(
    project: Project, serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = serve(finishes(1))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    ran = project.run(HAIKU)
    assert (ran.stop.code, fake.requests) == (4, []) and "ANTHROPIC_API_KEY" in ran.end["error"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant\nsecond line")
    ran = project.run(HAIKU)
    assert (ran.stop.code, fake.requests) == (4, []) and "second line" not in str(ran.events)


def test_a_later_bad_name_is_an_error_of_the_run_not_of_its_start(project: Project, serve: Any) -> None:
    serve(Answer([runs(1, "look")]), fails(404, "not_found_error"))
    assert project.run(HAIKU).stop.code == 3


RETRIED = {
    "429": (fails(429, "rate_limit_error"), "rate_limited"),
    "429 ramp": (fails(429, "rate_limit_error", "ramp_limit_exceeded"), "rate_limited"),
    "529": (fails(529, "overloaded_error"), "overloaded"),
    "500": (fails(500, "api_error"), "unavailable"),
    "409": (fails(409, "conflict_error"), "unavailable"),
    "408": (fails(408, "timeout_error"), "unavailable"),
    "502 page": (Answer(status=502, fault="html"), "unavailable"),
    "wrong type": (Answer(fault="wrong type"), "protocol"),
}


@pytest.mark.parametrize("name", RETRIED)
def test_what_passes_is_retried_and_costs_nothing(project: Project, serve: Any, name: str) -> None:
    answer, reason = RETRIED[name]
    fake = serve(answer, finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, failures(ran), len(fake.requests)) == ("passed", [reason], 2)
    assert [event["data"].get("try", 1) for event in ran.of("model.start")] == [1, 2]
    assert 0.45 <= slept(project) <= 1.5  # the real milliseconds beside it count too
    if reason != "protocol":
        assert ran.end["spent"]["nanos"] == 20_000


def test_the_kind_of_a_stream_is_read_in_any_case(project: Project, serve: Any) -> None:
    serve(Answer([use(1, "finish", answer="done")], headers={"content-type": "Text/Event-Stream; charset=utf-8"}))
    ran = project.run(HAIKU)
    assert (ran.stop.name, failures(ran)) == ("passed", [])


def test_case_8_a_wait_that_is_asked_for_is_kept_and_charged_once(project: Project, serve: Any) -> None:
    fake = serve(fails(429, "rate_limit_error", retry_after="7"), finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, len(fake.requests), failures(ran)) == ("passed", 2, ["rate_limited"])
    [failed], started = ran.of("model.fail"), ran.of("model.start")
    assert failed["data"]["retry_after"] == 7
    assert at_seconds(started[1]["at"]) - at_seconds(failed["at"]) >= 7
    assert ran.end["spent"]["nanos"] == 20_000


def test_case_8_a_long_wait_is_a_park_with_its_time(project: Project, serve: Any) -> None:
    fake = serve(fails(429, "rate_limit_error", retry_after="3600"), finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, ran.stop.parked, len(fake.requests)) == ("waiting", 75, True, 1)
    assert ran.end["until"] in ran.end["hint"] and slept(project) == 0
    with pytest.raises(Exception, match="waits until"):
        project.resume(ran.folder)
    assert project.resume(ran.folder, now=True).stop.name == "passed"


def test_a_wait_can_be_given_as_a_date_in_milliseconds_or_forbidden(project: Project, serve: Any) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    serve(fails(529, "overloaded_error", retry_after=date), finishes(1))
    assert 20 < project.run(HAIKU).of("model.fail")[0]["data"]["retry_after"] <= 40
    serve(fails(529, "overloaded_error", retry_after_ms="2500"), finishes(1))
    assert project.run(HAIKU).of("model.fail")[0]["data"]["retry_after"] == 2.5
    fake = serve(fails(529, "overloaded_error", x_should_retry="false"), finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.code, len(fake.requests)) == (75, 1)


def test_an_interruption_ends_a_wait(project: Project, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = serve(fails(429, "rate_limit_error", retry_after="50"), finishes(1))

    class Interrupting(Skipping):
        def sleep(self, seconds: float) -> None:
            project.cancel.level = 1
            super().sleep(seconds)

    project.clock = Interrupting()
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, len(fake.requests)) == ("interrupted", 130, 1) and slept(project) < 1


def test_case_9_five_failures_park_and_a_resume_goes_on(project: Project, serve: Any) -> None:
    fake = serve(Answer([thinks(), runs(1, "look")]), *[fails(529, "overloaded_error")] * 5, finishes(2))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, len(fake.requests)) == ("waiting", 75, 6)
    assert 7.5 <= slept(project) <= 15 and "until" in ran.end
    again = project.resume(ran.folder)
    assert (again.stop.name, len(fake.requests), again.end["spent"]["turns"]) == ("passed", 7, 2)


def wished(*chain: StandIn) -> Wishes:
    return Wishes(stand_ins={"strong": chain})


def test_case_9_a_cheaper_model_takes_over_in_a_new_context(project: Project, serve: Any) -> None:
    project.wishes = wished(StandIn(OPUS), StandIn(HAIKU))
    away = [fails(529, "overloaded_error")] * 5
    fake = serve(Answer([thinks(), text("a plan"), runs(1, "look")]), *away, Answer([runs(2, "look")]), finishes(3))
    ran = project.run(SONNET)
    assert (ran.stop.name, fake.refused) == ("passed", [])
    body = fake.requests[6]
    assert (body["model"], [message["role"] for message in body["messages"]]) == ("claude-haiku-5-5", ["user"])
    told = str(body["messages"])
    assert "looked" in told and "unverified" in told.split("a plan")[0][-60:] and "thinking" not in told
    [context] = ran.of("context")
    assert (context["data"]["n"], context["data"]["why"], context["data"]["model"]) == (1, "model", HAIKU)
    assert context["data"]["kept"] == [1]
    started = [event["data"] for event in ran.of("model.start")]
    assert context["data"]["digest"] == next(data["body"] for data in started if data.get("context") == 1)


def test_case_9_another_model_takes_over_where_the_wait_does_not_fit(project: Project, serve: Any) -> None:
    project.wishes = wished(StandIn(HAIKU))
    fake = serve(fails(429, "rate_limit_error", retry_after="3600"), finishes(1))
    ran = project.run(SONNET)
    asked = [f"anthropic:{body['model']}" for body in fake.requests]
    assert (ran.stop.name, asked) == ("passed", [SONNET, HAIKU])


def test_case_9_what_took_over_goes_on_after_a_resume(project: Project, serve: Any) -> None:
    project.wishes = wished(StandIn(HAIKU))
    away = [fails(529, "overloaded_error")] * 5
    fake = serve(Answer([runs(1, "look")]), *away, Answer([use(2, "ask", question="which?")]), finishes(3))
    ran = project.run(SONNET)
    assert ran.stop.name == "needs-answer"
    project.say(ran.folder, "answer", text="this")
    assert (project.resume(ran.folder).stop.name, fake.refused) == ("passed", [])
    assert fake.requests[-1]["model"] == "claude-haiku-5-5"


UNPRICED = "anthropic:claude-fable-5-2"


@pytest.mark.parametrize(
    ("chain", "code"),
    [((StandIn(OPUS),), 75), ((StandIn(UNPRICED),), 75), ((StandIn(UNPRICED, True),), 75), ((StandIn(OPUS, True),), 0)],
)
def test_case_9_a_dearer_or_unpriced_model_takes_over_only_where_it_may(
    project: Project, serve: Any, chain: tuple[StandIn, ...], code: int
) -> None:
    told: list[str] = []
    project.facts["tell"] = told.append
    project.wishes = wished(*chain)
    serve(*[fails(529, "overloaded_error")] * 5, finishes(1))
    assert project.run(SONNET).stop.code == code
    assert len([line for line in told if f"{chain[0].text} does not take over: " in line]) == (code == 75)


@pytest.mark.parametrize("broken", ["local:nowhere", "openai:m@http://", "scripted:nope.yaml", "none"])
def test_a_stand_in_that_cannot_be_used_is_said_and_passed_over(project: Project, serve: Any, broken: str) -> None:
    told: list[str] = []
    project.facts["tell"] = told.append
    project.wishes = wished(StandIn(broken))
    serve(*[fails(529, "overloaded_error")] * 5)
    assert project.run(SONNET).stop == Stop("waiting", 75, parked=True)
    assert broken in told[0] and "cannot take over" in told[0]
    project.wishes = wished(StandIn(broken), StandIn(HAIKU))
    serve(*[fails(529, "overloaded_error")] * 5, finishes(1))
    assert project.run(SONNET).stop.name == "passed"


def test_no_other_model_takes_over_from_a_refusal_or_a_missing_key(project: Project, serve: Any) -> None:
    project.wishes = wished(StandIn(HAIKU))
    for answer in (fails(401, "authentication_error"), fails(400, "invalid_request_error"), Answer([], "refusal")):
        fake = serve(answer, finishes(1))
        assert project.run(SONNET).stop.code in (1, 3, 4) and len(fake.requests) == 1


def test_another_model_by_hand_begins_a_new_context(project: Project, serve: Any) -> None:
    fake = serve(Answer([thinks(), runs(1, "look")]), *[fails(529, "overloaded_error")] * 5, finishes(2))
    ran = project.run(SONNET)
    with pytest.raises(Exception, match="model: anthropic:cl"):
        project.resume(ran.folder, model=(HAIKU, "-m"))
    again = project.resume(ran.folder, model=(HAIKU, "-m"), accept=True)
    assert (again.stop.name, fake.refused, len(fake.requests[-1]["messages"])) == ("passed", [], 1)


def test_a_worker_runs_under_the_model_that_its_own_text_names(project: Project, serve: Any) -> None:
    project.skill("helper", tools="look", model="cheap")
    project.skill(tools="helper")
    project.wishes = Wishes(user={"cheap": Named(HAIKU, "config"), "strong": Named(SONNET, "config")})
    fake: FakeAnthropic = serve(Answer([runs(1, "helper", "x")]), finishes(2, "helped"), finishes(3))
    ran = project.chosen()
    assert (ran.stop.name, fake.refused) == ("passed", [])
    assert [(body["model"], body["max_tokens"]) for body in fake.requests] == [
        ("claude-sonnet-5-5", 16_000), ("claude-haiku-5-5", 4_000), ("claude-sonnet-5-5", 16_000),
    ]  # fmt: skip


def test_a_worker_that_waits_for_a_time_is_not_asked_before_it(project: Project, serve: Any) -> None:
    project.skill("helper", tools="look")
    project.skill(tools="helper")
    fake = serve(Answer([runs(1, "helper", "x")]), fails(429, "rate_limit_error", retry_after="3600"), finishes(2),
                 finishes(3))  # fmt: skip
    ran = project.run(HAIKU)
    assert (ran.stop.name, len(fake.requests)) == ("waiting", 2) and "until" in ran.end
    events = ran.child().joinpath("events.jsonl").read_bytes()
    with pytest.raises(Exception, match="waits until"):
        project.resume(ran.folder)
    assert ran.child().joinpath("events.jsonl").read_bytes() == events
    assert project.resume(ran.folder, now=True).stop.name == "passed"


def test_the_sdk_is_not_searched_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second and more after a Ctrl-C otherwise (row 11: 0.3 s)."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-ends")
    client_of(PATIENCE)
    assert gc.get_freeze_count() > len(sys.modules)
