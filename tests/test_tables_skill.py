"""The router and its workers: looks before queries, and figures of the run."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import yaml

pytest.importorskip("sqlglot")
from tests.command import ROOT
from tests.loop_world import Project, Ran, call, finish, reply

SCRIPT = ROOT / "skills/ask-tables/evals/scripts/furthest.yaml"
ANSWER = yaml.safe_load(SCRIPT.read_text())["replies"][2]["calls"][0]["finish"]
SQL = ANSWER.split("SQL: ")[1].splitlines()[0]
SOURCE = ("--source", "sample")
QUERY = call("query-sql", *SOURCE, "--table", "trips", "--table", "drivers", SQL)
LOOKS = [call("describe-table", *SOURCE, "--table", name) for name in ("trips", "drivers")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("tables"))
    made.facts["here"] = made.path
    for name in ("bin", "skills"):
        shutil.copytree(ROOT / name, made.path / name, ignore=shutil.ignore_patterns("__pycache__"))
    make = ROOT / "bin/make-sample"
    subprocess.run([sys.executable, make, "--out", made.path / "sample"], check=True, capture_output=True)
    return made


def fleet(project: Project, *replies: dict) -> Ran:
    given = {"source": "sample"}
    return project.run(list(replies), name="ask-fleet", goal="which driver drove the furthest", given=given)


def test_a_question_goes_to_the_domain_that_fits_and_comes_back_with_what_it_stands_on(project: Project) -> None:
    shutil.copy(SCRIPT, project.path / "furthest.yaml")
    ran = project.run("scripted:" + str(project.path / "furthest.yaml"), name="ask-tables",
                      goal="which driver drove the furthest", given={"source": "sample"})
    assert ran.stop.name == "passed" and ran.answer.strip() == ANSWER.strip()
    worker = Ran(ran.stop, ran.child(), [])
    assert worker.ends() == [("describe-table", "OK"), ("describe-table", "OK"), ("query-sql", "OK"),
                             ("check-table-answer", "OK")]


def test_a_table_that_was_not_described_is_not_queried(project: Project) -> None:
    ran = fleet(project, reply(LOOKS[0]), reply(QUERY), reply(LOOKS[1]), reply(QUERY), finish(ANSWER))
    assert ran.codes() == ["allow", "NOT_RELEASED", *["allow"] * 3] and "drivers" in ran.reasons()[1]
    assert ran.stop.name == "passed"


def test_a_table_that_was_described_in_another_source_is_not_queried(project: Project) -> None:
    elsewhere = call("describe-table", "--source", "sample/fleet.sqlite", "--table", "drivers")
    ran = fleet(project, reply(LOOKS[0], elsewhere), reply(QUERY), reply(LOOKS[1]), reply(QUERY), finish(ANSWER))
    assert ran.codes() == ["allow", "allow", "NOT_RELEASED", *["allow"] * 3] and ran.stop.name == "passed"


@pytest.mark.parametrize(("old", "new", "said"), [
    ("Rows: 9", "Rows: 90", "Rows must be 9"),
    ("Data: 2026-01-02", "Data: 2026-05-02", "Data must be 2026-01-02"),
    ("query-6318c923", "query-00000000", "CSV must be"),
    ("GROUP BY d.driver_id", "GROUP BY d.name", "no query of this run was"),
    ("fleet.drivers", "fleet.vans", "Tables must name"),
    ("CSV: ", "File: ", "lacks csv"),
    ("Carla Huber drove the furthest: 5439.2 km.", "", "says nothing in words"),
])
def test_an_answer_that_no_query_gave_is_refused_with_what_is_right(
        project: Project, old: str, new: str, said: str) -> None:
    assert old in ANSWER
    wrong = finish(ANSWER.replace(old, new))
    ran = fleet(project, reply(*LOOKS), reply(QUERY), wrong, {**finish(ANSWER), "expect": {"contains": [said]}})
    assert ran.stop.name == "passed" and ran.answer.strip() == ANSWER.strip()


def judged(ran: Ran) -> str:
    """What the verifier printed, each time."""
    return "\n".join(ran.text(event["data"].get("out", "")) for event in ran.of("tool.end"))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("5439.2", "6,439.2", "no query gave 6,439.2"),
        ("5439.2", "5,439.2 of 99,000", "no query gave 99,000"),
        ("5439.2", "5,439", ""),
        ("CSV: ", "CSV: /etc/", "CSV must be"),
    ],
)
def test_a_figure_is_one_that_a_query_gave(project: Project, old: str, new: str, why: str) -> None:
    right = [finish(ANSWER)] if why else []
    ran = fleet(project, reply(*LOOKS), reply(QUERY), finish(ANSWER.replace(old, new)), *right)
    ends = [code for name, code in ran.ends() if name == "check-table-answer"]
    assert ends == (["FAILED", "OK"] if why else ["OK"])
    assert why in judged(ran)


def test_no_domain_fits_only_once_the_one_that_was_found_was_asked(project: Project) -> None:
    look = reply(call("find-domain", *SOURCE, "which driver drove the furthest"))
    none = finish("No domain fits: nobody knows.")
    ran = project.run([look, none, none, none], name="ask-tables", goal="who drove", given={"source": "sample"})
    assert ran.stop.name == "failed" and "find-domain names fleet" in judged(ran)
