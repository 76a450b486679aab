"""Models that speak chat-completions, through real runs against a strict server on loopback."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
import threading
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.models import Failure, ModelRef, Opening, Reply
from harness.models.assembly import Assembly, MalformedReplyError, figures
from harness.models.endpoints import Endpoint, openai_endpoint, split_name
from harness.models.openai import OpenAI
from harness.models.resolve import open_model, resolve
from harness.models.wire import Timers
from harness.runs import session as sessions
from harness.runs.session import Options
from tests.command import ROOT
from tests.fake_openai import FakeOpenAI, Play, call
from tests.loop_world import Project, Ran, Skipping
from tests.prompt_events import Tape
from tests.skill_files import catalog_of


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "state" / "harness" / "models.json"


@pytest.fixture
def served() -> Iterator[Any]:
    with ExitStack() as stack:
        def serve(*plays: Play, **how: Any) -> FakeOpenAI:
            return stack.enter_context(FakeOpenAI(plays, **how).serving())
        yield serve


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.clock = Skipping()
    made.tool("look", "echo looked $1", "@meta effect read\n@arg what")
    made.tool("count", "echo 42")
    made.skill(tools="look count")
    return made


def drive(project: Project, fake: FakeOpenAI, scheme: str = "openai", **more: Any) -> Ran:
    return project.run(f"{scheme}:m@{fake.base}", **more)


LOOK = call("run", tool="look", args=["here"])
COUNT = call("run", tool="count", args=[])
DONE = call("finish", answer="it is 42")


def test_calls_results_and_answer(project: Project, served: Any) -> None:
    fake = served(Play("I look.", [LOOK, COUNT]), Play("", [DONE]))
    ran = drive(project, fake)
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")
    first, second = fake.chats
    assert second["messages"][: len(first["messages"])] == first["messages"]
    said, *results = second["messages"][len(first["messages"]) :]
    assert (said["role"], said["content"], len(said["tool_calls"])) == ("assistant", "I look.", 2)
    assert [r["tool_call_id"] for r in results] == [c["id"] for c in said["tool_calls"]]
    assert "looked here" in results[0]["content"]
    assert "42" in results[1]["content"]
    assert first["tools"] == second["tools"]
    assert "tool_choice" not in first
    assert first["max_tokens"] == 16_000
    reply = ran.of("model.reply")[0]["data"]
    assert (reply["dialect"], reply["cost"], reply["usage"]["out"], reply["usage"]["cached"]) == ("openai", 0, 7, 3)
    assert ran.of("model.start")[0]["data"]["mode"] == "tools"


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_a_stream_may_be_cut_anywhere(project: Project, served: Any, chunk: int) -> None:
    fake = served(Play("Grüße ✓", [LOOK], chunk=chunk), Play("", [DONE], chunk=chunk))
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    assert ran.of("model.reply")[0]["data"]["content"][0]["content"] == "Grüße ✓"


def test_line_ends_of_every_kind_and_events_of_several_lines(project: Project, served: Any) -> None:
    message = {"choices": [{"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}]}
    head, tail = json.dumps(message).split(", ", 1)
    for end in ("\n", "\r\n", "\r"):
        for chunk in (1, 2, 1000):
            raw = f": ping{end}{end}event: x{end}data: {head},{end}data:{tail}{end}{end}data: [DONE]{end}{end}"
            ran = drive(project, served(Play(raw=raw.encode(), chunk=chunk)))
            assert (ran.stop.name, ran.answer) == ("passed", "fine"), (end, chunk)


@pytest.mark.parametrize("chunk", [1, 2, 5, 1000])
def test_a_mark_of_utf_8_at_the_start_hides_nothing(project: Project, served: Any, chunk: int) -> None:
    first = b'data: {"choices":[{"delta":{"content":"it is "}}]}\n\n'
    last = b'data: {"choices":[{"delta":{"content":"42"},"finish_reason":"stop"}]}\n\n'
    one = b'{"choices":[{"message":{"content":"it is 42"},"finish_reason":"stop"}]}'
    for raw in (first + last, one):
        assert drive(project, served(Play(raw=BOM_UTF8 + raw, chunk=chunk))).answer == "it is 42"


@pytest.mark.parametrize("status", [201, 206])
def test_any_status_of_success_brings_a_reply(project: Project, served: Any, status: int) -> None:
    ran = drive(project, served(Play("", [LOOK], status=status), Play("it is 42", status=status, whole=True)))
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")


def test_a_letter_cut_in_two_is_joined_and_half_a_one_is_none(project: Project, served: Any) -> None:
    said = [{"choices": [{"delta": {"content": piece}}]} for piece in ("a\ud83d", "\ude42b\ud83d", "c")]
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    raw = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in (*said, last)).encode()
    assert drive(project, served(Play(raw=raw))).answer == "a🙂b\ufffdc"


@pytest.mark.parametrize("odd", [{"index": 0.0}, {"index": "0"}, {"function": None}])
def test_a_part_of_a_call_that_is_oddly_written_counts(project: Project, served: Any, odd: dict[str, Any]) -> None:
    made = {"index": 0, "id": "a", "type": "function", "function": {"name": LOOK[0], "arguments": json.dumps(LOOK[1])}}
    deltas = [{"tool_calls": [{**made, **odd}]}]
    if odd.get("function", made) is None:
        deltas.append({"tool_calls": [{"index": 0, "function": made["function"]}]})
    ran = drive(project, served(Play(deltas=deltas, finish="tool_calls"), Play("", [DONE])))
    assert (ran.stop.name, ran.spawned) == ("passed", ["look"])


@pytest.mark.parametrize("index", [-1, 0.5, "x", [0]])
def test_an_index_that_is_none_is_refused(index: Any) -> None:
    with pytest.raises(MalformedReplyError):
        Assembly(print).chunk({"choices": [{"delta": {"tool_calls": [{"index": index, "function": {"name": "run"}}]}}]})


def test_a_last_event_needs_no_empty_line(project: Project, served: Any) -> None:
    raw = b'data: {"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}'
    assert drive(project, served(Play(raw=raw))).answer == "fine"


def test_deltas_out_of_index_order(project: Project, served: Any) -> None:
    """Case 18: id and name come once, arguments in pieces, the second call first."""
    def part(index: int, text: str, **more: Any) -> dict[str, Any]:
        name = {"name": more.pop("name")} if "name" in more else {}
        return {"tool_calls": [{"index": index, **more, "function": {**name, "arguments": text}}]}

    deltas = [
        part(1, "", id="b", type="function", name="run"), part(0, '{"tool": "lo', id="a", name="run"),
        part(1, '{"tool": "count", '), part(0, 'ok", "args": ["here"]}'), part(1, '"args": []}'),
    ]  # fmt: skip
    fake = served(Play(deltas=deltas, finish="tool_calls"), Play("", [DONE]))
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    calls = ran.of("model.reply")[0]["data"]["calls"]
    assert [(c["id"], c["arguments"]["tool"]) for c in calls] == [("a", "look"), ("b", "count")]


def test_ids_that_are_missing_or_repeated_are_renamed(project: Project, served: Any) -> None:
    fake = served(Play("", [LOOK, COUNT], ids=["x", None]), Play("", [LOOK, COUNT], ids=["x", "y"], whole=True),
                  Play("", [DONE], ids=[""]))  # fmt: skip
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    ids = [[c["id"] for c in e["data"]["calls"]] for e in ran.of("model.reply")]
    assert ids == [["x", "call_1_2"], ["call_2_1", "y"], ["call_3_1"]]


def test_parallel_calls_under_one_index(project: Project, served: Any) -> None:
    deltas = [{"tool_calls": [{"index": 0, "id": n, "function": {"name": v, "arguments": json.dumps(a)}}]}
              for n, (v, a) in (("a", LOOK), ("b", COUNT))]  # fmt: skip
    ran = drive(project, served(Play(deltas=deltas, finish="stop"), Play("", [DONE])))
    assert [c["arguments"]["tool"] for c in ran.of("model.reply")[0]["data"]["calls"]] == ["look", "count"]
    assert ran.stop.name == "passed"


@pytest.mark.parametrize("given", ["{not json", "[1]", '"text"', "", "{" * 5000,
                                   '{"tool": "look", "args": [NaN]}', '{"tool": "look", "args": [1e999]}'])  # fmt: skip
def test_arguments_that_are_no_object(project: Project, served: Any, given: str) -> None:
    """The model hears what is wrong, and the server is not sent back what it would refuse."""
    fake = served(Play("", [("run", given)]), Play("", [DONE]))
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    assert "INVALID_INPUT" in fake.chats[1]["messages"][-1]["content"]
    kept = ran.of("model.reply")[0]["data"]["content"][0]["tool_calls"][0]["function"]["arguments"]
    assert kept == given


def test_reasoning_is_kept_and_not_sent_back_what_a_call_carries_is(project: Project, served: Any) -> None:
    signed = {"index": 0, "id": "a", "extra": {"signature": "s"}, "function": {"name": "run",
              "arguments": json.dumps(LOOK[1])}}  # fmt: skip
    deltas = [{"reasoning_content": "I th"}, {"reasoning_content": "ink"}, {"tool_calls": [signed]}]
    fake = served(Play(deltas=deltas, finish="tool_calls"), Play("", [DONE]))
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    assert ran.of("model.reply")[0]["data"]["content"][0]["reasoning_content"] == "I think"
    said = next(m for m in fake.chats[1]["messages"] if m["role"] == "assistant")
    assert said["tool_calls"][0]["extra"] == {"signature": "s"}
    assert "reasoning_content" not in said


def test_a_server_without_tools_is_asked_in_json_and_that_is_remembered(
    project: Project, served: Any, own_state: Path
) -> None:
    """Case 18."""
    fake = served(Play("", [LOOK]), Play("", [DONE]), Play("", [DONE]), kind="no-tools")
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    refused, first, second = fake.chats
    assert "tools" in refused
    assert "tools" not in first
    branches = first["response_format"]["json_schema"]["schema"]["anyOf"]
    run = next(b for b in branches if b["properties"]["name"]["enum"] == ["run"])
    assert run["properties"]["arguments"]["properties"]["tool"]["enum"] == ["look", "count"]
    assert second["messages"][-1]["role"] == "user"
    assert "looked here" in second["messages"][-1]["content"]
    assert [e["data"]["dialect"] for e in ran.of("model.reply")] == ["json", "json"]
    assert [e["data"].get("mode") for e in ran.of("model.start")] == ["tools", "json"]
    assert json.loads(own_state.read_text())[fake.base]["m"]["mode"] == "json"
    again = drive(project, fake)
    assert again.stop.name == "passed"
    assert len(fake.chats) == 4
    assert again.of("model.start")[0]["data"]["mode"] == "json"


def test_a_question_without_tools_says_nothing_about_tools(project: Project, served: Any, own_state: Path) -> None:
    """What a server took without tools is no proof of how it takes them."""
    fake = served(Play("yes"), Play("", [LOOK]), Play("", [DONE]), kind="no-tools")
    model = open_model(resolve(f"openai:m@{fake.base}", source="-m"), Opening(project.path, None))
    assert isinstance(model(replace(Tape().prompt(), verbs=False), on=lambda _: None), Reply)
    assert not own_state.exists()
    assert drive(project, fake).stop.name == "passed"
    assert json.loads(own_state.read_text())[fake.base]["m"]["mode"] == "json"


def test_what_was_remembered_a_week_ago_is_asked_anew(project: Project, served: Any, own_state: Path) -> None:
    fake = served(Play("fine"), Play("fine"))
    own_state.parent.mkdir(parents=True)
    for at, mode in ((time.time() - 8 * 86_400, "tools"), (time.time() - 6 * 86_400, "text")):
        own_state.write_text(json.dumps({fake.base: {"m": {"mode": "text", "at": at}}}))
        assert drive(project, fake).of("model.start")[0]["data"]["mode"] == mode


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', "null", '{"B": {"m": {"mode": "odd", "at": 1}}}'])
def test_a_damaged_memory_is_no_memory(project: Project, served: Any, own_state: Path, text: str) -> None:
    fake = served(Play("fine"))
    own_state.parent.mkdir(parents=True)
    own_state.write_text(text.replace("B", fake.base))
    assert drive(project, fake).stop.name == "passed"
    assert json.loads(own_state.read_text())[fake.base]["m"]["mode"] == "tools"


def test_a_server_that_takes_neither_tools_nor_a_schema(project: Project, served: Any) -> None:
    fake = served(Play(status=501), Play(status=422), Play(raw=_stream('Now:\n```json\n{"name": "run", "arguments": '
                  '{"tool": "look", "args": ["x"]}}\n```\nthat is all')), Play(raw=_stream("it is 42")))  # fmt: skip
    ran = drive(project, fake)
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")
    assert [e["data"]["dialect"] for e in ran.of("model.reply")] == ["text", "text"]
    assert "tools" not in fake.chats[2]
    assert "response_format" not in fake.chats[2]
    assert '{"name": VERB, "arguments"' in fake.chats[2]["messages"][0]["content"]


def _stream(text: str) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


def test_a_server_that_does_not_count_streams(project: Project, served: Any) -> None:
    fake = served(Play("", [LOOK]), Play("", [DONE]), counts=False)
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    assert ["stream_options" in body for body in fake.chats] == [True, False, False]
    assert all("tools" in body for body in fake.chats)
    assert all(e["data"]["usage"]["estimated"] for e in ran.of("model.reply"))


@pytest.mark.parametrize("form", ['{"name": "run", "arguments": %s}', '{"verb": "run", "args": %s}',
                                  '```json\n{"name": "run", "parameters": %s}\n```', '{"run": %s}',
                                  '<tool_call>\n{"name": "run", "arguments": %s}\n</tool_call>',
                                  '{"type": "function", "function": {"name": "run", "arguments": %s}}'])  # fmt: skip
def test_a_call_as_plain_text_counts(project: Project, served: Any, form: str) -> None:
    """Case 18. The server is never sent a result for a call that it did not make."""
    fake = served(Play(form % json.dumps(LOOK[1])), Play("", [DONE]))
    ran = drive(project, fake)
    assert (ran.stop.name, ran.spawned) == ("passed", ["look"])
    reply = ran.of("model.reply")[0]["data"]
    assert (reply["calls_from"], reply["calls"][0]["id"]) == ("text", "call_1_1")
    assert [m["role"] for m in fake.chats[1]["messages"][-2:]] == ["assistant", "user"]


def test_calls_as_plain_text_twice_lead_to_json(project: Project, served: Any) -> None:
    fake = served(Play("", [LOOK]), Play("", [COUNT]), Play("", [DONE]), kind="text-calls")
    ran = drive(project, fake)
    assert ran.stop.name == "passed"
    assert ["tools" in body for body in fake.chats] == [True, True, False]
    assert "response_format" in fake.chats[2]


def test_text_that_only_speaks_of_a_call_is_an_answer(project: Project, served: Any) -> None:
    for text in ('You could {"name": "run", "arguments": {"tool": "look", "args": []}}', '{"name": "Bo", "input": {}}'):
        ran = drive(project, served(Play(text)))
        assert (ran.answer, ran.spawned) == (text, [])


def test_a_reply_in_one_piece(project: Project, served: Any) -> None:
    ran = drive(project, served(Play("", [LOOK], whole=True), Play("it is 42", whole=True)))
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")


def test_words_longer_than_an_event_are_cut(project: Project, served: Any) -> None:
    """The name that a server calls a model by, and the reason it gives for its end."""
    one = {"choices": [{"message": {"content": "it is 42"}, "finish_reason": "stop"}], "model": "m" * 70_000}
    fake = served(Play("", [LOOK], finish="x" * 70_000), Play(raw=json.dumps(one).encode()))
    ran = drive(project, fake)
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")
    assert len(ran.of("model.reply")[0]["data"]["stop_raw"]) == len(ran.of("model.reply")[1]["data"]["served"]) == 500


def test_a_server_that_counts_nothing(project: Project, served: Any) -> None:
    """Case 18."""
    ran = drive(project, served(Play("", [LOOK]), Play("", [DONE]), kind="no-usage"))
    usage = ran.of("model.reply")[0]["data"]["usage"]
    assert usage["estimated"] is True
    assert usage["input"] > 100
    assert usage["out"] > 5


PART = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
CUT_PROMPT = (
    b'data: {"system_fingerprint":"fp_ollama","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":900}}\n\n'
)


@pytest.mark.parametrize(
    ("play", "reason", "code"),
    [
        (Play(status=401), "auth", 4), (Play(status=402), "account", 4),
        (Play(status=429, finish="insufficient_quota"), "account", 4),
        (Play(status=404, finish="model_not_found"), "unknown_model", 2),
        (Play(status=413), "overflow", 6), (Play(status=400, finish="context_length_exceeded"), "overflow", 6),
        (Play(status=429), "rate_limited", 75), (Play(status=500), "unavailable", 75),
        (Play(raw=b"<html>busy</html>"), "unavailable", 75), (Play(raw=b"data: {broken\n\n"), "protocol", 75),
        (Play(raw=b"data: [1]\n\n"), "protocol", 75), (Play(raw=b'data: {"choices": 3}\n\n'), "protocol", 75),
        (Play(raw=b'data: {"error": {"message": "worker died"}}\n\n'), "unavailable", 75),
        (Play(raw=b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'), "cut", 75),
        (Play(raw=b'data: {"choices":[{"finish_reason":"stop"}]}\n\n', cut=True), "cut", 75),
        (Play(raw=b""), "cut", 75), (Play("x", finish="odd"), "protocol", 75),
        (Play("x", finish="length"), "length", 1), (Play("no", finish="content_filter"), "refusal", 1),
        (Play(deltas=[{"refusal": "I will not"}], finish="stop"), "refusal", 1),
        (Play(raw=b"data: " + b"[" * 100_000 + b"\n\n"), "protocol", 75),
        (Play(deltas=[{"content": "hi", "score": math.nan}], finish="stop"), "protocol", 75),
        (Play(raw=b'{"choices":[{"message":{"content":"a","k":1e999},"finish_reason":"stop"}]}'), "protocol", 75),
    ],
)  # fmt: skip
def test_failures_by_reason(project: Project, served: Any, play: Play, reason: str, code: int) -> None:
    ran = drive(project, served(*[play] * 9))
    failed = ran.of("model.fail")[-1]["data"]
    assert (failed["reason"], ran.stop.code, ran.of("model.reply")) == (reason, code, [])


def test_a_refusal_is_told_with_what_the_provider_calls_it(project: Project, served: Any) -> None:
    play = Play(status=404, finish="model_not_found", headers={"x-request-id": "req-7"})
    ran = drive(project, served(play))
    failed = ran.of("model.fail")[-1]["data"]
    assert (failed["status"], failed["code"], failed["request_id"]) == (404, "model_not_found", "req-7")
    assert ran.end["error"].endswith(" (request req-7)") and ran.end["error"].count("req-7") == 1


def test_a_wait_that_is_asked_for_is_kept(project: Project, served: Any) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    plays = [Play(status=429, headers={"retry-after": said}) for said in ("7", date)]
    ran = drive(project, served(*plays, *[Play("done")] * 2))
    first, second = (event["data"]["retry_after"] for event in ran.of("model.fail"))
    assert ran.stop.name == "passed" and first == 7 and 20 < second <= 40


@pytest.mark.parametrize(
    ("play", "reason", "cost"),
    [
        (Play(raw=PART + b'data: {"error": {"type": "overloaded_error"}}\n\n'), "overloaded", "reserved"),
        (Play(raw=PART + b'data: {"error": {"message": "x", "code": 503}}\n\n'), "unavailable", "reserved"),
        (Play(raw=PART, cut=True), "cut", "reserved"), (Play(closed=True), "cut", "reserved"),
        (Play(status=503), "unavailable", None), (Play(raw=b'{"error": {"message": "busy"}}'), "unavailable", None),
        (Play(raw=CUT_PROMPT), "prompt_cut", 905e-6),
    ],
)  # fmt: skip
def test_what_a_request_costs_that_brought_no_reply(
    project: Project, served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, play: Play, reason: str, cost: Any
) -> None:
    """A stream that broke after its first byte: what was reserved; what was counted: its count; a refusal: nothing."""
    fake = served(play, Play("fine"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/harness").mkdir(parents=True)
    (tmp_path / "config/harness/prices.yaml").write_text(f"models: {{'openai:m@{fake.base}': {{in: 1, out: 1}}}}\n")
    ran = drive(project, fake)
    failed, started = ran.of("model.fail")[0]["data"], ran.of("model.start")[0]["data"]
    assert (failed["reason"], failed.get("cost")) == (reason, started["usd"] if cost == "reserved" else cost)


class Once(str):
    """A piece that must not be copied together with all that came before it: of a hundred thousand that takes hours."""

    def __radd__(self, before: str) -> str:
        raise AssertionError(f"added to {before!r}")


def test_a_reply_in_the_smallest_pieces_is_put_together_once() -> None:
    whole = Assembly(lambda text: None)
    for n in range(2_000):
        called = [{"index": 0, "function": {"arguments": Once("y")}}, {"index": n, "id": f"i{n}", "function": {}}]
        whole.chunk({"choices": [{"delta": {"content": Once("x"), "tool_calls": called}}]})
    assert (whole.message["content"], len(whole.calls())) == ("x" * 2_000, 2_000)
    assert whole.calls()[0]["function"]["arguments"] == "y" * 2_000


def test_nothing_of_a_cut_off_call_runs(project: Project, served: Any) -> None:
    fake = served(*[Play("", [("run", '{"tool": "look", "args": ["he')], finish="length")] * 9)
    ran = drive(project, fake)
    assert (ran.spawned, ran.of("model.fail")[-1]["data"]["reason"]) == ([], "length")


def test_calls_win_over_the_reason_to_stop_but_not_over_a_refusal(project: Project, served: Any) -> None:
    assert drive(project, served(Play("", [LOOK], finish="stop"), Play("", [DONE]))).spawned == ["look"]
    assert drive(project, served(*[Play("", [LOOK], finish="content_filter")] * 9)).spawned == []


def test_a_reply_without_end_is_not_read_on(project: Project, served: Any) -> None:
    raw = _stream("x" * (20 << 20))
    ran = drive(project, served(*[Play(raw=raw)] * 9))
    assert (ran.of("model.fail")[-1]["data"]["reason"], ran.stop.code) == ("protocol", 75)


def test_an_event_of_two_mebibytes(project: Project, served: Any) -> None:
    ran = drive(project, served(Play(raw=_stream("x" * (2 << 20)), chunk=10_000)))
    assert (ran.stop.name, len(ran.answer)) == ("passed", 2 << 20)


def test_loopback_uses_no_proxy(project: Project, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 18."""
    proxy = served(Play(status=500))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.base.removesuffix("/v1"))
    fake = served(Play("fine"))
    assert drive(project, fake).stop.name == "passed"
    assert proxy.requests == []


def test_no_redirect_is_followed(project: Project, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 18."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-you-1234")
    other = served(Play("fine"))
    fake = served(Play(status=302, headers={"location": f"{other.base}/chat/completions"}))
    ran = drive(project, fake)
    assert (ran.of("model.fail")[0]["data"]["reason"], ran.stop.code) == ("redirected", 2)
    assert len(fake.requests) == 1
    assert other.requests == []
    assert "authorization" not in fake.requests[0][1]


def test_a_silent_server_runs_out_of_time(project: Project, served: Any, own_state: Path) -> None:
    """Before the first byte, and in the middle."""
    for play in (Play(stall_head=60.0), Play(raw=b": hello\n\n", stall_body=60.0, silent=True)):
        fake = served(play)
        model = OpenAI(Endpoint(fake.base, "m"), ref=ModelRef("openai", "m"), file=own_state,
                       timers=Timers(first=0.2, between=0.2))  # fmt: skip
        got = model(Tape().prompt(), on=lambda _: None)
        assert isinstance(got, Failure)
        assert (got.reason, got.retry) == ("timeout", True)


def test_a_person_who_stops_the_run_drops_the_request(project: Project, served: Any) -> None:
    """The connection is shut, in slow headers as in a stall, so that no thread stays behind."""
    for play in (Play(stall_head=60.0), Play("half a", stall_body=60.0, raw=b": hello\n\n")):
        fake = served(play)
        project.cancel.level = 0
        threading.Thread(target=_stop_once_asked, args=(project, fake), daemon=True).start()
        ran = drive(project, fake)
        assert ran.of("model.fail")[0]["data"]["reason"] == "cancelled"
        assert ran.stop.code == 130
        assert wait_for(lambda: not [t for t in threading.enumerate() if t.name == "model request"])
        assert play.stall_head or fake.gone.wait(60)


def _stop_once_asked(project: Project, fake: FakeOpenAI) -> None:
    wait_for(lambda: bool(fake.chats))
    project.cancel.level = 1


def wait_for(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while not done() and time.monotonic() < until:
        time.sleep(0.01)
    return done()


def test_the_end_of_the_runs_time_drops_the_request(project: Project, served: Any) -> None:
    ran = drive(project, served(Play(stall_head=60.0)), budget="seconds=1")
    assert ran.stop.code == 124


def test_nobody_listens(project: Project, tmp_path: Path) -> None:
    fake = FakeOpenAI([])
    with fake.serving():
        pass
    ran = drive(project, fake)
    assert (ran.of("model.fail")[-1]["data"]["reason"], ran.stop.code) == ("unavailable", 75)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("openai:", "names no model"), ("openai:@http://h/v1", "names no model"), ("ollama", "names no model"),
        ("openai:m@http://", "no base URL"), ("openai:m@http://h:x/v1", "no base URL"),
        ("openai:m@http://h h/v1", "no base URL"), ("openai:m@https://k:secret@h/v1", "neither user nor password"),
        ("openai:m@https://h/v1?key=k", "neither user nor password"), ("opnai:m", "nearest: openai:m"),
        ("openai:m@ftp://y/v1", "no base URL"),
        ("openai:m@https://k:secret@h:x/v1", "neither user nor password"),
    ],
)  # fmt: skip
def test_strings_that_name_no_model(text: str, message: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(message)) as error:
        resolve(text, source="-m", skill=None)
    assert error.value.exit_code == 2
    assert "secret" not in str(error.value)


def test_names_and_bases() -> None:
    assert split_name("gpt@http") == ("gpt@http", None)
    assert split_name("a@b@http://h:1/v1/") == ("a@b", "http://h:1/v1")
    assert split_name("org/m:7b@https://x@http://h") == ("org/m:7b@https://x", "http://h")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("m", "sk-1"), ("m@https://api.openai.com/v1", "sk-1"), ("m@https://api.openai.com/v1/", "sk-1"),
        ("m@http://api.openai.com/v1", None), ("m@https://api.openai.com.evil.org/v1", None),
        ("m@https://api.openai.com/v2", None), ("m@http://127.0.0.1:1/v1", None),
    ],
)  # fmt: skip
def test_the_key_goes_to_openai_alone(name: str, key: str | None) -> None:
    """Case 2."""
    assert openai_endpoint(name, {"OPENAI_API_KEY": " sk-1\n"}).key == key


def test_without_a_key_openai_itself_is_not_asked(project: Project) -> None:
    ran = project.run("openai:m", budget="usd=none")
    assert (ran.stop.code, ran.of("model.fail")[0]["data"]["reason"]) == (4, "auth")
    assert "OPENAI_API_KEY" in ran.of("model.fail")[0]["data"]["message"]


def test_off_loopback_the_price_is_unknown(project: Project, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy of the environment is used there; it stands for the server."""
    proxy = served(Play("fine"))
    monkeypatch.setenv("HTTP_PROXY", proxy.base.removesuffix("/v1"))
    ran = project.run("openai:m@http://model.example/v1", budget="usd=none")
    assert ran.stop.name == "passed"
    assert ran.of("model.reply")[0]["data"]["cost"] is None


def test_an_echoed_key_is_in_no_file(served: Any, own_state: Path) -> None:
    fake = served(Play("Incorrect API key provided: sk-secret-123", status=401))
    got = OpenAI(Endpoint(fake.base, "m", "sk-secret-123"), ref=ModelRef("openai", "m"), file=own_state)(
        Tape().prompt(), on=lambda _: None
    )
    assert isinstance(got, Failure)
    assert got.message == "HTTP 401: Incorrect API key provided: [key]"
    assert fake.requests[0][1]["authorization"] == "Bearer sk-secret-123"


def test_a_resumed_run_goes_on_in_the_same_conversation(project: Project, served: Any) -> None:
    fake = served(Play("", [LOOK]), Play(status=500), Play("", [DONE]))
    ran = drive(project, fake)
    if ran.stop.code == 75:
        ran = project.resume(ran.folder)
    assert ran.stop.name == "passed"
    first, *_, last = fake.chats
    assert last["messages"][: len(first["messages"])] == first["messages"]


@pytest.mark.parametrize("kind", ["openai", "no-tools"])
def test_a_run_that_began_with_another_model(project: Project, served: Any, kind: str) -> None:
    """What a script said is told in this provider's words, in both modes."""
    away = {"fail": {"reason": "unavailable", "retry_after": 0}, "repeat": 9}
    ran = project.run([{"text": "I look.", "calls": [{"run": ["look", "here"]}]}, away])
    assert ran.stop.code == 75
    fake = served(Play("", [DONE]), kind=kind)
    options = Options((f"openai:m@{fake.base}", "-m"), accept_changes=True)
    again = project._drive(sessions.resume(project.world(), catalog_of(project.path), ran.folder, None, options))
    assert again.stop.name == "passed"
    assert "looked here" in json.dumps(fake.chats[-1]["messages"])


def test_only_a_run_that_speaks_over_http_loads_it(tmp_path: Path, served: Any, project: Project) -> None:
    """Case 22."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom tests.loop_world import Project\n"
        "ran = Project(Path(sys.argv[1])).run(sys.argv[2], budget='usd=none')\n"
        "print(ran.stop.name, [n for n in ('anthropic', 'openai', 'httpx2', 'xllamacpp') if n in sys.modules])"
    )
    said = f"cat > /dev/null; echo '{json.dumps({'text': 'fine', 'calls': [], 'stop': 'end'})}'"
    models = {
        f"openai:m@{served(Play('fine')).base}": "['httpx2']",
        project.script([{"text": "fine"}]): "[]",
        f"exec:sh -c {shlex.quote(said)}": "[]",
    }
    for model, loaded in models.items():
        done = subprocess.run([sys.executable, "-c", program, str(project.path), model], cwd=ROOT, capture_output=True,
                              text=True, check=True)  # fmt: skip
        assert done.stdout == f"passed {loaded}\n", model


SHARES = [(500_000, 7, (500, 0)), (400, 700, (400, 100)), (3, 4, (3, 4))]


@pytest.mark.parametrize(("cached", "written", "told"), SHARES)
def test_cached_and_written_tokens_are_a_part_of_the_input(cached: int, written: int, told: tuple[int, int]) -> None:
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    usage = figures({"prompt_tokens": 500, "completion_tokens": 9, "prompt_tokens_details": details}, 1, 1)
    assert (usage.input, usage.cached, usage.written) == (500, *told)
