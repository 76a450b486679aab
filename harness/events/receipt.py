"""What an ended operation proves, and where the newest proof of one thing is kept. Pure: it only files in the state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from harness.events.breaker import count_end
from harness.events.state import TAKES_SLOT, Operation, Receipt, Slot, State


def slot_of(op: Operation) -> Slot:
    """Where this operation's receipt is kept."""
    if op.verb == "stage":
        return ("stage", op.stage or "")
    return (op.tool, *(op.argv or ()))


def argv_of(value: object) -> tuple[str, ...]:
    """An argv as an event holds it; one that is kept in a blob stands for itself by its digest."""
    if isinstance(value, dict):
        return (f"blob:{value.get('blob')}",)
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else ()


def argv_in(op: Operation, text: Callable[[Any], str]) -> tuple[str, ...]:
    """The argv of an operation whose run's blobs `text` reads."""
    return tuple(text(op.argv_at).split("\0")) if op.argv_at is not None else op.argv or ()


def options_in(op: Operation, text: Callable[[Any], str]) -> list[str]:
    """What the model offers as answers to its question."""
    given = op.arguments.get("options") or ()
    return [str(option) for option in (json.loads(text(given)) if isinstance(given, dict) else given)]


def asker_of(op: Operation) -> str:
    """Who asks a person: the model by a call, or a verifier by its exit."""
    return "the model" if op.verb == "ask" else f"the verifier {op.tool}"


def pinned_mark(state: State, tool: str) -> str:
    """A tool's file as the run pinned it, 16 hex digits; an attempt tells its own only where it differs."""
    pins: dict[str, str] = (state.start.get("digests") or {}).get("tools") or {}
    return pins.get(tool, "")[:16]


def file_receipt(state: State, op: Operation, data: dict[str, Any]) -> None:
    """Keep what the operation proves, by the data of its `tool.end`, and note whether it brought anything new."""
    receipt = _receipt(state, op, data)
    slot, name = receipt.slot, receipt.error_class
    state.receipts[op.n] = receipt
    state.ended[op.tool] = state.ended.get(op.tool, 0) + (name != "UNKNOWN_OUTCOME")
    count_end(state, op, name)
    if name == "UNKNOWN_OUTCOME":
        state.barred.add(op.tool)
    if receipt.ok and op.verb != "read":
        for _, sha in receipt.artifacts:
            state.written.setdefault(sha, op.n)
    if receipt.ok:
        state.succeeded.setdefault(op.tool, []).append(op.n)
    if name in TAKES_SLOT:
        state.slots[slot] = receipt
        state.by_tool.setdefault(op.tool, {})[slot] = receipt
        state.stale.discard(slot)
    key = (slot, receipt.result)
    worker_failed = op.child is not None and data.get("stop") not in (None, "passed")
    if key not in state.seen and not worker_failed:
        state.progress = True
    state.seen.add(key)


def writer_of(state: State, op: Operation) -> Operation | None:
    """The call that made the file which an operation read, told by the file's content."""
    shas = [artifact["sha256"] for artifact in (op.result or {}).get("artifacts") or () if op.verb == "read"]
    return next((state.ops[state.written[sha]] for sha in shas if sha in state.written), None)


def _receipt(state: State, op: Operation, data: dict[str, Any]) -> Receipt:
    return Receipt(
        op=op.n, slot=slot_of(op), tool=op.tool, argv=op.argv or (), exit=data.get("exit") or 0,
        error_class=data.get("class", "OK"), result=data.get("result", ""), at=state.at, ttl=data.get("ttl"),
        needs=op.needs, file=op.file, artifacts=tuple((a["path"], a["sha256"]) for a in data.get("artifacts") or ()),
    )  # fmt: skip
