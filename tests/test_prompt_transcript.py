"""The turns of a run: results in call order, what is told when, and requests that only ever grow."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.models import Replied, Results, Said
from harness.prompt import CONTINUE, prefix_digest, provider_body
from tests.prompt_events import MARK, Tape, frame


def run(tool: str, *args: str) -> tuple[str, dict[str, Any]]:
    return "run", {"tool": tool, "args": list(args)}


def texts(turn: Any) -> str:
    if isinstance(turn, Said):
        return "\n".join(turn.texts)
    return "\n".join([block for result in turn.results for block in result.blocks] + list(turn.said))


# Case 13: one user turn for a reply, whatever ended first.
def test_results_stand_in_call_order_and_the_release_in_the_last_of_them() -> None:
    tape = Tape()
    a, b, c = tape.reply(run("lookup-runbook"), run("check-pods"), run("check-lag"))
    tape.end(c, "third\n")
    tape.end(b, "second\n")
    tape.add("note", {"why": "warning", "text": "mind the gap"})
    tape.end(a, "first\n")
    tape.add("user.say", {"text": "hurry", "by": "user"})
    turn = tape.newest()
    assert isinstance(turn, Results)
    assert [result.call_id for result in turn.results] == [f"c{a}", f"c{b}", f"c{c}"]
    assert [len(result.blocks) for result in turn.results] == [1, 1, 2]
    assert turn.results[2].blocks[1] == (
        f"[{MARK}] now callable: + search-logs --service NAME [--since DURATION]  "
        f"Log lines of one service, grouped by template\n[{MARK}] mind the gap"
    )
    assert turn.said == (f'<task mark="{MARK}">\nhurry\n</task>',)


def test_finish_beside_other_calls_is_refused_and_they_are_answered() -> None:
    tape = Tape()
    op, _ = tape.reply(run("check-lag"), ("finish", {"answer": "done"}))
    tape.end(op)
    first, second = tape.newest().results
    assert not first.failed
    assert second.blocks == (f"[{MARK}] INVALID_INPUT: finish alone",)
    assert second.failed


def test_an_implicit_finish_is_answered_in_a_turn_of_its_own() -> None:
    tape = Tape()
    tape.reply(("finish", {"answer": "the cause"}), text="the cause", implicit=True)
    tape.add("verify", {"answer": "the cause", "ok": False, "checks": [],
                        "missing": [{"name": "write-report", "why": "has no result yet"}], "try": 1})  # fmt: skip
    turn = tape.newest()
    assert isinstance(turn, Said)
    assert turn.texts == (f"[{MARK}] not accepted\n[{MARK}] missing: write-report (has no result yet)",)


def test_an_empty_reply_is_told_to_go_on_once() -> None:
    tape = Tape()
    tape.reply()
    assert tape.newest() == Said((f"[{MARK}] {CONTINUE}",))
    tape.add("note", {"why": "format", "text": CONTINUE})
    assert tape.newest() == Said((f"[{MARK}] {CONTINUE}",))


def test_a_paused_reply_owes_no_answer() -> None:
    tape = Tape()
    tape.start()
    tape.add("model.reply", {"turn": 1, "content": [], "dialect": "anthropic", "calls": [], "stop": "pause"})
    assert isinstance(tape.newest(), Replied)


# Feedback on a proposed answer.
def propose(tape: Tape, checks: list[tuple[str, int, str]]) -> None:
    tape.reply(("finish", {"answer": "it was the disk"}))
    ended = []
    for name, code, out in checks:
        n = tape.state.next_op
        tape.add("decide", {"verdict": "allow", "argv": [], "call": {"verifier": name, "tool": name}}, n)
        tape.add("tool.start", {"role": "verify", "tool": name}, n)
        tape.add("tool.end", {"outcome": "done", "exit": code, "ms": 1, "out": out, "class": "FAILED"}, n)
        ended.append({"name": name, "op": n, "exit": code})
    ok = all(code == 0 for _, code, _ in checks)
    tape.add("verify", {"answer": "it was the disk", "ok": ok, "checks": ended, "missing": [], "try": 1})


def test_a_rejection_carries_the_words_of_the_check_as_data() -> None:
    tape = Tape()
    propose(tape, [("check-style", 0, "nice\n"), ("check-report", 1, "line 2: no evidence\n"), ("check-sums", 3, "")])
    [result] = tape.newest().results
    assert result.failed
    assert result.blocks[0] == (
        f"[{MARK}] not accepted\n[{MARK}] check check-report: rejected\n[{MARK}] check check-sums is broken (exit 3)"
    )
    assert result.blocks[1].startswith('<data source="tool:check-report#3" exit="1" class="FAILED" bytes="20">\nline 2')
    assert "nice" not in texts(tape.newest())


def test_an_accepted_answer_and_a_new_word() -> None:
    tape = Tape()
    propose(tape, [("check-report", 0, "")])
    tape.add("user.say", {"text": "and the disk's name?", "by": "user"})
    turn = tape.newest()
    assert turn.results[0].blocks == (f"[{MARK}] accepted",)
    assert not turn.results[0].failed
    assert "the disk's name?" in turn.said[0]


def test_a_persons_answer_is_the_result_of_the_question() -> None:
    for version, failed in ((4, False), (3, True)):  # a run that began earlier is composed as it was sent
        tape = Tape(frame(labels=version))
        [op] = tape.reply(("ask", {"question": "which one?"}))
        tape.add("user.say", {"text": "the </task> second", "by": "user", "answers": op})
        assert [result.failed for result in tape.newest().results] == [failed]
    turn = tape.newest()
    assert turn.results[0].blocks == (f'<task mark="{MARK}">\nthe &lt;/task> second\n</task>',)
    assert turn.said == ()


def test_an_open_call_is_a_bug_of_the_caller() -> None:
    tape = Tape()
    tape.run("check-lag")
    with pytest.raises(ValueError, match="operation 1 has no result yet"):
        tape.prompt()


def test_what_was_lost_is_told_with_its_reason() -> None:
    tape = Tape()
    for op in tape.reply(run("lookup-runbook"), run("check-pods")):
        tape.end(op)
    tape.end(tape.run("check-pods"), "gone\n", exit=1)
    assert f"[{MARK}] now callable: - search-logs (stale: check-pods)" in texts(tape.newest())
    assert "+ " not in texts(tape.newest())


def test_no_difference_no_line() -> None:
    tape = Tape()
    tape.end(tape.run("check-lag"))
    assert len(tape.newest().results[0].blocks) == 1


# Requests, retries and new words.
def test_a_retry_without_news_adds_nothing() -> None:
    tape = Tape()
    before = provider_body(tape.prompt())
    tape.start()
    tape.add("model.fail", {"turn": 1, "reason": "overloaded", "class": "RETRYABLE"})
    again = tape.prompt()
    assert provider_body(again) == before
    tape.start(**{"try": 2})
    assert provider_body(tape.prompt()) == before
    assert (again.turn, again.failed) == (1, 1)


def test_a_new_word_before_a_retry_is_a_turn_of_its_own() -> None:
    tape = Tape()
    tape.start()
    tape.add("user.say", {"text": "look at the disk", "by": "user"})
    turns = tape.prompt().turns
    assert len(turns) == 2
    assert texts(turns[1]) == f'<task mark="{MARK}">\nlook at the disk\n</task>'


def test_a_word_during_a_request_joins_the_next_turn() -> None:
    tape = Tape()
    tape.start()
    tape.add("user.say", {"text": "look at the disk", "by": "user"})
    tape.add("model.reply", {"turn": 1, "content": [], "dialect": "anthropic", "calls": [
        {"op": 1, "id": "a", "verb": "run", "arguments": {"tool": "check-lag", "args": []}}]})  # fmt: skip
    tape.end(1)
    assert "look at the disk" in tape.newest().said[0]
    assert len(tape.prompt().turns) == 3


def test_failures_that_no_answer_brought_are_not_counted() -> None:
    tape = Tape()
    for reason in ("script_mismatch", "cancelled", "cut"):
        tape.start()
        tape.add("model.fail", {"turn": 1, "reason": reason, "class": "FAILED"})
    assert tape.prompt().failed == 1


def test_a_caller_that_is_its_own_model_gets_the_same_turns() -> None:
    own, asked = Tape(), Tape()
    for tape in (own, asked):
        if tape is asked:
            tape.start()
        call = {"op": 1, "id": "a", "verb": "run", "arguments": {"tool": "check-lag", "args": []}}
        provider = {} if tape is asked else {"provider": "none"}
        tape.add("model.reply", {"turn": 1, **provider, "content": [], "dialect": "x", "calls": [call]})
        tape.end(1)
    assert own.prompt().turns == asked.prompt().turns


def test_ended_calls_are_known_by_tool_with_class_reason_and_output() -> None:
    tape = Tape()
    a, b = tape.reply(run("check-lag"), run("write-report"))
    tape.end(a, "out\n")
    tape.deny(b, "NOT_RELEASED", "needs search-logs")
    tape.end(tape.run("check-lag"), "", exit=1, err="noise\nno such topic\n")
    ended = tape.prompt().ended
    assert (ended["write-report"].error_class, ended["write-report"].why()) == ("NOT_RELEASED", "needs search-logs")
    assert (ended["check-lag"].error_class, ended["check-lag"].why()) == ("FAILED", "no such topic")
    assert ended["check-lag"].out() == ""


def test_long_values_are_read_from_their_blobs() -> None:
    calls = [{"op": 1, "id": "a", "verb": "run", "arguments": {"tool": "check-lag", "args": []}}]
    content = [{"type": "text", "text": "long"}]
    tape = Tape(goal={"blob": "g", "bytes": 5}, blobs={"g": "a goal", "c": json.dumps(content), "w": "long words"})
    assert "a goal" in texts(tape.prompt().turns[0])
    tape.start()
    tape.add("model.reply", {"turn": 1, "content": {"blob": "c", "bytes": 9}, "dialect": "anthropic", "calls": calls})
    tape.end(1)
    tape.add("user.say", {"text": {"blob": "w", "bytes": 10}, "by": "user"})
    assert tape.prompt().turns[1] == Replied("anthropic", content)
    assert "long words" in tape.newest().said[0]


# Prefix and replay.
STEPS = "ok bad deny say note retry cancel empty finish pair read resume"
step = st.sampled_from(STEPS.split())


def play(tape: Tape, name: str) -> None:
    if name in ("ok", "bad"):
        tape.end(tape.run("check-pods"), f"{name} output\n", exit=int(name == "bad"))
    elif name == "deny":
        tape.deny(tape.run("write-report"), "NOT_RELEASED", "needs search-logs")
    elif name == "say":
        tape.add("user.say", {"text": f"word {len(tape.events)}", "by": "user"})
    elif name == "note":
        tape.add("note", {"why": "warning", "text": f"note {len(tape.events)}"})
    elif name in ("retry", "cancel"):
        tape.start()
        tape.add("model.fail", {"turn": 1, "reason": "cut" if name == "retry" else "cancelled", "class": "RETRYABLE"})
    elif name == "empty":
        tape.reply()
    elif name == "finish":
        propose(tape, [("check-report", 1, "no\n")])
    elif name == "pair":
        one, two = tape.reply(run("lookup-runbook"), run("check-lag"))
        tape.end(two)
        tape.end(one)
    elif name == "read":
        [op] = tape.reply(("read", {"path": "x"}), text="I read.")
        tape.end(op, "text\n" * 5000)
    else:
        tape.add("resume", {"by": "user", "lost_s": 3})


@settings(max_examples=60, deadline=None)
@given(st.lists(step, max_size=15))
def test_each_request_is_a_prefix_of_the_next_and_replay_gives_the_same_bytes(names: list[str]) -> None:
    """Case 4, without a process: the requests of a run, as they were sent and as its log gives them again."""
    tape = Tape(frame("the skill\n"))
    sent = [tape.prompt()]
    tape.start()
    for name in names:
        play(tape, name)
        sent.append(tape.prompt())
        tape.start()  # what was composed is what was sent, however often
        assert provider_body(tape.prompt()) == provider_body(sent[-1])
    bodies = [provider_body(prompt) for prompt in sent]
    for before, after in pairwise(bodies):
        assert after.startswith(before[:-2])
    assert len({prefix_digest(prompt) for prompt in sent}) == 1

    again = Tape(frame("the skill\n"))
    for event in copy.deepcopy(tape.events[1:]):
        again.take(event)
    assert provider_body(again.prompt()) == bodies[-1]
    assert again.prompt().parts == sent[-1].parts


@settings(max_examples=30, deadline=None)
@given(st.lists(step, min_size=1, max_size=12))
def test_user_and_assistant_turns_answer_each_other(names: list[str]) -> None:
    """Every call of a reply has its result in the very next turn, and nothing else does."""
    tape = Tape()
    for name in names:
        play(tape, name)
    turns = tape.prompt().turns
    assert isinstance(turns[0], Said)
    for before, turn in pairwise(turns):
        assert isinstance(before, Replied) or not isinstance(turn, Results)
    calls = [call["id"] for event in tape.events if event["kind"] == "model.reply" for call in event["data"]["calls"]]
    answered = [result.call_id for turn in turns if isinstance(turn, Results) for result in turn.results]
    assert answered == calls
