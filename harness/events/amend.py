"""What a person's word changes in a state after the fact, and where a fork begins to count anew. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.events.receipt import argv_of, file_receipt
from harness.events.state import Operation, Spent, State
from harness.events.words import hear_amended

INPUTS = "inputs."
"""What the target of an amended input of the run itself begins with; others are STAGE.PARAM or PIPELINE/STAGE.PARAM."""


def amend(state: State, data: dict[str, Any], n: int) -> None:
    """The named change, nothing else; what stands on it is looked at anew."""
    if data.get("inbox"):
        state.inbox.add(data["inbox"])
    if data["what"] == "input":
        hear_amended(state, data)
    change = _CHANGES.get(data["what"])
    if change is not None:
        change(state, str(data.get("target", "")), data.get("value"), n)


def _budget(state: State, _: str, value: Any, __: int) -> None:
    if isinstance(value, dict):
        state.budget.update(value)


def _input(state: State, target: str, value: Any, _: int) -> None:
    _revise(state)
    if target.startswith(INPUTS):
        state.inputs[target.removeprefix(INPUTS)] = value
        return
    state.settings[target] = value
    pipeline, slash, _rest = target.partition("/")
    if slash:  # what a call of that pipeline proved was proved without it
        state.stale.update(state.by_tool.get(pipeline, ()))


def _stale(state: State, _: str, value: Any, __: int) -> None:
    _revise(state)
    state.stale.update(tuple(slot) for slot in value or ())


def _receipt(state: State, _: str, value: Any, n: int) -> None:
    """A new operation that nobody ran: the earlier one keeps its number and its result."""
    argv = argv_of(value["argv"]) if value.get("argv") is not None else None
    verb = "stage" if value.get("stage") else "run"
    op = Operation(n=n, verb=verb, tool=value["tool"], stage=value.get("stage"), argv=argv, closed=True)
    op.arguments, op.ended_at = {"tool": op.tool, "args": list(argv or ())}, state.at
    op.result = {"outcome": "done", "exit": 0, "class": "OK", "by": "person", **_kept(value)}
    state.ops[n], state.next_op = op, max(state.next_op, n + 1)
    _revise(state)
    state.since_resume = n  # the person's word itself needs no second look
    file_receipt(state, op, op.result)


def _kept(value: dict[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in ("out", "result", "ttl") if key in value}


def _redact(state: State, _: str, __: Any, ___: int) -> None:
    state.redacted = True


def _revise(state: State) -> None:
    """An answer that was judged before is judged again, and what had failed may be tried again."""
    state.verdict, state.finishes = None, 0
    state.strikes, state.progress = 0, True
    state.since_resume = state.since_end = state.since_over = state.next_op


_CHANGES: dict[str, Callable[[State, str, Any, int], None]] = {
    "budget": _budget, "input": _input, "stale": _stale, "receipt": _receipt, "redact": _redact,
}  # fmt: skip


def is_seam(state: State) -> bool:
    """Whether the newest event is the last that a fork took over from its source."""
    fork = state.start.get("fork")
    return fork is not None and fork["seq"] == state.seq


def inherit(state: State) -> None:
    """What the copied lines used is the source's: the fork's own spending starts at zero, under its own limits.

    Whoever forks wants something done otherwise: what had failed may be tried again.
    """
    state.inherited, state.spent = state.spent, Spent()
    state.budget = dict(state.start.get("budget") or {})
    state.since_end = state.since_over = state.next_op
    state.grants.clear()
    for said in state.start["fork"].get("settled") or ():
        _heed(state, said)


def _heed(state: State, said: dict[str, Any]) -> None:
    """A call of lost lines as a person settled it: what happened is not done again, what is unknown bars its tool."""
    argv = tuple(said.get("argv") or ())
    if argv and said["word"] == "happened":
        state.happened[argv] = f"it happened already, in the lost part of {state.start['fork']['run']}"
        state.denied[argv] = state.happened[argv]
    elif argv and said["word"] == "unknown":
        state.barred.add(argv[0])
