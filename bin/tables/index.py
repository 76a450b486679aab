"""A catalog as the ranking reads it: which stem stands where, how rare it is, which tables join. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tables import words
from tables.schema import Table

NAME, COLUMN, TEXT = "name", "column", "text"
_FEW = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stem stands: table number, kind of place, and all stems of that name or text."""

    table: int
    kind: str
    unit: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """`places`: stem → where it stands. `spread`: stem → number of domains. `near`: table → tables it joins."""

    tables: tuple[Table, ...]
    names: tuple[frozenset[str], ...]
    places: dict[str, list[Place]]
    spread: dict[str, int]
    domains: dict[str, list[int]]
    domain_names: dict[str, frozenset[str]]
    near: tuple[frozenset[int], ...]

    def rarity(self, stem: str) -> float:
        """Inverse domain frequency; 0 for a stem that no domain has."""
        count = self.spread.get(stem, 0)
        return math.log(1 + len(self.domains) / (0.5 + count)) if count else 0.0


def build(tables: Sequence[Table]) -> Index:
    """Index all tables; some 50 ms for a thousand."""
    places: dict[str, list[Place]] = defaultdict(list)
    domains: dict[str, list[int]] = defaultdict(list)
    said = _names(tables)
    for number, table in enumerate(tables):
        domains[table.domain].append(number)
        for kind, unit in _units(table, said[number]):
            for stem in set(unit):
                places[stem].append(Place(number, kind, unit))
    names = {domain: frozenset(words.stems(domain)) for domain in domains}
    return Index(tuple(tables), tuple(map(frozenset, said)), dict(places), _spread(tables, places, names),
                 dict(domains), names, _joins(tables, domains))


def _names(tables: Sequence[Table]) -> list[tuple[str, ...]]:
    """The stems of each name, without what more than half of all names hold, such as a prefix: nobody says it."""
    stems = [words.stems(table.name) for table in tables]
    spread = Counter(stem for name in stems for stem in set(name))
    most = max(_FEW, len(tables) // 2)
    return [tuple(stem for stem in name if spread[stem] <= most) or name for name in stems]


def _units(table: Table, name: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """The names and texts of a table, each with its stems."""
    texts = [table.description, *(column.description for column in table.columns)]
    said = [stem for text in texts if text for stem in words.asked(text)]
    found = [(NAME, name), *((COLUMN, words.stems(column.name)) for column in table.columns)]
    return [*found, (TEXT, tuple(dict.fromkeys(said)))]


def _spread(tables: Sequence[Table], places: dict[str, list[Place]],
            names: dict[str, frozenset[str]]) -> dict[str, int]:
    """Stem → number of domains that have it in a table or in their own name."""
    found: dict[str, set[str]] = defaultdict(set)
    for stem, where in places.items():
        found[stem] = {tables[place.table].domain for place in where}
    for domain, said in names.items():
        for stem in said:
            found[stem].add(domain)
    return {stem: len(where) for stem, where in found.items()}


def _joins(tables: Sequence[Table], domains: dict[str, list[int]]) -> tuple[frozenset[int], ...]:
    near: list[set[int]] = [set() for _ in tables]
    for numbers in domains.values():
        by_name = {tables[number].name.lower(): number for number in numbers}
        for number in numbers:
            for key in tables[number].keys:
                other = by_name.get(key.to_table.lower())
                if other is not None and other != number:
                    near[number].add(other)
                    near[other].add(number)
    return tuple(frozenset(found) for found in near)
