"""A run of one call, made by a person: the same gate, journal and stops as in the loop, without a model or a graph."""

from __future__ import annotations

from functools import partial

from harness.events.state import Operation
from harness.loop import cover, inbox
from harness.loop.act import Crew
from harness.loop.batch import start_allowed
from harness.loop.drive import drive_by
from harness.loop.ending import end
from harness.loop.gate import judge
from harness.loop.people import ask_people, park_for_approval, park_for_child
from harness.loop.run import Run, Stop
from harness.loop.settle import pending
from harness.tools.outcome import CLASSES

OWN = {"TIMEOUT": 124, "MISCONFIGURED": 78}
"""Exit codes of classes that we find out ourselves, whatever the process ended with."""
REFUSED = {"INVALID_INPUT": ("failed", 2), "MISCONFIGURED": ("failed", 78), "NEEDS_AUTH": ("failed", 77)}
REFUSED |= {"OVER_BUDGET": ("budget", 6)}


def drive(run: Run, name: str, args: list[str]) -> Stop:
    """Carry the call through, from whatever the journal holds of it."""
    return drive_by(run, partial(_step, run, name, args))


def _step(run: Run, name: str, args: list[str], crew: Crew) -> Stop | None:
    state = run.state
    if not state.ops:
        args = cover.words(run, name, args)
        op = Operation(n=1, verb="run", tool=name, arguments={"args": args})
        judge(run, op, call={"tool": name, "args": args})
    ask_people(run)
    again = start_allowed(crew)
    crew.wait()
    if again or inbox.take(run) or run.world.cancel.level or pending(crew):
        return None
    return _stop(run, crew, state.ops[1])


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
    name, code = op.result["class"], op.result.get("exit") or 1
    why = f"{name}: {op.result.get('why') or f'exit {code}'}"
    if name == "DENIED":  # what it did was undone
        return end(run, "denied", error=why, answer=answer)
    return end(run, "failed", code if CLASSES.get(code) == name else OWN.get(name, 1), error=why, answer=answer)
