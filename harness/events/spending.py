"""What a run uses, counted in its state: time, calls, tokens, money. Pure, like the fold that calls it.

A request that brought no result stays counted in full: it was sent, and may have been paid for.
"""

from __future__ import annotations

from typing import Any

from harness.events.state import Operation, State

MONEY = 1_000_000_000


def pass_time(state: State, event: dict[str, Any], at: float) -> None:
    """Active time is what passed within an epoch, but for waits that ended with a person's word."""
    ms = max(0, round((at - state.at) * 1000))
    data = event["data"]
    if event["kind"] == "resume":
        lost = round(float(data.get("lost_s", 0)) * 1000)
        state.spent.active_ms += lost
        state.spent.waiting_ms += max(0, ms - lost)
    elif _is_persons(event["kind"], data):
        state.spent.waiting_ms += ms
    else:
        state.spent.active_ms += ms


def _is_persons(kind: str, data: dict[str, Any]) -> bool:
    if kind == "user.say":
        return data.get("answers") is not None
    return kind == "decide" and bool(data.get("via"))


def lose_reserved(state: State) -> None:
    """Count a request that brought no result in full: it was sent, and may have been paid for."""
    if state.reserved is not None:
        lost = state.reserved
        usage = {"input": lost.get("estimate", 0), "out": lost.get("max_tokens", 0)}
        settle_request(state, {"usage": usage, "cost": lost.get("usd")})


def settle_request(state: State, data: dict[str, Any]) -> None:
    state.reserved = None
    usage = data.get("usage") or {}
    state.spent.tokens_in += usage.get("input", 0)
    state.spent.tokens_out += usage.get("out", 0)
    if "cost" in data and data["cost"] is None:
        state.spent.unpriced += 1
    elif data.get("cost"):
        state.spent.nanos += round(float(data["cost"]) * MONEY)


def add_child(state: State, child: dict[str, Any]) -> None:
    """What a child run used counts for its parent."""
    state.spent.turns += child.get("turns", 0)
    state.spent.calls += child.get("calls", 0)
    state.spent.tokens_in += child.get("tokens_in", 0)
    state.spent.tokens_out += child.get("tokens_out", 0)
    state.spent.nanos += child.get("nanos", 0)
    state.spent.unpriced += child.get("unpriced", 0)
    for effect, count in (child.get("effects") or {}).items():
        state.spent.effects[effect] = state.spent.effects.get(effect, 0) + count


def count_call(state: State, op: Operation) -> None:
    """An operation is one call, however often it is judged and tried."""
    if op.role != "verify" and not op.counted:
        op.counted = True
        state.spent.calls += 1
        state.spent.effects[op.effect] = state.spent.effects.get(op.effect, 0) + 1
