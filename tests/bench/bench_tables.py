"""How well questions find their tables: `python tests/bench/bench_tables.py [--ideas] [--embedding] [--held-out]`.

Real questions over the Spider schemas beside the repository (`shared/data/sql`), no model. The split was fixed before
anything was tuned: a domain is held out when the SHA-256 of its name is odd. All domains stay in the index; only the
questions are split. Without a flag the tuning half is measured. `--ideas` switches each idea off alone on the tuning
half, and adds plain full-text search and rank fusion. `--embedding` adds a static embedding model (needs numpy,
tokenizers, safetensors and the files of the wordllama package). `--held-out` measures the other half: the final figure,
never for choosing anything.

domain@k: the right domain is among the first k. tables@3: the first three of the right domain hold all tables that the
right query uses. flat@5: the first five of all tables do. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bin")]

from tables import index, ranking, words
from tables.catalog import read_schemas
from tables.schema import Table

from harness.evals.statistics import wilson

MEASURES = ("domain@1", "domain@3", "tables@3", "flat@5")
GOALS = {"domain@3": 0.97, "tables@3": 0.98, "flat@5": 0.88}
Ranks = tuple[list[str], list[str], list[str]]
"""Domains, tables of the right domain, and `domain.table` of all, each best first."""
Ranker = Callable[[dict], Ranks]
IDEAS: dict[str, dict[str, float]] = {
    "joins along keys": {"joins": 0, "bridge": 0},
    "what is new counts more": {"gain": 0, "own": 1},
    "whole name said": {"whole": 0, "unsaid": 0},
    "part of a column's name": {"part": 1},
    "words that mean the same": {"means": 0},
    "values: places and years": {"place": 0, "year": 0},
    "values: quoted words weigh less": {"quoted": 1},
    "owner is who owns": {"doer": 0},
    "one beginning": {"begins": 0},
    "glued names": {"glued": 0},
    "slips of the finger": {"slip": 0},
    "initials": {"initials": 0},
    "the domain's name": {"domain": 0},
    "best table beside the sum": {"best": 0},
}


def folder() -> Path:
    """The data beside the repository, or beside the folder that holds it."""
    places = [ROOT.parent, ROOT.parent.parent, ROOT.parent.parent.parent]
    return next((place for up in places if (place := up / "shared" / "data" / "sql").is_dir()), places[0])


def is_held_out(domain: str) -> bool:
    return int(hashlib.sha256(domain.encode()).hexdigest(), 16) % 2 == 1


def questions(data: Path, held_out: bool) -> list[dict]:
    lines = (data / "spider_questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [item for item in map(json.loads, lines) if is_held_out(item["domain"]) == held_out]


def ours(indexed: index.Index, weights: ranking.Weights, near: ranking.Near | None = None) -> Ranker:
    def rank(item: dict) -> Ranks:
        asked = ranking.ask(indexed, item["question"], weights, near)
        tables = indexed.tables
        return ([domain for domain, _ in ranking.domains(indexed, asked, weights)],
                [tables[one.table].name for one in ranking.within(indexed, asked, item["domain"], weights)],
                [tables[one.table].path for one in ranking.flat(indexed, asked, weights)])

    return rank


def full_text(tables: Sequence[Table]) -> Ranker:
    """SQLite's FTS5 over names split into words, Porter stems and its BM25: what one gets in ten minutes."""
    db = sqlite3.connect(":memory:")
    db.execute("create virtual table t using fts5(domain unindexed, path unindexed, said, tokenize='porter')")
    db.execute("create virtual table d using fts5(domain unindexed, said, tokenize='porter')")
    by_domain: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        said = " ".join(words.split(" ".join([table.name, *(column.name for column in table.columns)])))
        by_domain[table.domain].append(said)
        db.execute("insert into t values (?, ?, ?)", (table.domain, table.path, said))
    for domain, said in by_domain.items():
        db.execute("insert into d values (?, ?)", (domain, " ".join([*words.split(domain), *said])))

    def rank(item: dict) -> Ranks:
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words.split(item["question"])))
        found = [row[0] for row in db.execute("select path from t where t match ? order by bm25(t), path", (match,))]
        whole = db.execute("select domain from d where d match ? order by bm25(d), domain", (match,))
        own = [path.partition(".")[2] for path in found if path.startswith(item["domain"] + ".")]
        return [row[0] for row in whole], own, found

    return rank


def fused(one: Ranker, other: Ranker) -> Ranker:
    """Reciprocal rank fusion of two rankings, with the usual constant of 60."""
    def rank(item: dict) -> Ranks:
        both = zip(one(item), other(item), strict=True)
        return tuple(_fuse(a, b) for a, b in both)  # type: ignore[return-value]

    return rank


def _fuse(*lists: list[str]) -> list[str]:
    scores: dict[str, float] = defaultdict(float)
    for ranked in lists:
        for place, name in enumerate(ranked):
            scores[name] += 1 / (60 + place)
    return sorted(scores, key=lambda name: (-scores[name], name))


def embedding(indexed: index.Index, least: float = 0.3, weight: float = 0.4) -> ranking.Near:
    """Kin of words that no name holds, by a static embedding: the files of the wordllama package, read directly."""
    import importlib.util

    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = importlib.util.find_spec("wordllama")
    assert spec and spec.origin, "no wordllama; fix: pip install wordllama"
    where = Path(spec.origin).parent
    tokens = Tokenizer.from_file(str(where / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    matrix = next(iter(load_file(where / "weights" / "l2_supercat_256.safetensors").values())).astype("float32")

    def embed(texts: Sequence[str]) -> np.ndarray:
        rows = np.stack([matrix[tokens.encode(text, add_special_tokens=False).ids].mean(0) for text in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    full = {words.stem(word): word for table in indexed.tables
            for name in [table.name, *(column.name for column in table.columns)] for word in words.split(name)}
    stems = [stem for stem in indexed.spread if stem in full and stem.isalpha() and len(stem) > 2]
    known = embed([full[stem] for stem in stems])

    def near(term: str) -> Mapping[str, float]:
        if term in indexed.spread or not term.isalpha() or len(term) < 3:
            return {}
        likeness = known @ embed([term])[0]
        return {stems[at]: weight * float(likeness[at]) for at in np.argsort(-likeness)[:12] if likeness[at] > least}

    return near


def measure(rank: Ranker, asked: Sequence[dict]) -> dict[str, int]:
    """How many questions each measure holds for."""
    hits = dict.fromkeys(MEASURES, 0)
    for item in asked:
        domains, own, flat = rank(item)
        right = set(item["tables"])
        hits["domain@1"] += item["domain"] in domains[:1]
        hits["domain@3"] += item["domain"] in domains[:3]
        hits["tables@3"] += right <= set(own[:3])
        hits["flat@5"] += {f"{item['domain']}.{table}" for table in right} <= set(flat[:5])
    return hits


def row(name: str, hits: dict[str, int], count: int, against: dict[str, int] | None = None) -> str:
    cells = []
    for measure_ in MEASURES:
        change = f" {100 * (hits[measure_] - against[measure_]) / count:+5.2f}" if against else ""
        cells.append(f"{100 * hits[measure_] / count:7.2f}{change}")
    return f"{name:<34}" + "".join(f"{cell:>15}" for cell in cells)


def ideas(tables: Sequence[Table], indexed: index.Index, asked: Sequence[dict]) -> Iterator[str]:
    """Each idea switched off alone, and what else was tried."""
    count, weights = len(asked), ranking.Weights()
    whole = measure(ours(indexed, weights), asked)
    yield f"{'':<34}" + "".join(f"{name:>15}" for name in MEASURES)
    yield row("plain full-text search (FTS5)", measure(full_text(tables), asked), count, whole)
    yield row("words, stems and rarity only", measure(ours(indexed, _bare(weights)), asked), count, whole)
    yield row("all ideas", whole, count)
    for name, off in IDEAS.items():
        yield row(f"  without: {name}", measure(ours(indexed, replace(weights, **off)), asked), count, whole)
    both = fused(ours(indexed, weights), full_text(tables))
    yield row("fused with full-text search", measure(both, asked), count, whole)


def _bare(weights: ranking.Weights) -> ranking.Weights:
    off = {key: value for change in IDEAS.values() for key, value in change.items()}
    return replace(weights, **{**off, "part": weights.part})


def final(title: str, hits: dict[str, int], count: int) -> Iterator[str]:
    """The figures of one half, with their intervals."""
    yield f"{title}: {count} questions"
    for name in MEASURES:
        low, high = wilson(hits[name], count) or (0.0, 1.0)
        goal = GOALS.get(name)
        verdict = f"goal {100 * goal:.0f} %{'' if hits[name] / count >= goal else ' NOT'} met" if goal else ""
        share = f"{hits[name]:>4} of {count}{100 * hits[name] / count:>8.1f} %"
        yield f"  {name:<10}{share}   [{100 * low:.1f}, {100 * high:.1f}]   {verdict}".rstrip()


def main(flags: Sequence[str]) -> None:
    data = Path(os.environ.get("HARNESS_TEST_DATA", folder().parent)) / "sql"
    if not (data / "spider_schemas.json").is_file():
        print(f"bench_tables: nothing measured, the schemas are not here: {data}")
        return
    tables = read_schemas(str(data / "spider_schemas.json"))
    began = time.perf_counter()
    indexed = index.build(tables)
    print(f"{len(tables)} tables, {len(indexed.domains)} domains, index {1000 * (time.perf_counter() - began):.0f} ms")
    asked = questions(data, "--held-out" in flags)
    half = "held-out half" if "--held-out" in flags else "tuning half"
    if "--ideas" in flags:
        print(*ideas(tables, indexed, questions(data, False)), sep="\n", flush=True)
    near = embedding(indexed) if "--embedding" in flags else None
    began = time.perf_counter()
    hits = measure(ours(indexed, ranking.Weights(), near), asked)
    print(*final(half + (" with the embedding" if near else ""), hits, len(asked)), sep="\n")
    print(f"  {1000 * (time.perf_counter() - began) / len(asked):.1f} ms a question")


if __name__ == "__main__":
    main(sys.argv[1:])
