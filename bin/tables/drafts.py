"""plan-domains: a catalog → the plan and one draft of a skill a domain, none of which overwrites anything."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence

from oncall.output import clip, emit, plural, stop

from tables import catalog, plan
from tables.command import WAREHOUSE
from tables.schema import Table, quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_TABLES, _MOST_COLUMNS = 60, 12

ASKING = ("find-domain", "find-tables", "describe-table", "sample-rows", "explain-sql", "query-sql")
BESIDE = ("check-table-answer", "tables", "oncall")
"""The verifier of the drafts, and the code that these tools share."""

WORKER = """---
name: {name}
description: {description}
allowed-tools: {at}find-tables {at}describe-table {at}sample-rows {at}explain-sql {at}query-sql
metadata:
  tool-dependencies: |
    {at}explain-sql: {at}describe-table({same})
    {at}query-sql: {at}describe-table({same})
  requires: {at}query-sql
  verify: check-table-answer
  budget: turns=20 calls=40 usd=0.50 seconds=900
{inputs}---
# {title}

Question: $ARGUMENTS

Answer it from the tables of the domain `{domain}`, {where}. Change nothing, guess nothing.

## Order

1. `{at}find-tables{source} --domain {domain}` with the question, when it is not plain which tables it is about.
2. `{at}describe-table` for every table that the query will touch. `{at}sample-rows` where the form of a value matters.
3. `{at}query-sql` with one SELECT, and `--table` for each table in it. A refusal names the nearest real names.
4. `finish` with the answer below. Copy the figures from the result of `{at}query-sql`, and add none of your own.

## The answer

```
What was asked, in one or two sentences with the figures.

SQL: the query, as it ran
Tables: the tables it read
Rows: how many
Data: the time of the data
CSV: the path
```

## The tables

{tables}
{joins}
## Example queries

```sql
{examples}
```
"""
REJECTED = "There are 40 of them.\n"
ROUTER = """---
name: {name}
description: {description}
allowed-tools: {at}find-domain {workers}
metadata:
  tool-dependencies: |
{waits}
  requires: {at}find-domain
  verify: check-table-answer
  budget: turns=20 calls=20 usd=1.00 seconds=1800
{inputs}---
# {title}

Question: $ARGUMENTS

## Order

1. `{at}find-domain{source}` with the question.
2. Send the question to the worker of the domain that fits, in the words of the person{along}.
   Where it needs several domains, send each its part, together.
3. `finish` with what the worker answered, unchanged: its figures, SQL, tables, rows, time of the data and CSV. Of
   several workers: one answer, with such lines of each.

When no domain fits: `finish` with `No domain fits:`, what is missing, and the domains there are: {domains}.
"""


def run(source: str, out: str, plan_path: str) -> None:
    """Write the plan, the drafts and the tools they name, and say what they are."""
    found = catalog.load(source)
    if not found.places:
        stop(65, f"{source} holds schemas and no rows", "give a SQLite or DuckDB file, or a folder of them")
    domains, asks = _domains(found, source, plan_path)
    texts = _texts(domains, asks, found.name)
    places = {name: os.path.join(out, "skills", name) for name in texts}
    taken = [path for path in places.values() if os.path.exists(path)]
    if taken:
        stop(73, f"{taken[0]} is there already, and may be edited", "adopt it, move it away, or name another --out")
    if asks == plan_path:
        place = os.path.relpath(source, os.path.dirname(plan_path) or ".")
        named = {domain: [table.name for table in tables] for domain, tables in domains.items()}
        _write(plan_path, json.dumps({"database": place, "domains": named}, ensure_ascii=False, indent=1) + "\n")
    for name, text in texts.items():
        _write(os.path.join(places[name], "SKILL.md"), text)
        _write(os.path.join(places[name], "evals", "reject", "bare-figure.md"), REJECTED)
    _bring_tools(os.path.join(out, "bin"), source)
    _say(found, source, domains, plan_path if asks == plan_path else None, out,
         [os.path.join(place, "SKILL.md") for place in places.values()])


def _say(found: catalog.Source, source: str, domains: Mapping[str, list[Table]], plan_path: str | None, out: str,
         drafts: list[str]) -> None:
    outside = source != WAREHOUSE and os.path.relpath(os.path.realpath(source)).split(os.sep)[0] == os.pardir
    both = [shlex.quote(os.path.join(out, name)) for name in ("skills", "bin")]
    emit({
        "summary": clip(f"{plural(len(domains), 'domain')} of {plural(len(found.tables), 'table')}", 60),
        "source": found.name, "plan": plan_path, "drafts": drafts[:200],
        "domains": [{"domain": domain, "tables": [table.name for table in tables][:_MOST_TABLES]}
                    for domain, tables in domains.items()],
        "adopt": f"edit the drafts, then in the project's folder: cp -r {' '.join(both)} .",
        **({"needs": f"{source} in this folder: confined, a skill reads no other; copy it here and plan anew"}
           if outside else {}),
        "artifacts": [*([plan_path] if plan_path else []), *drafts],
    })


def _bring_tools(folder: str, source: str) -> None:
    """The tools of the drafts, beside them: a project's skills do not see the shipped ones. What is there stays."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    asking = ("warehouse",) if source == WAREHOUSE else ASKING
    try:
        os.makedirs(folder, exist_ok=True)
        for name in (*asking, *BESIDE):
            have, want = os.path.join(here, name), os.path.join(folder, name)
            if os.path.isdir(have):
                shutil.copytree(have, want, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            elif not os.path.exists(want):
                shutil.copy(have, want)
    except (OSError, shutil.Error) as error:
        stop(73, f"the tools cannot be written to {folder}: {error}", "name a folder that may be written")


def _domains(found: catalog.Source, source: str, plan_path: str) -> tuple[Mapping[str, list[Table]], str]:
    """The domains, and the source that the skills ask: the plan, unless the databases are domains already."""
    by_domain: dict[str, list[Table]] = {}
    for table in found.tables:
        by_domain.setdefault(table.domain, []).append(table)
    if len(by_domain) > 1 or source == WAREHOUSE:
        return by_domain, source
    if os.path.exists(plan_path):
        stop(73, f"{plan_path} is there already, and may be edited", "move it away, or name another --plan")
    return plan.clusters(found.tables), plan_path


def _texts(domains: Mapping[str, Sequence[Table]], source: str, place: str) -> dict[str, str]:
    """Name of a skill → its SKILL.md: a worker a domain, and the router."""
    workers: dict[str, str] = {}
    for domain in domains:
        workers[domain] = _free(_slug(f"ask-{domain}"), set(workers.values()))
    said = _served() if source == WAREHOUSE else _filed(source)
    texts = {name: _worker(name, domain, domains[domain], said) for domain, name in workers.items()}
    stem = "warehouse" if source == WAREHOUSE else _slug(os.path.splitext(os.path.basename(os.path.normpath(place)))[0])
    router = _free(_slug(f"route-{stem}"), set(texts))
    texts[router] = ROUTER.format(
        name=router, workers=" ".join(workers.values()), title=f"Questions about {stem}", **said,
        waits="\n".join(f"    {worker}: {said['at']}find-domain" for worker in workers.values()),
        domains=", ".join(domains),
        description=clip(f"Sends a question to the domains of {stem} that can answer it. Use for any question over "
                         f"{', '.join(domains)}.", 1000).replace(":", ""))
    return texts


def _free(name: str, taken: set[str]) -> str:
    return next(one for one in (name, *(f"{name[:60]}-{n}" for n in range(2, len(taken) + 3))) if one not in taken)


def _filed(source: str) -> dict[str, str]:
    """How the drafts say where the tables are: an input, which is the given source where it can stand in the line."""
    default = "!" if re.search(r"\s", source) else f"={source}"
    return {
        "at": "", "same": "--source,--table", "source": " --source ${inputs.source}",
        "where": "all of them in `--source ${inputs.source}`", "along": ", with `--source=${inputs.source}`",
        "inputs": f"  inputs: |\n    source{default} <PATH> the plan, or the databases, with these tables\n",
    }


def _served() -> dict[str, str]:
    """The same for tables on the server of WAREHOUSE_URL, which its own tools ask."""
    return {"at": "warehouse/", "same": "--table", "source": "", "along": "", "inputs": "",
            "where": f"all of them on the server of `{WAREHOUSE}`"}


def _worker(name: str, domain: str, tables: Sequence[Table], said: Mapping[str, str]) -> str:
    shown = tables[:_MOST_TABLES]
    joins = [f"- `{_said(table.name)}.{_said(key.column)} = {_said(key.to_table)}.{_said(key.to_column)}`"
             for table in shown for key in table.keys][:_MOST_TABLES]
    about = ", ".join(table.name.replace("_", " ") for table in shown[:12])
    return WORKER.format(
        name=name, domain=domain, title=f"Questions about {domain}", **said,
        description=clip(f"Answers questions about {about} from the tables of {domain}. Use for figures and lists.",
                         1000).replace(":", ""),
        tables="\n".join(_line(table) for table in shown), examples="\n".join(_examples(shown)),
        joins="\n## How they join\n\n" + "\n".join(joins) + "\n" if joins else "")


def _line(table: Table) -> str:
    columns = ", ".join(column.name for column in table.columns[:_MOST_COLUMNS])
    more = f", and {len(table.columns) - _MOST_COLUMNS} more" if len(table.columns) > _MOST_COLUMNS else ""
    said = f" ({clip(table.description, 200)})" if table.description else ""
    return f"- `{table.name}`{said}: {columns}{more}"


def _examples(tables: Sequence[Table]) -> list[str]:
    """Queries that run: how many rows, and one for each of the first joins."""
    found = [f"SELECT count(*) FROM {_said(table.name)};" for table in tables[:2]]
    for table in tables:
        for key in table.keys[:1]:
            found.append(f"SELECT * FROM {_said(table.name)} a JOIN {_said(key.to_table)} b "
                         f"ON a.{_said(key.column)} = b.{_said(key.to_column)} LIMIT 10;")
    return found[:5]


def _said(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-") or "tables"


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        stop(73, f"{path} cannot be written: {error.strerror}", "name a folder that may be written")
