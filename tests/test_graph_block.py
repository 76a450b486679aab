"""The dependency block: grammar, lines, cycles, and the graph in layers, Mermaid and sentences."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.documents import read_yaml
from harness.errors import Finding
from harness.graph import Graph, Need
from harness.graph.block import check_cycles, from_mapping, parse_block
from harness.graph.draw import layers, mermaid, sentences

EXAMPLE = """\
search-logs: lookup-runbook check-pods | check-lag
replay-request: search-logs(--request-id)
write-report: search-logs
"""


def graph_of(text: str) -> Graph:
    graph, findings = parse_block(text, "S", 1)
    assert findings == []
    return graph


def wrong(text: str) -> list[Finding]:
    return parse_block(text, "S", 10, 5)[1]


def test_the_example_has_three_rules_with_their_lines() -> None:
    graph, findings = parse_block(EXAMPLE, "S", 7)
    assert findings == []
    assert list(graph.rules) == ["search-logs", "replay-request", "write-report"]
    assert graph.needs("search-logs") == (Need("lookup-runbook"), Need("check-pods"), Need("check-lag", "once"))
    assert graph.needs("replay-request") == (Need("search-logs", "fresh", ("request-id",)),)
    assert [graph.needs(name)[0].line for name in graph.rules] == [7, 8, 9]


def test_nested_yaml_gives_an_equal_graph() -> None:
    text = (
        "search-logs: lookup-runbook check-pods | check-lag\n"
        "replay-request: ['search-logs(--request-id)']\nwrite-report:\n  - search-logs\n"
    )
    root = read_yaml(text, 7).root
    assert root is not None
    graph, findings = from_mapping(root, "S")
    assert findings == [] and graph == graph_of(EXAMPLE)
    assert graph.needs("write-report")[0].line == 10


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a b: c", {"a": "c", "b": "c"}),
        ("a: b\na: c", {"a": "b c"}),
        ("a:b|c", {"a": "b |c"}),
        ("a: b; c: d # note; e: f\n# g: h\n\n", {"a": "b", "c": "d"}),
        ("a: b \\\n  c\nd:", {"a": "b c", "d": ""}),
        ("a: | b?\tc", {"a": "b? |c"}),
        ("a/b.py: c(--x,--y)?", {"a/b.py": "c(--x,--y)?"}),
        ("a: b b | c c", {"a": "b |c"}),
        ("a: b b(--x)", {"a": "b b(--x)"}),
        ("a: # nothing", {"a": ""}),
    ],
)
def test_forms(text: str, rules: dict[str, str]) -> None:
    graph = graph_of(text)
    written = {n: " ".join(("|" if x.kind == "once" else "") + x.text() for x in graph.needs(n)) for n in graph.rules}
    assert written == rules


def test_plain_wins_over_order_only() -> None:
    for text in ("a: b | b", "a: | b\na: b"):
        graph, findings = parse_block(text, "S", 1)
        assert graph.needs("a") == (Need("b"),)
        assert [(f.code, f.severity) for f in findings] == [("dep-duplicate", "warning")]


@pytest.mark.parametrize("text", ["", "  \n", "# a: b\n", ";;"])
def test_an_empty_block_is_an_error(text: str) -> None:
    assert [(f.code, f.severity) for f in wrong(text)] == [("dep-empty", "error")]


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a: b > c", 10, 10, "> is no prerequisite"),
        ("a: b\nc d", 11, 5, "a : is missing"),
        (": b", 10, 5, "a target is missing"),
        ("a: b | c | d", 10, 14, "a second |"),
        ("a: b(--x, --y)", 10, 8, "b(--x,"),
        ("a: B", 10, 8, "B is no"),
        ("a?: b", 10, 5, "a? is no name"),
        ("a: b#c", 10, 8, "b#c"),
        ("a: \\\n  b !", 11, 9, "!"),
        ("a: b(-x)", 10, 8, "b(-x)"),
        ("a: b, c", 10, 8, "b,"),
        ("# x \\\nb", 11, 5, "a : is missing after b"),
    ],
)
def test_deviations_name_line_and_column(text: str, line: int, column: int, said: str) -> None:
    first = wrong(text)[0]
    assert (first.code, first.severity, first.line) == ("dep-syntax", "error", line)
    assert f"line {line}, column {column}: " in first.message and said in first.message


def test_a_folded_block_is_explained() -> None:
    findings = parse_block("a: b c: d", "S", 3)[1]
    assert "use `|`, not `>`, for the block" in findings[0].message


@pytest.mark.parametrize("value", ["[b, [c]]", "{b: c}", "['| b']", "['b c']", "[b(--x,--y)]", "'b: c'"])
def test_nested_values_of_another_shape_are_errors(value: str) -> None:
    root = read_yaml(f"a: {value}").root
    assert root is not None
    assert {f.code for f in from_mapping(root, "S")[1]} == {"dep-syntax"}


def test_a_cycle_is_told_from_the_first_rule_in_the_file() -> None:
    graph = graph_of("x: b\na: b\nb: c\nc: a | d\nd: a")
    findings = check_cycles(graph, "S")
    assert [f.code for f in findings] == ["cycle"]
    assert findings[0].message == "a waits for b waits for c waits for a (lines 2, 3, 4)"


def test_edges_of_every_kind_count() -> None:
    assert [f.code for f in check_cycles(graph_of("a: | b\nb: a?"), "S")] == ["cycle"]
    assert [f.code for f in check_cycles(graph_of("a: a?"), "S")] == ["self-dependency"]
    assert [f.code for f in check_cycles(graph_of("a: b\nb: a\nc: d\nd: c"), "S")] == ["cycle", "cycle"]
    assert check_cycles(graph_of(EXAMPLE), "S") == []


def test_long_chains_and_products_of_lists_are_bounded() -> None:
    names = [f"n{at}" for at in range(6000)]
    chain = graph_of("\n".join(f"{one}: {two}" for one, two in pairwise(names)))
    assert check_cycles(chain, "S") == []
    many = " ".join(names[:5000])
    assert [f.code for f in parse_block(f"{many}: {many}", "S", 1)[1]] == ["dep-syntax"]


@given(st.text(alphabet="ab:|;#\\ \n\t(-,)?>é", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    graph, findings = parse_block(text, "S", 1)
    check_cycles(graph, "S")
    assert graph.rules or findings


def test_layers_and_circles() -> None:
    names = ["lookup-runbook", "check-pods", "check-lag", "search-logs", "replay-request", "write-report"]
    assert layers(graph_of(EXAMPLE), names) == [names[:3], names[3:4], names[4:]]
    assert layers(graph_of("a: b\nb: a\nc: d"), ["a", "b", "c", "d"]) == [["d"], ["c"], ["a", "b"]]


def test_mermaid_draws_each_kind_of_edge() -> None:
    drawn = mermaid(graph_of("a: b(--x) | c\nd: a?"), ["a", "b", "c", "d"])
    assert drawn.splitlines()[0] == "flowchart LR"
    assert [line.strip() for line in drawn.splitlines()[5:]] == ['n1 -->|"--x"| n0', "n2 -.-> n0", 'n0 -.->|"?"| n3']


def test_the_graph_in_sentences() -> None:
    names = ["lookup-runbook", "check-pods", "check-lag", "search-logs", "replay-request", "write-report"]
    budget = {"turns": "20", "calls": "40", "usd": "0.50", "seconds": "900"}
    notes = {"replay-request": "external, asks"}
    assert sentences(graph_of(EXAMPLE), names, ["write-report"], ["check-report"], budget, notes) == [
        "At the start lookup-runbook, check-pods and check-lag may run.",
        "search-logs waits until lookup-runbook and check-pods have fresh results and check-lag has succeeded once.",
        "replay-request (external, asks) waits until search-logs has succeeded with the same --request-id.",
        "write-report waits until search-logs has a fresh result.",
        "It passes when write-report has a fresh result and check-report accepts the answer.",
        "It stops at 20 turns, 40 calls, $0.50 or 15 minutes.",
    ]
    assert sentences(graph_of("a: b? | c(--x,--y)"), ["a", "b", "c"], budget={"turns": "1", "seconds": "90"}) == [
        "At the start b and c may run.",
        "a waits until b has ended and c has succeeded once with the same --x and --y.",
        "It stops at 1 turn or 90 seconds.",
    ]
