"""Whether an answer carries what it stands on (SQL, tables, rows, time of the data, CSV), and that a query gave it."""

from __future__ import annotations

import json
import os
import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from oncall import evidence

_FIELDS = ("sql", "tables", "rows", "data", "csv")
_FIELD = re.compile(r"^\W*(SQL|Tables|Rows|Data|CSV)\W*:\s*(.*)$", re.IGNORECASE)
_FIX = "write lines `SQL: …`, `Tables: …`, `Rows: …`, `Data: …` and `CSV: …`, copied from the result of query-sql"
_NUMBER = re.compile(r"\d[\d,]*")
_SAID = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-])")
"""A figure of the words; what is part of a name, a date or a code is none."""
_FOUND = re.compile(r"\d+(?:\.\d+)?")
_MOST_CSV = 8 << 20


def reasons(text: str, run: str) -> list[str]:
    """Why the answer is refused; empty when it is accepted."""
    if not text.strip():
        return [f"the answer is empty: {_FIX}"]
    results = _queries(run)
    if text.lstrip(" #*").lower().startswith("no domain fits:") and not results:
        return _unasked(run)
    said, rest = _read(text)
    missing = [field for field in _FIELDS if not all(block.get(field) for block in said)] if said else list(_FIELDS)
    if missing:
        return [f"the answer lacks {', '.join(missing)}: {_FIX}"]
    if not rest.strip():
        return ["the answer says nothing in words: begin with what was asked, and the figures"]
    if results is None:
        return []
    wrong = [reason for block in said for reason in _stands(block, results)]
    return wrong or _unfounded(rest, run, results)


def _unasked(run: str) -> list[str]:
    """Why nobody may say yet that no domain fits: one was found for the question, and its worker was not asked."""
    found = [evidence.parsed(out) or {} for _, tool, _, out in evidence.outputs(run) if tool == "find-domain"]
    domains = found[-1].get("domains") if found else None
    named = [str(one.get("domain")) for one in domains or () if isinstance(one, dict)]
    asked = any(isinstance(event.get("data"), dict) and event["data"].get("child") for event in evidence.events(run))
    if not named or asked:
        return []
    return [f"find-domain names {', '.join(named[:3])} for this question: ask there first"]


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
    if block["csv"] not in (str(data.get("csv")), os.path.basename(str(data.get("csv")))):
        found.append(f"CSV must be {data.get('csv')}")
    return found


def _unfounded(words: str, run: str, results: list[dict[str, Any]]) -> list[str]:
    """Which figures of the words no query gave, and nobody asked about: a figure that was reckoned is no result."""
    known = _figures(_asked(run))
    for data in results:
        known |= _figures(json.dumps([data.get(key) for key in ("rows", "sql", "row_count", "data_time")]))
        known |= _figures(_text(str(data.get("csv"))))
    wrong = sorted({said for said in _SAID.findall(words) if not _is_known(said, known)})
    return [f"no query gave {', '.join(wrong)}: let one reckon it, or leave it out"] if wrong else []


def _asked(run: str) -> str:
    """What the run began with: the question and its inputs."""
    start = next((event.get("data") for event in evidence.events(run) if event.get("kind") == "run.start"), None)
    return json.dumps({key: start.get(key) for key in ("goal", "inputs")}) if isinstance(start, dict) else ""


def _text(path: str) -> str:
    """A file of the run's scratch, as far as it can be read; the first rows stand in the result anyway."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_CSV)
    except OSError:
        return ""


def _figures(text: str) -> set[Decimal]:
    return {Decimal(found.replace(",", "")) for found in _FOUND.findall(text)}


def _is_known(said: str, known: set[Decimal]) -> bool:
    """Whether a figure was found, as it is or rounded to the digits that are said."""
    value = Decimal(said.replace(",", ""))
    digits = Decimal(1).scaleb(min(0, int(value.as_tuple().exponent)))
    return value in known or any(_rounded(one, digits) == value for one in known)


def _rounded(value: Decimal, digits: Decimal) -> Decimal | None:
    try:
        return value.quantize(digits, ROUND_HALF_UP)
    except InvalidOperation:
        return None


def _plain(sql: str) -> str:
    return " ".join(sql.replace("```", " ").split()).strip("; ").removeprefix("sql ")
