"""The verdict as a pure function: total, deterministic, and never weaker for one more reason against."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events.state import Spent
from harness.policy.decide import EFFECTS, Decision, Request, Rules, decide

STRENGTH = {"allow": 0, "ask": 1, "deny": 2}
WORDS = st.text("ab-", max_size=3)
VALUES = st.dictionaries(st.sampled_from(["to", "env", "args"]), st.tuples(WORDS), max_size=2)
REQUESTS = st.builds(
    Request,
    tool=st.sampled_from(["send", "look"]), argv=st.lists(WORDS, max_size=3).map(tuple),
    effect=st.sampled_from([*EFFECTS, "raed"]), effect_declared=st.booleans(), known=st.booleans(),
    listed=st.booleans(), broken=st.none() | st.just("bin/x:3: error"), problems=st.lists(WORDS, max_size=1).map(tuple),
    needs=st.lists(WORDS, max_size=1).map(tuple), refused_before=st.none() | st.just("no"), values=VALUES,
    outside=st.none() | st.just("out"), empty_list=st.booleans(),
)  # fmt: skip
RULES = st.builds(
    Rules,
    allow=st.lists(st.tuples(st.sampled_from(["send", "look"]), VALUES), max_size=2).map(tuple),
    deny=st.frozensets(st.sampled_from(["send", "look"]), max_size=1),
)
BUDGETS = st.dictionaries(st.sampled_from(["calls", "read", "write", "external", "money_calls"]), st.integers(1, 4))
SPENT = st.builds(Spent, calls=st.integers(0, 4), effects=st.dictionaries(st.sampled_from(EFFECTS), st.integers(0, 4)))


@given(REQUESTS, RULES, BUDGETS, SPENT)
def test_every_request_gets_one_verdict(request: Request, rules: Rules, budget: dict[str, int], spent: Spent) -> None:
    decision = decide(request, rules, budget, spent)
    assert decision == decide(request, rules, budget, spent)
    assert (decision.verdict == "deny") == (decision.code is not None)
    assert decision.rules and (decision.verdict == "allow" or decision.reasons)


@given(REQUESTS, RULES, BUDGETS, SPENT)
def test_one_more_thing_against_a_call_never_helps_it(
    request: Request, rules: Rules, budget: dict[str, int], spent: Spent
) -> None:
    def strength(request: Request = request, rules: Rules = rules, budget: dict[str, int] = budget) -> int:
        return STRENGTH[decide(request, rules, budget, spent).verdict]

    plain = strength()
    assert strength(replace(request, needs=(*request.needs, "x"))) == 2
    assert strength(replace(request, problems=(*request.problems, "x"))) == 2
    assert strength(replace(request, outside="x")) == 2
    assert strength(rules=replace(rules, deny=rules.deny | {request.tool})) == 2
    assert strength(budget={**budget, "calls": min(1, budget.get("calls", 1))}) >= plain
    assert strength(replace(request, effect_declared=False)) >= plain
    assert strength(rules=replace(rules, allow=())) >= plain


@given(REQUESTS, RULES, BUDGETS, SPENT)
def test_nothing_lifts_money_and_destruction(
    request: Request, rules: Rules, budget: dict[str, int], spent: Spent
) -> None:
    for effect in ("money", "destructive"):
        assert decide(replace(request, effect=effect), rules, budget, spent).verdict != "allow"


DEFAULTS = [("read", "allow"), ("write", "allow"), ("external", "ask"), ("money", "ask"), ("destructive", "ask")]


@pytest.mark.parametrize(("effect", "verdict"), DEFAULTS)
def test_what_an_effect_means(effect: str, verdict: str) -> None:
    assert decide(Request("x", effect=effect), Rules(), {}, Spent()).verdict == verdict
    undeclared = decide(Request("x", effect=effect, effect_declared=False), Rules(), {}, Spent())
    assert (undeclared.verdict, undeclared.reasons) == ("ask", ("no effect declared",))


def against(**fields: object) -> Decision:
    return decide(replace(Request("look", effect="read"), **fields), Rules(), {"calls": 5}, Spent(calls=1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"known": False}, "DENIED"), ({"listed": False}, "DENIED"), ({"effect": "raed"}, "DENIED"),
     ({"broken": "x"}, "MISCONFIGURED"), ({"outside": "x"}, "DENIED"), ({"needs": ("x",)}, "NOT_RELEASED"),
     ({"problems": ("x",)}, "INVALID_INPUT"), ({"refused_before": "x"}, "DENIED"),
     ({"empty_list": True}, "NOT_RELEASED"),
     ({"argv": ("x",) * 257}, "DENIED"), ({"argv": ("x" * 131_073,)}, "DENIED"), ({"argv": ("é" * 70_000,)}, "DENIED")],
)  # fmt: skip
def test_what_denies(fields: dict[str, object], code: str) -> None:
    assert (against().verdict, against(**fields).code) == ("allow", code)


@pytest.mark.parametrize("argv", [("x",) * 256, ("x" * 131_072,)])
def test_the_largest_call_that_passes(argv: tuple[str, ...]) -> None:
    assert against(argv=argv).verdict == "allow"


@pytest.mark.parametrize(
    ("where", "declared", "verdict"),
    [({}, True, "allow"), ({"to": ("ann",)}, True, "allow"), ({"to": ("bob",)}, True, "ask"), ({}, False, "ask"),
     ({"to": ("ann",)}, False, "ask"), ({"to": ("ann",), "env": ("dev",)}, False, "allow"),
     ({"to": ("ann",), "more": ("x",)}, True, "ask")],
)  # fmt: skip
def test_what_a_rule_of_the_person_allows(where: dict[str, tuple[str, ...]], declared: bool, verdict: str) -> None:
    values = {"to": ("ann",), "env": ("dev",)}
    request = Request("send", effect="external", effect_declared=declared, values=values)
    assert decide(request, Rules((("send", where),)), {}, Spent()).verdict == verdict
