"""A run of one call, made by a person: the same gate, journal and stops as in the loop, without a model or a graph."""

from __future__ import annotations

from harness.events.state import Operation
from harness.loop import inbox
from harness.loop.act import Crew
from harness.loop.ending import end, park
from harness.loop.gate import judge
from harness.loop.run import Run, Stop
from harness.loop.turn import LOOK, ask_people, interrupt, out_of_time, park_for_child, settle, start_allowed
from harness.tools.outcome import CLASSES

REFUSED = {"INVALID_INPUT": ("failed", 2), "MISCONFIGURED": ("failed", 78), "OVER_BUDGET": ("budget", 6)}


def drive(run: Run, name: str, args: list[str]) -> Stop:
    """Carry the call through, from whatever the journal holds of it."""
    crew = Crew(run)
    while True:
        stop = _step(run, crew, name, args)
        if stop is not None:
            return stop


def _step(run: Run, crew: Crew, name: str, args: list[str]) -> Stop | None:
    state = run.state
    inbox.take(run)
    if state.status == "ended" and state.end is not None:
        return Stop(state.end["stop"], state.end["exit"])
    if run.world.cancel.level:
        return interrupt(run, crew)
    stop = out_of_time(run) or settle(run, crew)
    if stop is not None:
        return stop
    if not state.ops:
        op = Operation(n=1, verb="run", tool=name, arguments={"args": args})
        judge(run, op, call={"tool": name, "args": args})
    ask_people(run)
    start_allowed(run, crew)
    while crew.busy:
        crew.next(LOOK)
    return None if inbox.take(run) else _stop(run, crew, state.ops[1])


def _stop(run: Run, crew: Crew, op: Operation) -> Stop | None:
    if crew.parked:
        return park_for_child(run, crew)
    if op.verdict == "ask" and not op.closed:
        hint = f"harness approve {run.name} {op.n}  or  harness deny {run.name} {op.n}"
        return park(run, "needs-approval", [op.n], hint)
    if not op.closed:
        return None  # its outcome is not known, or it was judged again: the next step sees to it
    if op.result is None:
        stop, code = REFUSED.get(op.code or "", ("denied", 7))
        limit = op.reasons[0].split(":")[0] if stop == "budget" else None
        return end(run, stop, code, limit=limit, error=f"{op.code}: {'; '.join(op.reasons)}")
    answer = op.result.get("out", "")
    if op.result.get("class") == "OK":
        return end(run, "passed", answer=answer)
    code = op.result.get("exit") or 1
    why = f"{op.result['class']}: {op.result.get('why') or f'exit {code}'}"
    return end(run, "failed", code if CLASSES.get(code) == op.result["class"] else 1, error=why, answer=answer)
