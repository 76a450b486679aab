"""SQL before a database sees it: what is read, what is refused, and that both guards hold alone."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("sqlglot")
BIN = Path(__file__).resolve().parents[1] / "bin"
sys.path.insert(0, str(BIN))

from tables import check, sqlite
from tables.schema import Column, Failed, Table

ARTIST = Table("shop", "Artist", (Column("ArtistId"), Column("Name")))
ALBUM = Table("shop", "Album", (Column("AlbumId"), Column("Title"), Column("ArtistId")))
CUSTOMER = Table("shop", "Customer", (Column("CustomerId"), Column("Email")))
KNOWN = [ARTIST, ALBUM, CUSTOMER]


def read(sql: str, dialect: str = "sqlite") -> list[str]:
    return [table.name for table in check.check(sql, dialect, [ARTIST, ALBUM], KNOWN)]


@pytest.mark.parametrize(("sql", "tables"), [
    ("SELECT * FROM Artist", ["Artist"]),
    ("SELECT a.*, b.title FROM ARTIST a JOIN Album b USING (ArtistId)", ["Artist", "Album"]),
    ("SELECT Name AS n FROM Artist GROUP BY n HAVING count(*) > 1 ORDER BY n", ["Artist"]),
    ("WITH x AS (SELECT ArtistId, count(*) n FROM Album GROUP BY 1) SELECT Name, n FROM Artist JOIN x USING (ArtistId)",
     ["Album", "Artist"]),
    ("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5) SELECT i FROM c", []),
    ("SELECT Name FROM Artist WHERE EXISTS (SELECT 1 FROM Album b WHERE b.ArtistId = Artist.ArtistId)",
     ["Album", "Artist"]),
    ("SELECT (SELECT max(Title) FROM Album b WHERE b.ArtistId = a.ArtistId) FROM Artist a", ["Album", "Artist"]),
    ("SELECT Name FROM Artist UNION SELECT Title FROM Album ORDER BY Name", ["Artist", "Album"]),
    ("SELECT Name FROM (SELECT Name FROM Artist UNION ALL SELECT Title FROM Album)", ["Artist", "Album"]),
    ("SELECT x.ArtistId FROM (SELECT * FROM Album) x", ["Album"]),
    ("SELECT q.n FROM (SELECT count(*) FROM Artist) AS q(n)", ["Artist"]),
    ("SELECT rowid, [Name], \"Name\", `Name`, main.Artist.Name FROM main.Artist", ["Artist"]),
    ("SELECT row_number() OVER (PARTITION BY ArtistId ORDER BY Title) FROM Album -- a remark", ["Album"]),
    ("SELECT strftime('%Y', 'now'), printf('%d', 1), ifnull(Name, ''), group_concat(Name) FROM Artist", ["Artist"]),
])
def test_a_read_of_named_tables_passes(sql: str, tables: list[str]) -> None:
    assert sorted(read(sql)) == sorted(tables)


@pytest.mark.parametrize(("sql", "said"), [
    ("SELECT * FROM Customer", "table Customer is not among --table"),
    ("SELECT * FROM Artst", "no table Artst; near: Artist"),
    ("SELECT Nme FROM Artist", "no column Nme; near: Name"),
    ("SELECT a.Titel FROM Album a", "no column Titel in a; near: Title"),
    ("SELECT b.Name FROM Artist a", "no table or alias b"),
    ("SELECT zz.* FROM Artist", "no table or alias zz"),
    ("SELECT Name FROM Artist ORDER BY nope", "no column nope"),
    ("SELECT Name FROM Artist JOIN Album USING (Nope)", "no column Nope"),
    ("SELECT x.foo FROM (SELECT Name FROM Artist) x", "no column foo in x"),
    ("SELECT Name FROM Artist WHERE ArtistId IN (SELECT CustomerId FROM Customer)", "table Customer is not"),
    ("SELECT Name FROM Artist UNION SELECT Email FROM Customer", "table Customer is not"),
    ("WITH Artist AS (SELECT * FROM Customer) SELECT * FROM Artist", "table Customer is not"),
    ("SELECT * FROM other.Artist", "another database"),
    ("SELECT * FROM sqlite_master", "no table sqlite_master"),
    ("SELECT Name FROM Artist WHERE Name = \"France\"", "no column France"),
    ("SELECT Name FROM Artist; DROP TABLE Artist", "2 statements"),
    ("SELECT * FROM Artist, Artist", "cannot be checked"),
    ("SELECT load_extension('x')", "no function load_extension"),
    ("SELECT * FROM pragma_table_info('Artist')", "no function pragma_table_info"),
    ("SELECT ? FROM Artist", "placeholder"),
    ("", "0 statements"),
    ("SELECT FROM WHERE", "no SQL"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "nested too deep"),
    ("SELECT '" + "x" * 30_000 + "'", "characters"),
    *[(sql, "no read") for sql in (
        "DROP TABLE Artist", "INSERT INTO Artist VALUES (1, 'x')", "UPDATE Artist SET Name = 'x'",
        "DELETE FROM Artist",
        "WITH x AS (SELECT 1) DELETE FROM Artist", "PRAGMA table_info(Artist)", "ATTACH 'x' AS y", "VACUUM",
        "CREATE TABLE x AS SELECT * FROM Artist", "EXPLAIN SELECT 1", "VALUES (1)",
        "REPLACE INTO Artist VALUES (1, '')")],
])
def test_what_is_no_read_of_named_tables_is_refused_and_the_nearest_named(sql: str, said: str) -> None:
    with pytest.raises(check.Refused, match=said):
        read(sql)


@pytest.mark.parametrize(("dialect", "sql"), [
    ("postgres", "SELECT * INTO x FROM Artist"),
    ("postgres", "SELECT * FROM Artist FOR UPDATE"),
    ("postgres", "WITH d AS (DELETE FROM Artist RETURNING *) SELECT * FROM d"),
    ("postgres", "SELECT pg_sleep(5)"),
    ("postgres", "SELECT pg_catalog.pg_read_file('/etc/passwd') FROM Artist"),
    ("postgres", "SELECT query_to_xml('select 1', true, true, '')"),
    ("postgres", "SELECT nextval('x')"),
    ("postgres", "SELECT set_config('a', 'b', false)"),
    ("postgres", "COPY Artist TO '/tmp/x'"),
    ("postgres", "SELECT * FROM generate_series(1, 5)"),
    ("duckdb", "SELECT * FROM read_csv('/etc/passwd')"),
    ("duckdb", "SELECT * FROM '/etc/passwd'"),
    ("duckdb", "SELECT getenv('HOME')"),
    ("duckdb", "COPY Artist TO 'x'"),
    ("duckdb", "SELECT * FROM Artist PIVOT (count(*) FOR Name IN ('a'))"),
])
def test_what_other_databases_would_do_beside_reading_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(check.Refused):
        read(sql, dialect)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript("create table Artist (ArtistId, Name); create table Customer (CustomerId, Email);"
                         "insert into Artist values (1, 'Ann'); insert into Customer values (1, 'secret')")
    yield str(path)


@pytest.mark.parametrize("sql", [
    "SELECT * FROM Customer",
    "SELECT count(*) FROM Customer",
    "WITH Artist AS (SELECT * FROM Customer) SELECT * FROM Artist",
    "SELECT * FROM sqlite_master",
    "DELETE FROM Artist",
    "CREATE TABLE x (y)",
    "ATTACH ':memory:' AS x",
    "PRAGMA query_only = 0",
    "SELECT load_extension('x')",
])
def test_the_connection_refuses_by_itself_what_the_parser_would_have(place: str, sql: str) -> None:
    before = Path(place).read_bytes()
    with pytest.raises(Failed, match="SQLite refuses the query") as failed:
        sqlite.rows(place, sql, [ARTIST], 10, 5)
    assert failed.value.code == 65
    assert Path(place).read_bytes() == before and not os.path.exists(f"{place}-journal")


def test_a_view_is_read_through_and_what_it_stands_on_is_not(place: str) -> None:
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("create view Mail as select Email from Customer")
    got = sqlite.rows(place, "SELECT Email FROM Mail", [Table("shop", "Mail", (Column("Email"),))], 10, 5)
    assert got.rows == (("secret",),) and not got.more


def test_one_cell_cannot_take_all_memory(place: str) -> None:
    with pytest.raises(Failed, match="too big"):
        sqlite.rows(place, "SELECT replace(printf('%.*c', 20000000, 'x'), 'x', 'yyyy')", [ARTIST], 10, 5)


def test_a_database_that_somebody_writes_to_is_asked_again_later(place: str) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as writer:
        writer.execute("begin exclusive")
        with pytest.raises(Failed, match="locked") as failed:
            sqlite.rows(place, "SELECT Name FROM Artist", [ARTIST], 10, 5)
    assert failed.value.code == 69
