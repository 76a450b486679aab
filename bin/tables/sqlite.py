"""The SQLite back end: a file opened for reading only, whose every statement SQLite itself asks us about."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from oncall.output import BAD_DATA, UNAVAILABLE, clip

from tables.schema import Column, Failed, Key, Rows, Table, moment, too_slow

DIALECT, EXPLAIN = "sqlite", "EXPLAIN QUERY PLAN "
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
_REFUSED = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_CATALOG = """
select name, sql from sqlite_master
where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\' order by name"""
_STEPS, _MOST_BYTES, _WAIT = 10_000, 50 << 20, 2.0
_REMARK = re.compile(r"^\s*[\"`\[]?(?P<name>\w+).*?--\s*(?P<text>.+)$")


def catalog(place: str) -> list[Table]:
    """All tables and views, with keys; what stands behind `--` in their definition describes them."""
    domain = os.path.splitext(os.path.basename(place))[0]
    with closing(_open(place)) as db:
        try:
            return list(_tables(db, domain))
        except sqlite3.Error as error:
            raise _failed(error, place) from None


def rows(place: str, sql: str, tables: Sequence[Table], limit: int, seconds: float) -> Rows:
    """At most `limit` rows of one read of these tables. Raises Failed, after `seconds` with 124."""
    ends = time.monotonic() + seconds
    with closing(_open(place)) as db:
        named = {table.name.lower() for table in tables}
        real = {str(name).lower(): kind for name, kind in db.execute("select name, type from sqlite_master")}
        views = {name for name in named if real.get(name) == "view"}
        db.set_authorizer(_allow(named, views, {"sqlite_master", *real} - named))
        db.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        try:
            cursor = db.execute(sql)
            found = cursor.fetchmany(limit + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            if "interrupted" in str(error):
                raise too_slow(seconds) from None
            raise _failed(error, "SQLite refuses the query") from None
    names = tuple(column[0] for column in cursor.description or ())
    return Rows(names, tuple(found[:limit]), len(found) > limit, changed(place), "the file was last changed")


def _failed(error: Exception, where: str) -> Failed:
    said = clip(str(error), 200)
    if "locked" in said or "busy" in said:
        return Failed(UNAVAILABLE, f"{where}: {said}", "try again when whoever writes to it is done")
    return Failed(BAD_DATA, f"{where}: {said}", "correct the SQL, or give a file that `sqlite3 FILE .schema` can read")


def changed(place: str) -> str:
    """When a database file, or its journal beside it, was last written."""
    times = [os.stat(path).st_mtime for path in (place, f"{place}-wal") if os.path.exists(path)]
    return moment(max(times))


def _open(place: str) -> sqlite3.Connection:
    """Read-only. A file with a write-ahead log in a folder that may not be written opens only as one nobody changes."""
    try:
        return _connect(place, "mode=ro")
    except sqlite3.Error as error:
        if "unable to open" not in str(error) or os.path.exists(f"{place}-wal"):
            raise _failed(error, place) from None
    try:
        return _connect(place, "mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise _failed(error, place) from None


def _connect(place: str, how: str) -> sqlite3.Connection:
    from urllib.parse import quote

    db = sqlite3.connect(f"file:{quote(os.path.abspath(place))}?{how}", uri=True, timeout=_WAIT)
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
        db.execute("pragma query_only = 1")
        db.execute("select count(*) from sqlite_master")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _allow(named: set[str], views: set[str], others: set[str]) -> Callable[..., int]:
    """What SQLite may do: select, and read the named tables; nothing else, whatever the SQL says.

    A table no column of which is read, as in count(*), comes without its database, and so does the name of a CTE.
    """
    def allow(action: int, one: str | None, two: str | None, database: str | None, view: str | None) -> int:
        name = (one or "").lower()
        if action == sqlite3.SQLITE_READ:
            known = name in named or (view or "").lower() in views or (not database and not two and name not in others)
            return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY
        harmless = action == sqlite3.SQLITE_FUNCTION and (two or "").lower() not in _REFUSED
        return sqlite3.SQLITE_OK if harmless or action in _READS else sqlite3.SQLITE_DENY

    return allow


def _tables(db: sqlite3.Connection, domain: str) -> Iterator[Table]:
    for name, sql in db.execute(_CATALOG).fetchall():
        try:
            yield _table(db, domain, name, sql or "")
        except sqlite3.OperationalError as error:
            if not str(error).startswith("no such"):  # a view on what is gone is no table to ask
                raise


def _table(db: sqlite3.Connection, domain: str, name: str, sql: str) -> Table:
    remarks = dict(_remarks(sql))
    said = '"' + name.replace('"', '""') + '"'
    columns = [Column(row[1], row[2] + (" primary key" if row[5] else ""), remarks.get(row[1].lower(), ""))
               for row in db.execute(f"pragma table_xinfo({said})") if row[6] != 1]
    keys = [Key(row[3], row[2], row[4] or row[3]) for row in db.execute(f"pragma foreign_key_list({said})")]
    return Table(domain, name, tuple(columns), tuple(keys), remarks.get("", ""))


def _remarks(sql: str) -> Iterator[tuple[str, str]]:
    """Column → what stands behind it; the empty name → what stands behind the opening bracket."""
    for line in sql.splitlines():
        match = _REMARK.match(line)
        if match:
            is_head = match["name"].lower() == "create"
            yield "" if is_head else match["name"].lower(), clip(match["text"], 300)
