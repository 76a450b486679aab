"""The DuckDB back end: a file opened for reading only, with no way out of it, and DuckDB's own parser as a second look.

Tables of the schema `main` are of the domain named after the file; every other schema is a domain of its own.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from oncall.output import BAD_DATA, clip

from tables.schema import Column, Failed, Key, Rows, Table, moment, quoted, too_slow

DIALECT, EXPLAIN, _USUAL = "duckdb", "EXPLAIN ", "main"
_SETTINGS = {
    "enable_external_access": "false", "autoload_known_extensions": "false", "autoinstall_known_extensions": "false",
    "threads": "2", "memory_limit": "1GB",
}
_TABLES = """
select schema_name, table_name, comment from duckdb_tables() where not internal and database_name = current_database()
union all
select schema_name, view_name, comment from duckdb_views() where not internal and database_name = current_database()
order by all"""
_COLUMNS = """
select schema_name, table_name, column_name, data_type, comment from duckdb_columns()
where not internal and database_name = current_database() order by schema_name, table_name, column_index"""
_KEYS = """
select schema_name, table_name, constraint_column_names, referenced_table, referenced_column_names
from duckdb_constraints() where constraint_type = 'FOREIGN KEY' and database_name = current_database()"""


def catalog(place: str) -> list[Table]:
    """All tables and views, with their keys and comments."""
    with closing(_open(place)) as db:
        columns: dict[tuple[str, str], list[Column]] = defaultdict(list)
        for schema, table, name, kind, comment in db.execute(_COLUMNS).fetchall():
            columns[schema, table].append(Column(name, kind, comment or ""))
        keys: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for schema, table, own, other, theirs in db.execute(_KEYS).fetchall():
            keys[schema, table] += [Key(one, other, two) for one, two in zip(own, theirs, strict=False)]
        return [Table(_domain(place, schema), table, tuple(columns[schema, table]), tuple(keys[schema, table]),
                      comment or "", "" if schema == _USUAL else schema)
                for schema, table, comment in db.execute(_TABLES).fetchall()]


def rows(place: str, sql: str, tables: Sequence[Table], limit: int, seconds: float) -> Rows:
    """At most `limit` rows of one read of these tables. Raises Failed, after `seconds` with 124."""
    import duckdb

    with closing(_open(place, tables[0].schema if tables else "")) as db:
        timer = threading.Timer(seconds, db.interrupt)
        timer.start()
        try:
            _only_these(db, sql, tables)
            cursor = db.execute(sql)
            found = cursor.fetchmany(limit + 1)
            names = tuple(column[0] for column in cursor.description or ())
        except duckdb.InterruptException:
            raise too_slow(seconds) from None
        except duckdb.Error as error:
            raise Failed(BAD_DATA, f"DuckDB refuses the query: {clip(str(error), 200)}", "correct the SQL") from None
        finally:
            timer.cancel()
    return Rows(names, tuple(found[:limit]), len(found) > limit, moment(os.stat(place).st_mtime),
                "the file was last changed")


def _open(place: str, schema: str = "") -> Any:
    try:
        import duckdb
    except ImportError:
        raise Failed(78, f"{place} is a DuckDB file, and duckdb is not installed",
                     "pip install 'harness[duckdb]'") from None
    try:
        db = duckdb.connect(place, read_only=True, config=_SETTINGS)
        if schema:
            db.execute(f"set schema = {quoted(schema)}")
        db.execute("set lock_configuration = true")
        return db
    except duckdb.Error as error:
        said = clip(str(error), 200)
        raise Failed(BAD_DATA, f"{place}: {said}", "give a DuckDB file that nobody writes to") from None


def _domain(place: str, schema: str) -> str:
    return os.path.splitext(os.path.basename(place))[0] if schema == _USUAL else schema


def _only_these(db: Any, sql: str, tables: Sequence[Table]) -> None:
    """A second look, by the parser that will run it: a text that two parsers read differently is refused."""
    named = {table.name.lower() for table in tables}
    statements = db.extract_statements(sql)
    found = {str(name).lower() for statement in statements for name in db.get_table_names(statement.query)}
    if len(statements) != 1 or not found <= named:
        others = ", ".join(sorted(found - named)[:5])
        raise Failed(BAD_DATA, f"DuckDB reads other tables in it: {others}", "write it plainer")
