"""The verdict as a pure function: total, deterministic, and never weaker for one more reason against."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events.state import Spent
from harness.policy import EFFECTS, LEVELS, RELAXABLE, SETTINGS, Grant, Policy, Rule, Setting, Test
from harness.policy import WORDS as WORDS_KEPT
from harness.policy.decide import decide
from harness.policy.granting import DAY_S, grant_of, offered, standing
from harness.policy.request import CheckedPath, Decision, Destination, Grounding, Request, Typed
from harness.policy.rules import connected, grants, matches

STRENGTH = {"allow": 0, "ask": 1, "deny": 2}
WORDS = st.text("ab1", max_size=3)
TOOLS, OPTIONS = st.sampled_from(["send", "look"]), st.sampled_from(["--to", "--n", "path", "--gone"])
FOUND = st.builds(Typed, st.sampled_from(["text", "number", "flag"]), st.lists(WORDS, max_size=2).map(tuple),
                  st.booleans())  # fmt: skip
PATHS = st.builds(CheckedPath, st.just("path"), WORDS, st.sampled_from(["/w/a", "/w/b/c", "/x"]),
                  st.sampled_from(["read", "write"]), st.booleans())  # fmt: skip
DESTS = st.builds(Destination, st.just("--to"), st.sampled_from(["ann@x.io", "ánn@x.io"]), st.booleans())
SOURCES = st.dictionaries(st.just("--to"), st.tuples(st.sampled_from([frozenset({"user"}), frozenset({"tool:x"}),
                                                                     frozenset[str]()])))  # fmt: skip
REQUESTS = st.builds(
    Request,
    tool=TOOLS, argv=st.lists(WORDS, max_size=3).map(tuple), effect=st.sampled_from([*EFFECTS, "raed"]),
    effect_declared=st.booleans(), known=st.booleans(), listed=st.booleans(), large=st.sampled_from(["", "too large"]),
    broken=st.none() | st.just("bin/x:3: error"), problems=st.lists(WORDS, max_size=1).map(tuple),
    needs=st.lists(WORDS, max_size=1).map(tuple), refused_before=st.none() | st.just("no"),
    values=st.dictionaries(st.sampled_from(["to", "n", "path"]), st.tuples(WORDS), max_size=2),
    typed=st.dictionaries(OPTIONS, FOUND, max_size=3), outside=st.none() | st.just("out"), empty_list=st.booleans(),
    paths=st.lists(PATHS, max_size=1).map(tuple), dests=st.lists(DESTS, max_size=2).map(tuple), sources=SOURCES,
    traced=st.booleans(), unconfined=st.booleans(), skill=st.sampled_from(["triage", ""]), tainted=st.booleans(),
    attended=st.booleans(), amounts=st.dictionaries(st.just("EUR"), st.decimals(0, 9, places=2)),
    grounding=st.lists(st.builds(Grounding, st.just("--n"), WORDS, st.just(()) | st.just(("user",))), max_size=1)
    .map(tuple), digest=st.just("5f"), cwd=st.just("/w"), level=st.sampled_from(["full", "none"]),
)  # fmt: skip
HARMLESS = st.builds(
    Request,
    tool=TOOLS, effect=st.sampled_from(EFFECTS), effect_declared=st.booleans(), skill=st.sampled_from(["triage", ""]),
    typed=st.dictionaries(OPTIONS, FOUND, max_size=3), dests=st.lists(DESTS, max_size=2).map(tuple), sources=SOURCES,
    traced=st.booleans(), tainted=st.booleans(),
)  # fmt: skip
TESTS = st.one_of(
    st.builds(Test, st.just("eq"), st.lists(WORDS, min_size=1, max_size=2).map(tuple), st.just(True)),
    st.builds(Test, st.just("eq"), st.tuples(WORDS)),
    st.builds(Test, st.just("in"), st.lists(WORDS, min_size=1, max_size=2).map(tuple), st.just(True)),
    st.builds(Test, st.sampled_from(["max", "len_max"]), st.sampled_from([("1",), ("3",)])),
    st.builds(Test, st.just("under"), st.sampled_from([("/w",), ("/w/b", "/x")])),
    st.builds(Test, st.just("from"), st.sampled_from([("user",), ("tool", "file")])),
    st.builds(Test, st.just("host"), st.sampled_from([("x.io",), (".x.io",)])),
)
RULES = st.lists(
    st.builds(
        Rule,
        verdict=st.sampled_from(["allow", "ask", "deny"]), tools=st.lists(TOOLS, max_size=2).map(tuple),
        effects=st.lists(st.sampled_from(EFFECTS), max_size=1).map(tuple),
        skills=st.lists(st.just("triage"), max_size=1).map(tuple),
        where=st.lists(st.tuples(OPTIONS, TESTS), max_size=2).map(tuple), place=st.sampled_from(["a:1", "b:2", "c:3"]),
        source=st.sampled_from(["system", "user", "project", "skill", "run"]),
    ),
    max_size=5,
).map(tuple)  # fmt: skip
BUDGETS = st.dictionaries(st.sampled_from(["calls", "read", "write", "external", "money_calls"]), st.integers(1, 4))
POLICIES = st.builds(
    Policy, effects=st.fixed_dictionaries({effect: st.sampled_from(SETTINGS) for effect in EFFECTS}), rules=RULES,
    unattended=st.sampled_from(["park", "deny"]), budget=BUDGETS,
)  # fmt: skip
SPENT = st.builds(Spent, calls=st.integers(0, 4), effects=st.dictionaries(st.sampled_from(EFFECTS), st.integers(0, 4)))


def strength(request: Request, policy: Policy, spent: Spent | None = None) -> int:
    return STRENGTH[decide(request, policy, (), spent).verdict]


@given(REQUESTS, POLICIES, SPENT)
def test_every_request_gets_one_verdict(request: Request, policy: Policy, spent: Spent) -> None:
    decision = decide(request, policy, (), spent)
    assert decision == decide(request, policy, (), spent)
    assert (decision.verdict == "deny") == (decision.code is not None)
    assert decision.rules and (decision.verdict == "allow" or decision.reasons)


@given(st.one_of(REQUESTS, HARMLESS), POLICIES, st.randoms())
def test_neither_order_nor_file_matters(request: Request, policy: Policy, random: Any) -> None:
    mixed = list(policy.rules)
    random.shuffle(mixed)
    assert decide(request, replace(policy, rules=tuple(mixed)), ()) == decide(request, policy, ())
    moved = tuple(replace(rule, source=random.choice(["user", "project"])) for rule in mixed)
    assert decide(request, replace(policy, rules=moved), ()) == decide(request, policy, ())


@given(st.one_of(REQUESTS, HARMLESS), POLICIES, RULES, SPENT)
def test_an_ask_or_deny_rule_more_never_weakens_a_verdict(
    request: Request, policy: Policy, more: tuple[Rule, ...], spent: Spent
) -> None:
    strict = tuple(rule for rule in more if rule.verdict != "allow")
    narrowed = replace(policy, rules=(*policy.rules, *strict))
    assert strength(request, narrowed, spent) >= strength(request, policy, spent)


@given(st.one_of(REQUESTS, HARMLESS), POLICIES, POLICIES)
def test_a_layer_that_only_narrows_never_weakens_a_verdict(request: Request, policy: Policy, layer: Policy) -> None:
    narrowed = Policy(
        {effect: max(s, layer.effects[effect], key=SETTINGS.index) for effect, s in policy.effects.items()},
        (*policy.rules, *(rule for rule in layer.rules if rule.verdict != "allow")),
        "deny" if "deny" in (policy.unattended, layer.unattended) else "park", policy.budget,
    )  # fmt: skip
    assert strength(request, narrowed) >= strength(request, policy)


@given(st.one_of(REQUESTS, HARMLESS), POLICIES, BUDGETS, SPENT)
def test_a_limit_more_never_weakens_a_verdict(
    request: Request, policy: Policy, more: dict[str, int], spent: Spent
) -> None:
    least = {key: min(value, policy.budget.get(key, value)) for key, value in more.items()}
    narrowed = replace(policy, budget={**policy.budget, **least})
    assert strength(request, narrowed, spent) >= strength(request, policy, spent)


@given(HARMLESS, POLICIES)
def test_an_allow_rule_less_never_weakens_a_verdict(request: Request, policy: Policy) -> None:
    fewer = replace(policy, rules=tuple(rule for rule in policy.rules if rule.verdict != "allow"))
    assert strength(request, fewer) >= strength(request, policy)


@given(REQUESTS, POLICIES)
def test_one_more_thing_against_a_call_never_helps_it(request: Request, policy: Policy) -> None:
    for against in ({"needs": ("x",)}, {"problems": ("x",)}, {"outside": "x"}, {"large": "too large"},
                    {"grounding": (Grounding("--n", "x"),)}):  # fmt: skip
        assert strength(replace(request, **against), policy) == 2  # type: ignore[arg-type]
    assert strength(replace(request, effect_declared=False), policy) >= strength(request, policy)
    assert strength(replace(request, tainted=True), policy) >= strength(replace(request, tainted=False), policy)
    assert strength(replace(request, attended=False), policy) >= strength(replace(request, attended=True), policy)


@given(st.one_of(REQUESTS, HARMLESS), POLICIES)
def test_nothing_lifts_money_and_destruction(request: Request, policy: Policy) -> None:
    for effect in ("money", "destructive"):
        assert decide(replace(request, effect=effect), policy).verdict != "allow"


DEFAULTS = [("read", "allow"), ("write", "allow"), ("external", "ask"), ("money", "ask"), ("destructive", "ask")]


@pytest.mark.parametrize(("effect", "verdict"), DEFAULTS)
def test_what_an_effect_means(effect: str, verdict: str) -> None:
    assert decide(Request("x", effect=effect), Policy()).verdict == verdict
    undeclared = decide(Request("x", effect=effect, effect_declared=False), Policy())
    assert (undeclared.verdict, undeclared.reasons) == ("ask", ("no effect declared",))


SETTING_CASES = [
    (effect, setting, verdict)
    for effect, (setting, verdict) in itertools.product(EFFECTS, zip(SETTINGS, ("allow", "ask", "ask", "deny"),
                                                                      strict=True))
]  # fmt: skip


@pytest.mark.parametrize(("effect", "setting", "verdict"), SETTING_CASES)
def test_what_a_policy_says_of_an_effect(effect: str, setting: Setting, verdict: str) -> None:
    said = decide(Request("x", effect=effect), Policy({effect: setting}))
    assert said.verdict == ("ask" if verdict == "allow" and effect in ("money", "destructive") else verdict)
    if verdict == "deny":
        assert (said.code, said.rules) == ("DENIED", (f"effects.{effect}",))


ANN, EVE = Destination("--to", "ann@x.io", named=True), Destination("--to", "eve@y.io", named=False)


@pytest.mark.parametrize(
    ("dests", "verdict"), [((ANN,), "allow"), ((EVE,), "ask"), ((ANN, EVE), "ask"), ((), "ask"), ((ANN, ANN), "allow")]
)
def test_an_external_call_passes_when_the_user_named_every_destination(
    dests: tuple[Destination, ...], verdict: str
) -> None:
    said = decide(Request("send", dests=dests), Policy())
    assert said.verdict == verdict
    assert (EVE not in dests) or "eve@y.io is not in your words" in said.reasons[0]


def test_a_destination_that_is_not_ascii_asks_with_its_code_points() -> None:
    odd = Destination("--to", "аnn@x.io", named=True)
    rule = Rule("allow", ("send",), where=(("--to", Test("eq", ("аnn@x.io",))),), place="u:1")
    request = Request("send", dests=(odd,), typed={"--to": Typed("text", ("аnn@x.io",))})
    said = decide(request, Policy({"external": "allow"}, (rule,)))
    assert (said.verdict, said.rules) == ("ask", ("destinations",))
    assert "\\u0430nn@x.io (U+0430)" in said.reasons[0]


def send(**fields: object) -> Request:
    typed = {"--to": Typed("text", ("eve@y.io",)), "--body": Typed("text", ("hi",))}
    values = {"to": ("eve@y.io",), "body": ("hi",)}
    return replace(Request("send", dests=(EVE,), typed=typed, values=values), **fields)  # type: ignore[arg-type]


def rule(*where: tuple[str, Test], verdict: str = "allow", **fields: Any) -> Rule:
    return Rule(verdict, ("send",), where=where, place="user:3", **fields)  # type: ignore[arg-type]


TO, BODY = ("--to", Test("eq", ("eve@y.io",))), ("--body", Test("len_max", ("10",)))


@pytest.mark.parametrize(
    ("rules", "request_", "verdict"),
    [
        ((rule(),), send(), "allow"),
        ((rule(TO),), send(), "allow"),
        ((rule(("--to", Test("eq", ("bob@x.io",)))),), send(), "ask"),
        ((rule(("--cc", Test("eq", ("x",)))),), send(), "ask"),
        ((rule(TO), rule(verdict="ask", why="mail")), send(), "ask"),
        ((rule(TO), rule(verdict="deny")), send(), "deny"),
        ((rule(TO),), send(effect="money"), "ask"),
        ((rule(TO),), send(effect="destructive"), "ask"),
        ((rule(TO),), send(unconfined=True), "ask"),
        # once untrusted text is in the run a rule must say where it goes
        ((rule(),), send(tainted=True), "ask"),
        ((rule(BODY),), send(tainted=True), "ask"),
        ((rule(TO),), send(tainted=True), "allow"),
        ((rule(("--to", Test("in", ("eve@y.io",), True))),), send(tainted=True), "allow"),
        ((rule(("--to", Test("host", ("y.io",)))),), send(tainted=True), "allow"),
        ((rule(("--to", Test("from", ("user",)))),), send(tainted=True, sources={"--to": (frozenset({"user"}),)}),
         "allow"),
        ((rule(),), send(tainted=True, dests=()), "allow"),
        # a tool that declares no effect is allowed only with every argument bound
        ((rule(TO),), send(effect_declared=False), "ask"),
        ((rule(TO, BODY),), send(effect_declared=False), "ask"),
        ((rule(TO, ("--body", Test("eq", ("hi",)))),), send(effect_declared=False), "allow"),
    ],
)  # fmt: skip
def test_what_a_rule_makes_of_an_external_call(rules: tuple[Rule, ...], request_: Request, verdict: str) -> None:
    said = decide(request_, Policy(rules=rules))
    assert said.verdict == verdict
    if verdict == "allow":
        assert said.rules == ("user:3",)


@pytest.mark.parametrize(("effect", "verdict"), [("read", "allow"), ("write", "allow"), ("external", "allow")])
def test_a_rule_relaxes_what_the_policy_asks_of_every_such_effect(effect: str, verdict: str) -> None:
    policy = Policy({effect: "ask"}, (rule(TO),))
    assert decide(send(effect=effect, dests=()), policy).verdict == verdict
    assert decide(send(effect=effect, dests=()), replace(policy, rules=())).verdict == "ask"


def test_untrusted_text_makes_allow_named() -> None:
    policy = Policy({"external": "allow"})
    assert [decide(send(tainted=tainted), policy).verdict for tainted in (False, True)] == ["allow", "ask"]
    assert decide(send(tainted=True, dests=(ANN,)), policy).verdict == "allow"


def test_the_reason_of_a_rule_is_shown_with_its_place() -> None:
    said = decide(send(), Policy(rules=(rule(verdict="ask", why="restarts cost an hour"),)))
    assert (said.rules, said.reasons) == (("user:3",), ("restarts cost an hour (user:3)",))


def against(**fields: object) -> Decision:
    policy = Policy(budget={"calls": 5})
    return decide(replace(Request("look", effect="read"), **fields), policy, (), Spent(calls=1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"known": False}, "DENIED"), ({"listed": False}, "DENIED"), ({"effect": "raed"}, "DENIED"),
     ({"broken": "x"}, "MISCONFIGURED"), ({"outside": "x"}, "DENIED"), ({"needs": ("x",)}, "NOT_RELEASED"),
     ({"problems": ("x",)}, "INVALID_INPUT"), ({"refused_before": "x"}, "DENIED"), ({"caged": "x"}, "DENIED"),
     ({"empty_list": True}, "NOT_RELEASED"), ({"large": "too large"}, "DENIED"), ({"auth": ("x",)}, "NEEDS_AUTH"),
     ({"halted": ("UNKNOWN_OUTCOME", "settle", "x")}, "UNKNOWN_OUTCOME"),
     ({"grounding": (Grounding("--id", "r-9"),)}, "UNGROUNDED")],
)  # fmt: skip
def test_what_denies(fields: dict[str, object], code: str) -> None:
    assert (against().verdict, against(**fields).code) == ("allow", code)


PATH = CheckedPath("--out", "a", "/w/a", "write", inside=True)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (PATH, ""),
        (replace(PATH, inside=False), "lies outside what may be written"),
        (replace(PATH, inside=False, mode="read"), "lies outside what may be read"),
        (replace(PATH, protected=".git"), ".git is protected"),
        (replace(PATH, protected=".git", mode="read"), ""),
        (replace(PATH, hidden=".env", mode="read"), ".env is never read"),
        (replace(PATH, hidden=".env"), ".env is never read"),
        (replace(PATH, linked=True), "another name"),
    ],
)
def test_a_path_that_may_not_be_used_denies(path: CheckedPath, why: str) -> None:
    said = against(effect="write", paths=(path,))
    assert said.verdict == ("deny" if why else "allow")
    assert not why or (why in said.reasons[0] and said.rules == ("paths",))


def test_a_value_from_nowhere_is_denied_with_the_nearest_that_are_known() -> None:
    near = Grounding("--request-id", "r-1842", (), ("r-1841 from search-logs #7",))
    said = against(grounding=(Grounding("--env", "prod", ("user",)), near))
    assert said.code == "UNGROUNDED" and said.fix
    assert "--request-id r-1842" in said.reasons[0] and "r-1841 from search-logs #7" in said.reasons[0]


@pytest.mark.parametrize(("unattended", "verdict"), [("park", "ask"), ("deny", "deny")])
def test_what_becomes_of_a_question_that_nobody_hears(unattended: Any, verdict: str) -> None:
    policy = Policy(unattended=unattended)
    said = decide(send(attended=False), policy)
    assert (said.verdict, said.code) == (verdict, "DENIED" if verdict == "deny" else None)
    assert decide(send(), policy).verdict == "ask"


GRANT = Grant("g1", "send", "5f", {"to": ("eve@y.io",), "body": ("hi",)}, "/w", "landlock")


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [({}, "allow"), ({"tainted": True}, "allow"), ({"level": "full"}, "allow"), ({"level": "limits"}, "ask"),
     ({"digest": "60"}, "ask"), ({"digest": ""}, "ask"), ({"cwd": "/x"}, "ask"), ({"tool": "look"}, "ask"),
     ({"values": {"to": ("eve@y.io",)}}, "ask"), ({"effect": "money"}, "ask"), ({"effect_declared": False}, "ask"),
     ({"unconfined": True}, "ask")],
)  # fmt: skip
def test_a_remembered_yes_is_one_to_the_very_same_call(fields: dict[str, Any], verdict: str) -> None:
    request = send(**{"digest": "5f", "cwd": "/w", "level": "landlock", **fields})
    said = decide(request, Policy(), [GRANT])
    assert said.verdict == verdict
    assert verdict == "ask" or said.rules == ("grant g1",)
    assert decide(request, Policy(rules=(Rule("deny", place="u:1"),)), [GRANT]).verdict == "deny"


GRANTS = st.lists(
    st.builds(
        Grant, st.sampled_from(["g-1", "#2"]), TOOLS, st.just("5f"),
        st.dictionaries(st.sampled_from(["to", "n", "path"]), st.tuples(WORDS), max_size=2), st.just("/w"),
        st.sampled_from(["full", "none"]), hosts=st.sampled_from([(), (), ("x.io:443",)]),
        since=st.integers(0, 9).map(float), until=st.integers(0, 9).map(float),
    ),
    max_size=4,
).map(tuple)  # fmt: skip
AT_HOSTS = st.builds(
    replace, REQUESTS, reads=st.booleans(), hosts=st.sampled_from([("x.io:443",), ("x.io:443", "y.io:443"), ()]),
    dests=st.lists(st.builds(Destination, st.just("--url"), st.sampled_from(["https://x.io/a", "y.io", "a@x.io"]),
                             st.booleans()), max_size=2).map(tuple),
)  # fmt: skip


@given(st.one_of(REQUESTS, HARMLESS, AT_HOSTS), POLICIES, GRANTS, SPENT)
def test_a_grant_never_lifts_a_denial_nor_a_rule_that_asks(
    request: Request, policy: Policy, held: tuple[Grant, ...], spent: Spent
) -> None:
    without, with_them = decide(request, policy, (), spent), decide(request, policy, held, spent)
    if without.verdict != "ask":
        assert with_them == without
    if with_them != without:
        assert with_them.verdict == "allow" and all(rule.startswith("grant ") for rule in with_them.rules)
        assert request.effect in RELAXABLE and request.effect_declared and not request.unconfined
        asking = [rule for rule in policy.rules if rule.verdict == "ask" and matches(rule, request)]
        assert not asking and all(dest.value.isascii() for dest in request.dests)


@given(st.one_of(REQUESTS, AT_HOSTS), st.one_of(REQUESTS, AT_HOSTS), POLICIES, st.sampled_from(WORDS_KEPT))
def test_a_grant_is_no_wider_than_the_call_it_was_given_for(
    asked: Request, other: Request, policy: Policy, word: Any
) -> None:
    grant = grant_of(asked, word, 0.0, 30)
    if grant is None or not grants(grant, other):
        return
    assert (other.tool, other.path, other.digest, other.cwd) == (asked.tool, asked.path, asked.digest, asked.cwd)
    assert LEVELS.index(other.level) >= LEVELS.index(asked.level)  # type: ignore[arg-type]
    if word == "host":
        assert other.reads and other.hosts and set(other.hosts) <= set(asked.hosts)
        assert all(connected(dest.value) in (("x.io", 443), ("y.io", 443)) for dest in other.dests)
    else:
        assert dict(other.values) == dict(asked.values)


@given(st.one_of(REQUESTS, AT_HOSTS), POLICIES, GRANTS, st.integers(0, 12), st.integers(0, 3))
def test_an_expired_grant_is_as_good_as_none(
    request: Request, policy: Policy, held: tuple[Grant, ...], now: int, days: int
) -> None:
    stand = standing(held, float(now), days)
    assert all(one.since <= now < one.until and days for one in stand)
    old = tuple(one for one in held if not one.since <= now < one.until)
    assert decide(request, policy, standing(old, float(now), days)) == decide(request, policy)


@given(st.one_of(REQUESTS, HARMLESS, AT_HOSTS), POLICIES, SPENT, st.integers(0, 2))
def test_only_words_that_would_count_are_offered(request: Request, policy: Policy, spent: Spent, days: int) -> None:
    words = offered(request, policy, spent, days)
    assert not words or request.effect in RELAXABLE
    assert days or set(words) <= {"run"}
    for word in words:
        grant = grant_of(request, word, 5.0, 1)
        assert grant is not None and decide(request, policy, standing([grant], 6.0, 1), spent).verdict == "allow"


def test_a_policy_that_remembers_for_less_long_cuts_what_was_said_before() -> None:
    grant = replace(GRANT, since=0.0, until=30 * DAY_S)
    assert standing([grant], 8 * DAY_S, 30) == (grant,)
    assert standing([grant], 8 * DAY_S, 7) == () and standing([grant], 1.0, 0) == ()
    assert standing([replace(grant, since=9.0)], 8.0, 30) == (), "a clock that was set back makes nothing last longer"


def test_the_same_yes_said_again_is_the_same_grant() -> None:
    first, again = (grant_of(send(digest="5f", cwd="/w"), "always", at, 30) for at in (0.0, 9.0))
    assert first is not None and again is not None and first.id == again.id and first.until < again.until
    assert grant_of(send(digest="60", cwd="/w"), "always", 0.0, 30).id != first.id  # type: ignore[union-attr]


def test_a_limit_is_named_with_what_is_spent_and_its_file() -> None:
    policy = Policy(budget={"external": 2}, places={"external": "~/.config/harness/policy.yaml:9"})
    said = decide(send(dests=(ANN,)), policy, (), Spent(calls=3, effects={"external": 2}))
    assert (said.code, said.rules) == ("OVER_BUDGET", ("budget external",))
    assert said.reasons == ("external: 2 of 2 used (~/.config/harness/policy.yaml:9)",)


@pytest.mark.parametrize(
    ("amounts", "money", "code"),
    [({"EUR": "20"}, {}, None), ({"EUR": "20.01"}, {}, "OVER_BUDGET"), ({"EUR": "5"}, {"EUR": 150_100}, "OVER_BUDGET"),
     ({"EUR": "5"}, {"EUR": 150_000}, None), ({"USD": "500"}, {}, None), ({"EUR": "0"}, {"EUR": 200_000}, None),
     ({"EUR": "1", "GBP": "4"}, {}, "OVER_BUDGET")],
)  # fmt: skip
def test_sums_are_kept_in_each_currency(amounts: dict[str, str], money: dict[str, int], code: str | None) -> None:
    policy = Policy(budget={"money": {"EUR": "20", "GBP": "3"}})
    request = Request("pay", effect="money", amounts={c: Decimal(a) for c, a in amounts.items()})
    said = decide(request, policy, (), Spent(money=money))
    assert (said.verdict, said.code) == ("deny" if code else "ask", code)
