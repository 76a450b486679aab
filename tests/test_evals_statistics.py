"""Our few statistics against those of a library that many people check."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evals.statistics import all_pass, bootstrap, kappa, leaning, mcnemar, middle_and_tail, wilson

stats = pytest.importorskip("scipy.stats")
numpy = pytest.importorskip("numpy")
LABELS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30)


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilsons_interval_is_scipys(passed: int, of: int) -> None:
    passed = min(passed, of)
    found = wilson(passed, of)
    wanted = stats.binomtest(passed, of).proportion_ci(method="wilson")
    assert found is not None and found == pytest.approx((wanted.low, wanted.high), abs=1e-12)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_scipys_exact_binomial(better: int, worse: int) -> None:
    wanted = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert mcnemar(better, worse) == pytest.approx(wanted, rel=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_median_and_tail_are_numpys_percentiles(values: list[float]) -> None:
    found = middle_and_tail(values)
    assert found == pytest.approx(tuple(numpy.percentile(values, [50, 95])), rel=1e-9, abs=1e-6)


@given(st.integers(1, 7), st.integers(0, 7), st.integers(1, 7))
def test_all_pass_counts_the_draws_in_which_every_trial_passed(of: int, passed: int, k: int) -> None:
    trials = [n < min(passed, of) for n in range(of)]
    draws = [all(draw) for draw in combinations(trials, k)]
    found = all_pass(min(passed, of), of, k)
    assert found is None if k > of else found == pytest.approx(sum(draws) / len(draws))


def test_the_bootstrap_holds_the_interval_of_scipy() -> None:
    differences = [0.3, -0.1, 0.8, 0.2, 0.5, -0.4, 0.9, 0.1, 0.05, 0.6, 0.2, 0.3]
    found = bootstrap(differences)
    wanted = stats.bootstrap((differences,), numpy.mean, method="percentile", random_state=7, n_resamples=20_000)
    ends = (wanted.confidence_interval.low, wanted.confidence_interval.high)
    assert found == pytest.approx(ends, abs=0.02) and found == bootstrap(differences)


def test_a_few_pairs_tell_nothing_of_noise() -> None:
    assert bootstrap([3.0] * 5) is None and bootstrap([3.0] * 6) == (3.0, 3.0)
    assert wilson(0, 0) is None and middle_and_tail([]) is None


@given(LABELS)
def test_kappa_is_what_its_definition_says(pairs: list[tuple[str, str]]) -> None:
    table = Counter(pairs)
    size = len(pairs)
    same = sum(table[label, label] for label in "abc") / size
    rows = {label: sum(n for (one, _), n in table.items() if one == label) / size for label in "abc"}
    columns = {label: sum(n for (_, two), n in table.items() if two == label) / size for label in "abc"}
    chance = sum(rows[label] * columns[label] for label in "abc")
    found = kappa(pairs)
    if chance > 1 - 1e-12:
        assert found is None
    else:
        assert found == pytest.approx((same - chance) / (1 - chance), abs=1e-9)


@given(st.lists(st.tuples(st.floats(1, 1e4), st.booleans()), min_size=3, max_size=30))
def test_the_leaning_to_length_is_pearsons_correlation(samples: list[tuple[float, bool]]) -> None:
    lengths, accepted = [length for length, _ in samples], [yes for _, yes in samples]
    found = leaning(lengths, accepted)
    if found is not None and max(lengths) - min(lengths) > 1:
        wanted = stats.pointbiserialr(accepted, lengths).statistic
        assert found == pytest.approx(wanted, abs=1e-6)
