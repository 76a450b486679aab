"""What a run uses, counted in its state: time, calls, tokens, money. Pure, like the fold that calls it.

A request that brought no result stays counted in full: it was sent, and may have been paid for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.events.state import Operation, Spent, State

MONEY = 1_000_000_000
NOTHING_HAPPENED = (2, 64, 65, 66, 69, 73, 75, 77, 78)
"""Exits that mean that there was no effect, of a tool with a header: an end of any other is none of these failures."""


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


def add_child(spent: Spent, child: dict[str, Any]) -> None:
    """What a child run used counts for its parent."""
    spent.turns += child.get("turns", 0)
    spent.calls += child.get("calls", 0)
    spent.tokens_in += child.get("tokens_in", 0)
    spent.tokens_out += child.get("tokens_out", 0)
    spent.nanos += child.get("nanos", 0)
    spent.unpriced += child.get("unpriced", 0)
    for effect, count in (child.get("effects") or {}).items():
        spent.effects[effect] = spent.effects.get(effect, 0) + count
    for currency, moved in (child.get("money") or {}).items():
        spent.money[currency] = spent.money.get(currency, 0) + moved


def count_call(state: State, op: Operation) -> None:
    """An operation is one call, however often it is judged and tried."""
    if op.role != "verify" and not op.counted:
        op.counted = True
        state.spent.calls += 1
        state.spent.effects[op.effect] = state.spent.effects.get(op.effect, 0) + 1
        for currency, amount in op.amounts.items():
            state.spent.money[currency] = state.spent.money.get(currency, 0) + tenths(amount)


def without(state: State, op: Operation) -> Spent:
    """What is used but for this call: judged again, it does not stand in its own way."""
    if not op.counted:
        return state.spent
    spent = replace(state.spent, calls=state.spent.calls - 1)
    spent.effects = {**spent.effects, op.effect: spent.effects.get(op.effect, 0) - 1}
    spent.money = {**spent.money, **{c: spent.money.get(c, 0) - tenths(amount) for c, amount in op.amounts.items()}}
    return spent


def give_back(state: State, op: Operation) -> None:
    """Count the sums of a call no more: it never began, or its end proves that nothing happened."""
    if op.counted:
        for currency, amount in op.amounts.items():
            state.spent.money[currency] = state.spent.money.get(currency, 0) - tenths(amount)
        op.amounts = {}


def tenths(amount: str) -> int:
    """A sum such as `12.5` in ten-thousandths, the finest there are."""
    whole, _, part = amount.partition(".")
    return int(whole) * 10_000 + int(part.ljust(4, "0"))


def is_without_effect(data: dict[str, Any]) -> bool:
    """Whether the end of an attempt proves that nothing happened: an exit with that meaning, or no process at all.

    What is unknown, cut or late stays spent.
    """
    if data["outcome"] != "failed":
        return False
    code = data.get("exit")
    return code in NOTHING_HAPPENED or (code is None and data.get("class") == "MISCONFIGURED")
