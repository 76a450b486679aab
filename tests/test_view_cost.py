"""What a run used, as tables: what matters most stays where a terminal is narrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.view.cost import Bill, Call, Part, cost_text
from harness.view.text import width

CALL = Call(1, 1, 1, "openai:some-long-name", 0, 900, 1000, 200, 0, 40, nanos=70_000_000, end="calls")
HELPER = Part("helper", "20261130T114523-helper-k3v9q2mf", 1, 30, 2, nanos=5)
MADE = Bill("demo", [CALL], {"look": Part("look", calls=2, ms=40)}, [HELPER],
            Part("total", calls=3, turns=3, input=1000, out=40, nanos=70_000_005))  # fmt: skip


def test_every_kind_of_token_is_summed() -> None:
    calls = [replace(CALL, written=300, thinking=7), replace(CALL, n=2, written=100, thinking=3)]
    lines = cost_text(Bill("demo", calls, {}, [], replace(MADE.total, input=2000, out=80)), None).splitlines()
    assert lines[-1].endswith("2000 tokens in (400 (20 %) cached, 400 written), 80 out (10 thinking), $0.07")
    assert lines[0].split()[8:10] == ["WRITTEN", "THINKING"]
    assert lines[1].split("calls")[1].split()[:2] == ["300", "7"]


@pytest.mark.parametrize("columns", [45, 100, None])
def test_the_cost_is_shown_at_every_width_and_what_is_not_is_named(columns: int | None) -> None:
    text = cost_text(MADE, columns)
    lines = text.splitlines()
    assert lines[0].startswith("CALL  TURN  COST") and lines[1].split()[:3] == ["1", "1", "$0.07"]
    assert "WORKER  COST" in text
    assert ("too narrow for" in text) == (columns is not None)
    if columns:
        assert max(width(line) for line in lines if not line.startswith("demo")) <= columns
