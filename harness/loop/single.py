"""A run of one call, made by a person: the same gate, journal and stops as in the loop, without a model or a graph."""

from __future__ import annotations

from harness.events.state import Operation
from harness.loop import inbox
from harness.loop.act import Crew
from harness.loop.batch import start_allowed
from harness.loop.ending import end
from harness.loop.gate import judge
from harness.loop.people import ask_people, park_for_approval, park_for_child
from harness.loop.run import Run, Stop
from harness.loop.settle import interrupt, out_of_time, settle
from harness.tools.outcome import CLASSES

REFUSED = {"INVALID_INPUT": ("failed", 2), "MISCONFIGURED": ("failed", 78), "OVER_BUDGET": ("budget", 6)}


def drive(run: Run, name: str, args: list[str]) -> Stop:
    """Carry the call through, from whatever the journal holds of it."""
    with Crew(run) as crew:
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
        return interrupt(crew)
    stop = out_of_time(crew) or settle(crew)
    if stop is not None:
        return stop
    if not state.ops:
        op = Operation(n=1, verb="run", tool=name, arguments={"args": args})
        judge(run, op, call={"tool": name, "args": args})
    ask_people(run)
    again = start_allowed(crew)
    crew.wait()
    return None if again or inbox.take(run) or run.world.cancel.level else _stop(run, crew, state.ops[1])


def _stop(run: Run, crew: Crew, op: Operation) -> Stop | None:
    stop = park_for_child(crew) or park_for_approval(run)
    if stop is not None:
        return stop
    if not op.closed:
        return None  # its outcome is not known, or it was judged again: the next step sees to it
    if op.result is None:
        name, code = REFUSED.get(op.code or "", ("denied", 7))
        limit = op.reasons[0].split(":")[0] if name == "budget" else None
        return end(run, name, code, limit=limit, error=f"{op.code}: {'; '.join(op.reasons)}")
    answer = op.result.get("out", "")
    if op.result.get("class") == "OK":
        return end(run, "passed", answer=answer)
    code = op.result.get("exit") or 1
    why = f"{op.result['class']}: {op.result.get('why') or f'exit {code}'}"
    if op.result["class"] == "DENIED":  # what it did was undone
        return end(run, "denied", error=why, answer=answer)
    return end(run, "failed", code if CLASSES.get(code) == op.result["class"] else 1, error=why, answer=answer)
