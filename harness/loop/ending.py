"""How a run stops: one `park` or one `run.end`, each with a named cause, synced before anybody is told.

A run below another never ends over what it may have done and nobody saw: its parent would close the call, and a next
one would do it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.events import seal
from harness.events.line import at_text
from harness.events.spending import add_child
from harness.events.state import LABEL, Operation, State
from harness.graph.fresh import Ground, is_fresh
from harness.loop.below import in_doubt
from harness.loop.run import Run, Stop

CODES = {
    "passed": 0, "failed": 1, "denied": 7, "no-progress": 8, "declined": 9, "interrupted": 130, "budget": 6, "error": 3,
    "needs-approval": 5, "needs-answer": 10, "unknown-outcome": 11, "waiting": 75,
}  # fmt: skip

MAX_ERROR = 2_000
"""Characters of an error that a run's last event repeats; the whole of it is in the event that it came with."""


def spent_of(state: State, below: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """What the run used, as its last event says it: nano-dollars are exact; what had no price is counted apart.

    `below` is the same of the runs that it began and that have no end yet: its state has those that ended.
    """
    spent = replace(state.spent, effects=dict(state.spent.effects), money=dict(state.spent.money))
    for used in below:
        add_child(spent, used)
    money = {"money": dict(spent.money)} if spent.money else {}
    return {
        "turns": spent.turns, "calls": spent.calls, "tokens_in": spent.tokens_in, "tokens_out": spent.tokens_out,
        "nanos": spent.nanos, "unpriced": spent.unpriced, "active_s": round(spent.active_ms / 1000, 3),
        "waiting_s": round(spent.waiting_ms / 1000, 3), "effects": dict(spent.effects), **money,
    }  # fmt: skip


def spent_below(state: State, runs: Path, read: Callable[[Path], State | None]) -> Iterator[dict[str, Any]]:
    """What the runs that have no end yet have used, one by one. `runs` is the folder of all, `read` reads one."""
    for op in state.open_ops.values():
        known = read(runs / op.child) if op.child and op.attempt_open else None
        if known is not None:
            yield spent_of(known, spent_below(known, runs, read))


def all_spent(run: Run, state: State) -> dict[str, Any]:
    """What a run, this one or one below it, has used with all below it."""
    return spent_of(state, spent_below(state, run.folder.parent, run.world.child_receipts))


def end(
    run: Run, stop: str, code: int | None = None, limit: str | None = None, error: str | None = None, answer: Any = None
) -> Stop:
    """Append `run.end`. The answer (by default the last proposed one) is marked unaccepted unless the run passed.

    A run below another that leaves something in doubt parks for a person instead; interrupted, both go on later.
    """
    doubt = [] if not run.depth or stop == "interrupted" else in_doubt(run)
    if doubt:
        return park(run, "unknown-outcome", [op.n for op in doubt], unknown_hint(run, doubt[0]))
    answer = run.state.proposal if answer is None else answer
    code = CODES[stop] if code is None else code
    if limit == "seconds":
        code = 124
    data: dict[str, Any] = {"stop": stop, "exit": code}
    if limit:
        data["limit"] = limit
    data["answer"] = run.log.fit(run.text(answer)) if answer is not None else ""
    if answer is not None and stop != "passed":
        data["unaccepted"] = True
    if answer is not None and run.state.demonstration:
        data["demonstration"] = True
    data["unmet"] = _unmet(run)
    if error:
        data["error"] = error if len(error) <= MAX_ERROR else f"{error[:MAX_ERROR]}…"
    run.append("run.end", data | {"spent": all_spent(run, run.state)})
    _seal(run)
    return Stop(stop, code)


def _unmet(run: Run) -> list[dict[str, Any]]:
    """The operations that are left open."""
    return [{"op": op.n, "name": op.tool, "why": op.verdict or "not decided"} for op in run.state.open_ops.values()]


def park(
    run: Run, stop: str, ops: Sequence[int], hint: str, code: int | None = None, until: float | None = None
) -> Stop:
    """Append `park`: no process needs to wait from here on. `until`: when it is due, in epoch seconds."""
    code = CODES[stop] if code is None else code
    when = {} if until is None else {"until": at_text(until)}
    run.append("park", {"stop": stop, "exit": code, "ops": list(ops), **when, "hint": hint})
    _seal(run)
    return Stop(stop, code, parked=True)


def _seal(run: Run) -> None:
    """Put the journal on the disk, keep its digest elsewhere, and see that the file is what was written into it."""
    run.log.sync()
    seal.keep(run.world.seals, run.log)
    seal.check_written(run.log)


def best_evidence(ground: Ground, limit: str, answer: str) -> str:
    """What a run that its budget ended has found so far: a line a receipt, then the last proposed answer."""
    lines = [f"not accepted: budget {limit}", *_evidence(ground)]
    return "\n".join([*lines, *(["", labelled(ground.state, answer)] if answer else [])]) + "\n"


def labelled(state: State, answer: str) -> str:
    """The answer; one that a demonstration model gave says so first."""
    return f"{LABEL}\n\n{answer}" if state.demonstration else answer


def _evidence(ground: Ground) -> list[str]:
    found = []
    for receipt in sorted(ground.state.slots.values(), key=lambda r: r.op):
        state = ("fresh" if is_fresh(ground, receipt) else "stale") if receipt.ok else receipt.error_class
        found.append(f"op:{receipt.op}  {' '.join((receipt.tool, *receipt.argv))}  {state}")
    return found


def unknown_hint(run: Run, op: Operation) -> str:
    folder = run.folder / "ops" / str(op.n)
    why = str((op.result or {}).get("why") or "")
    what = f"operation {op.n} ({op.tool}) may have had its effect{f': {why}' if why else ''}"
    return f"{what}; look at {folder if op.attempt > 1 else folder / '1'}"


def close(run: Run) -> None:
    """Let go of the journal, and end what the model holds."""
    run.log.close()
    if run.model is not None:
        run.model.close()
