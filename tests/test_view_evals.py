"""An evaluation on a screen: side by side where there is room, one below the other where there is none."""

from __future__ import annotations

from harness.evals.figures import Figures
from harness.evals.table import Graded, row
from harness.view.evals import table_lines
from harness.view.text import width


def tables(*arms: str) -> dict[str, object]:
    passed, failed = Figures("passed", 0, turns=12_345, nanos=4_500_000), Figures("failed", 1)
    graded = [Graded("a", True, passed), Graded("b", False, failed)]
    return {arm: row(graded, 1) for arm in arms}


def test_arms_stand_side_by_side_where_they_fit() -> None:
    lines = table_lines(tables("skill", "open"), 80)
    assert lines[0].split() == ["skill", "open"] and lines[1].split() == ["passed", *["1/2", "50", "%"] * 2]
    assert max(map(width, lines)) <= 80


def test_on_45_columns_no_arm_is_left_out() -> None:
    lines = table_lines(tables("skill", "open", "single-call"), 45)
    heads = [line.strip() for line in lines if line.strip() in ("skill", "open", "single-call")]
    assert heads == ["skill", "open", "single-call"] and max(map(width, lines)) <= 45
    assert sum(line.startswith("passed ") for line in lines) == 3
