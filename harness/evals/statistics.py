"""The statistics that a table of trials needs, each a pure function of numbers; checked against scipy in a test."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, correlation, fmean, median, quantiles

CONFIDENCE = 0.95
RESAMPLES = 10_000
FEWEST = 6
"""Pairs: drawn from fewer the interval is far too narrow, and the exact test of rates can tell nothing either."""
SEED = 20_261_201
"""Of the bootstrap: the same trials give the same interval."""


def wilson(passed: int, of: int) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a rate; None where nothing was tried."""
    if of == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    rate, spread = passed / of, z * z / of
    middle = rate + spread / 2
    half = z * math.sqrt(rate * (1 - rate) / of + spread / (4 * of))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def all_pass(passed: int, of: int, k: int) -> float | None:
    """How likely `k` trials of a case, drawn from those that were made, all passed; None where fewer were made."""
    return math.comb(passed, k) / math.comb(of, k) if 0 < k <= of else None


def middle_and_tail(values: Sequence[float]) -> tuple[float, float] | None:
    """Median and 95th percentile (linear between the two nearest values); None where there are no values."""
    if not values:
        return None
    tail = quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
    return median(values), tail


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p-value that two arms differ, from the pairs in which only one of them passed."""
    pairs = only_first + only_second
    fewer = sum(math.comb(pairs, n) for n in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * fewer / (1 << pairs))


def bootstrap(differences: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % percentile interval of the mean of paired differences; None for too few pairs to tell noise by."""
    if len(differences) < FEWEST:
        return None
    draw = random.Random(SEED)
    means = sorted(fmean(draw.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return means[cut], means[-1 - cut]


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa of two raters' labels; None where chance alone would make them agree always."""
    if not pairs:
        return None
    first, second = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    chance = sum(first[label] * second[label] for label in first) / len(pairs) ** 2
    return None if chance == 1 else (agreement(pairs) - chance) / (1 - chance)


def agreement(pairs: Sequence[tuple[str, str]]) -> float:
    """The share of pairs that are equal."""
    return fmean(float(one == other) for one, other in pairs)


def leaning(lengths: Sequence[float], accepted: Sequence[bool]) -> float | None:
    """Pearson's correlation of length and acceptance; None where one of them does not vary."""
    if len(set(lengths)) < 2 or len(set(accepted)) < 2:
        return None
    return correlation(lengths, [float(yes) for yes in accepted])
