"""Which domains and tables a question is about: weighted matches of words, and joins along keys. Pure; no model.

A question's term may stand in a table under several words (`variants`), each with a weight. A table is worth the rarity
of the terms it holds; a domain what its tables hold together and what the best of them holds alone. Tables of a domain
are taken one by one: what is new counts more than what is already covered, and a table that joins the ones taken counts
more than one that does not. The weights were chosen on the tuning half of the questions in tests/bench/bench_tables.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tables import words
from tables.index import COLUMN, NAME, Index

Near = Callable[[str], Mapping[str, float]]
"""Stem → other stems of the catalog that may mean the same, each with a weight from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What each kind of evidence is worth; 0 switches it off."""

    name: float = 1.3
    unsaid: float = 0.4  # taken off a table's name for each part of it that was not said
    column: float = 1.0
    part: float = 0.7  # of a column's name that was said only in part
    text: float = 0.5
    domain: float = 0.5
    means: float = 0.35
    place: float = 0.6
    year: float = 0.5
    glued: float = 0.6  # `surface` in `surfacearea`
    begins: float = 0.5  # `director` and `directed`
    doer: float = 0.7  # `owner` and `own`
    slip: float = 0.7  # one letter wrong
    initials: float = 0.7
    quoted: float = 0.4
    best: float = 0.8
    size: float = 0.1
    own: float = 0.35
    gain: float = 1.0
    joins: float = 1.2
    bridge: float = 1.0
    whole: float = 1.0  # every word of the table's name was said
    step: float = 0.5
    behind: float = 0.3


@dataclass(frozen=True, slots=True)
class Asked:
    """A question against an index: term → variants, term → rarity, table → term → weight."""

    variants: dict[str, dict[str, float]]
    rarity: dict[str, float]
    held: dict[int, dict[str, float]]
    said: frozenset[str]


@dataclass(frozen=True, slots=True)
class Found:
    """A table that was found: its number in the index, its score, and the terms it holds."""

    table: int
    score: float
    terms: tuple[str, ...]


def ask(index: Index, question: str, weights: Weights, near: Near | None = None) -> Asked:
    """Look the words of a question up in the index."""
    terms = {stem: weights.quoted if quoted else 1.0 for stem, quoted in words.asked(question).items()}
    terms |= {run: weights.initials for run in words.initials(question) if run in index.spread and weights.initials}
    variants = {term: _variants(index, term, base, weights, near) for term, base in terms.items()}
    rarity = {term: index.rarity(term) or max((index.rarity(other) for other in found), default=0.0)
              for term, found in variants.items()}
    said = frozenset(stem for found in variants.values() for stem in found)
    return Asked(variants, rarity, _held(index, variants, said, weights), said)


def domains(index: Index, asked: Asked, weights: Weights) -> list[tuple[str, float]]:
    """All domains, best first, each with its score."""
    scored = [(domain, _domain(index, asked, domain, weights)) for domain in index.domains]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))


def within(index: Index, asked: Asked, domain: str, weights: Weights, limit: int = 6) -> list[Found]:
    """The tables of one domain, best first, so that together they hold what was asked and join."""
    numbers = index.domains[domain]
    worth = _worth(asked, numbers)
    alone = {number: _alone(index, asked, number, worth, weights) for number in numbers}
    covered: dict[str, float] = {}
    taken: list[Found] = []
    while len(taken) < min(limit, len(numbers)):
        left = [number for number in numbers if number not in {found.table for found in taken}]
        values = {number: weights.own * alone[number] + weights.gain * _gain(asked, number, covered, worth)
                  + _connects(index, number, [found.table for found in taken], weights) for number in left}
        best = max(left, key=lambda number: (values[number], -number))
        held = asked.held.get(best, {})
        taken.append(Found(best, alone[best], tuple(held)))
        covered |= {term: max(weight, covered.get(term, 0.0)) for term, weight in held.items()}
    return taken


def flat(index: Index, asked: Asked, weights: Weights, limit: int = 5) -> list[Found]:
    """Tables of all domains, best first: a domain's score less what a table lacks against the best of its domain."""
    scored = []
    for domain, score in domains(index, asked, weights)[:max(6, limit)]:
        found = within(index, asked, domain, weights)
        top = max(one.score for one in found)
        scored += [Found(one.table, score - weights.step * place - weights.behind * (top - one.score), one.terms)
                   for place, one in enumerate(found)]
    return sorted(scored, key=lambda one: (-one.score, one.table))[:limit]


def _variants(index: Index, term: str, base: float, weights: Weights, near: Near | None) -> dict[str, float]:
    found = {term: base}

    def add(stems: Sequence[str] | frozenset[str], weight: float) -> None:
        for stem in stems:
            if weight and stem in index.spread:
                found[stem] = max(found.get(stem, 0.0), base * weight)

    add(words.meanings().get(term, frozenset()), weights.means)
    if term in words.places():
        add(words.stems("country nation nationality language continent"), weights.place)
    if words.is_year(term):
        add(words.stems("year date"), weights.year)
    for stem, weight in _alike(index, term, weights).items():
        add([stem], weight)
    for stem, weight in (near(term) if near else {}).items():
        add([stem], weight)
    return found


def _alike(index: Index, term: str, weights: Weights) -> dict[str, float]:
    """Stems of the catalog that look like the term: longer, from one root, or one slip of the finger away."""
    if len(term) < 3 or not term.isalpha():
        return {}
    known = term in index.spread
    kinds = {stem: _likeness(term, stem, known, weights) for stem in index.spread if abs(len(stem) - len(term)) < 12}
    return {stem: weight for stem, weight in kinds.items() if weight}


def _likeness(term: str, stem: str, known: bool, weights: Weights) -> float:
    if stem == term or len(stem) < 3:
        return 0.0
    if _is_doer(term, stem) or _is_doer(stem, term):
        return weights.doer
    if min(len(stem), len(term)) < 4:
        return 0.0
    if len(stem) > len(term) + 1 and (stem.startswith(term) or stem.endswith(term)):
        return weights.glued
    if stem[0] != term[0] or min(len(stem), len(term)) < 5:
        return 0.0
    same = next((at for at, (a, b) in enumerate(zip(stem, term, strict=False)) if a != b), min(len(stem), len(term)))
    if same >= 5 and same >= 0.6 * max(len(stem), len(term)):
        return weights.begins
    return weights.slip if not known and _one_slip(term, stem, same) else 0.0


def _is_doer(one: str, other: str) -> bool:
    """`owner` of `own`, `maker` of `mak`, `director` of `direct`."""
    return one[-2:] in ("er", "or") and one[:-2] == other


def _one_slip(one: str, other: str, same: int) -> bool:
    """One letter more, less, other or swapped with the next, after `same` equal ones."""
    a, b = one[same:], other[same:]
    return a[1:] == b[1:] or a == b[1:] or a[1:] == b or (a[:2] == b[:2][::-1] and a[2:] == b[2:])


def _held(index: Index, variants: Mapping[str, Mapping[str, float]], said: frozenset[str],
          weights: Weights) -> dict[int, dict[str, float]]:
    held: dict[int, dict[str, float]] = {}
    for term, found in variants.items():
        for stem, base in found.items():
            for place in index.places.get(stem, ()):
                unit = place.unit
                covered = sum(word in said for word in unit) / len(unit)
                if place.kind == NAME:
                    weight = base * weights.name * (1 - weights.unsaid * (1 - covered))
                elif place.kind == COLUMN:
                    weight = base * weights.column * (weights.part + (1 - weights.part) * covered)
                else:
                    weight = base * weights.text
                terms = held.setdefault(place.table, {})
                terms[term] = max(weight, terms.get(term, 0.0))
    return held


def _domain(index: Index, asked: Asked, domain: str, weights: Weights) -> float:
    numbers = index.domains[domain]
    rows = [asked.held[number] for number in numbers if number in asked.held]
    named = index.domain_names[domain]
    total = 0.0
    for term, rarity in asked.rarity.items():
        most = max((row.get(term, 0.0) for row in rows), default=0.0)
        by_name = weights.domain if any(stem in named for stem in asked.variants[term]) else 0.0
        total += rarity * max(most, by_name)
    best = max((sum(asked.rarity[term] * weight for term, weight in row.items()) for row in rows), default=0.0)
    return total + weights.best * best - weights.size * math.log(1 + len(numbers))


def _worth(asked: Asked, numbers: Sequence[int]) -> dict[str, float]:
    """How much a term tells the tables of one domain apart."""
    spread = {term: sum(term in asked.held.get(number, {}) for number in numbers) for term in asked.rarity}
    return {term: math.log(1 + len(numbers) / (0.5 + count)) if count else 0.0 for term, count in spread.items()}


def _alone(index: Index, asked: Asked, number: int, worth: Mapping[str, float], weights: Weights) -> float:
    name = index.names[number]
    unsaid = len(name - asked.said) / max(1, len(name))
    held = asked.held.get(number, {})
    return sum(worth[term] * weight for term, weight in held.items()) - weights.unsaid * unsaid \
        + weights.whole * (not unsaid)


def _gain(asked: Asked, number: int, covered: Mapping[str, float], worth: Mapping[str, float]) -> float:
    held = asked.held.get(number, {})
    return sum(worth[term] * max(0.0, weight - covered.get(term, 0.0)) for term, weight in held.items())


def _connects(index: Index, number: int, taken: Sequence[int], weights: Weights) -> float:
    """A table that joins one taken, and one that joins two which do not join each other."""
    near = index.near[number]
    joined = [other for other in taken if other in near]
    apart = any(two not in index.near[one] for at, one in enumerate(joined) for two in joined[at + 1:])
    return weights.joins * bool(joined) + weights.bridge * apart
