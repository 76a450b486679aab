"""Tables → domains: clusters by keys, by columns that look like keys, and by words of names. Pure.

Modularity is raised by merging two clusters at a time, as long as it rises. A table that many refer to binds each of
them little, and so does a word that many names hold.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tables import words
from tables.schema import Table

OTHER = "other"
_GENERIC = frozenset({
    "ref", "code", "type", "name", "data", "info", "detail", "list", "map", "log", "main", "tbl", "dim", "fact", "stg",
    "tmp", "vw", "id"})
_KEY, _MEANT, _WORD = 1.0, 0.4, 0.15
Edges = dict[tuple[int, int], float]


def clusters(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """Domain → its tables, largest first; tables that nothing binds are in the domain `other`."""
    edges = _edges(tables)
    groups = _merge(len(tables), edges)
    bound = sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), min(group)))
    found: dict[str, list[Table]] = {}
    for group in bound:
        members = [tables[number] for number in sorted(group)]
        found[_name(members, set(found))] = members
    alone = [tables[number] for group in groups if len(group) == 1 for number in group]
    return found | ({OTHER: alone} if alone else {})


def _edges(tables: Sequence[Table]) -> Edges:
    edges: Edges = defaultdict(float)
    referred = list(_references(tables))
    into = Counter(target for _, target, _ in referred)
    for one, other, weight in referred:
        edges[min(one, other), max(one, other)] += weight / (1 + math.log2(into[other]))
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, table in enumerate(tables):
        for stem in set(words.stems(table.name)) - {words.stem(word) for word in _GENERIC}:
            by_word[stem].append(number)
    for members in by_word.values():
        for at, one in enumerate(members):
            for other in members[at + 1:]:
                edges[one, other] += _WORD / math.sqrt(len(members) - 1)
    return edges


def _references(tables: Sequence[Table]) -> Iterator[tuple[int, int, float]]:
    """(from, to, weight): declared keys, and columns such as customer_id where a table is called customers."""
    by_name = {table.name.lower(): number for number, table in enumerate(tables)}
    by_stems = {words.stems(table.name): number for number, table in enumerate(tables)}
    for number, table in enumerate(tables):
        declared = {key.column.lower(): by_name.get(key.to_table.lower()) for key in table.keys}
        yield from ((number, other, _KEY) for other in declared.values() if other is not None and other != number)
        for column in table.columns:
            said = words.stems(column.name)
            meant = by_stems.get(said[:-1]) if said[-1:] in (("id",), ("cod",), ("kei",)) else None
            if meant is not None and meant != number and column.name.lower() not in declared:
                yield number, meant, _MEANT


def _merge(count: int, edges: Edges) -> list[set[int]]:
    """Merge the two clusters that raise modularity most, until none does."""
    total = sum(edges.values())
    groups: dict[int, set[int]] = {number: {number} for number in range(count)}
    links: dict[int, dict[int, float]] = defaultdict(dict)
    for (one, other), weight in edges.items():
        links[one][other] = links[other][one] = weight
    degree = {number: sum(links[number].values()) for number in groups}
    while total:
        gain, one, other = max(((weight / total - degree[one] * degree[other] / (2 * total * total), -one, -other)
                                for one in groups for other, weight in links[one].items() if one < other),
                               default=(0.0, 0, 0))
        if gain <= 1e-12:
            break
        _join(groups, links, degree, -one, -other)
    return list(groups.values())


def _join(groups: dict[int, set[int]], links: dict[int, dict[int, float]], degree: dict[int, float],
          one: int, other: int) -> None:
    groups[one] |= groups.pop(other)
    degree[one] += degree.pop(other)
    for third, weight in links.pop(other).items():
        del links[third][other]
        if third != one:
            links[one][third] = links[third][one] = links[one].get(third, 0.0) + weight


def _name(members: Sequence[Table], taken: set[str]) -> str:
    """The word that most names hold, else that of the table most refer to; a number behind it where it is taken."""
    into = Counter(key.to_table.lower() for table in members for key in table.keys)
    votes: Counter[str] = Counter()
    for table in members:
        for word in dict.fromkeys(words.split(table.name)):
            if word not in _GENERIC and word.isascii() and len(word) > 1:
                votes[word] += 2 + into[table.name.lower()]
    word = min(votes, key=lambda word: (-votes[word], word)) if votes else "tables"
    return next(name for name in (word, *(f"{word}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)
