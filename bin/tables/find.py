"""find-domain and find-tables: a source and a question → the ranked names, and why they were found."""

from __future__ import annotations

from oncall.output import emit, plural, stop

from tables import catalog, index, pages, ranking, words
from tables.command import WAREHOUSE
from tables.ranking import Asked, Found, Weights

_MOST = 20


def domains(source: str, question: str, wiki: str | None, limit: int) -> None:
    """Print the domains that fit, each with its best tables."""
    indexed, asked, weights = _look(source, question, wiki)
    said = words.spoken(question)
    ranked = [pair for pair in ranking.domains(indexed, asked, weights) if _fits(indexed, asked, pair[0])]
    shown = ranked[:_bounded(limit)]
    best = {domain: ranking.within(indexed, asked, domain, weights, 3) for domain, _ in shown}
    count = plural(len(indexed.domains), "domain")
    emit({
        "summary": f"{shown[0][0]} fits best, of {count}" if shown else f"none of {count} fits",
        "source": source, "domains_in_all": len(indexed.domains), "not_found": _not_found(asked, said),
        "domains": [{"domain": domain, "score": round(score, 2),
                     "tables": [_facts(indexed, one, said) for one in best[domain]]}
                    for domain, score in shown],
    })


def tables(source: str, question: str, domain: str | None, wiki: str | None, limit: int) -> None:
    """Print the tables that fit, of one domain or of all."""
    indexed, asked, weights = _look(source, question, wiki)
    said = words.spoken(question)
    if domain and domain not in indexed.domains:
        close = catalog.near(domain, list(indexed.domains))
        hint = f"; near: {', '.join(close)}" if close else ""
        stop(66, f"no domain {domain} in {source}{hint}", "name a domain that find-domain shows")
    found = ranking.within(indexed, asked, domain, weights, _bounded(limit)) if domain \
        else ranking.flat(indexed, asked, weights, _bounded(limit))
    found = [one for one in found if one.terms or domain]
    emit({
        "summary": f"{indexed.tables[found[0].table].name} fits best" if found else "no table fits",
        "source": source, "tables_in_all": len(indexed.tables), "not_found": _not_found(asked, said),
        "tables": [_facts(indexed, one, said) | {"joins": _joins(indexed, one)} for one in found],
        "next": [_look_at(source, _shortest(indexed, one)) for one in found[:3]],
    })


def _look(source: str, question: str, wiki: str | None) -> tuple[index.Index, Asked, Weights]:
    if not question.strip():
        stop(2, "the question is empty", "ask in people's words")
    weights = Weights()
    found = pages.described(catalog.load(source).tables, wiki)
    indexed = index.build(found)
    return indexed, ranking.ask(indexed, question[:4000], weights), weights


def _look_at(source: str, name: str) -> dict[str, object]:
    served = source == WAREHOUSE
    tool, where = ("warehouse/describe-table", []) if served else ("describe-table", ["--source", source])
    return {"tool": tool, "args": [*where, "--table", name]}


def _bounded(limit: int) -> int:
    return max(1, min(limit, _MOST))


def _fits(indexed: index.Index, asked: Asked, domain: str) -> bool:
    """Whether anything that was asked stands in the domain."""
    return any(number in asked.held for number in indexed.domains[domain]) \
        or bool(indexed.domain_names[domain] & asked.said)


def _not_found(asked: Asked, said: dict[str, str]) -> list[str]:
    """Words of the question that no name holds; `said` is each of its stems as it says it."""
    found = {term for terms in asked.held.values() for term in terms}
    return [said.get(term, term) for term in asked.variants if term not in found][:20]


def _facts(indexed: index.Index, one: Found, said: dict[str, str]) -> dict[str, object]:
    """What is shown of a table; `holds` are the question's own words that stand in it."""
    table = indexed.tables[one.table]
    return {"table": _shortest(indexed, one), "domain": table.domain, "score": round(one.score, 2),
            "holds": [said.get(term, term) for term in one.terms[:12]],
            "columns": [column.name for column in table.columns[:30]]}


def _joins(indexed: index.Index, one: Found) -> list[str]:
    return sorted(indexed.tables[other].name for other in indexed.near[one.table])[:10]


def _shortest(indexed: index.Index, one: Found) -> str:
    """The table's name, with the domain where another domain has one of that name."""
    table = indexed.tables[one.table]
    same = sum(other.name.lower() == table.name.lower() for other in indexed.tables)
    return table.path if same > 1 else table.name
