"""Limits: how they are written, which one holds, what is left, and what a child gets of it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.events.state import Spent
from harness.policy.budget import exhausted, limit, low_notes, merged, narrowed, parse_budget, share, used


def test_what_a_person_types() -> None:
    assert parse_budget("turns=10, usd=0.20 seconds=5m") == {"turns": "10", "usd": "0.20", "seconds": "300"}
    assert parse_budget("usd=none") == {"usd": "none"}
    assert parse_budget("") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [("turn=3", "near: turns"), ("turns", "turns"), ("turns=", "turns="), ("turns=0", "turns=0"),
     ("turns=1.5", "turns=1.5"), ("turns=-1", "turns=-1"), ("usd=NaN", "usd=NaN"),
     ("usd=inf", "usd=inf"), ("usd=1e309", ""), ("usd=-1", "usd=-1"),
     ("turns=none", "turns=none"), ("turns=1 turns=2", "twice"), ("seconds=soon", "seconds=soon"), ("usd=1,5", "5"),
     ("turns=" + "9" * 400, "")],
)  # fmt: skip
def test_what_is_no_limit(text: str, named: str) -> None:
    if named:
        with pytest.raises(HarnessError) as caught:
            parse_budget(text)
        assert caught.value.exit_code == 2 and named in caught.value.message
    else:
        assert merged({}, parse_budget(text))


def test_the_flag_before_the_skill_before_the_default() -> None:
    found = merged({"turns": "20", "usd": "0.50"}, {"turns": "5"})
    assert (found["turns"], found["usd"], found["calls"], found["seconds"]) == (5, "0.50", 200, 1800.0)
    assert limit(merged({"usd": "0.50"}, {"usd": "none"}), "usd") is None


def test_what_has_been_used() -> None:
    spent = Spent(turns=2, calls=3, nanos=250_000_000, tokens_in=7, tokens_out=3, effects={"money": 1, "read": 2})
    wanted = {"turns": 2, "calls": 3, "usd": "0.25", "tokens": 10, "money_calls": 1, "read": 2, "external": 0}
    wanted["seconds"] = 4
    assert {key: used(spent, key, 4.0) for key in wanted} == {key: Decimal(str(value)) for key, value in wanted.items()}


def test_nothing_left_at_the_limit_itself() -> None:
    budget = merged({}, {"turns": "2", "seconds": "10"})
    assert exhausted(budget, Spent(turns=1), 9.999, ("turns", "seconds")) is None
    assert exhausted(budget, Spent(turns=2), 0, ("turns", "seconds")) == "turns"
    assert exhausted(budget, Spent(turns=1), 10, ("turns", "seconds")) == "seconds"


def test_what_runs_low_is_said_in_three_stages() -> None:
    budget = {"turns": 10}
    texts = [low_notes(budget, Spent(turns=n), 0) for n in (4, 5, 7, 8, 9, 10)]
    half, fifth, tenth = ([f"{n} % or less of the budget turns=10 is left."] for n in (50, 20, 10))
    assert texts == [[], half, half, fifth, tenth, tenth]


SPENDS = st.builds(Spent, turns=st.integers(0, 30), calls=st.integers(0, 60), nanos=st.integers(0, 2_000_000_000))


@given(SPENDS, st.integers(1, 5), st.integers(0, 3), st.floats(0, 2000))
def test_children_never_get_more_than_is_left(spent: Spent, among: int, before: int, active: float) -> None:
    """However many batches start while others run."""
    budget = merged({}, {"turns": "40", "calls": "50", "usd": "1", "tokens": "10"})
    lent: list[dict[str, object]] = []
    for _ in range(before + 1):
        part = share(budget, spent, active, lent, among)
        lent += [part] * among
    for key in budget:
        bound = limit(budget, key)
        assert bound is not None
        left = max(Decimal(0), bound - used(spent, key, active))
        assert sum((limit(part, key) or Decimal(0) for part in lent), Decimal(0)) <= left + Decimal("0.01")


def test_one_that_is_left_is_not_rounded_away() -> None:
    assert share({"calls": 1}, Spent(), 0, [], 1) == {"calls": 1}
    assert share({"calls": 1}, Spent(), 0, [], 2) == {"calls": 0}
    assert share({"calls": 10, "usd": "1"}, Spent(), 0, [], 1) == {"calls": 9, "usd": "0.9"}
    assert share({"usd": "none"}, Spent(), 0, [], 1) == {}


def test_a_child_narrows_its_share_and_never_widens_it() -> None:
    part = {"turns": 9, "usd": "0.9", "seconds": 100.0}
    assert narrowed(part, {"turns": "3", "usd": "5", "tokens": "7", "seconds": "20"}) == {
        "turns": 3, "usd": "0.9", "tokens": 7, "seconds": 20.0}  # fmt: skip
