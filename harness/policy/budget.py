"""Limits of a run: reading them, merging them, and what is left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from harness.errors import HarnessError, near_text
from harness.events.state import Spent
from harness.tools.arguments import parse_duration

DEFAULTS: Mapping[str, str] = {
    "turns": "40", "calls": "200", "external": "20", "destructive": "5", "money_calls": "5", "usd": "1",
    "seconds": "1800",
}  # fmt: skip
KEYS = ("turns", "calls", "read", "write", "external", "destructive", "money_calls", "tokens", "usd", "seconds")
EFFECT_KEYS = {"money": "money_calls"}
STAGES = (50, 20, 10)
SHARE = Decimal("0.9")


def parse_budget(text: str) -> dict[str, str]:
    """`key=value` pairs apart by blanks or commas, as a person types them. HarnessError names the nearest key."""
    found: dict[str, str] = {}
    for pair in text.replace(",", " ").split():
        key, equals, value = pair.partition("=")
        if key not in KEYS or not equals:
            fix = f"give KEY=VALUE with one of: {' '.join(KEYS)}"
            raise HarnessError(f"unknown budget '{pair}'{near_text(key, KEYS)}", fix)
        if key in found:
            raise HarnessError(f"budget {key} is given twice", "give it once")
        found[key] = _checked(key, value)
    return found


def _checked(key: str, value: str) -> str:
    if key == "usd" and value == "none":
        return value
    if key == "seconds" and (seconds := parse_duration(value)) is not None:
        value = f"{seconds:g}"
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal(0)
    if not number.is_finite() or number <= 0 or (key not in ("usd", "seconds") and number != int(number)):
        kind = "amount" if key == "usd" else "number"
        raise HarnessError(f"budget {key}={value} is no positive {kind}", f"give {key}=10")
    return value


def merged(skill: Mapping[str, str], flag: Mapping[str, str]) -> dict[str, Any]:
    """The limits in force: the flag's figure, else the skill's, else the default. `usd=none` lifts that one."""
    chosen = {**DEFAULTS, **skill, **flag}
    return {key: _number(key, value) for key, value in chosen.items()}


def _number(key: str, value: str) -> str | float | int:
    if key == "usd":
        return value
    return float(value) if key == "seconds" else int(value)


def limit(budget: Mapping[str, Any], key: str) -> Decimal | None:
    """One limit as a number, or None where there is none."""
    value = budget.get(key)
    return None if value in (None, "none") else Decimal(str(value))


def used(spent: Spent, key: str, active_s: float) -> Decimal:
    """What has been used of one dimension."""
    if key == "usd":
        return Decimal(spent.nanos) / 1_000_000_000
    if key == "seconds":
        return Decimal(str(round(active_s, 3)))
    if key == "tokens":
        return Decimal(spent.tokens_in + spent.tokens_out)
    if key in ("turns", "calls"):
        return Decimal(getattr(spent, key))
    return Decimal(spent.effects.get("money" if key == "money_calls" else key, 0))


def exhausted(budget: Mapping[str, Any], spent: Spent, active_s: float, keys: tuple[str, ...]) -> str | None:
    """The first of these dimensions in which nothing is left, or None."""
    for key in keys:
        bound = limit(budget, key)
        if bound is not None and used(spent, key, active_s) >= bound:
            return key
    return None


def share(
    budget: Mapping[str, Any], spent: Spent, active_s: float, lent: Iterable[Mapping[str, Any]], among: int
) -> dict[str, Any]:
    """What each of `among` children may use: nine tenths of what is left and not lent already, in equal parts.

    Counts are rounded down, but one that is there for each child is not rounded away.
    """
    lent = list(lent)
    found: dict[str, Any] = {}
    for key in budget:
        bound = limit(budget, key)
        if bound is None:
            continue
        taken = sum((limit(part, key) or Decimal(0) for part in lent), Decimal(0))
        left = max(Decimal(0), bound - used(spent, key, active_s) - taken) / among
        found[key] = _portion(key, left)
    return found


def _portion(key: str, left: Decimal) -> str | float | int:
    part = left * SHARE
    if key == "usd":
        return str(part)
    return round(float(part), 3) if key == "seconds" else int(max(part, min(left, Decimal(1))))


def narrowed(part: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """A child's limits: its share, and its own where that is smaller or the only one."""
    found = dict(part)
    for key, value in own.items():
        mine, given = limit(own, key), limit(part, key)
        if mine is not None and (given is None or mine < given):
            found[key] = _number(key, value)
    return found


def low_notes(budget: Mapping[str, Any], spent: Spent, active_s: float) -> list[str]:
    """What to say of dimensions that run low: one text for each stage that was reached, the same on every look."""
    found = []
    for key in ("turns", "calls", "usd", "seconds"):
        bound = limit(budget, key)
        if bound is None or bound <= 0:
            continue
        left = 100 * (bound - used(spent, key, active_s)) / bound
        reached = [stage for stage in STAGES if left <= stage]
        if reached:
            found.append(f"{reached[-1]} % or less of the budget {key}={bound.normalize():f} is left.")
    return found
