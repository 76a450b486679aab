"""Two operations of one batch that name the same file with different content: neither can be believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.events.state import Operation
from harness.loop.run import Run


def clash(run: Run, op: Operation, artifacts: Sequence[dict[str, str]]) -> str:
    """The sentence that names both operations and the file; empty where no other of the batch made it otherwise."""
    made = {artifact["path"]: artifact["sha256"] for artifact in artifacts}
    for other in _beside(run, op) if made else ():
        receipt = run.state.receipts.get(other.n)
        for path, sha in receipt.artifacts if receipt is not None else ():
            if made.get(path, sha) != sha:
                return f"operations {other.n} and {op.n} both made {path}, with different content"
    return ""


def _beside(run: Run, op: Operation) -> Iterable[Operation]:
    """The operations that ran, or could have run, at the same time: of one reply, or ended after this one began.

    Receipts are filed as operations end, so the newest come first and the first that ended too early ends the look.
    """
    state, begun = run.state, op.started_at or 0.0
    for n in reversed(state.receipts):
        other = state.ops[n]
        same_reply = n in state.turn_ops and op.n in state.turn_ops
        if not same_reply and (other.ended_at is None or other.ended_at < begun):
            return
        if n != op.n:
            yield other
