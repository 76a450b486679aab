"""What the trials of one arm come to: rates with intervals, medians with tails, counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.evals.figures import Figures
from harness.evals.statistics import all_pass, middle_and_tail, wilson
from harness.events.spending import MONEY

SPREADS: dict[str, Callable[[Figures], float | None]] = {
    "turns": lambda f: f.turns,
    "calls": lambda f: len(f.calls),
    "tokens": lambda f: f.tokens,
    "usd": lambda f: None if f.unpriced else f.nanos / MONEY,
    "active_s": lambda f: f.seconds,
    "waiting_s": lambda f: f.waiting_s,
    "first_action_s": lambda f: f.first_s,
}
"""What is told as a median and a 95th percentile; a trial without a value is left out of it."""


@dataclass(frozen=True, slots=True)
class Graded:
    """A run and whether it counts as passed; `case` is what it was a trial of."""

    case: str
    passed: bool
    figures: Figures


def row(graded: Sequence[Graded], k: int) -> dict[str, Any]:
    """All figures of an arm as plain data; a rate of nothing is None. `k`: how many trials of a case must all pass."""
    figures, passed = [one.figures for one in graded], sum(one.passed for one in graded)
    calls = [call for one in figures for call in one.calls]
    stumbled = [one for one in graded if one.figures.stumbled]
    refused = sum((Counter(one.refused) for one in figures), Counter[str]())
    nanos, unpriced = sum(one.nanos for one in figures), sum(one.unpriced for one in figures)
    return {
        "trials": len(graded), "passed": passed, "rate": rate(passed, len(graded)),
        "interval": wilson(passed, len(graded)), "k": k, "all_k": _all_k(graded, k),
        **{name: middle_and_tail(_known(map(of, figures))) for name, of in SPREADS.items()},
        "valid_calls": rate(_total(figures, "proposed") - _total(figures, "bad_calls"), _total(figures, "proposed")),
        "refusals": dict(sorted(refused.items())),
        "tool_errors": rate(sum(call.code != "OK" for call in calls), len(calls)),
        "repairs": _total(figures, "repaired"),
        "recovered": rate(sum(one.passed for one in stumbled), len(stumbled)),
        "escalations": _total(figures, "escalations"),
        "unsupported": rate(_total(figures, "unsupported"), _total(figures, "values")),
        "usd_per_pass": None if unpriced or not passed else nanos / MONEY / passed,
        "usd_total": nanos / MONEY, "unpriced": unpriced,
    }  # fmt: skip


def rate(part: int, of: int) -> float | None:
    """A share; None of nothing."""
    return part / of if of else None


def _all_k(graded: Sequence[Graded], k: int) -> float | None:
    """The mean over the cases of how likely k trials all pass; None where a case has fewer trials."""
    cases = Counter(one.case for one in graded)
    good = Counter(one.case for one in graded if one.passed)
    each = [all_pass(good[case], of, k) for case, of in cases.items()]
    known = _known(each)
    return sum(known) / len(known) if known and len(known) == len(each) else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _total(figures: Iterable[Figures], name: str) -> int:
    return sum(int(getattr(one, name)) for one in figures)
