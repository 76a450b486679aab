"""Cases are read strictly, and a trial is held to every expectation of its case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import HarnessError
from harness.evals.case import Case, read_case
from harness.evals.figures import Call, Figures
from harness.evals.grade import checks_of
from harness.evals.suite import case_digest, chosen, digest_of, read_suite
from tests.evals_site import add_case, evals, make_site

RAN = (
    Call("look", "OK", 0.1, 0.5), Call("act", "FAILED", 0.6, 0.7), Call("act", "OK", 0.8, 0.9),
    Call("pay", "FAILED", 1, 2),
)  # fmt: skip
FIGURES = Figures("passed", 0, turns=4, tokens=900, nanos=20_000_000, seconds=3.0, calls=RAN)


def made(folder: Path, text: str) -> Case:
    path = folder / "x.yaml"
    path.write_text(text)
    return read_case(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the case is empty"),
        ("goal: x\n", "expects nothing"),
        ("goal: [x]\nexpect: {}\n", "must be text"),
        ("gaol: x\nexpect: {}\n", "unknown key 'gaol' in a case; near: goal"),
        ("expect: {stop: passed}\nexpect: {}\n", "stands twice"),
        ("suite: capabilty\nexpect: {}\n", "near: capability"),
        ("split: test\nexpect: {}\n", "unknown split"),
        ("fixture: ../other\nexpect: {}\n", "must be a path below evals/"),
        ("fixture: /etc\nexpect: {}\n", "must be a path below evals/"),
        ("expect: {answer: {matches: '['}}\n", "is no pattern"),
        ("expect: {files: {../x: absent}}\n", "must be a path below evals/"),
        ("expect: {files: {x: {holds: y}}}\n", "unknown key 'holds'"),
        ("expect: {limits: {turns: many}}\n", "must be a number"),
        ("expect: {limits: {usd: .nan}}\n", "must be a number"),
        ("expect: {limits: {usd: nan}}\n", "must be 0 or more"),
        ("expect: {limits: {calls: -1}}\n", "must be 0 or more"),
        ("graders: [[]]\n", "names no command"),
        ("expect: {tools: {ran: x}}\n", "unknown key 'ran'"),
        ("goal: 'x\n", "no YAML"),
    ],
)
def test_a_bad_case_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        made(tmp_path, text)
    assert words in caught.value.message and str(tmp_path / "x.yaml") in str(caught.value.where) and caught.value.fix
    assert caught.value.exit_code == 2


def test_a_case_that_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(HarnessError, match="cannot read the case"):
        read_case(tmp_path / "pipe.yaml")


def checked(
    folder: Path, expect: dict[str, Any], answer: str = "", figures: Figures = FIGURES
) -> dict[str, bool | None]:
    case = made(folder, yaml.safe_dump({"expect": expect}))
    return {check.name: check.ok for check in checks_of(case, figures, answer, folder) if check.name != "stop"}


@pytest.mark.parametrize(
    ("expect", "answer", "wanted"),
    [
        ({"tools": {"run": ["look", "act"]}}, "", [True, True]),
        ({"tools": {"run": "pay"}}, "", [False]),  # it was started and failed
        ({"tools": {"never": ["pay", "keep"]}}, "", [False, True]),
        ({"tools": {"order": ["look", "act"]}}, "", [True]),
        ({"tools": {"order": ["act", "look"]}}, "", [False]),
        ({"tools": {"order": ["look", "keep"]}}, "", [False]),  # what never ran stood in no order
        ({"answer": {"contains": ["disk", "97"]}}, "The DISK is 97 full", [True, True]),
        ({"answer": {"lacks": "disk"}}, "The DISK", [False]),
        ({"answer": {"matches": "^Next: \\w+"}}, "Cause: x\nNext: kubectl", [True]),
        ({"answer": {"json": {"a.b[1].c": "7"}}}, '{"a": {"b": [0, {"c": 7}]}}', [True]),
        ({"answer": {"json": {"a[3]": "7"}}}, '{"a": [1]}', [False]),
        ({"answer": {"json": {"a": "7"}}}, "no json", [False]),
        ({"limits": {"turns": 4, "calls": 4, "tokens": 899, "usd": 0.02, "seconds": 2}}, "",
         [True, False, False, True, True]),
    ],
)  # fmt: skip
def test_an_expectation_is_met_or_not(
    tmp_path: Path, expect: dict[str, Any], answer: str, wanted: list[bool]
) -> None:
    assert list(checked(tmp_path, expect, answer).values()) == wanted


def test_a_cost_that_nobody_knows_is_under_no_limit(tmp_path: Path) -> None:
    unknown = Figures("passed", 0, unpriced=1)
    assert checked(tmp_path, {"limits": {"usd": 100}}, figures=unknown) == {"usd at most 100": False}


def test_files_are_looked_at_as_the_trial_left_them(tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("alpha beta")
    (tmp_path / "out").symlink_to("/etc/hostname")
    expect = {"files": {"there.txt": {"contains": ["alpha", "gamma"]}, "gone.txt": "absent", "out": "present"}}
    assert checked(tmp_path, expect) == {"file there.txt": False, "file gone.txt": True, "file out": False}


def test_a_stop_that_was_not_expected_fails(tmp_path: Path) -> None:
    case = made(tmp_path, "expect: {stop: [needs-approval, denied]}\n")
    [check] = checks_of(case, FIGURES, "", tmp_path)
    assert (check.ok, check.why) == (False, "passed, not needs-approval or denied")


def test_a_suite_is_all_its_cases_and_what_they_name_is_there(tmp_path: Path) -> None:
    project = make_site(tmp_path / "p")
    suite = read_suite(evals(project))
    assert [case.name for case in suite.cases] == ["disk"]
    add_case(project, "other", fixture="gone", expect={})
    with pytest.raises(HarnessError, match="names what is not there"):
        read_suite(evals(project))


def test_cases_are_chosen_by_name_suite_and_split(tmp_path: Path) -> None:
    project = make_site(tmp_path / "p")
    add_case(project, "pay-twice", suite="safety", split="held-out", expect={})
    suite = read_suite(evals(project))
    assert [case.name for case in chosen(suite, "d*", (), None)] == ["disk"]
    assert [case.name for case in chosen(suite, None, ("safety",), "held-out")] == ["pay-twice"]
    with pytest.raises(HarnessError, match="no case fits; near: disk"):
        chosen(suite, "dsk", (), None)


def test_the_digest_follows_from_every_byte_that_a_result_follows_from(tmp_path: Path) -> None:
    project = make_site(tmp_path / "p")
    suite = read_suite(evals(project))
    [case] = suite.cases
    before, whole = case_digest(suite, case), digest_of(suite.folder)
    (evals(project) / "notes.md").write_text("no part of it")
    assert (case_digest(suite, case), digest_of(suite.folder)) == (before, whole)
    (evals(project) / "fixtures" / "batch" / "a.log").write_text("disk 98 full\n")
    assert case_digest(suite, case) != before and digest_of(suite.folder) != whole
