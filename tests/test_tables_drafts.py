"""plan-domains: a warehouse falls into its domains, and what it drafts answers questions once it is adopted."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlglot")
from tests.command import ROOT, clean_env
from tests.loop_world import Project, Ran, call, finish, reply
from tests.skill_files import shared_cases

PLAN = ("--source", "domains.json")
WRITTEN = 1767312000
"""2026-01-02T00:00:00Z"""
NOUNS = "order visit payment note staff event asset reading plan"
DOMAINS = "billing fleet claims harvest clinic library museum parcel pension school theatre weather energy hotel"


def tool(folder: Path, name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "bin" / name), *args], cwd=folder, timeout=60,
                          env=clean_env(folder), capture_output=True, text=True, check=False)


def answer(folder: Path, name: str, *args: str) -> dict[str, Any]:
    done = tool(folder, name, *args)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


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
        db.executescript("insert into dw_museum_unit values (1, 'Hall'), (2, 'Tower'); insert into dw_museum_visit "
                         "values (1, 1, '2025-03-01'), (2, 2, '2025-03-01'), (3, 2, '2025-03-02');")
    os.utime(path, (WRITTEN, WRITTEN))
    return domains


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".harness").mkdir(parents=True)
    return tmp_path / "project"


def adopted(home: Path, source: str) -> dict[str, Any]:
    """What plan-domains printed, after the command that it ends with."""
    said = answer(home, "plan-domains", "--source", source)
    subprocess.run(shlex.split(said["adopt"].partition(": ")[2]), cwd=home, check=True)
    return said


def check(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", "skills", "check", "--strict", "--static"], cwd=home,
                          env=clean_env(home), capture_output=True, text=True, timeout=60, check=False)


def asked(home: Path, router: str, worker: str, goal: str, tables: Mapping[str, str], sql: str,
          words: str, rows: int) -> tuple[Ran, dict[str, Any]]:
    """The worker's run below a scripted one of the router, and what its query printed. `tables`: name → path.

    The worker queries before it has looked, too.
    """
    text = (f"{words}\n\nSQL: {sql}\nTables: {', '.join(tables.values())}\nRows: {rows}\nData: 2026-01-02T00:00:00Z\n"
            f"CSV: query-{hashlib.sha256(sql.encode()).hexdigest()[:8]}.csv")
    named = [word for table in tables for word in ("--table", table)]
    query = reply(call("query-sql", *PLAN, *named, sql))
    looks = reply(*(call("describe-table", *PLAN, "--table", table) for table in tables))
    sent = [reply(call("find-domain", *PLAN, goal)), reply(call(worker, "--source=domains.json", goal)), finish(text)]
    said = {worker.replace("-", "_"): [query, looks, query, finish(text)]}
    ran = Project(home).run(sent, name=router, goal=goal, **said)
    assert ran.stop.name == "passed" and ran.answer == text
    below = Ran(ran.stop, ran.child(), [])
    assert below.codes()[0] == "NOT_RELEASED"
    printed = [below.text(end["data"].get("out", "")) for end in below.of("tool.end")]
    return below, json.loads(next(out for out in printed if '"row_count"' in out))


def test_a_warehouse_of_140_tables_falls_into_its_domains(home: Path) -> None:
    domains = warehouse(home / "big.sqlite")
    answer(home, "plan-domains", "--source", "big.sqlite")
    planned = json.loads((home / "domains.json").read_text())
    assert planned["database"] == "big.sqlite"
    found = {name: sorted(tables) for name, tables in planned["domains"].items()}
    assert sum(map(len, found.values())) == 140
    assert found == {name: sorted(tables) for name, tables in domains.items()}
    again = tool(home, "plan-domains", "--source", "big.sqlite")
    assert again.returncode == 73 and "there already" in again.stderr


def test_its_finders_and_its_query_work_on_the_plan(home: Path) -> None:
    warehouse(home / "big.sqlite")
    answer(home, "plan-domains", "--source", "big.sqlite")
    fits = answer(home, "find-domain", *PLAN, "museum visits")["domains"][0]
    assert (fits["domain"], fits["tables"][0]["table"]) == ("museum", "dw_museum_visit")
    first = answer(home, "find-tables", *PLAN, "payments of the theatre")["tables"][0]
    assert (first["domain"], first["table"]) == ("theatre", "dw_payment_of_theatre")
    got = answer(home, "query-sql", *PLAN, "--table", "dw_museum_visit", "SELECT id FROM dw_museum_visit")
    assert got["tables"] == ["museum.dw_museum_visit"] and got["row_count"] == 3


def test_its_drafts_check_clean_once_adopted_and_answer_a_question(home: Path) -> None:
    warehouse(home / "big.sqlite")
    adopted(home, "big.sqlite")
    checked = check(home)
    assert checked.returncode == 0 and "checked 15 skills" in checked.stdout + checked.stderr, checked.stdout
    sql = ("SELECT u.name, count(*) AS visits FROM dw_museum_visit v JOIN dw_museum_unit u ON u.museum_unit_id = "
           "v.museum_unit_id GROUP BY u.name ORDER BY visits DESC")
    tables = {name: f"museum.{name}" for name in ("dw_museum_visit", "dw_museum_unit")}
    ran, printed = asked(home, "route-big", "ask-museum", "which museum unit had the most visits", tables, sql,
                         "The Tower had the most visits: 2.", 2)
    assert printed["rows"] == [["Tower", 2], ["Hall", 1]]
    assert [name for name, _ in ran.ends()] == ["describe-table", "describe-table", "query-sql", "check-table-answer"]


def test_the_real_music_shop_is_asked_by_what_was_drafted_for_it(home: Path) -> None:
    shutil.copy(shared_cases().parent.parent / "data" / "sql" / "chinook.sqlite", home)
    os.utime(home / "chinook.sqlite", (WRITTEN, WRITTEN))
    said = adopted(home, "chinook.sqlite")
    of = {table: f"{one['domain']}.{table}" for one in said["domains"] for table in one["tables"]}
    sql = ("SELECT g.Name, round(sum(l.UnitPrice * l.Quantity), 2) AS sold FROM InvoiceLine l JOIN Track t "
           "ON t.TrackId = l.TrackId JOIN Genre g ON g.GenreId = t.GenreId GROUP BY g.GenreId ORDER BY sold DESC")
    tables = {name: of[name] for name in ("InvoiceLine", "Track", "Genre")}
    worker = f"ask-{of['InvoiceLine'].partition('.')[0]}"
    _, printed = asked(home, "route-chinook", worker, "which genre sold the most", tables, sql,
                       "Rock sold the most: 826.65.", 24)
    assert (printed["sql"], sorted(printed["tables"])) == (sql, sorted(tables.values()))
    assert (printed["row_count"], printed["data_time"]) == (24, "2026-01-02T00:00:00Z")
    with open(printed["csv"], newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[:2] == [["Name", "sold"], ["Rock", "826.65"]] and len(rows) == 25


def test_databases_in_a_folder_are_domains_and_drafts_work_where_they_lie(home: Path) -> None:
    assert tool(home, "make-sample", "--out", "sample").returncode == 0
    said = answer(home, "plan-domains", "--source", "sample")
    assert said["plan"] is None and not (home / "domains.json").exists()
    assert sorted(path.name for path in (home / "skill-drafts" / "skills").iterdir()) == [
        "ask-fleet", "ask-shop", "ask-staff", "route-sample"]
    (home / ".harness" / "config.yaml").write_text("skills: {paths: [skill-drafts]}\n")
    checked = check(home)
    assert checked.returncode == 0 and "skill-drafts/skills/ask-fleet" in listed(home), checked.stdout


def listed(home: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "harness", "skills", "show", "ask-fleet"], cwd=home,
                          env=clean_env(home), capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def test_a_database_that_a_confined_skill_will_not_reach_is_told_at_once(home: Path) -> None:
    warehouse(home.parent / "big.sqlite")
    assert "copy it here" in answer(home, "plan-domains", "--source", "../big.sqlite")["needs"]
    shutil.copy(home.parent / "big.sqlite", home)
    assert "needs" not in answer(home, "plan-domains", "--source", "big.sqlite", "--plan", "b.json", "--out", "b")


def test_what_was_edited_beside_the_drafts_stays(home: Path) -> None:
    warehouse(home / "big.sqlite")
    answer(home, "plan-domains", "--source", "big.sqlite")
    mine = home / "skill-drafts" / "bin" / "query-sql"
    mine.write_text("#!/bin/sh\n# mine\n")
    (home / "domains.json").unlink()
    again = tool(home, "plan-domains", "--source", "big.sqlite")
    assert again.returncode == 73 and "edited" in again.stderr and not (home / "domains.json").exists()
    shutil.rmtree(home / "skill-drafts" / "skills")
    answer(home, "plan-domains", "--source", "big.sqlite")
    assert mine.read_text() == "#!/bin/sh\n# mine\n"
