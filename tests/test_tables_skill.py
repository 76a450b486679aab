"""The router and its workers: looks before queries, figures of the run, drafts that check clean."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

pytest.importorskip("sqlglot")
from tests.command import ROOT, clean_env
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


def plan(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "bin" / "plan-domains"), *args], cwd=folder, timeout=60,
                          env=clean_env(folder), capture_output=True, text=True, check=False)


NOUNS = "order visit payment note staff event asset reading plan"
DOMAINS = "billing fleet claims harvest clinic library museum parcel pension school theatre weather energy hotel"


def warehouse(path: Path) -> dict[str, list[str]]:
    """140 tables in 14 domains, with one prefix: a hub each, six with keys to it, three with columns that look so."""
    domains: dict[str, list[str]] = {}
    with closing(sqlite3.connect(path)) as db, db:
        for domain in DOMAINS.split():
            hub = f"{domain}_unit"
            db.execute(f"create table dw_{hub} ({hub}_id integer primary key, name text)")
            names = [f"dw_{hub}"]
            for at, noun in enumerate(NOUNS.split()):
                key = f"references dw_{hub}({hub}_id)" if at < 6 else ""
                names.append(f"dw_{domain}_{noun}" if at % 2 else f"dw_{noun}_of_{domain}")
                db.execute(f"create table {names[-1]} (id integer primary key, {hub}_id integer {key}, day date)")
            domains[domain] = names
    return domains


def test_a_warehouse_of_140_tables_falls_into_its_domains(tmp_path: Path) -> None:
    (tmp_path / ".harness").mkdir()
    domains = warehouse(tmp_path / "big.sqlite")
    done = plan(tmp_path, "--source", "big.sqlite")
    assert done.returncode == 0, done.stderr
    planned = json.loads((tmp_path / "domains.json").read_text())
    assert planned["database"] == "big.sqlite"
    found = {name: sorted(tables) for name, tables in planned["domains"].items()}
    assert sum(map(len, found.values())) == 140
    assert found == {name: sorted(tables) for name, tables in domains.items()}
    again = plan(tmp_path, "--source", "big.sqlite")
    assert again.returncode == 73 and "there already" in again.stderr
    asked = subprocess.run([sys.executable, ROOT / "bin/find-domain", "--source", "domains.json", "museum visits"],
                           cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(asked.stdout)["domains"][0]["domain"] == "museum"
    assert json.loads(asked.stdout)["domains"][0]["tables"][0]["table"] == "dw_museum_visit"
    sql = ("query-sql", "--source", "domains.json", "--table", "dw_museum_visit", "SELECT id FROM dw_museum_visit")
    queried = subprocess.run([sys.executable, ROOT / "bin" / sql[0], *sql[1:]], cwd=tmp_path, capture_output=True,
                             text=True, check=True)
    assert json.loads(queried.stdout)["tables"] == ["museum.dw_museum_visit"]


def test_drafts_check_clean_once_they_are_moved_where_skills_are(project: Project, tmp_path: Path) -> None:
    home = tmp_path / "project"
    (home / ".harness").mkdir(parents=True)
    shutil.copytree(ROOT / "bin", home / "bin", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(project.path / "sample", home / "sample")
    done = plan(home, "--source", "sample")
    assert done.returncode == 0, done.stderr
    assert not (home / "domains.json").exists()
    (home / "skill-drafts").rename(home / "skills")
    assert sorted(path.name for path in (home / "skills").iterdir()) == [
        "ask-fleet", "ask-shop", "ask-staff", "route-sample"]
    checked = subprocess.run([sys.executable, "-m", "harness", "skills", "check", "--strict", "--static"], cwd=home,
                             env=clean_env(home), capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout
