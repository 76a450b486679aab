"""Tables → domains: clusters by keys, by columns that look like keys, and by words of names. Pure.

Modularity is raised by merging two clusters at a time, as long as it rises. A table that many refer to binds each of
them little, and so does a word that many names hold.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tables import words
from tables.schema import Table

OTHER = "other"
_GENERIC = frozenset({
    "ref", "code", "type", "name", "data", "info", "detail", "list", "map", "log", "main", "tbl", "dim", "fact", "stg",
    "tmp", "vw", "id"})
_KEY, _MEANT, _WORD, _FEW = 1.0, 0.4, 0.15, 12
Edges = dict[tuple[int, int], float]


def clusters(tables: Sequence[Table]) -> dict[str, list[Table]]:
    """Domain → its tables, largest first; tables that nothing binds are in the domain `other`."""
    names = _telling(tables)
    groups = _merge(len(tables), _edges(tables, names))
    bound = sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), min(group)))
    said = {stem for stems in names for stem in stems}
    found: dict[str, list[Table]] = {}
    for group in bound:
        members = [tables[number] for number in sorted(group)]
        found[_name(members, said, set(found))] = members
    alone = [tables[number] for group in groups if len(group) == 1 for number in group]
    return found | ({OTHER: alone} if alone else {})


def _telling(tables: Sequence[Table]) -> list[tuple[str, ...]]:
    """The stems of each name, without those that so many names hold that they tell nothing, such as a prefix of all."""
    stems = [words.stems(table.name) for table in tables]
    spread = Counter(stem for name in stems for stem in set(name))
    most = max(_FEW, len(tables) // 8)
    return [tuple(stem for stem in name if spread[stem] <= most) for name in stems]


def _edges(tables: Sequence[Table], names: Sequence[tuple[str, ...]]) -> Edges:
    edges: Edges = defaultdict(float)
    referred = list(_references(tables, names))
    into = Counter(target for _, target, _ in referred)
    for one, other, weight in referred:
        edges[min(one, other), max(one, other)] += weight / (1 + math.log2(into[other]))
    generic = {words.stem(word) for word in _GENERIC}
    by_word: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        for stem in set(name) - generic:
            by_word[stem].append(number)
    for members in by_word.values():
        for at, one in enumerate(members):
            for other in members[at + 1:]:
                edges[one, other] += _WORD / math.sqrt(len(members) - 1)
    return edges


def _references(tables: Sequence[Table], names: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int, float]]:
    """(from, to, weight): declared keys, and columns such as customer_id where a table is called customers."""
    by_name = {table.name.lower(): number for number, table in enumerate(tables)}
    by_stems = {name: number for number, name in enumerate(names) if name}
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

    def gain(one: int, other: int) -> float:
        return links[one][other] / total - degree[one] * degree[other] / (2 * total * total)

    ready = [(-gain(one, other), one, other) for one, other in edges]
    heapq.heapify(ready)
    while ready:
        less, one, other = heapq.heappop(ready)
        if less >= -1e-12:
            break
        if one in groups and other in groups and less == -gain(one, other):  # else a later entry holds what it is now
            _join(groups, links, degree, one, other)
            for third in links[one]:
                pair = (min(one, third), max(one, third))
                heapq.heappush(ready, (-gain(*pair), *pair))
    return list(groups.values())


def _join(groups: dict[int, set[int]], links: dict[int, dict[int, float]], degree: dict[int, float],
          one: int, other: int) -> None:
    groups[one] |= groups.pop(other)
    degree[one] += degree.pop(other)
    for third, weight in links.pop(other).items():
        del links[third][other]
        if third != one:
            links[one][third] = links[third][one] = links[one].get(third, 0.0) + weight


def _name(members: Sequence[Table], said: set[str], taken: set[str]) -> str:
    """The word that most names hold, else that of the table most refer to; a number behind it where it is taken."""
    into = Counter(key.to_table.lower() for table in members for key in table.keys)
    votes: Counter[str] = Counter()
    for table in members:
        for word in dict.fromkeys(words.split(table.name)):
            if words.stem(word) in said and word not in _GENERIC and word.isascii() and len(word) > 1:
                votes[word] += 2 + into[table.name.lower()]
    word = min(votes, key=lambda word: (-votes[word], word)) if votes else "tables"
    return next(name for name in (word, *(f"{word}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)
