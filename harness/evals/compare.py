"""Two evaluations of the same cases, pair by pair: whether what differs exceeds noise. Pure.

The unit is the case, not the trial: trials of one case are alike, and counting each would make noise look sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from harness.evals.evaluation import graded
from harness.evals.statistics import CONFIDENCE, bootstrap, mcnemar
from harness.evals.table import SPREADS, Graded
from harness.evals.trial import Trial

COSTS = ("turns", "calls", "tokens", "usd", "active_s")


@dataclass(frozen=True, slots=True)
class Side:
    """One arm of one evaluation: its trials by case, and the digest of each case."""

    trials: Sequence[Trial]
    digests: Mapping[str, str]

    def cases(self) -> dict[str, list[Graded]]:
        found: dict[str, list[Graded]] = {}
        for trial in self.trials:
            if not trial.void:
                found.setdefault(trial.case, []).append(graded(trial))
        return found


def compare(before: Side, now: Side) -> dict[str, Any]:
    """What changed, as plain data: a case counts as passed where all its trials did; costs are means of a case.

    `better` and `worse` name the cases that changed, `p` is exact, `unpaired` are cases that are not the same in both.
    """
    first, second = before.cases(), now.cases()
    same = [case for case in first if case in second and before.digests.get(case) == now.digests.get(case)]
    was, is_ = ({case: all(one.passed for one in side[case]) for case in same} for side in (first, second))
    better = sorted(case for case in same if is_[case] and not was[case])
    worse = sorted(case for case in same if was[case] and not is_[case])
    p = mcnemar(len(worse), len(better))
    return {
        "cases": len(same), "unpaired": sorted({*first, *second} - {*same}), "better": better, "worse": worse,
        "p": p, "is_real": p < 1 - CONFIDENCE,
        "costs": {name: _cost(SPREADS[name], [(first[case], second[case]) for case in same]) for name in COSTS},
    }  # fmt: skip


def _cost(of: Callable[[Any], float | None], pairs: Sequence[tuple[list[Graded], list[Graded]]]) -> dict[str, Any]:
    """The mean difference of a cost, its 95 % interval, and whether that leaves out zero."""
    means = [(_mean(of, first), _mean(of, second)) for first, second in pairs]
    differences = [two - one for one, two in means if one is not None and two is not None]
    interval = bootstrap(differences)
    is_real = interval is not None and (interval[0] > 0 or interval[1] < 0)
    mean = fmean(differences) if differences else None
    return {"mean": mean, "interval": interval, "is_real": is_real, "cases": len(differences)}


def _mean(of: Callable[[Any], float | None], graded: Sequence[Graded]) -> float | None:
    values = [value for one in graded if (value := of(one.figures)) is not None]
    return fmean(values) if values else None
