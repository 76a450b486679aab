"""The table tools as processes on the sample warehouse: by hand, in confinement, with and without their libraries."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.command import ROOT, clean_env

BIN = ROOT / "bin"
MAKE = BIN / "make-sample"
TOOLS = ("find-domain", "find-tables", "describe-table", "sample-rows", "explain-sql", "query-sql")


def tool(name: str, *args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BIN / name), *map(str, args)], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "HARNESS_OUT": "", **env}, check=False, timeout=60)


def answer(name: str, *args: str | Path, cwd: Path, **env: str) -> dict:
    done = tool(name, *args, cwd=cwd, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    subprocess.run([sys.executable, MAKE, "--out", folder], check=True, capture_output=True)
    return folder


def test_the_sample_is_the_same_for_the_same_seed(sample: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, MAKE, "--out", tmp_path], check=True, capture_output=True)
    for domain in ("shop", "staff", "fleet"):
        assert (tmp_path / f"{domain}.sqlite").read_bytes() == (sample / f"{domain}.sqlite").read_bytes()


def test_a_domain_is_found_by_its_tables_and_columns(sample: Path) -> None:
    found = answer("find-domain", "--source", sample, "How far did each driver go in a van?", cwd=sample)
    assert found["domains"][0]["domain"] == "fleet" and found["domains_in_all"] == 3
    assert {table["table"] for table in found["domains"][0]["tables"]} == {"drivers", "vans", "trips"}


def test_what_was_found_and_what_was_not_is_told_in_the_words_of_the_question(sample: Path) -> None:
    found = answer("find-tables", "--source", sample, "Which customers have companies?", cwd=sample)
    assert found["not_found"] == ["companies"] and found["tables"][0]["holds"] == ["customers"]


def test_remarks_in_the_schema_and_pages_of_the_wiki_find_tables(sample: Path) -> None:
    by_remark = answer("find-tables", "--source", sample, "days of illness", cwd=sample)
    assert by_remark["tables"][0]["table"] == "absences"
    alone = answer("find-tables", "--source", sample, "turnover", cwd=sample)
    assert alone["tables"] == [] and alone["not_found"] == ["turnover"]
    by_page = answer("find-tables", "--source", sample, "--wiki", sample / "wiki", "turnover", cwd=sample)
    assert by_page["tables"][0]["table"] == "order_lines" and by_page["next"][0]["tool"] == "describe-table"


def test_a_table_is_described_with_types_remarks_keys_and_rows(sample: Path) -> None:
    found = answer("describe-table", "--source", sample, "--table", "ORDERS", cwd=sample)
    assert (found["domain"], found["table"], found["rows"]) == ("shop", "orders", 120)
    assert found["columns"][-1] == {"name": "state", "type": "TEXT", "description": "new, paid, shipped or returned"}
    assert found["refers_to"] == ["orders.customer_id = customers.customer_id"]
    assert found["referred_by"] == ["order_lines.order_id = orders.order_id"]


def test_a_table_that_cannot_be_counted_is_described_all_the_same(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "odd.sqlite")) as db, db:
        db.executescript("create table t (x); create view broken as select x from t; create view endless as with "
                         "recursive c(i) as (select 1 union all select i + 1 from c) select i from c; drop table t;")
    found = answer("describe-table", "--source", "odd.sqlite", "--table", "endless", cwd=tmp_path)
    assert found["rows"] is None and found["columns"] == [{"name": "i", "type": ""}]
    assert tool("describe-table", "--source", "odd.sqlite", "--table", "broken", cwd=tmp_path).returncode == 66


def test_sample_rows_are_few_and_odd_values_are_shown(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "odd.sqlite")) as db, db:
        db.execute('create table "a ""b" ("x y", z)')
        values = [(b"\x00\xff", "é" * 500), (None, float("inf")), (2**40, 1.5)]
        db.executemany('insert into "a ""b" values (?, ?)', values)
        db.execute("insert into \"a \"\"b\" values (cast(x'ff41' as text), '')")
    found = answer("sample-rows", "--source", "odd.sqlite", "--table", 'a "b', "--limit", "99", cwd=tmp_path)
    assert found["columns"] == ["x y", "z"] and found["rows"][0][0] == "00ff" and len(found["rows"][0][1]) == 80
    assert found["rows"][1:] == [[None, "inf"], [2**40, 1.5], ["�A", ""]]


def test_a_query_answers_with_all_it_stands_on(sample: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    sql = "SELECT country, count(*) AS n FROM customers JOIN orders USING (customer_id) GROUP BY 1 ORDER BY n DESC"
    found = answer("query-sql", "--source", sample, "--table", "shop.customers", "--table", "orders", sql, cwd=tmp_path)
    assert (found["sql"], found["tables"], found["more_rows"]) == (sql, ["shop.customers", "shop.orders"], False)
    assert found["data_time"].endswith("Z") and found["data_time_means"] == "the file was last changed"
    with (tmp_path / found["csv"]).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["country", "n"] and len(rows) == found["row_count"] + 1
    assert sum(int(count) for _, count in rows[1:]) == 120
    assert [[name, int(count)] for name, count in rows[1:]] == found["rows"]
    assert found["artifacts"] == [found["csv"]] and found["evidence"][0]["source"] == found["csv"]


def test_rows_and_time_are_limited(sample: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    base = ("--source", sample, "--table", "trips")
    found = answer("query-sql", *base, "--limit", "7", "SELECT * FROM trips", cwd=tmp_path)
    assert (found["row_count"], found["more_rows"], found["summary"]) == (7, True, "the first 7 rows")
    endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c"
    slow = tool("query-sql", *base, "--seconds", "0.2", endless, cwd=tmp_path)
    assert slow.returncode == 124 and "no answer within 0.2 s" in slow.stderr and slow.stdout == ""
    assert tool("query-sql", *base, "--limit", "0", "SELECT 1", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(("args", "code", "said"), [
    (("query-sql", "--table", "orders", "SELECT name FROM customers"), 65, "customers is not among --table"),
    (("query-sql", "--table", "orders", "SELECT stat FROM orders"), 65, "no column stat; near: state"),
    (("query-sql", "--table", "orders", "DELETE FROM orders"), 65, "DELETE is no read"),
    (("query-sql", "--table", "order", "SELECT 1"), 66, "no table order in"),
    (("query-sql", "--table", "orders", "--table", "vans", "SELECT 1"), 2, "several databases"),
    (("explain-sql", "--table", "orders", "SELECT x FROM orders"), 65, "no column x"),
    (("find-tables", "--domain", "shopp", "x"), 66, "no domain shopp in"),
    (("find-domain", " "), 2, "question is empty"),
    (("describe-table", "--table", "vns"), 66, "near: vans"),
])
def test_what_cannot_be_answered_is_one_clear_line(
        sample: Path, tmp_path: Path, args: tuple[str, ...], code: int, said: str) -> None:
    pytest.importorskip("sqlglot")
    done = tool(args[0], "--source", sample, *args[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "") and said in done.stderr
    assert done.stderr.count("\n") == 1 and "; fix: " in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_is_shown_without_running_the_query(sample: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    sql = "SELECT day FROM trips WHERE trip_id = 3"
    found = answer("explain-sql", "--source", sample, "--table", "trips", sql, cwd=tmp_path)
    assert found["plan"] == ["SEARCH trips USING INTEGER PRIMARY KEY (rowid=?)"] and found["tables"] == ["fleet.trips"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "content", "code"), [
    ("text.sqlite", b"no database", 65), ("cut.sqlite", b"SQLite format 3\0" + b"\xff" * 200, 65),
    ("list.json", b"[1]", 65), ("bad.json", b"{", 65), ("nothing.json", b'{"a": {"tables": 3}}', 65), (None, b"", 66),
])
def test_what_is_no_catalog_is_named(tmp_path: Path, name: str | None, content: bytes, code: int) -> None:
    if name:
        (tmp_path / name).write_bytes(content)
    done = tool("find-domain", "--source", name or "gone", "orders", cwd=tmp_path)
    assert done.returncode == code and done.stderr.count("\n") == 1 and (name or "gone") in done.stderr


def test_without_sqlglot_a_query_says_how_to_get_it(sample: Path, tmp_path: Path) -> None:
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sqlglot.py").write_text("raise ImportError('hidden')")
    done = tool("query-sql", "--source", sample, "--table", "vans", "SELECT 1", cwd=tmp_path, PYTHONPATH=str(hide))
    assert done.returncode == 78 and "pip install 'harness[tables]'" in done.stderr and done.stderr.count("\n") == 1
    assert tool("find-tables", "--source", sample, "vans", cwd=tmp_path, PYTHONPATH=str(hide)).returncode == 0


def test_the_real_music_shop_is_asked_through_its_joins(tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    place = next((up / "shared/data/sql/chinook.sqlite" for up in ROOT.parents
                  if (up / "shared/data/sql/chinook.sqlite").is_file()), None)
    if place is None:
        pytest.skip("the music shop's database is not here")
    found = answer("find-tables", "--source", place, "which artist has the most albums", cwd=tmp_path)
    assert {table["table"] for table in found["tables"][:2]} == {"Artist", "Album"}
    tables = ("Genre", "Track", "InvoiceLine")
    sql = ("SELECT g.Name, round(sum(l.UnitPrice * l.Quantity), 2) AS sold FROM InvoiceLine l JOIN Track t "
           "ON t.TrackId = l.TrackId JOIN Genre g ON g.GenreId = t.GenreId GROUP BY g.GenreId ORDER BY sold DESC")
    named = [word for name in tables for word in ("--table", name)]
    got = answer("query-sql", "--source", place, *named, sql, cwd=tmp_path)
    assert got["rows"][0] == ["Rock", 826.65] and got["row_count"] == 24


def test_duckdb_is_read_like_sqlite_and_is_missed_by_name(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    with closing(duckdb.connect(str(tmp_path / "lake.duckdb"))) as db:
        db.execute("create table towns (id integer primary key, name text)")
        db.execute("create table people (name text, town integer references towns(id)); create schema hr")
        db.execute("comment on column people.name is 'as in the passport'; insert into towns values (1, 'Graz')")
        db.execute("insert into people values ('Ada', 1), ('Bo', 1); create table hr.pay as select 7 as amount")
    found = answer("describe-table", "--source", "lake.duckdb", "--table", "people", cwd=tmp_path)
    assert found["refers_to"] == ["people.town = towns.id"] and found["rows"] == 2
    assert found["columns"][0] == {"name": "name", "type": "VARCHAR", "description": "as in the passport"}
    base = ("--source", "lake.duckdb", "--table", "people", "--table", "towns")
    sql = "SELECT t.name, count(*) AS n FROM people p JOIN towns t ON p.town = t.id GROUP BY ALL"
    assert answer("query-sql", *base, sql, cwd=tmp_path)["rows"] == [["Graz", 2]]
    assert answer("explain-sql", *base, sql, cwd=tmp_path)["plan"]
    pay = answer("query-sql", "--source", "lake.duckdb", "--table", "hr.pay", "SELECT amount FROM pay", cwd=tmp_path)
    assert pay["rows"] == [[7]] and pay["tables"] == ["hr.pay"]
    for bad in ("SELECT * FROM read_csv('lake.duckdb')", "INSERT INTO towns VALUES (2, 'x')", "SELECT * FROM pay"):
        assert tool("query-sql", *base, bad, cwd=tmp_path).returncode == 65
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "duckdb.py").write_text("raise ImportError('hidden')")
    missed = tool("find-tables", "--source", "lake.duckdb", "people", cwd=tmp_path, PYTHONPATH=str(hide))
    assert missed.returncode == 78 and "harness[duckdb]" in missed.stderr


def test_the_tools_run_in_confinement(sample: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    home = tmp_path / "project"
    (home / ".harness").mkdir(parents=True)
    subprocess.run([sys.executable, MAKE, "--out", home / "data"], check=True, capture_output=True)
    env = clean_env(home)
    done = subprocess.run(
        [sys.executable, "-m", "harness", "tools", "run", "query-sql", "--source", "data", "--table", "vans",
         "SELECT count(*) AS n FROM vans"], cwd=home, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == [[6]] and Path(found["csv"]).read_text() == "n\n6\n"
    assert not list(home.glob("*.csv"))


@pytest.mark.parametrize("name", TOOLS)
def test_help_has_examples_and_the_exit_codes(name: str, tmp_path: Path) -> None:
    done = tool(name, "--help", cwd=tmp_path)
    assert done.returncode == 0 and "examples:" in done.stdout and "exit codes: 0 ok" in done.stdout
