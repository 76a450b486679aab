"""How a child run stopped, as the run above records it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.scan import blob_bytes
from harness.events.state import Operation, Receipt, State
from harness.graph.fresh import Ground
from harness.loop.below import unseen_in
from harness.loop.ending import CODES, best_evidence, spent_of
from harness.loop.run import ChildEnd, Run, Stop
from harness.runs.owning import due_at
from harness.tools.outcome import error_class


def ended(run: Run, stop: Stop) -> ChildEnd:
    """How the child stopped, as its parent records it."""
    end = run.state.end or {}
    output = _output(run, run.folder, run.state)
    hint = (run.state.park or {}).get("hint", "") if stop.parked else ""
    until = due_at(run.state) if stop.parked else None
    spent, ms = _numbers(end.get("spent") or spent_of(run.state)), run.state.spent.active_ms
    barred, made = tuple(sorted(run.state.barred)), made_by_stages(run.state)
    return ChildEnd(stop, output, error_class_of(end), end.get("error", ""), spent, hint, ms, barred, until, made)


def told(parent: Run, folder: Path, known: State) -> ChildEnd:
    """The same of one that ended before, by its journal."""
    end = known.end or {}
    return ChildEnd(
        Stop(end["stop"], end["exit"]), _output(parent, folder, known), error_class_of(end), end.get("error", ""),
        _numbers(end.get("spent") or {}), barred=tuple(sorted(known.barred)), artifacts=made_by_stages(known),
    )  # fmt: skip


def not_opened(parent: Run, op: Operation, error: HarnessError) -> ChildEnd:
    """The end of a call whose own run cannot be gone on with; what it may have done and nobody saw waits for that."""
    unseen = " ".join(unseen_in(parent, op))
    if not unseen:
        return ChildEnd(Stop("failed", error.exit_code), b"", "MISCONFIGURED", error.message, {})
    hint = f"{unseen} in {op.child} may have had its effect, and that run cannot go on: {error.message}"
    return ChildEnd(Stop("unknown-outcome", CODES["unknown-outcome"], parked=True), b"", "", "", {}, hint)


def _output(run: Run, folder: Path, known: State) -> bytes:
    """The accepted answer of a run that ended; of one that its budget ended, what it found until then."""
    end = known.end or {}
    answer = _text(folder, end.get("answer"))
    if end.get("stop") == "passed":
        return answer
    if end.get("stop") != "budget":
        return b""

    def changed(receipt: Receipt) -> str:
        return next((path for path, sha in receipt.artifacts if run.file_digest(path) != sha), "")

    ground = Ground(known, known.at, changed)
    return best_evidence(ground, end.get("limit", ""), answer.decode("utf-8", "replace")).encode("utf-8", "replace")


def _text(folder: Path, value: object) -> bytes:
    if isinstance(value, dict) and isinstance(value.get("blob"), str):
        return blob_bytes(folder, value["blob"])
    return str(value or "").encode()


def made_by_stages(state: State) -> tuple[tuple[str, str], ...]:
    """The files that the stages of a pipeline hold: its result stands on them, too."""
    held = (receipt for slot, receipt in state.slots.items() if slot[0] == "stage" and receipt.ok)
    return tuple(sorted({artifact for receipt in held for artifact in receipt.artifacts}))


def error_class_of(end: dict[str, Any]) -> str:
    """The class of a child's end: that of its failing step where its exit carries one, else by its stop."""
    if end.get("stop") == "denied":
        return "DENIED"
    if end.get("stop") == "budget":
        return "OVER_BUDGET"
    return error_class(int(end.get("exit", 1)))


def _numbers(spent: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spent.items() if isinstance(value, int | dict)}
