"""query-sql and explain-sql: check, read, write the CSV, answer with everything the answer stands on."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from oncall.output import clip, emit, plural, stop

from tables import catalog
from tables.catalog import Backend
from tables.check import checked
from tables.describe import preview
from tables.schema import Rows, Table

_MOST_ROWS, _MOST_SECONDS, _PREVIEW = 100_000, 50.0, 20
_PLAN_LINES, _MOST_COLUMNS = 100, 300


def run(source: str, names: Sequence[str], sql: str, limit: int, seconds: float) -> None:
    """Run one read and print the answer object."""
    if limit < 1 or not 0 < seconds <= _MOST_SECONDS:
        stop(2, f"--limit {limit} --seconds {seconds:g}", f"at least one row, and up to {_MOST_SECONDS:g} seconds")
    read, backend, place = _prepared(source, names, sql)
    got = catalog.told(lambda: backend.rows(place, sql, read, min(limit, _MOST_ROWS), seconds))
    path = _write(got, sql)
    emit({
        "summary": clip(f"{'the first ' if got.more else ''}{plural(len(got.rows), 'row')}", 60),
        "source": source, "sql": sql, "tables": [table.path for table in read], "row_count": len(got.rows),
        "more_rows": got.more, "data_time": got.as_of, "data_time_means": got.as_of_means, "csv": path,
        "columns": list(got.columns[:_MOST_COLUMNS]), "rows": preview(got.rows[:_PREVIEW]),
        "evidence": [{"id": "E1", "source": path, "text": clip(sql, 300)}], "artifacts": [path],
    })


def explain(source: str, names: Sequence[str], sql: str) -> None:
    """Print the database's plan of one read, which is not run."""
    read, backend, place = _prepared(source, names, sql)
    got = catalog.told(lambda: backend.rows(place, backend.EXPLAIN + sql, read, _PLAN_LINES, 10.0))
    plan = [line for row in got.rows for line in str(row[-1]).splitlines()]
    emit({
        "summary": clip(f"it may run; {plural(len(plan), 'step')}", 60), "source": source, "sql": sql,
        "tables": [table.path for table in read], "plan": [clip(line, 200) for line in plan[:_PLAN_LINES]],
    })


def _prepared(source: str, names: Sequence[str], sql: str) -> tuple[list[Table], Backend, str]:
    """What the SQL reads, and the back end to give it to; stops where the SQL is refused."""
    found = catalog.load(source)
    named = [found.table(name) for name in dict.fromkeys(names)]
    if len({found.places.get(table.domain) for table in named}) > 1:
        stop(2, "the tables are in several databases", "ask each domain for itself, and join the answers")
    backend, place = found.backend(named[0])
    same = [table for table in found.tables if found.places.get(table.domain) == place]
    return checked(sql, backend.DIALECT, named, same), backend, place


def _write(got: Rows, sql: str) -> str:
    """The rows as CSV, in the run's scratch or by hand in the current folder; the same SQL writes the same name."""
    name = f"query-{hashlib.sha256(sql.encode('utf-8', 'replace')).hexdigest()[:8]}.csv"
    path = os.path.join(os.environ.get("HARNESS_OUT") or "", name)
    try:
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(got.columns)
            writer.writerows([_cell(value) for value in row] for row in got.rows)
    except OSError as error:
        stop(73, f"{path} cannot be written: {error.strerror}", "work in a folder that may be written")
    return path


def _cell(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else value
