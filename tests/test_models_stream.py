"""Replies that break, keep silent, are dropped, refused or cut off: nothing of them runs, and all of it counts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.executor import Cancel
from harness.models import Failure, Offer, Prompt, Reply, Said
from harness.models.anthropic import Anthropic, named
from harness.models.exchange import Patience
from harness.models.messages import Assembly, Malformed
from tests.fake_anthropic import Answer, fails, failures, finishes, looking_and_touching, runs, serving, text, use
from tests.loop_world import Project

HAIKU = "anthropic:claude-haiku-5-5"
RESERVED = 16_000 * 500  # nano-dollars of output at Haiku's price
GOOD = 20_000


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return looking_and_touching(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from serving(monkeypatch)


def nested(deep: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(deep):
        found = [found]
    return found


BROKEN = {
    "overloaded inside": (Answer([runs(1, "touch")], fault="error", kind="overloaded_error"), "overloaded"),
    "cut": (Answer([runs(1, "touch")], fault="cut"), "cut"),
    "no end": (Answer([runs(1, "touch")], fault="end"), "cut"),
    "no message_stop": (Answer([runs(1, "touch")], fault="end", after=-1), "cut"),
    "malformed": (Answer([runs(1, "touch")], fault="malformed"), "protocol"),
    "unknown delta": (Answer([runs(1, "touch")], fault="unknown delta", after=3), "protocol"),
    "unknown stop": (Answer([runs(1, "touch")], "tomorrow"), "protocol"),
    "one id twice": (Answer([runs(1, "touch"), runs(1, "touch")]), "protocol"),
    "NaN": (Answer([{**runs(1, "touch"), "k": math.nan}]), "protocol"),
    "infinite argument": (Answer([use(1, "run", tool="touch", args=[math.inf])]), "protocol"),
    "nested too deep": (Answer([{**text("x"), "k": nested(600)}]), "protocol"),
    "too long": (Answer([text("x" * 20 * 1024 * 1024)]), "protocol"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_case_10_nothing_of_a_broken_reply_runs_and_it_counts_as_reserved(
    project: Project, serve: Any, name: str
) -> None:
    answer, reason = BROKEN[name]
    fake = serve(answer, finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.spawned, failures(ran), len(fake.requests)) == ("passed", [], [reason], 2)
    started = ran.of("model.start")[0]["data"]
    reserved = started["estimate"] * 200 + RESERVED
    assert round(started["usd"] * 1e9) == reserved
    assert ran.end["spent"]["nanos"] == reserved + GOOD


def test_case_10_an_event_of_two_mebibytes_is_taken(project: Project, serve: Any) -> None:
    big = {"type": "tomorrow", "payload": "x" * 2 * 1024 * 1024}
    fake = serve(Answer([big, runs(1, "look")]), finishes(2))
    assert (project.run(HAIKU).stop.name, fake.refused) == ("passed", [])
    assert fake.requests[1]["messages"][1]["content"][0] == big


def test_a_number_too_large_for_any_journal_is_no_reply() -> None:
    block = '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"run"%s}}'
    with pytest.raises(Malformed):
        Assembly(print).feed(block % ',"k":1e999')
    whole = Assembly(print)
    part = {"type": "input_json_delta", "partial_json": '{"tool":"look","args":[1e999]}'}
    whole.feed(block % "")
    whole.feed(json.dumps({"type": "content_block_delta", "index": 0, "delta": part}))
    whole.feed('{"type":"content_block_stop","index":0}')
    whole.feed('{"type":"message_delta","delta":{"stop_reason":"tool_use"}}')
    with pytest.raises(Malformed):
        whole.reply(1, 1, None)


def asked() -> Prompt:
    return Prompt(("rules", "skill"), (Said(("go",)),), (Offer("look", "look", ""),))


def model(patience: Patience) -> Anthropic:
    return Anthropic(named("claude-haiku-5-5", "test"), patience=patience)


@pytest.mark.parametrize("fault", ["stall", "slow headers"])
def test_case_11_what_keeps_silent_is_a_timeout_and_its_socket_is_shut(serve: Any, fault: str) -> None:
    fake = serve(Answer([text("hel" * 50)], fault=fault, after=4))
    found = model(Patience(first=10.0 if fault == "stall" else 0.5, between=0.3))(asked(), on=lambda text: None)
    assert isinstance(found, Failure)
    assert (found.reason, found.retry, found.began) == ("timeout", True, fault == "stall")
    assert fault != "stall" or fake.left.wait(20)


@pytest.mark.parametrize("fault", ["stall", "no rest", "slow headers"])
def test_case_11_a_request_is_dropped_when_nobody_waits_for_it(serve: Any, fault: str) -> None:
    fake = serve(Answer([text("hel" * 50)], fault=fault, after=4))
    cancel = Cancel()
    heard: list[str] = []

    def on(text: str) -> None:
        heard.append(text)
        cancel.level = 1

    if fault == "slow headers":
        cancel.level = 1
    found = model(Patience())(asked(), on=on, cancel=cancel)
    assert isinstance(found, Failure) and found.reason == "cancelled"
    assert fault == "slow headers" or (len(heard) == 1 and fake.left.wait(20))


def test_case_12_a_refusal_runs_nothing_and_says_its_category(project: Project, serve: Any) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "not this"}
    fake = serve(Answer([runs(1, "touch")], "refusal", details=details), finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, ran.spawned, len(fake.requests)) == ("failed", 1, [], 1)
    assert "cyber" in ran.end["error"] and "not this" in ran.end["error"]
    assert not ran.of("model.reply") and ran.end["spent"]["nanos"] == GOOD
    [failed] = ran.of("model.fail")
    assert failed["data"]["stop_raw"] == "refusal" and failed["data"]["content"][0]["name"] == "run", "what was refused"


def test_case_12_a_paused_turn_is_sent_back_verbatim_three_times(project: Project, serve: Any) -> None:
    paused = [Answer([text(f"part {n}")], "pause_turn") for n in range(4)]
    fake = serve(*paused[:3], finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, len(fake.requests), fake.refused) == ("passed", 4, [])
    assert [m["role"] for m in fake.requests[3]["messages"]][:4] == ["user", "assistant", "assistant", "assistant"]
    fake = serve(*paused, finishes(1))
    assert (project.run(HAIKU).stop.code, len(fake.requests)) == (1, 4)


@pytest.mark.parametrize("nothing", [[], [text("")], [text(" \n")]], ids=["no block", "no text", "blanks"])
def test_a_paused_turn_that_holds_nothing_is_no_turn(project: Project, serve: Any, nothing: list[Any]) -> None:
    """The provider refuses a message without content, even where it came from there."""
    fake = serve(Answer(nothing, "pause_turn"), Answer([text("part")], "pause_turn"), finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, len(fake.requests), fake.refused) == ("passed", 3, [])
    roles = [[message["role"] for message in body["messages"]] for body in fake.requests]
    assert roles == [["user"], ["user"], ["user", "assistant"]]


def test_case_12_a_reply_that_was_cut_off_has_twice_the_room_once(project: Project, serve: Any) -> None:
    cut = Answer([runs(1, "touch")], "max_tokens")
    fake = serve(cut, finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.spawned) == ("passed", [])
    assert [body["max_tokens"] for body in fake.requests] == [16_000, 32_000]
    assert fake.requests[0]["messages"] == fake.requests[1]["messages"] and ran.end["spent"]["nanos"] == 2 * GOOD
    fake = serve(cut, cut, finishes(1))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, ran.spawned, len(fake.requests)) == ("failed", 1, [], 2)
    assert "truncated" in ran.end["error"]


def test_case_12_a_full_window_is_a_budget(project: Project, serve: Any) -> None:
    serve(Answer([runs(1, "touch")], "model_context_window_exceeded"))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.stop.code, ran.end["limit"], ran.spawned) == ("budget", 6, "context", [])


def test_a_400_to_a_prompt_that_nearly_fills_the_window_is_an_overflow(serve: Any) -> None:
    serve(fails(400, "invalid_request_error"), fails(400, "invalid_request_error"))
    found = model(Patience())(replace(asked(), estimate=900_000), on=lambda text: None)
    assert isinstance(found, Failure) and (found.reason, found.exit_code) == ("overflow", 6)
    found = model(Patience())(asked(), on=lambda text: None)
    assert isinstance(found, Failure) and found.reason == "bad_request"


def test_usage_is_what_the_provider_counts(serve: Any) -> None:
    usage = {
        "input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 500, "output_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
        "output_tokens_details": {"thinking_tokens": 3},
    }  # fmt: skip
    serve(Answer([text("hi")], "end_turn", usage=usage))
    found = model(Patience())(asked(), on=lambda text: None)
    assert isinstance(found, Reply) and found.usage is not None
    used = found.usage
    assert (used.input, used.cached, used.written, used.written_1h, used.out, used.thinking) == (540, 500, 30, 10, 7, 3)
    assert used.complete and found.served == "claude-haiku-5-5" and found.request_id == "req_1"


@pytest.mark.parametrize("count", [10**400, -1, True, "7", None], ids=lambda count: str(count)[:9])
def test_a_count_that_is_none_is_not_believed(project: Project, serve: Any, count: Any) -> None:
    """What no request can have had is charged as it was reserved, and no number is too large for the sum."""
    serve(Answer([use(1, "finish", answer="done")], usage={"input_tokens": count, "output_tokens": 20}))
    ran = project.run(HAIKU)
    assert (ran.stop.name, ran.of("model.reply")[0]["data"]["usage"]["estimated"]) == ("passed", True)
    assert ran.end["spent"]["nanos"] == round(ran.of("model.start")[0]["data"]["usd"] * 1e9)
