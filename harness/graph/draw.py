"""A dependency graph for people: its layers, a Mermaid drawing, and the same in sentences. Pure; reads no tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from harness.graph import Graph, Need

_ARROWS = {"fresh": "-->", "once": "-.->", "ended": "-.->"}


def layers(graph: Graph, names: Iterable[str]) -> list[list[str]]:
    """`names` in waves, each waiting only for earlier ones; what waits for itself in a circle comes last."""
    wanted = list(dict.fromkeys(names))
    known = set(wanted)
    sorter = TopologicalSorter({name: {need.name for need in graph.needs(name)} & known for name in wanted})
    rank = {name: at for at, name in enumerate(wanted)}
    with suppress(CycleError):  # it still hands out what lies before the circle
        sorter.prepare()
    made: list[list[str]] = []
    while ready := sorter.get_ready():
        made.append(sorted(ready, key=rank.__getitem__))
        sorter.done(*ready)
    placed = {name for layer in made for name in layer}
    rest = [name for name in wanted if name not in placed]
    return [*made, rest] if rest else made


def mermaid(graph: Graph, names: Iterable[str]) -> str:
    """A Mermaid flowchart: a solid arrow for a fresh result, a dotted one for `once` and for `ended` (marked `?`)."""
    wanted = list(dict.fromkeys(names))
    mentioned = [*graph.rules, *(need.name for needs in graph.rules.values() for need in needs)]
    ids = {name: f"n{at}" for at, name in enumerate(dict.fromkeys([*wanted, *mentioned]))}
    lines = ["flowchart LR", *(f'    {ids[name]}["{name}"]' for name in ids)]
    for target, needs in graph.rules.items():
        lines += [f"    {ids[need.name]} {_ARROWS[need.kind]}{_label(need)} {ids[target]}" for need in needs]
    return "\n".join(lines) + "\n"


def _label(need: Need) -> str:
    label = ",".join("--" + option for option in need.options) + ("?" if need.kind == "ended" else "")
    return f'|"{label}"|' if label else ""


def sentences(
    graph: Graph,
    names: Sequence[str],
    requires: Sequence[str] = (),
    verifiers: Sequence[str] = (),
    budget: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[str]:
    """The graph in words, one sentence an item. `notes` are the words in brackets after a name, `external, asks`."""
    notes = notes or {}
    said = {name: f"{name} ({notes[name]})" if name in notes else name for name in [*names, *graph.rules]}
    roots = [said[name] for name in names if not graph.needs(name)]
    lines = [f"At the start {listed(roots)} may run."] if roots else []
    waiting = [name for name in dict.fromkeys([*names, *graph.rules]) if graph.needs(name)]
    lines += [f"{said[name]} waits until {_conditions(graph.needs(name))}." for name in waiting]
    passes = [_have(list(requires), "a fresh result", "fresh results")] if requires else []
    if verifiers:
        passes.append(f"{listed(verifiers)} {'accepts' if len(verifiers) == 1 else 'accept'} the answer")
    if passes:
        lines.append(f"It passes when {' and '.join(passes)}.")
    if budget:
        lines.append(f"It stops at {listed([_amount(key, budget[key]) for key in _in_order(budget)], 'or')}.")
    return lines


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def _conditions(needs: Sequence[Need]) -> str:
    """The needs of one target, those of one kind together, in the order in which each kind first occurs."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for need in needs:
        groups.setdefault((need.kind, need.options), []).append(need.name)
    return listed([_condition(kind, options, names) for (kind, options), names in groups.items()])


def _condition(kind: str, options: tuple[str, ...], names: list[str]) -> str:
    same = f" with the same {listed(['--' + option for option in options])}" if options else ""
    if kind == "fresh" and not options:
        return _have(names, "a fresh result", "fresh results")
    verb = {"fresh": "succeeded", "once": "succeeded once", "ended": "ended"}[kind]
    return _have(names, verb, verb) + same


def _have(names: list[str], one: str, several: str) -> str:
    return f"{names[0]} has {one}" if len(names) == 1 else f"{listed(names)} have {several}"


_UNITS = {"money_calls": "money call", "external": "external call", "destructive": "destructive call"}
_UNITS |= {"turns": "turn", "calls": "call", "read": "read", "write": "write", "tokens": "token", "strikes": "strike"}
_ORDER = ("turns", "calls", "read", "write", "external", "destructive", "money_calls", "tokens", "usd", "seconds")


def _in_order(budget: Mapping[str, str]) -> list[str]:
    return [key for key in _ORDER if key in budget] + [key for key in budget if key not in _ORDER]


def _amount(key: str, value: str) -> str:
    if key == "usd":
        return f"${value}"
    if key == "seconds":
        return _time(value)
    return _count(value, _UNITS.get(key, key))


def _time(value: str) -> str:
    if value.isdigit() and int(value) >= 60:
        for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
            if int(value) % size == 0:
                return _count(str(int(value) // size), unit)
    return _count(value, "second")


def _count(value: str, unit: str) -> str:
    return f"{value} {unit}" if value == "1" else f"{value} {unit}s"
