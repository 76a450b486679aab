"""describe-table and sample-rows: one table of a source, as one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncall.output import clip, emit, plural

from tables import catalog, pages
from tables.catalog import Source
from tables.schema import Failed, Rows, Table, quoted

_SECONDS, _COUNTING = 10.0, 2.0
_MOST_COLUMNS, _SHOWN_COLUMNS, _MOST_ROWS, _WIDTH = 300, 50, 50, 80


def table(source: str, name: str, wiki: str | None) -> None:
    """Print what there is to know about a table before a query names it."""
    found = catalog.load(source)
    one = found.table(name)
    said = pages.described([one], wiki)[0]
    rows = _count(found, one)
    emit({
        "summary": clip(f"{one.name}: {plural(len(one.columns), 'column')}"
                        + (f", {plural(rows, 'row')}" if rows is not None else ""), 60),
        "source": source, "domain": one.domain, "table": one.name, "description": clip(said.description, 2000),
        "rows": rows,
        "columns": [{"name": column.name, "type": column.type}
                    | ({"description": column.description} if column.description else {})
                    for column in one.columns[:_MOST_COLUMNS]],
        "refers_to": [f"{one.name}.{key.column} = {key.to_table}.{key.to_column}" for key in one.keys],
        "referred_by": [f"{other.name}.{key.column} = {one.name}.{key.to_column}"
                        for other in found.tables if other.domain == one.domain and other is not one
                        for key in other.keys if key.to_table.lower() == one.name.lower()][:50],
    })


def sample(source: str, name: str, limit: int) -> None:
    """Print a few rows of a table."""
    found = catalog.load(source)
    one = found.table(name)
    sql = f"SELECT * FROM {quoted(one.name)}"
    got = catalog.told(lambda: _read(found, one, sql, max(1, min(limit, _MOST_ROWS))))
    emit({
        "summary": clip(f"{plural(len(got.rows), 'row')} of {one.name}", 60), "source": source, "domain": one.domain,
        "table": one.name, "data_time": got.as_of, "data_time_means": got.as_of_means,
        "columns": list(got.columns[:_MOST_COLUMNS]), "rows": preview(got.rows),
    })


def preview(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows as a model reads them: the first 50 columns, long values cut."""
    return [[shown(value) for value in row[:_SHOWN_COLUMNS]] for row in rows]


def shown(value: Any) -> Any:
    """A value as JSON can hold it: numbers as they are where they are finite, bytes in hex, text cut."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return clip(bytes(value[:_WIDTH]).hex(), _WIDTH)
    return clip(str(value), _WIDTH)


def _count(found: Source, one: Table) -> int | None:
    """How many rows; None where only schemas are known, and where counting takes long or the table cannot be read."""
    if one.domain not in found.places:
        return None
    try:
        return int(_read(found, one, f"SELECT count(*) FROM {quoted(one.name)}", 1, _COUNTING).rows[0][0])
    except Failed:
        return None


def _read(found: Source, one: Table, sql: str, limit: int, seconds: float = _SECONDS) -> Rows:
    backend, place = found.backend(one)
    return backend.rows(place, sql, [one], limit, seconds)
