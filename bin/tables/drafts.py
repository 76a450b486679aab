"""plan-domains: a catalog → the plan and one draft of a skill a domain, none of which overwrites anything."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from oncall.output import clip, emit, plural, stop

from tables import catalog, plan
from tables.schema import Table, quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_TABLES, _MOST_COLUMNS = 60, 12

TOOLS = ("find-domain", "find-tables", "describe-table", "sample-rows", "explain-sql", "query-sql",
         "check-table-answer", "tables", "oncall")

WORKER = """---
name: {name}
description: {description}
allowed-tools: find-tables describe-table sample-rows explain-sql query-sql
metadata:
  tool-dependencies: |
    explain-sql: describe-table(--source,--table)
    query-sql: describe-table(--source,--table)
  requires: query-sql
  verify: check-table-answer
  budget: turns=20 calls=40 usd=0.50 seconds=900
---
# {title}

Question: $ARGUMENTS

Answer it from the tables of the domain `{domain}`, all of them in `--source {source}`. Change nothing, guess nothing.

## Order

1. `find-tables --source {source} --domain {domain}` with the question, when it is not plain which tables it is about.
2. `describe-table` for every table that the query will touch. `sample-rows` where the form of a value matters.
3. `query-sql` with one SELECT, and `--table` for each table in it. A refusal names the nearest real names.
4. `finish` with the answer below. Copy the figures from the result of `query-sql`, and add none of your own.

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
allowed-tools: find-domain {workers}
metadata:
  tool-dependencies: |
{waits}
  verify: check-table-answer
  budget: turns=20 calls=20 usd=1.00 seconds=1800
---
# {title}

Question: $ARGUMENTS

## Order

1. `find-domain --source {source}` with the question.
2. Send the question, in the words of the person, to the worker of the domain that fits. Where it needs several domains,
   send each its part, together.
3. `finish` with what the worker answered, unchanged: its figures, SQL, tables, rows, time of the data and CSV. Of
   several workers: one answer, with such lines of each.

When no domain fits: `finish` with `No domain fits:`, what is missing, and the domains there are: {domains}.
"""


def run(source: str, out: str, plan_path: str) -> None:
    """Write the plan and the drafts, and say what they are."""
    found = catalog.load(source)
    if not found.places:
        stop(65, f"{source} holds schemas and no rows", "give a SQLite or DuckDB file, or a folder of them")
    domains, asks = _domains(found, source, plan_path)
    texts = _texts(domains, asks, found.name)
    taken = [path for name in texts if os.path.exists(path := os.path.join(out, name))]
    if taken:
        stop(73, f"{taken[0]} is there already, and may be edited", "adopt it, move it away, or name another --out")
    if asks == plan_path:
        place = os.path.relpath(source, os.path.dirname(plan_path) or ".")
        named = {domain: [table.name for table in tables] for domain, tables in domains.items()}
        _write(plan_path, json.dumps({"database": place, "domains": named}, ensure_ascii=False, indent=1) + "\n")
    for name, text in texts.items():
        _write(os.path.join(out, name, "SKILL.md"), text)
        _write(os.path.join(out, name, "evals", "reject", "bare-figure.md"), REJECTED)
    drafts = [os.path.join(out, name, "SKILL.md") for name in texts]
    emit({
        "summary": clip(f"{plural(len(domains), 'domain')} of {plural(len(found.tables), 'table')}", 60),
        "source": source, "plan": plan_path if asks == plan_path else None, "drafts": drafts[:200],
        "domains": [{"domain": domain, "tables": [table.name for table in tables][:_MOST_TABLES]}
                    for domain, tables in domains.items()],
        "needs": "the tools of these skills in the project's bin/: " + _copying(),
        "artifacts": [*([plan_path] if asks == plan_path else []), *drafts],
    })


def _copying() -> str:
    """The command that gives a project the tools of its drafts: skills of a project do not see the shipped ones."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return " ".join(["cp -r", *(os.path.join(here, name) for name in TOOLS), "bin/"])


def _domains(found: catalog.Source, source: str, plan_path: str) -> tuple[Mapping[str, list[Table]], str]:
    """The domains, and the source that the skills ask: the plan, unless the databases are domains already."""
    by_domain: dict[str, list[Table]] = {}
    for table in found.tables:
        by_domain.setdefault(table.domain, []).append(table)
    if len(by_domain) > 1:
        return by_domain, source
    if os.path.exists(plan_path):
        stop(73, f"{plan_path} is there already, and may be edited", "move it away, or name another --plan")
    return plan.clusters(found.tables), plan_path


def _texts(domains: Mapping[str, Sequence[Table]], source: str, place: str) -> dict[str, str]:
    """Name of a skill → its SKILL.md: a worker a domain, and the router."""
    workers = {domain: _slug(f"ask-{domain}") for domain in domains}
    texts = {workers[domain]: _worker(workers[domain], domain, tables, source) for domain, tables in domains.items()}
    stem = _slug(os.path.splitext(os.path.basename(os.path.normpath(place)))[0])
    router = next(name for name in (f"route-{stem}", f"route-{stem}-questions") if name not in texts)
    texts[router] = ROUTER.format(
        name=router, workers=" ".join(workers.values()), title=f"Questions about {stem}", source=source,
        waits="\n".join(f"    {worker}: find-domain" for worker in workers.values()), domains=", ".join(domains),
        description=clip(f"Sends a question to the domains of {stem} that can answer it. Use for any question over "
                         f"{', '.join(domains)}.", 1000))
    return texts


def _worker(name: str, domain: str, tables: Sequence[Table], source: str) -> str:
    shown = tables[:_MOST_TABLES]
    joins = [f"- `{_said(table.name)}.{_said(key.column)} = {_said(key.to_table)}.{_said(key.to_column)}`"
             for table in shown for key in table.keys][:_MOST_TABLES]
    about = ", ".join(table.name.replace("_", " ") for table in shown[:12])
    return WORKER.format(
        name=name, domain=domain, source=source, title=f"Questions about {domain}",
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
