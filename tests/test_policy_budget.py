"""Limits: how they are written, which one holds, what is left, and what a child gets of it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.events.state import Spent
from harness.policy.budget import (
    Bound,
    below,
    exhausted,
    limit,
    low_notes,
    merged,
    money_limits,
    narrowed,
    parse_budget,
    places,
    share,
    used,
)


def test_what_a_person_types() -> None:
    assert parse_budget("turns=10, usd=0.20 seconds=5m") == {"turns": "10", "usd": "0.20", "seconds": "300"}
    assert parse_budget("usd=none") == {"usd": "none"}
    assert parse_budget("") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [("turn=3", "near: turns"), ("turns", "turns"), ("turns=", "turns="), ("turns=0", "turns=0"),
     ("turns=1.5", "turns=1.5"), ("turns=-1", "turns=-1"), ("usd=NaN", "usd=NaN"),
     ("usd=inf", "usd=inf"), ("usd=1e309", "usd=1e309"), ("usd=1e999999999", "usd=1e9"), ("usd=-1", "usd=-1"),
     ("turns=none", "turns=none"), ("turns=1 turns=2", "twice"), ("seconds=soon", "seconds=soon"), ("usd=1,5", "5"),
     ("turns=" + "9" * 400, "turns=999")],
)  # fmt: skip
def test_what_is_no_limit(text: str, named: str) -> None:
    with pytest.raises(HarnessError) as caught:
        parse_budget(text)
    assert caught.value.exit_code == 2 and named in caught.value.message


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


def bounds(**figures: str) -> list[Bound]:
    """Limits of files, as `user_calls="100"`."""
    return [Bound(key.partition("_")[2], value, f"{key}:1", key.partition("_")[0]) for key, value in figures.items()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("skill", "flag", "files", "calls"),
    [
        ("", "", {}, 200), ("40", "", {}, 40), ("40", "60", {}, 60), ("", "500", {}, 500),
        ("", "", {"user_calls": "500"}, 500), ("", "", {"user_calls": "100"}, 100),
        ("", "", {"system_calls": "90", "user_calls": "100"}, 90), ("40", "", {"user_calls": "100"}, 40),
        ("400", "", {"user_calls": "100"}, 100), ("40", "60", {"user_calls": "100"}, 60),
        ("", "", {"project_calls": "500"}, 200), ("", "", {"project_calls": "50"}, 50),
        ("", "", {"user_calls": "500", "project_calls": "300"}, 300), ("40", "", {"skill_calls": "30"}, 30),
        ("", "", {"user_calls": "500", "skill_calls": "600"}, 500),
    ],
)  # fmt: skip
def test_which_limit_is_in_force(skill: str, flag: str, files: dict[str, str], calls: int) -> None:
    found = merged({"calls": skill} if skill else {}, {"calls": flag} if flag else {}, bounds(**files))
    assert found["calls"] == calls


def test_a_flag_above_a_files_limit_is_refused_with_its_line() -> None:
    for files in ({"user_calls": "100"}, {"project_calls": "100"}, {"user_calls": "500", "skill_calls": "100"}):
        with pytest.raises(HarnessError) as caught:
            merged({}, {"calls": "101"}, bounds(**files))
        assert caught.value.where == f"{list(files)[-1]}:1" and caught.value.exit_code == 2
    assert merged({}, {"calls": "100"}, bounds(user_calls="100"))["calls"] == 100


def test_usd_none_lifts_the_skills_figure_and_the_default_and_no_files() -> None:
    assert limit(merged({"usd": "0.50"}, {"usd": "none"}), "usd") is None
    assert limit(merged({"usd": "0.50"}, {"usd": "none"}, bounds(user_usd="3")), "usd") == 3


MONEY = Bound("money", "50.00", "u:4", "user", "EUR")


def test_money_has_a_limit_in_each_currency() -> None:
    assert parse_budget("money=50.00EUR,money=20USD") == {"money": "50.00 EUR, 20 USD"}
    found = merged({"money": "30 EUR"}, parse_budget("money=20USD"), [MONEY])
    assert money_limits(found) == {"EUR": Decimal(30), "USD": Decimal(20)}
    assert money_limits(merged({"money": "80 EUR"}, {}, [MONEY])) == {"EUR": Decimal(50)}
    with pytest.raises(HarnessError, match="above the limit of 50"):
        merged({}, parse_budget("money=50.01EUR"), [MONEY])
    assert limit(found, "money_calls") == 5


@pytest.mark.parametrize("text", ["money=50", "money=50EURO", "money=eur", "money=-1EUR", "money=0EUR", "money=1e3EUR",
                                  "money=1.00001EUR", "money=NaNEUR", "money=1EUR money=2EUR"])  # fmt: skip
def test_what_is_no_sum(text: str) -> None:
    with pytest.raises(HarnessError, match="money"):
        parse_budget(text)


def test_a_limit_in_force_is_named_by_its_file() -> None:
    files = [*bounds(user_calls="100", project_turns="10", user_external="500"), MONEY]
    found = merged({"external": "7"}, {}, files)
    assert places(found, files) == {"calls": "user_calls:1", "turns": "project_turns:1", "money EUR": "u:4"}


def test_todays_files_only_narrow_what_a_run_began_with() -> None:
    began = merged({}, {})
    assert below(began, bounds(user_calls="500", user_turns="10")) == {"turns": 10}
    assert below(began, [MONEY]) == {"money": {"EUR": "50.00"}}
    assert below({**began, "money": {"USD": "5", "EUR": "60"}}, [MONEY]) == {"money": {"USD": "5", "EUR": "50.00"}}


def test_a_child_gets_a_share_of_the_sums_that_are_left() -> None:
    budget = {"money": {"EUR": "50", "USD": "9"}, "calls": 10}
    spent = Spent(money={"EUR": 200_000})
    assert share(budget, spent, 0, [], 1)["money"] == {"EUR": "30.0000", "USD": "9.0000"}
    assert share(budget, spent, 0, [{"money": {"EUR": "10"}}], 3)["money"] == {"EUR": "6.6666", "USD": "3.0000"}
    assert share(budget, Spent(money={"EUR": 600_000}), 0, [], 1)["money"]["EUR"] == "0.0000"
    assert narrowed({"money": {"EUR": "30"}}, {"money": "5 EUR, 3 USD"})["money"] == {"EUR": "5", "USD": "3"}


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "project", "skill"]), st.integers(1, 50)), max_size=4),
    st.integers(1, 50) | st.none(), st.sampled_from(["project", "skill"]), st.integers(1, 50),
)  # fmt: skip
def test_a_limit_of_what_only_narrows_never_raises_one(
    files: list[tuple[str, int]], skill: int | None, kind: str, value: int
) -> None:
    given_ = [Bound("calls", str(number), "f:1", source) for source, number in files]  # type: ignore[arg-type]
    own = {"calls": str(skill)} if skill else {}
    more = [*given_, Bound("calls", str(value), "f:2", kind)]  # type: ignore[arg-type]
    assert merged(own, {}, more)["calls"] <= merged(own, {}, given_)["calls"]
