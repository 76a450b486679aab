"""Whether an answer carries what it stands on (SQL, tables, rows, time of the data, CSV), and that a query gave it."""

from __future__ import annotations

import os
import re
from typing import Any

from oncall import evidence

_FIELDS = ("sql", "tables", "rows", "data", "csv")
_FIELD = re.compile(r"^\W*(SQL|Tables|Rows|Data|CSV)\W*:\s*(.*)$", re.IGNORECASE)
_FIX = "write lines `SQL: …`, `Tables: …`, `Rows: …`, `Data: …` and `CSV: …`, copied from the result of query-sql"
_NUMBER = re.compile(r"\d[\d,]*")


def reasons(text: str, run: str) -> list[str]:
    """Why the answer is refused; empty when it is accepted."""
    if not text.strip():
        return [f"the answer is empty: {_FIX}"]
    results = _queries(run)
    if text.lstrip(" #*").lower().startswith("no domain fits:") and not results:
        return []
    said, rest = _read(text)
    missing = [field for field in _FIELDS if not all(block.get(field) for block in said)] if said else list(_FIELDS)
    if missing:
        return [f"the answer lacks {', '.join(missing)}: {_FIX}"]
    if not rest.strip():
        return ["the answer says nothing in words: begin with what was asked, and the figures"]
    return [] if results is None else [reason for block in said for reason in _stands(block, results)]


def _queries(run: str) -> list[dict[str, Any]] | None:
    """What the queries of a run and of its workers gave; None where there is no run."""
    if not run or not os.path.exists(os.path.join(run, "events.jsonl")):
        return None
    return [result.data for result in evidence.of_run(run) if result.tool.rpartition("/")[2] == "query-sql"]


def _read(text: str) -> tuple[list[dict[str, str]], str]:
    """The blocks of fields, each from its SQL to its CSV, and all other text."""
    blocks: list[dict[str, str]] = []
    rest: list[str] = []
    field = ""
    for line in text.splitlines():
        match = _FIELD.match(line)
        if match:
            field = match[1].lower()
            if not blocks or field in blocks[-1]:
                blocks.append({})
            blocks[-1][field] = match[2].strip(" `*")
        elif field == "sql" and line.strip():
            blocks[-1]["sql"] += f" {line.strip().strip('`')}"
        elif line.strip(" `"):
            rest.append(line)
    return blocks, "\n".join(rest)


def _stands(block: dict[str, str], results: list[dict[str, Any]]) -> list[str]:
    """Why a block is of no query of the run: none has its SQL, or the others differ."""
    same = [data for data in results if _plain(str(data.get("sql"))) == _plain(block["sql"])]
    if not same:
        return [f"no query of this run was: {block['sql'][:120]}"]
    data = same[-1]
    found = []
    if any(str(table).partition(".")[2].lower() not in block["tables"].lower() for table in data.get("tables", ())):
        found.append(f"Tables must name {', '.join(data['tables'])}")
    rows = _NUMBER.search(block["rows"])
    if rows is None or int(rows[0].replace(",", "")) != data.get("row_count"):
        found.append(f"Rows must be {data.get('row_count')}")
    if str(data.get("data_time")) not in block["data"]:
        found.append(f"Data must be {data.get('data_time')}")
    if os.path.basename(str(data.get("csv"))) not in block["csv"]:
        found.append(f"CSV must be {data.get('csv')}")
    return found


def _plain(sql: str) -> str:
    return " ".join(sql.replace("```", " ").split()).strip("; ").removeprefix("sql ")
