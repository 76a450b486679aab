"""State from events: the same in one go or in pieces, blind to the disk, and what it makes of spending and time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events.breaker import MOST, count_end
from harness.events.fold import fold
from harness.events.line import KINDS, at_text
from harness.events.state import Operation, State
from tests.journal_lines import START
from tests.view_events import Journal, ask, call, finish, triage

TOKENS = {"input": 1000, "out": 100}


def whole() -> Journal:
    """A run with every kind of event: refusals, a person's words, a failed request, a park, a resume, a verdict."""
    log = triage()
    log.events.pop()
    log.seq -= 1
    log.add("note", 15, why="strikes", text="change")
    log.add("model.start", 15, turn=4, context=0, estimate=10, max_tokens=20, usd=0)
    log.add("model.fail", 16, turn=4, reason="overloaded", class_="RETRYABLE", message="busy")
    log.reply(5, [call(5, "search-logs", "--x"), ask(6, "which?"), call(7, "search-logs")], 17)
    log.add("decide", 17, 5, verdict="deny", argv=["--x"], code="DENIED", rules=["flag"], effect="read", repeat="pure")
    log.add("decide", 17, 7, verdict="ask", argv=[], rules=["default"], effect="write", repeat="keyed", digest="d")
    log.add("park", 18, stop="needs-approval", exit=5, ops=[7], hint="")
    log.add("resume", 900, by="user", lost_s=2, changes=[{"what": "tool search-logs", "from": "a", "to": "b"}])
    log.epoch = 2
    log.events[-1]["epoch"] = 2
    log.add("decide", 901, 7, verdict="allow", argv=[], rules=["person"], effect="write", repeat="keyed",
            by="user", via="command", inbox="approve-1")  # fmt: skip
    log.add("user.say", 902, text="the second", by="user", answers=6)
    log.begin(7, "search-logs", 903)
    log.add("tool.end", 904, 7, outcome="cut", exit=None, ms=0, out="", result="")
    log.begin(7, "search-logs", 905, try_=2)
    log.end(7, 906, "found", class_="OK", result="f" * 16, try_=2, artifacts=[{"path": "a", "sha256": "b"}], ttl=60)
    log.reply(6, [finish(8)], 907)
    log.add("verify", 908, answer="because", ok=False, checks=[], missing=[{"name": "x", "why": "y"}], try_=1)
    log.add("amend", 909, what="budget", target="run", value={"usd": "2"}, by="user", why="flag")
    log.add("amend", 909, what="input", target="line/a.x", value="2", by="user", why="--set")
    log.add("amend", 909, what="input", target="inputs.day", value="mon", by="user", why="--set")
    log.add("amend", 909, what="stale", target="pods", value=[["pods", "--ns"]], by="user", why="cut")
    log.add("amend", 909, 9, what="receipt", target="7", by="user", why="by hand",
            value={"tool": "search-logs", "argv": ["--y"], "out": "x", "result": "a" * 16})  # fmt: skip
    log.add("context", 909, n=1, why="long", before=1, after=1)
    log.add("secret.leak", 909, name="TOKEN", tool="search-logs", sink="out")
    log.finish(at=910, spent={})
    return log


EVENTS = whole().events


def test_the_run_of_these_tests_has_every_kind() -> None:
    assert {event["kind"] for event in EVENTS} == KINDS


@given(st.lists(st.integers(0, len(EVENTS)), max_size=4))
def test_a_fold_in_pieces_is_the_fold(cuts: list[int]) -> None:
    state, before = State(), 0
    for cut in [*sorted(cuts), len(EVENTS)]:
        state = fold(EVENTS[before:cut], state)
        before = cut
    assert state == fold(EVENTS)


def test_a_fold_changes_no_event_and_has_no_memory() -> None:
    before = copy.deepcopy(EVENTS)
    assert fold(EVENTS) == fold(EVENTS)
    assert before == EVENTS


def test_the_fold_never_reads_a_blob_or_the_disk() -> None:
    blob = {"blob": "f" * 64, "bytes": 99_999}
    log = Journal()
    log.start(at=0)
    log.events[-1]["data"]["goal"] = blob
    log.reply(1, [call(1, "t", "x")], content=blob)
    log.allow(1, argv=blob)
    log.begin(1, "t")
    log.end(1, out=blob, class_="OK", result="1")
    log.reply(2, [{"op": 2, "id": "c", "verb": "finish", "arguments": {"answer": blob}}])
    state = fold(log.events)
    assert list(state.slots) == [("t", f"blob:{'f' * 64}")]
    assert state.proposal == blob


def test_a_lost_request_stays_counted_in_full() -> None:
    log = Journal()
    log.start()
    log.add("model.start", 0, turn=1, model="m", context=0, estimate=300, max_tokens=50, usd=0.25)
    log.add("resume", 1, by="user", lost_s=0)
    log.add("model.start", 1, turn=1)  # all as in the one before, so all is left out
    log.add("resume", 2, by="user", lost_s=0)
    log.add("model.start", 2, turn=1, usd=None)
    log.add("model.fail", 3, turn=1, reason="timeout", class_="TIMEOUT", message="")
    log.add("model.start", 3, turn=1, usd=0.5)
    log.add("model.fail", 4, turn=1, reason="unavailable", class_="RETRYABLE", message="")
    log.add("model.start", 4, turn=1)
    log.reply(1, [finish(1)], cost=0.1)
    spent = fold(log.events).spent
    assert (spent.nanos, spent.unpriced) == (600_000_000, 1)
    assert (spent.tokens_in, spent.tokens_out) == (3 * 300 + 1000, 3 * 50 + 100)


@pytest.mark.parametrize("reason", ["cancelled", "cut", "timeout", "refusal", "length"])
def test_a_request_that_may_have_cost_counts_unless_it_says_what_it_cost(reason: str) -> None:
    for told, wanted in (({}, 350), ({"usage": {"input": 7, "out": 1}, "cost": 0}, 8)):
        log = Journal()
        log.start()
        log.add("model.start", 0, turn=1, estimate=300, max_tokens=50, usd=0)
        log.add("model.fail", 1, turn=1, reason=reason, class_="TIMEOUT", message="", **told)
        spent = fold(log.events).spent
        assert spent.tokens_in + spent.tokens_out == wanted


def test_an_operation_is_one_call_however_often_it_is_judged_and_tried() -> None:
    log = Journal()
    log.start()
    log.reply(1, [call(1, "t"), call(2, "t")])
    for n in (1, 2):
        log.add("decide", 0, n, verdict="ask", argv=[], rules=[], effect="write", repeat="keyed", digest="d")
    log.add("decide", 1, 1, verdict="allow", argv=[], rules=[], effect="write", repeat="keyed", via="prompt", by="user")
    log.add("decide", 2, 1, verdict="ask", argv=[], rules=[], effect="write", repeat="keyed", digest="e")
    log.add("decide", 3, 1, verdict="allow", argv=[], rules=[], effect="write", repeat="keyed", via="prompt", by="user")
    log.add("decide", 3, 1, verdict="allow", argv=[], rules=[], effect="write", repeat="keyed")
    log.begin(1, "t")
    log.add("tool.end", 4, 1, outcome="cut", exit=None, ms=0, out="", result="")
    log.begin(1, "t", try_=2)
    log.add("decide", 5, 2, verdict="allow", argv=[], rules=[], effect="write", repeat="keyed")
    spent = fold(log.events).spent
    assert (spent.calls, spent.effects) == (2, {"write": 2})


def test_case_26_time_waited_for_a_person_is_free_and_time_lost_is_not() -> None:
    spent = fold(EVENTS[: [event["kind"] for event in EVENTS].index("resume") + 3]).spent
    assert (spent.active_ms, spent.waiting_ms) == (18_000 + 2_000, 880_000 + 1_000 + 1_000)


def test_a_changed_tool_makes_its_receipts_stale_and_no_others() -> None:
    state = fold(EVENTS[: [event["kind"] for event in EVENTS].index("resume") + 1])
    assert {slot[0] for slot in state.slots} >= {"search-logs", "read"}
    assert {slot[0] for slot in state.stale} == {"search-logs"}
    assert fold(EVENTS).stale == {("pods", "--ns")}  # it ran again; a person declared another one stale


def test_refusals_take_no_slot_and_a_cut_attempt_closes_nothing() -> None:
    state = fold(EVENTS)
    assert ("search-logs", "--x") not in state.slots
    assert state.ops[7].attempt == 2 and state.ops[7].closed
    assert state.slots[("search-logs",)].artifacts == (("a", "b"),)
    assert state.slots[("search-logs",)].ttl == 60
    assert state.receipts[2].error_class == "FAILED"
    cut = fold(EVENTS[: max(i for i, e in enumerate(EVENTS) if e["data"].get("outcome") == "cut") + 1])
    assert not cut.ops[7].closed and 7 in cut.open_ops


def test_unknown_fields_are_nothing_to_the_fold() -> None:
    more = copy.deepcopy(EVENTS)
    for event in more:
        event["data"]["newer"] = {"a": [1]}
        event["newer"] = True
    states: list[Any] = []
    for events in (EVENTS, more):
        state = fold(events)
        states.append((state.slots, state.spent, state.strikes, state.status, list(state.ops), state.inbox))
    assert states[0] == states[1]


def test_time_is_counted_in_whole_milliseconds_from_the_stamps() -> None:
    log = Journal()
    log.start()
    for number in range(1, 1001):
        log.add("note", 0, why="warning", text=str(number))
        log.events[-1]["at"] = at_text(START + number / 1000)
    log.events[0]["at"] = at_text(START)
    assert fold(log.events).spent.active_ms == 1000


def judged(*missing: int) -> list[int]:
    """The strikes after each of some proposed answers, of which so many checks failed."""
    log, found = Journal(), list[int]()
    log.start()
    for n, count in enumerate(missing, 1):
        log.reply(n, [finish(n)], n)
        checks = [{"name": f"c{at}", "op": 0, "exit": int(at < count)} for at in range(3)]
        log.add("verify", n, answer="a", ok=False, checks=checks, missing=[], try_=n)
        found.append(fold(log.events).strikes)
    return found


def test_fewer_failing_checks_are_progress_and_as_many_are_a_strike() -> None:
    assert judged(3, 2, 2, 3, 2) == [1, 0, 1, 2, 0]


def test_a_persons_words_set_the_strikes_to_nothing() -> None:
    log = Journal()
    log.start()
    for n in range(1, 4):
        log.reply(n, [call(n, "look")], n)
        log.add("decide", n, n, verdict="deny", argv=[], code="DENIED", rules=["r"], effect="read", repeat="pure")
    assert fold(log.events).strikes == 3
    log.add("user.say", 4, text="look at the other pod", by="user")
    assert fold(log.events).strikes == 0


def test_a_breaker_rests_twice_as_long_each_time_and_five_minutes_at_most() -> None:
    state = State()
    op = Operation(1, "run", tool="down")
    rests = []
    for _ in range(6):
        for _ in range(MOST):
            count_end(state, op, "RETRYABLE")
        rests.append(state.breakers["down"].until - state.at)
        state.at = state.breakers["down"].until
    assert rests == [30, 60, 120, 240, 300, 300]
    count_end(state, op, "OK")
    assert not state.breakers
