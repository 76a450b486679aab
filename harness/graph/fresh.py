"""What a receipt stands on, and what that releases. Pure: whether files have changed comes in as a function.

Change propagates along receipts, age does not: an expired prerequisite is looked at again before a new step uses it,
and only another result undoes what was built on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from harness.events.state import Receipt, State
from harness.graph import Graph, Need

Values = Mapping[str, tuple[str, ...]]
"""Option name → its values as compared: defaults filled in, typed, one item for each value of a repeatable one."""


def _nothing(_: Receipt) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Ground:
    """What freshness is judged on: the state, the time (epoch seconds), the disk, and how an argv reads as values.

    `changed` names a file that a receipt stands on and that is not as it was; `values` reads a canonical argv. One
    ground serves one look: what it found out about a receipt is kept, because many others may stand on it.
    """

    state: State
    now: float
    changed: Callable[[Receipt], str] = _nothing
    values: Callable[[str, tuple[str, ...]], Values] = field(default=lambda tool, argv: {})
    holding: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unmet:
    """One need that does not hold: as it is written, why, and the receipt or value that is missing."""

    need: str
    why: str

    def text(self) -> str:
        return self.why


def is_current(ground: Ground, receipt: Receipt) -> bool:
    """Its slot holds a success with the same result, artifacts unchanged, itself built on what is current."""
    held = ground.state.slots.get(receipt.slot)
    return held is not None and held.ok and held.result == receipt.result and _holds(ground, held)


def _holds(ground: Ground, held: Receipt) -> bool:
    """Whether nothing that a slot's success stands on has changed."""
    known = ground.holding.get(held.op)
    if known is None:
        known = held.slot not in ground.state.stale and not ground.changed(held)
        known = known and all(is_current(ground, ground.state.receipts[n]) for n in held.needs)
        ground.holding[held.op] = known
    return known


def why_stale(ground: Ground, receipt: Receipt) -> str | None:
    """Why the receipt is not fresh, or None when it is. `a ← b ← c changed` names the chain."""
    held = ground.state.slots.get(receipt.slot)
    if not receipt.ok or held is None or not held.ok:
        return f"{receipt.tool} ended {(held or receipt).error_class}"
    if held.op != receipt.op:
        return f"{receipt.tool} ran again as op {held.op}"
    if receipt.ttl is not None and ground.now - receipt.at > receipt.ttl:
        return f"{receipt.tool} expired {round(ground.now - receipt.at - receipt.ttl)} s ago"
    return _why_changed(ground, receipt)


def _why_changed(ground: Ground, receipt: Receipt) -> str | None:
    if receipt.slot in ground.state.stale:
        return f"{receipt.tool} was declared stale"
    if path := ground.changed(receipt):
        return f"{receipt.tool}: {path} changed"
    for n in receipt.needs:
        used = ground.state.receipts[n]
        if not is_current(ground, used):
            held = ground.state.slots.get(used.slot)
            deeper = _why_changed(ground, held) if held and held.ok and held.result == used.result else None
            return f"{receipt.tool} ← {deeper or used.tool + ' changed'}"
    return None


def is_fresh(ground: Ground, receipt: Receipt) -> bool:
    """Whether `why_stale` has nothing to say; quicker, for the many that are asked."""
    held = ground.state.slots.get(receipt.slot)
    if not receipt.ok or held is None or held.op != receipt.op:
        return False
    return (receipt.ttl is None or ground.now - receipt.at <= receipt.ttl) and _holds(ground, held)


def holders(ground: Ground, tool: str) -> list[Receipt]:
    """The receipt of each slot of a tool that holds a success, newest first."""
    return [receipt for receipt in _slots(ground, tool) if receipt.ok]


def why_missing(ground: Ground, tool: str) -> str | None:
    """Why a tool that ran holds no fresh success; None when nothing of it has ended."""
    held = holders(ground, tool) or _slots(ground, tool)
    return why_stale(ground, held[0]) if held else None


def _slots(ground: Ground, tool: str) -> list[Receipt]:
    return sorted(ground.state.by_tool.get(tool, {}).values(), key=lambda r: -r.op)


def fresh_receipt(ground: Ground, tool: str) -> Receipt | None:
    """The newest fresh success of a tool, or None."""
    return next((r for r in holders(ground, tool) if is_fresh(ground, r)), None)


def unmet(ground: Ground, graph: Graph, tool: str, values: Values | None) -> list[Unmet]:
    """The needs of a call that do not hold; empty when it is released.

    `values` are the call's own; None asks whether some call of the tool could be released.
    """
    return [missing for need in graph.needs(tool) if (missing := _unmet(ground, need, values)) is not None]


def consumed(ground: Ground, graph: Graph, tool: str, values: Values) -> tuple[int, ...]:
    """The operations whose receipts a call stands on: for each plain need the newest that satisfies it."""
    found: list[int] = []
    for need in graph.needs(tool):
        if need.kind == "fresh":
            found += [r.op for r in _satisfying(ground, need, values) if r is not None]
    return tuple(dict.fromkeys(found))


def _unmet(ground: Ground, need: Need, values: Values | None) -> Unmet | None:
    if need.kind == "ended":
        return None if ground.state.ended.get(need.name) else Unmet(need.text(), f"needs {need.text()} to have ended")
    if need.options and values is not None:
        return _unmet_values(ground, need, values)
    if _candidates(ground, need):
        return None
    return Unmet(need.text(), _why_none(ground, need))


def _candidates(ground: Ground, need: Need) -> list[Receipt]:
    """Successes that count for a need, newest first."""
    if need.kind == "once":
        return [ground.state.receipts[n] for n in reversed(ground.state.succeeded.get(need.name, ()))]
    return [r for r in holders(ground, need.name) if is_fresh(ground, r)]


def _why_none(ground: Ground, need: Need) -> str:
    why = why_missing(ground, need.name) if need.kind == "fresh" else None
    return why or f"needs {need.text()}"


def _unmet_values(ground: Ground, need: Need, values: Values) -> Unmet | None:
    absent = [o for o in need.options if not values.get(o)]
    if absent:
        return Unmet(need.text(), f"needs {need.text()}: give --{absent[0]}")
    for wanted, receipt in zip(_wanted(need, values), _satisfying(ground, need, values), strict=True):
        if receipt is None:
            return Unmet(need.text(), _why_no_value(ground, need, wanted))
    return None


def _why_no_value(ground: Ground, need: Need, wanted: Mapping[str, str]) -> str:
    shown = " ".join(f"--{name} {value}" for name, value in wanted.items())
    held = next((r for r in _slots(ground, need.name) if _carries(ground, r, wanted)), None)
    why = why_stale(ground, held) if held is not None and need.kind == "fresh" else None
    return f"{why} ({shown})" if why else f"needs {need.name} with the same {shown}"


def _wanted(need: Need, values: Values) -> list[dict[str, str]]:
    """Each combination that must be covered: one for every value of a repeatable option."""
    combined: list[dict[str, str]] = [{}]
    for option in need.options:
        combined = [{**known, option: value} for known in combined for value in values.get(option, ())]
    return combined


def _satisfying(ground: Ground, need: Need, values: Values) -> list[Receipt | None]:
    candidates = _candidates(ground, need)
    if not need.options:
        return [candidates[0] if candidates else None]
    return [next((r for r in candidates if _carries(ground, r, wanted)), None) for wanted in _wanted(need, values)]


def held_values(ground: Ground, need: Need) -> list[dict[str, str]]:
    """The values of a need's options that a call may have now, newest first: those that its successes carry."""
    found: list[dict[str, str]] = []
    for receipt in _candidates(ground, need):
        have = ground.values(receipt.tool, receipt.argv)
        found += [one for one in _wanted(need, have) if one not in found]
    return found


def _carries(ground: Ground, receipt: Receipt, wanted: Mapping[str, str]) -> bool:
    have = ground.values(receipt.tool, receipt.argv)
    return all(value in have.get(option, ()) for option, value in wanted.items())


def released(ground: Ground, graph: Graph, names: Iterable[str]) -> list[str]:
    """The names that some call could start now, in the given order."""
    return [name for name in names if not unmet(ground, graph, name, None)]
