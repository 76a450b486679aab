"""Runs under whatever comes (`torture_life.py`), as many as a commit can wait for; `make torture` tries more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from harness.events import attempts
from tests.torture_life import Life
from tests.torture_matrix import playground
from tests.torture_person import Whole
from tests.torture_stage import Stage

LONG = os.environ.get("TORTURE") == "1"
PARTS, STEPS = 4, 50
EXAMPLES = (10_000 if LONG else 200) // PARTS


@pytest.fixture
def place() -> Iterator[Path]:
    with playground() as place:
        yield place


def at(place: Path, kind: type[Life]) -> type[Life]:
    return type("Here", (kind,), {"place": place})


def live(life: type[Life], examples: int) -> None:
    """Which attempt ends first is up to the machine, so a failure is shown as it came: it cannot be made shorter."""
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None, print_blob=True,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        ),
    )  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))  # so that they can be shared out
def test_l8_a_run_under_whatever_comes(place: Path, part: int) -> None:
    live(at(place, Whole), EXAMPLES)


def test_l8_with_blind_retries_it_finds_a_second_effect(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the person's commands of later: what they do to such a run may end it in other ways first. What a life
    meets is noted as it is met: hypothesis tries it again, which attempt ends first may differ then, and how a life
    goes on that was cut short by what was found means nothing."""
    monkeypatch.setattr(attempts, "_word", lambda op: "")
    found: list[str] = []

    class Blind(at(place, Life)):  # type: ignore[misc]
        def _look(self, runs: Path, stage: Stage) -> None:
            try:
                super()._look(runs, stage)
            except AssertionError as error:
                found.append(str(error))
                raise

    with suppress(Exception):
        live(Blind, 200)
    assert any("Counter" in each for each in found)
