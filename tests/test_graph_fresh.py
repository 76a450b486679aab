"""Freshness and release, judged on journals that were folded from events: no process, no disk."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.events.fold import apply
from harness.events.line import at_text
from harness.events.state import Receipt, State
from harness.graph import Graph, Need
from harness.graph.block import parse_block
from harness.graph.fresh import Ground, consumed, fresh_receipt, holders, is_fresh, released, unmet, why_stale

EPOCH = 1_800_000_000.0


class Tape:
    """A journal in memory: calls that were released are appended as a loop would append them."""

    def __init__(self, block: str | Graph) -> None:
        self.graph = block if isinstance(block, Graph) else parse_block(block, "SKILL.md", 1)[0]
        self.state, self.now, self.changed = State(), 0.0, set[str]()
        self._seq = itertools.count(1)
        self.add("run.start", {"run": "r", "skill": "s", "goal": "", "inputs": {}, "budget": {}})

    def add(self, kind: str, data: dict[str, Any], op: int = 0) -> None:
        event = {"v": 1, "seq": next(self._seq), "epoch": 1, "at": at_text(EPOCH + self.now), "kind": kind}
        apply(self.state, event | {"data": data} | ({"op": op} if op else {}))

    def ground(self) -> Ground:
        return Ground(self.state, EPOCH + self.now, self.file_of, values)

    def file_of(self, receipt: Receipt) -> str:
        return next((path for path, _ in receipt.artifacts if path in self.changed), "")

    def unmet(self, tool: str, *argv: str) -> list[str]:
        return [missing.text() for missing in unmet(self.ground(), self.graph, tool, values(tool, argv))]

    def run(self, line: str, result: str = "r", exit: int = 0, error_class: str = "", **more: Any) -> None:
        """Carry out a call whatever waits: decide, start, end."""
        tool, *argv = line.split()
        needs = consumed(self.ground(), self.graph, tool, values(tool, tuple(argv)))
        op = self.state.next_op
        call = {"tool": tool, "args": argv}
        self.add("decide", {"verdict": "allow", "argv": argv, "effect": "read", "repeat": "pure", "call": call}, op)
        self.add("tool.start", {"tool": tool, "needs": list(needs)}, op)
        name = error_class or ("OK" if exit == 0 else "FAILED")
        word = "done" if exit == 0 else "failed"
        data = {"outcome": word, "exit": exit, "class": name, "ms": 0, "out": "", "result": f"{exit}{result}"}
        self.add("tool.end", data | more, op)

    def why(self, tool: str) -> str | None:
        return why_stale(self.ground(), holders(self.ground(), tool)[0])


def values(tool: str, argv: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`--name value` pairs."""
    found: dict[str, tuple[str, ...]] = {}
    for name, value in itertools.pairwise(argv):
        if name.startswith("--"):
            found[name[2:]] = (*found.get(name[2:], ()), value)
    return found


def test_example_two_of_a_skill() -> None:
    """An expired prerequisite is looked at again before a new step; only another result undoes what was built on it."""
    tape = Tape("search-logs: lookup-runbook check-pods\nwrite-report: search-logs")
    tape.run("lookup-runbook", "b1")
    tape.run("check-pods", "p1", ttl=120)
    tape.run("search-logs", "l1")
    tape.run("write-report", "w1")
    assert all(fresh_receipt(tape.ground(), tool) for tool in ("check-pods", "search-logs", "write-report"))
    tape.now = 200
    assert tape.why("write-report") is None
    assert tape.unmet("search-logs", "--since", "1d") == ["check-pods expired 80 s ago"]
    tape.now = 210
    tape.run("check-pods", "p1", ttl=120)
    assert tape.unmet("search-logs", "--since", "1d") == []
    tape.run("search-logs --since 1d", "l2")
    assert tape.why("write-report") is None
    tape.now = 300
    tape.run("check-pods", "p2", ttl=120)
    assert tape.why("write-report") == "write-report ← search-logs ← check-pods changed"


def test_early_cut_off_stops_a_change_where_a_result_stays_the_same() -> None:
    tape = Tape("b: a\nc: b\nd: c")
    for name in "abcd":
        tape.run(name)
    tape.run("a", "other")
    assert tape.why("d") == "d ← c ← b ← a changed"
    tape.run("b")
    assert tape.why("d") is None
    assert fresh_receipt(tape.ground(), "d") is not None


def test_a_result_that_comes_back_makes_what_stood_on_it_fresh_again() -> None:
    tape = Tape("b: a")
    tape.run("a", "one")
    tape.run("b")
    tape.run("a", "two")
    assert tape.why("b") == "b ← a changed"
    tape.run("a", "one")
    assert tape.why("b") is None


def test_age_does_not_travel() -> None:
    tape = Tape("b: a\nc: b")
    tape.run("a", ttl=10)
    tape.run("b")
    tape.run("c")
    tape.now = 100
    assert (tape.why("a"), tape.why("b"), tape.why("c")) == ("a expired 90 s ago", None, None)
    assert tape.unmet("c") == []


def test_a_file_that_changes_and_comes_back() -> None:
    tape = Tape("b: a")
    tape.run("a", artifacts=[{"path": "clusters.csv", "sha256": "1"}])
    tape.run("b")
    tape.changed.add("clusters.csv")
    assert tape.why("a") == "a: clusters.csv changed"
    assert tape.why("b") == "b ← a: clusters.csv changed"
    assert tape.unmet("b") == ["a: clusters.csv changed"]
    tape.changed.clear()
    assert (tape.why("a"), tape.why("b")) == (None, None)


def test_a_failure_takes_the_slot_and_a_refusal_by_the_tool_does_not() -> None:
    tape = Tape("b: a")
    tape.run("a")
    tape.run("b")
    kept = {"INVALID_INPUT": 2, "RETRYABLE": 75, "NEEDS_AUTH": 77, "MISCONFIGURED": 78, "TIMEOUT": 124}
    for name, code in kept.items():
        tape.run("a", exit=code, error_class=name)
        assert tape.why("b") is None, name
    for name, code in (("FAILED", 1), ("CONFLICT", 73)):
        tape.run("a", exit=code, error_class=name)
        assert tape.unmet("b") == [f"a ended {name}"]
        assert tape.why("b") == "b ← a changed"
        tape.run("a")
        assert tape.why("b") is None


def test_another_slot_of_the_same_tool_does_not_disturb() -> None:
    tape = Tape("b: a")
    tape.run("a --x 1", "one")
    tape.run("b")
    tape.run("a --x 2", exit=1)
    assert tape.unmet("b") == [] and tape.why("b") is None


def test_after_the_bar_one_success_is_enough_for_ever() -> None:
    tape = Tape("b: | a")
    assert tape.unmet("b") == ["needs a"]
    tape.run("a", exit=1)
    assert tape.unmet("b") == ["needs a"]
    tape.run("a", ttl=1)
    tape.run("b")
    tape.now = 50
    tape.run("a", "other", exit=1)
    assert tape.unmet("b") == []
    assert tape.why("b") is None
    assert tape.state.receipts[3].needs == ()


def test_x_with_a_question_mark_waits_for_an_end_only() -> None:
    tape = Tape("b: a?")
    assert tape.unmet("b") == ["needs a? to have ended"]
    call = {"tool": "a", "args": ["--bad"]}
    refused = {"verdict": "deny", "code": "INVALID_INPUT", "argv": ["--bad"], "effect": "read", "call": call}
    tape.add("decide", refused, tape.state.next_op)
    assert tape.unmet("b") == ["needs a? to have ended"]
    tape.run("a", exit=1)
    assert tape.unmet("b") == []


def test_the_same_value_of_an_option() -> None:
    tape = Tape("query: describe(--table)")
    assert tape.unmet("query", "--table", "a") == ["needs describe with the same --table a"]
    tape.run("describe --table a")
    assert tape.unmet("query", "--table", "a") == []
    assert tape.unmet("query", "--table", "a", "--table", "b") == ["needs describe with the same --table b"]
    assert tape.unmet("query") == ["needs describe(--table): give --table"]
    tape.run("describe --table b")
    assert tape.unmet("query", "--table", "a", "--table", "b") == []
    tape.run("query --table a --table b")
    assert tape.state.receipts[3].needs == (1, 2)


def test_two_options_must_come_from_one_receipt() -> None:
    tape = Tape("query: describe(--db,--table)")
    tape.run("describe --db x --table b")
    tape.run("describe --db y --table a")
    missing = "needs describe with the same --db x --table a"
    assert tape.unmet("query", "--db", "x", "--table", "a") == [missing]
    tape.run("describe --db x --table a")
    assert tape.unmet("query", "--db", "x", "--table", "a") == []


def test_why_the_receipt_of_a_value_does_not_count() -> None:
    tape = Tape("query: describe(--table)")
    tape.run("describe --table a", ttl=10)
    tape.now = 30
    assert tape.unmet("query", "--table", "a") == ["describe expired 20 s ago (--table a)"]


def test_tools_that_call_each_other_in_layers_are_judged_once_each() -> None:
    """A diamond of 20 layers has a million paths; each receipt is looked at once."""
    rules = {f"t{n}.{k}": (Need(f"t{n - 1}.0"), Need(f"t{n - 1}.1")) for n in range(1, 20) for k in (0, 1)}
    tape = Tape(Graph(rules))
    for n in range(20):
        tape.run(f"t{n}.0")
        tape.run(f"t{n}.1")
    looked: list[int] = []

    def changed(receipt: Receipt) -> str:
        looked.append(receipt.op)
        return ""

    ground = Ground(tape.state, EPOCH, changed, values)
    assert is_fresh(ground, tape.state.receipts[40])
    assert len(looked) < 100


TOOLS = [f"t{n}" for n in range(7)]
KINDS = st.sampled_from(["fresh", "once", "ended"])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """An acyclic graph: each tool may wait for earlier ones of a shuffled order, each need of any kind."""
    order = draw(st.permutations(TOOLS))
    rules: dict[str, tuple[Need, ...]] = {}
    for at, name in enumerate(order):
        waits = draw(st.lists(st.sampled_from(order[:at]), unique=True, max_size=3)) if at else []
        needs = []
        for other in waits:
            kind = draw(KINDS)
            options = ("v",) if kind != "ended" and draw(st.booleans()) else ()
            needs.append(Need(other, kind, options))
        if needs:
            rules[name] = tuple(needs)
    return Graph(rules)


Step = tuple[str, str, bool, str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(TOOLS), st.sampled_from("ab"), st.booleans(), st.sampled_from("xy"), st.integers(0, 40)),
    max_size=40,
)


class Oracle:
    """The rules again, written straight from the definition: lists of what ran, searched from the start each time."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.ran = graph, list[dict[str, Any]]()

    def newest(self, tool: str, value: str) -> dict[str, Any] | None:
        return next((r for r in reversed(self.ran) if (r["tool"], r["value"]) == (tool, value)), None)

    def current(self, one: dict[str, Any]) -> bool:
        held = self.newest(one["tool"], one["value"])
        assert held is not None
        return held["ok"] and held["result"] == one["result"] and all(self.current(n) for n in held["needs"])

    def fresh(self, one: dict[str, Any], now: float) -> bool:
        held = self.newest(one["tool"], one["value"])
        young = now - one["at"] <= one["ttl"]
        return held is one and one["ok"] and young and all(self.current(n) for n in one["needs"])

    def satisfying(self, need: Need, value: str, now: float) -> dict[str, Any] | None:
        for one in reversed(self.ran):
            if one["tool"] != need.name or (need.options and one["value"] != value):
                continue
            if {"ended": True, "once": one["ok"], "fresh": self.fresh(one, now)}[need.kind]:
                return one
        return None

    def may_start(self, tool: str, value: str, now: float) -> bool:
        return all(self.satisfying(need, value, now) for need in self.graph.needs(tool))

    def run(self, tool: str, value: str, ok: bool, result: str, ttl: float, now: float) -> None:
        found = [self.satisfying(need, value, now) for need in self.graph.needs(tool) if need.kind == "fresh"]
        needs = [one for one in found if one is not None]
        one = {"tool": tool, "value": value, "ok": ok, "result": result, "ttl": ttl, "at": now, "needs": needs}
        self.ran.append(one)


@settings(max_examples=150, deadline=None)
@given(graphs(), STEPS)
def test_nothing_starts_early_and_nothing_waits_in_vain(graph: Graph, steps: list[Step]) -> None:
    """Whatever is proposed in whatever order: what is released is exactly what the definition releases."""
    tape, oracle = Tape(graph), Oracle(graph)
    for tool, value, ok, result, wait in steps:
        tape.now += wait / 2
        now = tape.now
        for name, which in itertools.product(TOOLS, "ab"):
            assert (not tape.unmet(name, "--v", which)) == oracle.may_start(name, which, now), (name, which)
        assert released(tape.ground(), graph, TOOLS) == [
            name for name in TOOLS if any(oracle.may_start(name, which, now) for which in "ab")
        ] or any(need.options for needs in graph.rules.values() for need in needs)
        if oracle.may_start(tool, value, now):
            tape.run(f"{tool} --v {value}", result, 0 if ok else 1, ttl=30)
            oracle.run(tool, value, ok, f"{0 if ok else 1}{result}", 30, now)
    for one in tape.state.slots.values():
        mine = oracle.ran[one.op - 1]
        assert is_fresh(tape.ground(), one) == oracle.fresh(mine, tape.now)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_any_order_of_proposals_ends_with_everything_done(graph: Graph, chance: Any) -> None:
    """Proposing every tool again and again, each time in another order, starts all, each after its needs."""
    tape, order = Tape(graph), []
    while len(order) < len(TOOLS):
        before = len(order)
        for name in chance.sample(TOOLS, len(TOOLS)):
            if name not in order and not tape.unmet(name, "--v", "a"):
                tape.run(f"{name} --v a")
                order.append(name)
        assert len(order) > before, "nothing is released, though nothing waits in a circle"
    for name in TOOLS:
        assert all(order.index(need.name) < order.index(name) for need in graph.needs(name))


def rings() -> list[tuple[str, ...]]:
    return [tuple(TOOLS[:size]) for size in (1, 2, 3, 5)]


@pytest.mark.parametrize("ring", rings(), ids=len)
def test_nothing_of_a_circle_is_ever_released(ring: tuple[str, ...]) -> None:
    rules = {name: (Need(other),) for name, other in zip(ring, (*ring[1:], ring[0]), strict=True)}
    tape = Tape(Graph(rules))
    assert released(tape.ground(), tape.graph, TOOLS) == [name for name in TOOLS if name not in ring]
