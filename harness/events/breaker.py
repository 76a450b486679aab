"""One breaker a tool: after some bad ends in a row it rests, then one call may try. Pure: it counts in the state."""

from __future__ import annotations

from harness.events.state import Breaker, Operation, State

IN_A_ROW, MOST = frozenset({"RETRYABLE", "TIMEOUT"}), 3
AT_ONCE = frozenset({"NEEDS_AUTH", "MISCONFIGURED"})
FIRST_S, LONGEST_S = 30.0, 300.0


def count_end(state: State, op: Operation, name: str) -> None:
    """Note the class that an operation ended in. Verifiers and child runs have no breaker: their parts have."""
    if op.role == "verify" or op.verb == "read" or op.child is not None:
        return
    if name == "OK":
        state.breakers.pop(op.tool, None)
        return
    known = state.breakers.setdefault(op.tool, Breaker())
    if name not in IN_A_ROW | AT_ONCE:
        known.failures = 0  # whatever it said, it answered
        return
    known.failures = max(known.failures + 1, MOST if name in AT_ONCE else 0)
    if known.failures >= MOST and state.at >= known.until:  # those under way when it opened are no trial
        known.until = state.at + min(LONGEST_S, FIRST_S * 2**known.opened)
        known.opened, known.code = known.opened + 1, name


def refusal(state: State, op: Operation, tool: str, now: float) -> tuple[str, str] | None:
    """(class, reason) when a call may not start now: the tool rests, or another call is trying already."""
    known = state.breakers.get(tool)
    if known is None or known.failures < MOST:
        return None
    if now < known.until:
        return known.code, f"{tool} rests for {round(known.until - now)} s more: it ended {known.code} too often"
    trial = next((other.n for other in state.open_ops.values() if other.n != op.n and _tries(other, tool)), None)
    return (known.code, f"{tool} is being tried again by operation {trial}: wait for it") if trial else None


def _tries(op: Operation, tool: str) -> bool:
    return op.tool == tool and op.verdict == "allow" and op.role != "verify"
