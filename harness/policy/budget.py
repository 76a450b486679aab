"""Limits of a run: reading them, merging them, and what is left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from harness.errors import HarnessError, near_text
from harness.events.state import Spent
from harness.policy import Bound, Source
from harness.tools.notation import BUDGET_KEYS, MOST_STRIKES, read_limit

DEFAULTS: Mapping[str, str] = {
    "turns": "40", "calls": "200", "external": "20", "destructive": "5", "money_calls": "5", "usd": "1",
    "seconds": "1800",
}  # fmt: skip
MONEY = "money"
EFFECT_KEYS = {"money": "money_calls"}
STAGES = (50, 20, 10)
SHARE = Decimal("0.9")
WIDENING: tuple[Source, ...] = ("system", "user")
"""Whose file may set a limit above the default; all others only narrow."""

_WANTED = {
    "usd": ("positive amount", "10"), MONEY: ("amount with its currency", "50.00EUR"),
    "strikes": (f"number from 1 to {MOST_STRIKES}: it is only lowered", "4"),
}  # fmt: skip


def parse_budget(text: str) -> dict[str, str]:
    """`key=value` pairs apart by blanks or commas, as a person types them. HarnessError names the nearest key.

    `money=50.00EUR` may stand once for each currency; together they are `50.00 EUR, 20 USD`.
    """
    found: dict[str, str] = {}
    for pair in text.replace(",", " ").split():
        key, equals, value = pair.partition("=")
        if key not in BUDGET_KEYS or not equals:
            fix = f"give KEY=VALUE with one of: {' '.join(BUDGET_KEYS)}"
            raise HarnessError(f"unknown budget '{pair}'{near_text(key, BUDGET_KEYS)}", fix)
        if key in found and (key != MONEY or value[-3:] in found[key]):
            raise HarnessError(f"budget {key} is given twice", "give it once")
        value = checked(key, value)
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def checked(key: str, value: str) -> str:
    """The value of a limit in its usual form. Raises HarnessError for what is none."""
    if key == "usd" and value == "none":
        return value
    limit = read_limit(key, value)
    if limit is None:
        wanted, fix = _WANTED.get(key, ("positive number", "10"))
        raise HarnessError(f"budget {key}={value} is no {wanted}", f"give {key}={fix}")
    return limit


def merged(skill: Mapping[str, str], flag: Mapping[str, str], bounds: Sequence[Bound] = ()) -> dict[str, Any]:
    """The limits in force: the flag's figure, else the skill's, else the default, below those of all policy files.

    A default gives way to a limit of the system's or the user's file; `usd=none` lifts the skill's figure and the
    default. Raises HarnessError for a flag that exceeds a file's limit.
    """
    names = dict.fromkeys([*DEFAULTS, *(b.name for b in bounds), *_names(skill), *_names(flag)])
    found: dict[str, Any] = {}
    for name in names:
        value = _in_force(name, _figure(skill, name), _figure(flag, name), [b for b in bounds if b.name == name])
        if value is not None:
            _put(found, name, value)
    return found


def _names(figures: Mapping[str, str]) -> list[str]:
    money = [f"{MONEY} {part.split()[-1]}" for part in figures[MONEY].split(",")] if MONEY in figures else []
    return [*(key for key in figures if key != MONEY), *money]


def _figure(figures: Mapping[str, str], name: str) -> str | None:
    key, _, currency = name.partition(" ")
    if not currency:
        return figures.get(key)
    parts = [part.split() for part in figures.get(key, "").split(",")]
    return next((part[0] for part in parts if part and part[-1] == currency), None)


def _in_force(name: str, skill: str | None, flag: str | None, bounds: Sequence[Bound]) -> str | None:
    above = next((b for b in bounds if flag not in (None, "none") and Decimal(flag or 0) > Decimal(b.value)), None)
    if above is not None:
        what = f"-b {name.replace(' ', '=')}={flag} is above the limit of {above.value}"
        raise HarnessError(what, f"give at most {above.value}, or change it there", above.place)
    figures = [figure for figure in (flag or skill,) if figure not in (None, "none")]
    figures += [b.value for b in bounds if b.source in WIDENING]
    if not figures and flag != "none" and name in DEFAULTS:
        figures = [DEFAULTS[name]]
    figures += [b.value for b in bounds if b.source not in WIDENING]
    return min(figures, key=Decimal) if figures else flag


def _put(budget: dict[str, Any], name: str, value: str) -> None:
    key, _, currency = name.partition(" ")
    if currency:
        budget[key] = {**budget.get(key, {}), currency: value}
    else:
        budget[key] = _number(key, value)


def places(budget: Mapping[str, Any], bounds: Iterable[Bound]) -> dict[str, str]:
    """Which file a limit in force comes from, by its key: `calls`, `money EUR`."""
    found: dict[str, str] = {}
    for bound in bounds:
        held = limit(budget, bound.key) if not bound.currency else money_limits(budget).get(bound.currency)
        if held is not None and held == Decimal(bound.value):
            found.setdefault(bound.name, bound.place)
    return found


def below(budget: Mapping[str, Any], bounds: Sequence[Bound]) -> dict[str, Any]:
    """Limits in force under further files, which only narrow them; the keys that differ alone."""
    found: dict[str, Any] = {}
    for bound in bounds:
        now = {**budget, **found}
        held = limit(now, bound.key) if not bound.currency else money_limits(now).get(bound.currency)
        if held is None or Decimal(bound.value) < held:
            money = {MONEY: dict(now.get(MONEY) or {})} if bound.currency else {}
            _put(money, bound.name, bound.value)
            found |= money
    return found


def _number(key: str, value: str) -> str | float | int:
    if key == "usd":
        return value
    return float(value) if key == "seconds" else int(Decimal(value))


def limit(budget: Mapping[str, Any], key: str) -> Decimal | None:
    """One limit as a number, or None where there is none. Sums of money have limits of their own."""
    value = budget.get(key)
    return None if value in (None, "none") else Decimal(str(value))


def money_limits(budget: Mapping[str, Any]) -> dict[str, Decimal]:
    """The most that may be moved, by currency."""
    return {currency: Decimal(str(value)) for currency, value in (budget.get(MONEY) or {}).items()}


def money_spent(spent: Spent, currency: str) -> Decimal:
    """What was moved, or may have been, or is about to be."""
    return Decimal(spent.money.get(currency, 0)) / 10_000


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
        if key == MONEY:
            found[key] = _money_share(budget, spent, lent, among)
            continue
        if key == "strikes":  # the same number at every depth: nothing of it is used up
            found[key] = budget[key]
            continue
        bound = limit(budget, key)
        if bound is None:
            continue
        taken = sum((limit(part, key) or Decimal(0) for part in lent), Decimal(0))
        left = max(Decimal(0), bound - used(spent, key, active_s) - taken) / among
        found[key] = _portion(key, left)
    return found


def _money_share(
    budget: Mapping[str, Any], spent: Spent, lent: Sequence[Mapping[str, Any]], among: int
) -> dict[str, str]:
    """Sums are shared out whole: no fee of a tenth is kept back from a payment."""
    found = {}
    for currency, bound in money_limits(budget).items():
        taken = sum((money_limits(part).get(currency, Decimal(0)) for part in lent), Decimal(0))
        left = max(Decimal(0), bound - money_spent(spent, currency) - taken) / among
        found[currency] = str(left.quantize(Decimal("0.0001"), ROUND_DOWN))
    return found


def _portion(key: str, left: Decimal) -> str | float | int:
    part = left * SHARE
    if key == "usd":
        return str(part)
    return round(float(part), 3) if key == "seconds" else int(max(part, min(left, Decimal(1))))


def narrowed(part: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """A child's limits: its share, and its own where that is smaller or the only one."""
    return {**part, **below(part, [bound for name in _names(own) for bound in _own_bound(own, name)])}


def _own_bound(own: Mapping[str, str], name: str) -> list[Bound]:
    key, _, currency = name.partition(" ")
    figure = _figure(own, name)
    return [] if figure in (None, "none") else [Bound(key, str(figure), "", "skill", currency)]


def low_notes(budget: Mapping[str, Any], spent: Spent, active_s: float) -> list[str]:
    """What to say of dimensions that run low: one text for each stage that was reached, the same on every look."""
    found = []
    for key in ("turns", "calls", "tokens", "usd", "seconds"):
        bound = limit(budget, key)
        if bound is None or bound <= 0:
            continue
        left = 100 * (bound - used(spent, key, active_s)) / bound
        reached = [stage for stage in STAGES if left <= stage]
        if reached:
            found.append(f"{reached[-1]} % or less of the budget {key}={bound.normalize():f} is left.")
    return found
