"""State from events: `apply` is the one function that changes it. No disk, clock, network or randomness.

The cost of an event does not depend on the length of the run, and a value kept in a blob is never read: an argv that
is one stands in its slot by its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.errors import TOO_LARGE
from harness.events import asking
from harness.events.amend import amend, inherit, is_seam
from harness.events.granted import note_grant
from harness.events.line import at_seconds
from harness.events.receipt import argv_of, file_receipt, pinned_mark, slot_of
from harness.events.spending import (
    add_child,
    count_call,
    give_back,
    is_without_effect,
    lose_reserved,
    pass_time,
    settle_request,
)
from harness.events.state import Operation, State
from harness.events.words import hear, hear_start

Event = dict[str, Any]
QUERY_AFTER_S = 5.0
"""How long after an attempt was dead the answer that nothing happened counts."""
UNSETTLED = frozenset({"cut", "timeout", "cancelled", "protocol", "refusal", "length"})
"""Reasons of a failed request that may have cost something: without figures it counts as what was reserved for it."""


def fold(events: Iterable[Event], state: State | None = None) -> State:
    """The state after these events, from the beginning or going on from `state`."""
    state = state or State()
    for event in events:
        apply(state, event)
    return state


def apply(state: State, event: Event) -> None:
    """Let one event change the state."""
    kind, data, at = event["kind"], event["data"], at_seconds(event["at"])
    if state.seq:
        pass_time(state, event, at)
    state.seq, state.epoch, state.at = event["seq"], event["epoch"], at
    _APPLY[kind](state, data, event.get("op", 0))
    state.last_kind = kind
    if is_seam(state):
        lose_reserved(state)
        inherit(state)


def _run_start(state: State, data: dict[str, Any], _: int) -> None:
    state.start, state.status, state.git = data, "open", data.get("git")
    state.budget, state.inputs = dict(data.get("budget") or {}), dict(data.get("inputs") or {})
    state.model = (data.get("model") or {}).get("ref", "")
    state.boot = _boot(data)
    state.policy = (data.get("digests") or {}).get("policy", "")
    hear_start(state)


def _boot(data: dict[str, Any]) -> str:
    return f"{data.get('host', '')} {data.get('boot', '')}"


def _user_say(state: State, data: dict[str, Any], _: int) -> None:
    if data.get("inbox"):
        state.inbox.add(data["inbox"])
    hear(state, data)
    answered = data.get("answers")
    if answered is None:
        state.status, state.end, state.verdict, state.missing = "open", None, None, 0
        state.finishes = 0
    elif answered in state.open_ops and state.open_ops[answered].verb == "ask":
        op = state.open_ops[answered]
        op.answer, op.answered_by = data["text"], str(data.get("by", "user"))
        _close(state, op)
    else:
        state.replies.append(data["text"])
        state.question = None
    state.progress, state.strikes = True, 0
    state.noted.clear()


def _note(state: State, data: dict[str, Any], _: int) -> None:
    state.noted.add(data["why"] if data["why"] == "strikes" else f"{data['why']}:{data['text']}")


def _model_start(state: State, data: dict[str, Any], _: int) -> None:
    lose_reserved(state)
    state.request = state.reserved = {**state.request, **data}
    state.context = data.get("context", state.context)


def _model_reply(state: State, data: dict[str, Any], _: int) -> None:
    settle_request(state, data)
    asking.answered(state, data)
    state.renewed = False
    state.turn, state.demonstration = data["turn"], bool(data.get("demonstration"))
    state.spent.turns += 1
    state.progress, state.verdict = False, None if state.question is None else state.verdict
    calls = data["calls"] if isinstance(data["calls"], list) else []
    state.turn_ops = tuple(call["op"] for call in calls)
    alone = len(calls) == 1
    for call in calls:
        _open_call(state, call, data["turn"], alone)
    if not any(not state.ops[n].closed for n in state.turn_ops):
        _end_turn(state)


def _open_call(state: State, call: dict[str, Any], turn: int, alone: bool) -> None:
    arguments = call.get("arguments") or {}
    tool = str(arguments.get("tool", "")) if call["verb"] == "run" else call["verb"]
    op = Operation(call["op"], call["verb"], call.get("id", ""), tool, arguments, turn=turn)
    op.error = call.get("error")
    if op.verb == "finish" and not alone and not op.error:
        op.error = "finish alone"
    state.ops[op.n] = op
    state.next_op = max(state.next_op, op.n + 1)
    if op.error:
        op.code, op.closed = "DENIED" if op.error.startswith(TOO_LARGE) else "INVALID_INPUT", True
    else:
        state.open_ops[op.n] = op
    if op.verb == "finish" and not op.error:
        state.proposal = arguments.get("answer", "")


def _model_fail(state: State, data: dict[str, Any], _: int) -> None:
    if data["reason"] in UNSETTLED and not data.keys() & {"usage", "cost"}:
        lose_reserved(state)
    settle_request(state, data)
    asking.failed(state, data)


def _decide(state: State, data: dict[str, Any], n: int) -> None:
    op = state.ops.get(n) or _open_decided(state, n, data)
    if "call" in data:  # a stage that was begun may be called with other words
        op.arguments = {"tool": op.tool, "args": data["call"].get("args", [])}
    if data.get("inbox"):
        state.inbox.add(data["inbox"])
    op.verdict, op.code, op.reasons = data["verdict"], data.get("code"), tuple(data.get("reasons") or ())
    if "argv" in data:
        op.argv, op.argv_at = argv_of(data["argv"]), data["argv"] if isinstance(data["argv"], dict) else None
    op.effect, op.repeat = data.get("effect", op.effect), data.get("repeat", op.repeat)
    note_grant(state, op, data)
    op.digest, op.level, op.policy = data.get("digest", op.digest), data.get("level", op.level), state.policy
    if "amounts" in data and not op.counted:
        op.amounts = dict(data["amounts"])
    if data.get("via"):
        op.approved_by = data.get("by")
        state.strikes, state.progress = 0, True
    if op.verdict == "allow":
        count_call(state, op)
    if op.verdict == "deny":
        if data.get("via"):
            state.denied[slot_of(op)] = (op.reasons or ("a person said no",))[0]
        if not op.attempt:
            give_back(state, op)
        _close(state, op)


def _open_decided(state: State, n: int, data: dict[str, Any]) -> Operation:
    """Stages, verifiers and the call of `tools run` have no reply before them: their decision names them."""
    call = data.get("call") or {}
    verb = "verify" if "verifier" in call else "stage" if "stage" in call else "run"
    op = Operation(n=n, verb=verb, tool=call.get("tool", ""), stage=call.get("stage"))
    op.role = "verify" if verb == "verify" else "call"
    state.ops[n] = state.open_ops[n] = op
    state.next_op = max(state.next_op, n + 1)
    return op


def _tool_start(state: State, data: dict[str, Any], n: int) -> None:
    op = state.ops[n]
    op.attempt, op.attempt_open, op.attempt_boot = data.get("try", 1), True, state.boot
    op.role, op.rest_until = data.get("role", "call"), None
    if op.role == "query":  # it asks about the operation, and changes nothing of it
        return
    op.tries += 1
    op.child, op.slice = data.get("child"), data.get("slice") or {}
    op.tool, op.level = data.get("tool", op.tool), data.get("level", op.level)
    op.file = data["file"] if "file" in data else pinned_mark(state, op.tool)
    op.needs = tuple(data.get("needs") or ())
    op.started_at = state.at


def _tool_end(state: State, data: dict[str, Any], n: int) -> None:
    op = state.ops[n]
    had_attempt = op.attempt > 0
    op.attempt_open, op.result, op.ended_at = False, data, state.at
    add_child(state.spent, data.get("spent") or {})
    state.barred.update(data.get("barred") or ())
    if data.get("inbox"):
        state.inbox.add(data["inbox"])
    if op.role == "verify":
        _close(state, op)  # a verifier that was cut is not repeated by itself: the answer is judged anew
        return
    if _goes_on(state, op, data):
        return
    if is_without_effect(data):
        give_back(state, op)
    if op.verb == "read" or had_attempt:
        file_receipt(state, op, data)
    _close(state, op)


def _goes_on(state: State, op: Operation, data: dict[str, Any]) -> bool:
    """Whether the operation stays open after this end of an attempt, and until when it rests."""
    outcome, persons = data["outcome"], data.get("by") == "person"
    if persons:
        state.progress, state.strikes, op.tries = True, 0, 0
    elif outcome == "not-started" and op.role != "query":
        op.tries -= 1
    if data.get("retry"):
        op.rest_until = state.at + float(data["retry"]["after"])
    if op.repeat == "queryable" and op.role != "query" and (outcome == "cut" or data.get("retry")):
        op.rest_until = max(op.rest_until or 0.0, state.at + QUERY_AFTER_S)
    return bool(outcome in ("cut", "not-started") or data.get("retry") or (outcome == "unknown" and not persons))


def _close(state: State, op: Operation) -> None:
    op.closed = True
    state.open_ops.pop(op.n, None)
    if op.n in state.turn_ops and not any(n in state.open_ops for n in state.turn_ops):
        _end_turn(state)


def _end_turn(state: State) -> None:
    """A turn without anything new is a strike; one with something new clears them."""
    state.strikes = 0 if state.progress else state.strikes + 1
    if state.progress:
        state.noted.discard("strikes")


def _verify(state: State, data: dict[str, Any], _: int) -> None:
    missing = len(data.get("missing") or ()) + sum(1 for check in data.get("checks") or () if check.get("exit"))
    state.question = data.get("question")
    if state.question is not None:
        state.verdict = data
        return
    if missing < state.missing:
        state.progress = True
    state.verdict, state.missing = data, missing
    state.finishes += 1
    state.replies.clear()
    state.progress = state.progress or bool(data["ok"])
    for op in [op for op in state.open_ops.values() if op.verb == "finish"]:
        _close(state, op)


def _park(state: State, data: dict[str, Any], _: int) -> None:
    state.status, state.park = "parked", data
    asking.rested(state)


def _resume(state: State, data: dict[str, Any], _: int) -> None:
    lose_reserved(state)
    if state.end is not None:  # a person begins anew where the run had given up
        state.strikes = state.finishes = 0
    state.status, state.park, state.end = "open", None, None
    state.boot = _boot(data)
    if data.get("by") != "agent":
        state.breakers.clear()
    state.since_resume, state.git = state.next_op, data.get("git")
    for change in data.get("changes") or ():
        if change.get("what") == "policy":
            state.policy = change.get("to", "")
        state.stale.update(state.by_tool.get(str(change.get("what", "")).removeprefix("tool "), ()))


def _run_end(state: State, data: dict[str, Any], _: int) -> None:
    state.status, state.end = "ended", data
    asking.rested(state)
    state.since_end = state.next_op
    if data.get("stop") != "interrupted":  # that is no end of what failed before: like a kill, it changes nothing
        state.since_over = state.next_op


def _context(state: State, data: dict[str, Any], _: int) -> None:
    asking.renewed(state, data)
    state.renewed = data["why"] in ("refused", "overflow")


def _nothing(state: State, data: dict[str, Any], _: int) -> None:
    """A report."""


_APPLY: dict[str, Callable[[State, dict[str, Any], int], None]] = {
    "run.start": _run_start, "user.say": _user_say, "note": _note, "model.start": _model_start,
    "model.reply": _model_reply, "model.fail": _model_fail, "decide": _decide, "tool.start": _tool_start,
    "tool.end": _tool_end, "verify": _verify, "park": _park, "resume": _resume, "amend": amend,
    "run.end": _run_end, "context": _context, "secret.leak": _nothing,
}  # fmt: skip
