"""What is due on an operation, by its newest attempt: start it, ask about it, wait, or leave it to a person. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.events.state import Operation

MAX_TRIES = 3
LONGEST_S = 30.0


def is_unknown(op: Operation) -> bool:
    """Whether it may have had an effect that nobody but a person can tell of."""
    word = _word(op)
    if word == "unknown":
        return True
    if word != "cut" or op.repeat == "pure":
        return False
    return op.repeat == "opaque" or op.tries >= MAX_TRIES


def is_approved(op: Operation) -> bool:
    """Whether a yes let it pass, be it a person's to this call or one that is remembered: it can become void."""
    return op.approved_by is not None or bool(op.granted)


def tried(op: Operation) -> dict[str, Any]:
    """Which attempt an event is of; that it is the first goes without saying."""
    return {"try": op.attempt} if op.attempt > 1 else {}


def unseen_end(op: Operation, outcome: str, why: str) -> dict[str, Any]:
    """The data of a `tool.end` for an attempt whose end nobody saw, or that never began."""
    return {**tried(op), "outcome": outcome, "exit": None, "ms": 0, "out": "", "result": "", "why": why}


def may_have_acted(op: Operation) -> bool:
    """Whether its newest attempt may have had an effect that is not known: nothing but its end may close it."""
    return op.repeat != "pure" and _word(op) in ("cut", "unknown")


def is_unsettled(op: Operation) -> bool:
    """Whether nobody knows yet what became of an open call: it runs, or it may have had an effect that nobody saw."""
    return op.attempt_open or is_unknown(op) or may_have_acted(op)


def wants_query(op: Operation) -> bool:
    """Whether its own query must say what happened before it may be tried again."""
    if op.repeat != "queryable" or is_unknown(op):
        return False
    return _word(op) == "cut" or bool(_is_open(op) and (op.result or {}).get("retry"))


def is_due(op: Operation, now: float) -> bool:
    """Whether an allowed call can start: it never did, or it may be tried again."""
    if op.verdict != "allow" or op.attempt_open or op.closed or op.verb == "verify":
        return False
    return not is_unknown(op) and not wants_query(op) and not is_resting(op, now)


def is_resting(op: Operation, now: float) -> bool:
    """Whether a retry or a query of it is announced for later."""
    return _is_open(op) and op.rest_until is not None and op.rest_until > now and not is_unknown(op)


def may_retry(op: Operation, error_class: str, outcome: str) -> bool:
    """Whether an end that proves that nothing happened is followed by another attempt."""
    again = error_class == "RETRYABLE" and outcome == "failed" and op.role in ("call", "stage")
    return again and op.child is None and op.repeat != "opaque" and op.tries < MAX_TRIES


def pause_s(op_id: str, tries: int) -> float:
    """Seconds before the next attempt: doubling up to half a minute, spread so that not all come back at once."""
    longest: float = min(LONGEST_S, 2.0 ** (tries - 1))
    seed = hashlib.sha256(f"{op_id}/{tries}".encode()).digest()
    return round(longest * (0.5 + seed[0] / 510), 3)


def _is_open(op: Operation) -> bool:
    return not op.attempt_open and not op.closed


def _word(op: Operation) -> str:
    """The outcome of its newest attempt while nothing has closed it."""
    return str((op.result or {}).get("outcome", "")) if _is_open(op) else ""
