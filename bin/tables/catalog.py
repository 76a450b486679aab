"""Where the tables are: `--source` → a catalog, and the back end that answers for a table.

A source is a file of SQLite or DuckDB, a folder of such files (each a domain, named after its file), a plan (JSON: one
database and its tables by domain, as plan-domains writes it), or a JSON file of schemas, which has no rows. A back end
is one module with `catalog()` and `rows()`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from oncall.output import BAD_DATA, MISSING, stop

from tables.command import WAREHOUSE
from tables.schema import Column, Failed, Key, Rows, Table

SUFFIXES = (".sqlite", ".sqlite3", ".db", ".duckdb")
_SQLITE, _DUCKDB = b"SQLite format 3\0", b"DUCK"
_MOST_FILES = 2000


Answer = TypeVar("Answer")


class Backend(Protocol):
    """What a back end's module offers."""

    DIALECT: str
    EXPLAIN: str

    def catalog(self, place: str) -> list[Table]:
        """All tables of one database. Raises Failed."""

    def rows(self, place: str, sql: str, tables: Sequence[Table], limit: int, seconds: float) -> Rows:
        """At most `limit` rows of one read. Raises Failed, with 124 when it takes longer than `seconds`."""


@dataclass(frozen=True, slots=True)
class Source:
    """What `--source` named: its tables, and where each domain's database is."""

    name: str
    tables: tuple[Table, ...]
    places: dict[str, str]

    def domain(self, name: str) -> str:
        """The domain of that name; stops with the nearest names."""
        found = {table.domain for table in self.tables}
        return name if name in found else _unknown("domain", name, sorted(found), self.name)

    def table(self, name: str) -> Table:
        """The table called `table` or `domain.table`, whatever the case; stops with the nearest names."""
        wanted = name.lower()
        found = [table for table in self.tables if wanted in (table.path.lower(), table.name.lower())]
        exact = [table for table in found if name in (table.path, table.name)] or found
        if len(exact) > 1:
            paths = ", ".join(table.path for table in exact[:5])
            stop(2, f"--table {name} names {len(exact)} tables: {paths}", "write DOMAIN.TABLE")
        if not exact:
            known = [table.path if "." in name else table.name for table in self.tables]
            _unknown("table", name, known, self.name)
        return exact[0]

    def backend(self, table: Table) -> tuple[Backend, str]:
        """The back end that has the table's rows, and the place to give it; stops when there are only schemas."""
        place = self.places.get(table.domain)
        if place is None:
            stop(BAD_DATA, f"{self.name} holds schemas and no rows", "give a SQLite or DuckDB file with --source")
        return _backend(place), place


def load(source: str) -> Source:
    """Read the catalog of a source; stops with one line when there is none."""
    return told(lambda: _load(source))


def told(work: Callable[[], Answer]) -> Answer:
    """What `work` gives; stops with one line where a database does not answer."""
    try:
        return work()
    except Failed as failed:
        return stop(failed.code, str(failed), failed.fix)


def _load(source: str) -> Source:
    if source == WAREHOUSE:
        tables = _backend(source).catalog(source)
        return _filled("the warehouse", tables, {table.domain: source for table in tables})
    if os.path.isdir(source):
        return _folder(source)
    if not os.path.isfile(source):
        stop(MISSING, f"no such file or folder: {source}", "give a database, a folder of them, or a JSON of schemas")
    if source.endswith(".json"):
        return _described(source)
    tables = _backend(source).catalog(source)
    return _filled(source, tables, {table.domain: source for table in tables})


def read_schemas(path: str) -> list[Table]:
    """`{domain: {"tables": {table: [[column, type]]}, "foreign_keys": [["a.x", "b.y"]]}}` → tables.

    Raises OSError, and ValueError also for another shape.
    """
    return _schemas(_json(path))


def _json(path: str) -> Any:
    import json

    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _described(source: str) -> Source:
    """A JSON file: a plan when it names a database, else schemas."""
    try:
        found = _json(source)
        if isinstance(found, dict) and isinstance(found.get("database"), str):
            return _planned(source, found["database"], found.get("domains"))
        return Source(source, tuple(_schemas(found)), {})
    except (OSError, ValueError, RecursionError) as error:
        return stop(BAD_DATA, f"{source}: {error}", "give {domain: {tables: {table: [[column, type]]}}}, or a plan")


def _planned(source: str, database: str, domains: Any) -> Source:
    """The tables of a database in the domains of a plan; what the plan leaves out stays in the database's own."""
    if not isinstance(domains, dict) or not all(isinstance(names, list) for names in domains.values()):
        raise ValueError('a plan is {"database": path, "domains": {domain: [table]}}')
    place = os.path.join(os.path.dirname(source), database)
    if not os.path.isfile(place):
        stop(MISSING, f"{source}: no database {place}", "write its path as seen from the plan's folder")
    domain_of = {str(name).lower(): str(domain) for domain, names in domains.items() for name in names}
    tables = _backend(place).catalog(place)
    lost = set(domain_of) - {table.name.lower() for table in tables}
    if lost:
        stop(BAD_DATA, f"{source}: {place} has no table {sorted(lost)[0]}", "correct the plan")
    moved = [replace(table, domain=domain_of.get(table.name.lower(), table.domain)) for table in tables]
    return _filled(source, moved, {table.domain: place for table in moved})


def _schemas(found: Any) -> list[Table]:
    try:
        return [_table(domain, name, columns, schema.get("foreign_keys", []))
                for domain, schema in found.items() for name, columns in schema["tables"].items()]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a JSON of schemas: {error!r}") from None


def _folder(source: str) -> Source:
    names = sorted(name for name in os.listdir(source) if name.endswith(SUFFIXES))
    tables: list[Table] = []
    places: dict[str, str] = {}
    for name in names[:_MOST_FILES]:
        place = os.path.join(source, name)
        found = _backend(place).catalog(place)
        for table in found:
            if places.setdefault(table.domain, place) != place:
                stop(BAD_DATA, f"two databases of {source} are both the domain {table.domain}", "rename one file")
        tables += found
    return _filled(source, tables, places)


def _filled(source: str, tables: Sequence[Table], places: dict[str, str]) -> Source:
    if not tables:
        stop(MISSING, f"no tables in {source}", f"give a database ({', '.join(SUFFIXES)}) that has some")
    return Source(source, tuple(tables), places)


def _backend(place: str) -> Backend:
    """By the first bytes of the file, not by its name; the server for the warehouse."""
    if place == WAREHOUSE:
        from tables import postgres

        return postgres
    try:
        with open(place, "rb") as file:
            start = file.read(16)
    except OSError as error:
        stop(MISSING, f"{place} cannot be read: {error.strerror}", "give a file that can be read")
    if start == _SQLITE:
        from tables import sqlite

        return sqlite
    if start[8:12] == _DUCKDB:
        from tables import duck

        return duck
    return stop(BAD_DATA, f"{place} is neither SQLite nor DuckDB", "give a database, or schemas in a file named .json")


def _table(domain: str, name: str, columns: list[list[str]], keys: list[list[str]]) -> Table:
    own = []
    for start, end in keys:
        table, _, column = start.partition(".")
        to_table, _, to_column = end.partition(".")
        if table == name:
            own.append(Key(column, to_table, to_column))
    return Table(domain, name, tuple(Column(*column) for column in columns), tuple(dict.fromkeys(own)))


def near(word: str, known: Sequence[str]) -> list[str]:
    """Up to three nearest names, whatever the case."""
    by_lower = {name.lower(): name for name in known}
    return [by_lower[name] for name in difflib.get_close_matches(word.lower(), list(by_lower), n=3, cutoff=0.6)]


def _unknown(kind: str, name: str, known: Sequence[str], source: str) -> str:
    close = near(name, known)
    hint = f"near: {', '.join(close)}" if close else f"there are {len(known):,}: ask find-tables"
    return stop(MISSING, f"no {kind} {name} in {source}; {hint}", f"name a {kind} that find-tables shows")
