"""Rules: what each operator means for each type, and what becomes of a test that cannot be evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.policy import Rule, Test
from harness.policy.request import CheckedPath, Request, Typed
from harness.policy.rules import connected, evaluate, failing, is_about, matches


def text(*texts: str, many: bool = False) -> Typed:
    return Typed("text", texts, many)


def number(*texts: str, many: bool = False) -> Typed:
    return Typed("number", texts, many)


YES, NO = Typed("flag", ("true",)), Typed("flag", ("false",))


def holds(operator: str, wanted: Any, given: Typed | None, **fields: Any) -> bool | None:
    test = Test(operator, tuple(wanted) if isinstance(wanted, list) else (wanted,), isinstance(wanted, list))  # type: ignore[arg-type]
    request = Request("t", typed={} if given is None else {"--o": given}, **fields)
    return evaluate("--o", test, request, exact=True)


@pytest.mark.parametrize(
    ("operator", "wanted", "given", "found"),
    [
        ("eq", "prod", text("prod"), True), ("eq", "prod", text("Prod"), False), ("eq", "", text(""), True),
        ("eq", "1", number("1.0"), True), ("eq", "1e3", number("1000"), True), ("eq", "1", number("2"), False),
        ("eq", "one", number("1"), None), ("eq", "1.0", text("1"), False), ("eq", "nan", number("1"), None),
        ("eq", "true", YES, True), ("eq", "false", YES, False), ("eq", "false", NO, True), ("eq", "yes", YES, None),
        ("eq", ["a", "b"], text("a", "b", many=True), True), ("eq", ["b", "a"], text("a", "b", many=True), False),
        ("eq", ["a"], text("a", "b", many=True), False), ("eq", "a", text("a", many=True), True),
        ("eq", "a", text("a", "b", many=True), False), ("eq", [], text(many=True), True),
        ("eq", ["a"], text("a"), None), ("eq", "a", None, None), ("eq", ["1"], number("1.0", many=True), True),
        ("in", ["a", "b"], text("b"), True), ("in", ["a", "b"], text("c"), False),
        ("in", ["1", "2"], number("2.0"), True), ("in", ["x", "2"], number("2"), True),
        ("in", ["x"], number("2"), None),
        ("in", ["a", "b"], text("a", "b", many=True), True), ("in", ["a", "b"], text("a", "c", many=True), False),
        ("in", ["a"], text(many=True), None), ("in", ["a"], None, None),
        ("max", "10", number("10"), True), ("max", "10", number("10.01"), False), ("max", "10", number("-5"), True),
        ("max", "10", number("1e309"), False), ("max", "10", number("nan"), None), ("max", "10", number("inf"), None),
        ("max", "10", text("5"), None), ("max", "10", NO, None), ("max", "10", number("1", "11", many=True), False),
        ("max", "10", None, None),
        ("len_max", "2", text("ab"), True), ("len_max", "2", text("abc"), False), ("len_max", "1", text("é"), True),
        ("len_max", "2", text("a", "b", many=True), True), ("len_max", "1", text("a", "b", many=True), False),
        ("len_max", "0", text(many=True), True), ("len_max", "2", number("1"), None), ("len_max", "2", YES, None),
        ("host", "x.io", text("x.io"), True), ("host", "x.io", text("X.IO."), True),
        ("host", "x.io", text("https://x.io/a?b"), True), ("host", "x.io", text("ann@x.io"), True),
        ("host", "x.io", text("a.x.io"), False), ("host", "x.io", text("https://x.io.evil.com/"), False),
        ("host", ".x.io", text("a.x.io"), True), ("host", ".x.io", text("b.a.x.io"), True),
        ("host", ".x.io", text("x.io"), False), ("host", ".x.io", text("ax.io"), False),
        ("host", "x.io:8443", text("https://x.io:8443/"), True), ("host", "x.io:8443", text("https://x.io/"), False),
        ("host", "x.io:443", text("https://x.io/"), True), ("host", "x.io:443", text("ann@x.io"), False),
        ("host", "x.io", text("https://ann@x.io/"), None), ("host", "x.io", text("https://evil.io#@x.io/"), False),
        ("host", "x.io", text("file://x.io/etc/passwd"), None), ("host", "x.io", text("https:/x.io"), None),
        ("host", "x.io", text("a@b@x.io"), None), ("host", "x.io", text("хx.io"), None),
        ("host", "x.io", text("x.io", "y.io", many=True), False), ("host", "x.io", number("1"), None),
        ("host", "[::1]:443", text("https://[::1]/"), True), ("host", "[::1]", text("https://[::1]:8/"), True),
        ("host", ["y.io", "x.io"], text("x.io"), True),
    ],
)  # fmt: skip
def test_an_operator(operator: str, wanted: Any, given: Typed | None, found: bool | None) -> None:
    assert holds(operator, wanted, given) is found


@pytest.mark.parametrize(
    ("wanted", "reals", "found"),
    [("/w", ["/w/a"], True), ("/w", ["/w"], True), ("/w", ["/wa"], False), ("/w/", ["/w/a"], True),
     (["/x", "/w/b"], ["/w/b/c"], True), ("/w", ["/w/a", "/x"], False), ("/", ["/x"], True), ("/w", [], None)],
)  # fmt: skip
def test_under_compares_where_paths_lead_by_components(wanted: Any, reals: list[str], found: bool | None) -> None:
    paths = tuple(CheckedPath("--o", "given", real, "read", inside=True) for real in reals)
    given = text(*("given" for _ in reals or [""]), many=len(reals) > 1)
    assert holds("under", wanted, given, paths=paths) is found


def test_a_spelling_that_only_looks_alike_counts_against_a_call_and_never_for_it() -> None:
    paths = (CheckedPath("--o", "x", "/w/DOCS/x", "write", inside=True),)
    request = Request("t", typed={"--o": text("x")}, paths=paths)
    where = (("--o", Test("under", ("/w/docs",))),)
    assert not matches(Rule("allow", ("t",), where=where), request)
    assert matches(Rule("deny", ("t",), where=where), request)


USER, TOOL, NOWHERE = frozenset({"user"}), frozenset({"tool:search-logs"}), frozenset[str]()


@pytest.mark.parametrize(
    ("wanted", "sources", "traced", "found"),
    [("user", [USER], False, True), ("user", [TOOL], False, False), ("user", [NOWHERE], False, False),
     ("tool", [TOOL], False, True), ("tool:search-logs", [TOOL], False, True), ("tool:other", [TOOL], True, False),
     ("tool:other", [TOOL], False, None), ("tool", [NOWHERE], False, None), ("tool", [NOWHERE], True, False),
     ("user", [USER, TOOL], True, False), (["user", "tool"], [USER, TOOL], True, True), ("user", [], True, None)],
)  # fmt: skip
def test_from_asks_where_a_value_is_from(wanted: Any, sources: list[frozenset[str]], traced: bool, found: Any) -> None:
    given = text(*("v" for _ in sources or [""]), many=len(sources) > 1)
    assert holds("from", wanted, given, sources={"--o": tuple(sources)}, traced=traced) is found


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_what_cannot_be_evaluated_fails_an_allow_and_fulfils_the_others(verdict: Any) -> None:
    rule = Rule(verdict, ("t",), where=(("--gone", Test("eq", ("x",))),))
    assert matches(rule, Request("t")) is (verdict != "allow")
    false_too = replace(rule, where=(*rule.where, ("--o", Test("eq", ("y",)))))
    assert not matches(false_too, Request("t", typed={"--o": text("n")}))


def test_all_of_where_must_hold() -> None:
    rule = Rule("deny", ("t",), where=(("--o", Test("eq", ("a",))), ("--p", Test("eq", ("b",)))))
    both = Request("t", typed={"--o": text("a"), "--p": text("b")})
    assert matches(rule, both) and not matches(rule, replace(both, typed={"--o": text("a"), "--p": text("c")}))
    assert list(failing(rule, replace(both, typed={"--o": text("a"), "--p": text("c")}))) == [
        "--p: eq b does not hold"
    ]


@pytest.mark.parametrize(
    ("rule", "about"),
    [(Rule("deny", ("t",)), True), (Rule("deny", ("u", "t")), True), (Rule("deny", ("u",)), False),
     (Rule("deny", effects=("external",)), True), (Rule("deny", effects=("read",)), False),
     (Rule("deny", skills=("triage",)), True), (Rule("deny", skills=("other",)), False), (Rule("deny"), True),
     (Rule("deny", ("t",), ("external",), ("other",)), False)],
)  # fmt: skip
def test_which_calls_a_rule_is_about(rule: Rule, about: bool) -> None:
    assert is_about(rule, Request("t", effect="external", skill="triage")) is about


def test_a_tool_without_declared_arguments_has_one_list_of_words() -> None:
    request = Request("t", typed={"args": text("-x", "1", many=True)})
    for test, found in [(Test("eq", ("-x", "1"), True), True), (Test("len_max", ("1",)), False)]:
        assert evaluate("args", test, request, exact=True) is found


@pytest.mark.parametrize(
    ("value", "place"),
    [("https://X.io./a", ("x.io", 443)), ("http://x.io:81", ("x.io", 81)), ("x.io:8443", ("x.io", 8443)),
     ("ann@x.io", ("x.io", None)), ("ann@x.io:25", None), ("https://a:b@x.io", None), ("not a host", None),
     ("https://x.io\\@evil.com", None), ("//x.io/a", None), ("@x.io", None)],
)  # fmt: skip
def test_which_host_a_value_names(value: str, place: Any) -> None:
    assert connected(value) == place
