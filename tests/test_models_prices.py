"""Prices and what follows from them: exact costs, estimates, what is set aside, and limits that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.models import FREE, Price, Usage
from harness.models.prices import (
    affordable,
    cost_nanos,
    estimate_tokens,
    facts_of,
    old_prices,
    read_table,
    reserved_nanos,
    shipped,
)
from tests.fake_anthropic import Answer, finishes, runs, serving
from tests.loop_world import Project, Skipping
from tests.odd_files import ODD, odd_file

HAIKU = "anthropic:claude-haiku-5-5"
SONNET = "anthropic:claude-sonnet-5-5"
UNPRICED = "anthropic:claude-fable-5-2"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.clock = Skipping()
    made.tool("look", "echo looked")
    made.skill(tools="look")
    return made


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield from serving(monkeypatch)


def haiku() -> Price:
    price = facts_of(HAIKU, {"HOME": "/nowhere"}).price
    assert price is not None
    return price


def test_case_16_every_class_of_token_has_its_rate() -> None:
    usage = Usage(input=1000, out=7, cached=500, written=300, written_1h=100)
    assert cost_nanos(haiku(), usage) == 200 * 100 + 7 * 500 + 500 * 10 + 200 * 125 + 100 * 200


def test_case_16_above_its_step_every_class_costs_five_times() -> None:
    below = Usage(input=100_000, out=10, cached=90_000, written=1_000, written_1h=1_000)
    above = Usage(input=100_001, out=10, cached=90_000, written=1_000, written_1h=1_000)
    assert cost_nanos(haiku(), below) == 9_000 * 100 + 10 * 500 + 90_000 * 10 + 1_000 * 200
    assert cost_nanos(haiku(), above) == 5 * (9_001 * 100 + 10 * 500 + 90_000 * 10 + 1_000 * 200)


def test_a_part_of_a_nano_dollar_is_never_lost() -> None:
    assert cost_nanos(Price(input=Decimal("0.0001")), Usage(input=1)) == 1


def test_what_is_unknown_is_not_free() -> None:
    assert facts_of(UNPRICED, {"HOME": "/nowhere"}).price is None
    assert (cost_nanos(None, Usage(input=1)), reserved_nanos(None, 1, 1)) == (None, None)
    assert cost_nanos(FREE, Usage(input=1)) == 0


def test_the_shipped_table_is_the_one_of_the_design() -> None:
    prices = {name.removeprefix("anthropic:claude-"): facts.price for name, facts in shipped().entries.items()}
    shown = {n: [str(v) for v in (p.input, p.out, p.written, p.written_1h, p.cached)] for n, p in prices.items() if p}
    opus = ["5", "25", "6.25", "10", "0.50"]
    assert shown == {
        "haiku-5-5": ["0.10", "0.50", "0.125", "0.20", "0.01"], "sonnet-5-5": ["2", "10", "2.50", "4", "0.10"],
        "opus-5-5": ["4", "20", "5", "8", "0.20"], "fable-5-1": ["10", "50", "12.50", "20", "0.25"],
        "opus-5": opus, "opus-4-8": opus, "opus-4-7": opus, "opus-4-6": opus, "opus-4-5": opus,
    }  # fmt: skip
    assert facts_of("anthropic:claude-opus-4-5-20251101", {"HOME": "/nowhere"}).price == prices["opus-4-5"]


def test_a_users_own_entry_goes_first_and_bad_ones_name_their_line(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = tmp_path / "harness" / "prices.yaml"
    file.parent.mkdir()
    file.write_text(f"models:\n  {UNPRICED}: {{in: 1, out: 2}}\n  {HAIKU}: {{in: 9, out: 9, window: 5}}\n")
    price = facts_of(UNPRICED, env).price
    assert price is not None and (price.input, price.out, price.cached, price.written) == (1, 2, 1, 1)
    assert facts_of(HAIKU, env).window == 5
    file.write_text(f"models:\n  {HAIKU}: {{in: 0.11, images: no}}\n")
    mine, theirs = facts_of(f"{HAIKU}-20260901", env), facts_of(HAIKU, {})
    assert mine.price is not None and theirs.price is not None and mine.images is False
    assert mine == replace(theirs, price=mine.price, images=False, checked=None), "what it does not say stays"
    rates = {"input": Decimal("0.11"), "cached": Decimal("0.11")}
    assert mine.price == replace(theirs.price, **rates), "a cache is not taken for cheaper than what it may cost"
    for text, line, words in (
        ("models:\n  x:y: {in: 1}\n", 2, "wants in and out"), ("models:\n  x:y: {in: -1, out: 2}\n", 2, "an amount"),
        ("models:\n  x:y: {in: nan, out: 2}\n", 2, "an amount"), ("modles: {}\n", 1, "near: models"),
        ("models:\n  x:y: {in: 1, out: 2, ot: 3}\n", 2, "unknown key 'ot'"), ("as-of: soon\n", 1, "as-of"),
        ("schema: 2\n", 1, "schema 1"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(HarnessError, match=words) as caught:
            read_table(file)
        assert caught.value.where == f"{file}:{line}"


def test_prices_of_long_ago_are_said_once(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    as_of = shipped().as_of
    assert as_of is not None and old_prices(as_of + timedelta(90), env) is None
    assert "check them" in str(old_prices(as_of + timedelta(91), env))
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "prices.yaml").write_text("as-of: 2020-01-01\n")
    assert "your prices.yaml" in str(old_prices(date(2026, 11, 30), env))


def test_an_estimate_learns_from_what_the_provider_counted() -> None:
    assert estimate_tokens(3001, 3001, None) == 1001
    assert estimate_tokens(9000, 900, (8000, 2000, 50)) == 2050 + 250  # 3.6 bytes a token
    assert estimate_tokens(9000, 900, (8000, 8000, 50)) == 8050 + 450  # never below 2
    assert estimate_tokens(9000, 900, (8000, 100, 50)) == 150 + 225  # never above 4


def test_the_money_left_buys_so_many_tokens() -> None:
    assert reserved_nanos(haiku(), 1000, 4000) == 1000 * 200 + 4000 * 500
    assert affordable(haiku(), 1000, Decimal(1000 * 200 + 4000 * 500)) == 4000
    assert affordable(haiku(), 1000, Decimal(1000 * 200 - 1)) == -1
    assert affordable(haiku(), 100_001, Decimal(100_001 * 1000 + 2500)) == 1


def test_case_16_a_limit_in_money_and_an_unknown_price_do_not_go_together(project: Project, serve: Any) -> None:
    fake = serve(finishes(1))
    with pytest.raises(HarnessError, match="price of anthropic:claude-fable-5-2 is not known") as caught:
        project.run(UNPRICED)
    assert (caught.value.exit_code, fake.requests) == (2, [])
    assert "prices.yaml" in caught.value.fix and "-b usd=none" in caught.value.fix
    assert not list(project.path.glob(".harness/runs/2*"))
    ran = project.run(UNPRICED, budget="usd=none")
    assert (ran.stop.name, ran.end["spent"]["nanos"], ran.end["spent"]["unpriced"]) == ("passed", 0, 1)
    assert ran.of("model.start")[0]["data"]["usd"] is None and ran.of("model.reply")[0]["data"]["cost"] is None


def test_case_17_little_money_is_less_output_and_too_little_is_no_request(project: Project, serve: Any) -> None:
    fake = serve(finishes(1))
    ran = project.run(SONNET, budget="usd=0.02")
    assert ran.stop.name == "passed" and 1_024 <= fake.requests[0]["max_tokens"] < 2_000
    assert Decimal(str(ran.of("model.start")[0]["data"]["usd"])) <= Decimal("0.02")
    fake = serve(finishes(1))
    ran = project.run("anthropic:claude-opus-5-5", budget="usd=0.02")
    assert (ran.stop.name, ran.stop.code, ran.end["limit"], fake.requests) == ("budget", 6, "usd", [])
    assert "are left" in ran.end["error"] and not ran.of("model.start")


def test_a_limit_of_tokens_is_kept_before_the_request(project: Project, serve: Any) -> None:
    fake = serve(Answer([runs(1, "look")]), finishes(2))
    ran = project.run(HAIKU, budget="tokens=3000")
    assert ran.stop.name == "passed" and fake.requests[0]["max_tokens"] <= 3000
    fake = serve(finishes(1))
    ran = project.run(HAIKU, budget="tokens=1000")
    assert (ran.stop.code, ran.end["limit"], fake.requests) == (6, "tokens", [])


def test_estimates_stand_beside_what_was_counted(project: Project, serve: Any) -> None:
    serve(Answer([runs(1, "look")], usage={"input_tokens": 700, "output_tokens": 30}), finishes(2))
    ran = project.run(HAIKU)
    first, second = (event["data"] for event in ran.of("model.start"))
    assert first["estimate"] == -(-first["bytes"] // 3) and 730 < second["estimate"] < 900


@pytest.mark.parametrize("kind", ODD)
def test_prices_that_are_no_file_of_a_usual_size_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    with pytest.raises(HarnessError):
        read_table(odd_file(tmp_path / "prices.yaml", kind))
