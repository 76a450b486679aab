"""Runs under whatever comes (`torture_life.py`), as many as a commit can wait for; `make torture` tries more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from harness.events import attempts
from tests.torture_matrix import playground
from tests.torture_person import Whole

LONG = os.environ.get("HARNESS_TORTURE") == "1"
PARTS, STEPS = 4, 50
EXAMPLES = (10_000 if LONG else 100) // PARTS


@pytest.fixture
def life() -> Iterator[type[Whole]]:
    with playground() as place:

        class Here(Whole):
            pass

        Here.place = place
        yield Here


def live(life: type[Whole], examples: int) -> None:
    """Which attempt ends first is up to the machine, so a failure is shown as it came: it cannot be made shorter."""
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None, print_blob=True,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        ),
    )  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))  # so that they can be shared out
def test_l8_a_run_under_whatever_comes(life: type[Whole], part: int) -> None:
    live(life, EXAMPLES)


def test_l8_with_blind_retries_it_finds_a_second_effect(life: type[Whole], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_word", lambda op: "")
    with pytest.raises(AssertionError, match="Counter"):
        live(life, 200)
