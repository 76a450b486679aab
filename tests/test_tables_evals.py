"""S2's suites: each case passes by its script, and the same hasty model fails where all tools are open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlglot")
from harness.evals.suite import read_suite
from tests.command import ROOT, harness

WAITED, ASIDE = {"NOT_RELEASED": 1}, {"DENIED": 1}
QUERIES: dict[tuple[str, str], tuple[list[str], dict[str, int]]] = {
    **{(name, "hasty"): (["OK"], WAITED) for name in ("ask-shop", "ask-staff", "ask-fleet", "ask-tables")},
    ("ask-shop", "unread-table"): (["INVALID_INPUT", "OK"], WAITED),
    ("ask-shop", "orders-in-a-remark"): (["INVALID_INPUT", "OK"], {}),
    ("ask-staff", "invented-column"): (["INVALID_INPUT", "OK"], {}),
    ("ask-fleet", "orders-in-a-row"): (["INVALID_INPUT", "OK"], ASIDE),
    ("ask-tables", "repaired-query"): (["INVALID_INPUT", "INVALID_INPUT", "OK"], WAITED),
    ("ask-tables", "orders-in-a-remark"): (["INVALID_INPUT", "OK"], {}),
    ("ask-tables", "two-domains"): (["OK", "OK"], {}),
    ("ask-tables", "unclear"): ([], {}), ("ask-tables", "no-domain"): ([], {}),
}
"""How the queries of a case end that are started, and what is refused before anything starts."""
WORKERS = ("ask-shop", "ask-staff", "ask-fleet")


def tried(folder: Path, name: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
    done = harness("eval", name, "-m", "scripted", "--trials", "1", "-j", "2", "--json", *words, cwd=folder)
    assert done.returncode == code, done.stderr
    return list(json.loads(done.stdout)["trials"])


def ends(trial: dict[str, Any], only: str = "") -> list[tuple[str, str]]:
    """(tool, class) of each call that was started, in order."""
    return [(call["tool"], call["code"]) for call in trial["figures"]["calls"] if only in call["tool"]]


@pytest.mark.parametrize("name", [*WORKERS, "ask-tables"])
def test_its_suite_is_frozen_and_has_both_halves_and_all_kinds(name: str) -> None:
    suite = read_suite(ROOT / "skills" / name / "evals")
    assert suite.frozen and {case.split for case in suite.cases} == {"dev", "held-out"}
    kinds = {case.suite for case in suite.cases}
    assert {"capability", "regression"} < kinds and kinds & {"safety", "robustness"}
    assert len(suite.cases) >= (5 if name in WORKERS else 8)


@pytest.mark.parametrize("name", [*WORKERS, "ask-tables"])
def test_each_case_passes_by_its_script(name: str, tmp_path: Path) -> None:
    trials = tried(tmp_path, name)
    assert not {trial["case"]: trial["checks"] for trial in trials if not trial["passed"]}
    for trial in trials:
        codes = [code for _, code in ends(trial, "query-sql")]
        assert (codes, trial["figures"]["refused"]) == QUERIES.get((name, trial["case"]), (["OK"], {})), trial["case"]


@pytest.mark.parametrize("name", ["ask-shop", "ask-tables"])
def test_a_hasty_model_passes_with_the_order_and_is_believed_without_it(name: str, tmp_path: Path) -> None:
    ordered, opened = tried(tmp_path, name, "--case", "hasty", "--arm", "skill", "--arm", "open")
    ordered, opened = (ordered, opened) if ordered["arm"] == "skill" else (opened, ordered)
    assert ordered["passed"] and ordered["figures"]["refused"]["NOT_RELEASED"] == 1
    assert not opened["passed"] and not opened["figures"]["refused"]
    assert ends(opened)[-1] == ("check-table-answer", "OK"), "its empty result stands on a query of the run"


def test_without_a_model_it_says_what_it_lacks(tmp_path: Path) -> None:
    done = harness("eval", "ask-shop", "-m", "none", "--trials", "1", cwd=tmp_path)
    assert done.returncode == 2 and "none runs a skill's pipeline, and ask-shop has none" in done.stderr
