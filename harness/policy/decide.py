"""The verdict on one call: allow, ask or deny, with its reason. One pure, total function; deny > ask > allow.

It sees a request that was built from the tool's header and the run's state, never the model's opinion of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal

from harness.events.state import Spent
from harness.policy import EFFECTS, RELAXABLE, SETTINGS, Grant, Policy, Rule, Setting
from harness.policy.budget import EFFECT_KEYS, limit, money_limits, money_spent, used
from harness.policy.destinations import code_points
from harness.policy.request import CheckedPath, Decision, Destination, Grounding, Request
from harness.policy.rules import binds_all, grants, matches, ties

MOST_SHOWN = 200
"""Characters of a value that a reason repeats."""


def decide(request: Request, policy: Policy, given: Sequence[Grant] = (), spent: Spent | None = None) -> Decision:
    """Judge a call: form and hard denials, the effect, rules and grants, then grounding and what is affordable.

    `given` are remembered approvals. Pure, total and deterministic; never weaker for one more rule or limit.
    """
    denied = hard_denial(request)
    if denied is not None:
        return denied
    matching = [rule for rule in policy.rules if matches(rule, request)]
    denied = _refused(request, policy, matching) or _ungrounded(request)
    denied = denied or over_budget(request.effect, request.amounts, policy, spent or Spent())
    if denied is not None:
        return denied
    decision = _judged(request, policy, matching, given)
    if decision.verdict == "ask" and not request.attended and policy.unattended == "deny":
        return _deny("DENIED", "unattended", "nobody can be asked", *decision.reasons)
    return decision


def _deny(code: str, rule: str, *reasons: str, fix: str = "") -> Decision:
    return Decision("deny", code, (rule,), reasons, fix)


def hard_denial(request: Request) -> Decision | None:
    """What no file, grant, approval or answer lifts."""
    if request.large:
        return _deny("DENIED", "form", request.large)
    if request.empty_list:
        return _deny("NOT_RELEASED", "allowed-tools", "none of this skill's tools is available here")
    if not request.known:
        return _deny("DENIED", "allowed-tools", f"no tool of this skill is called {request.tool!r}{request.near}")
    if not request.listed:
        return _deny("DENIED", "allowed-tools", f"{request.tool} is not in the skill's allowed-tools{request.near}")
    if request.trust == "untrusted":
        return _deny("DENIED", "trust", f"{request.tool} is not trusted here; a person can look at it: harness trust")
    if request.effect not in EFFECTS:
        return _deny("DENIED", "effect", f"{request.tool} declares the unknown effect {request.effect!r}")
    if request.broken:
        return _deny("MISCONFIGURED", "header", request.broken)
    if request.problems:
        return _deny("INVALID_INPUT", "arguments", *request.problems)
    if request.outside:
        return _deny("DENIED", "paths", request.outside)
    if request.needs:
        return _deny("NOT_RELEASED", "graph", *request.needs)
    if wrong := [why for path in request.paths if (why := against(path))]:
        return _deny("DENIED", "paths", *wrong)
    if request.halted:
        return _deny(*request.halted)
    if request.caged:
        return _deny("DENIED", "sandbox.require", request.caged)
    return _deny("NEEDS_AUTH", "secrets", *request.auth) if request.auth else None


def against(path: CheckedPath) -> str:
    """Why a call may not use a path, or an empty text."""
    label = f"{path.option} {_shown(path.given)}".strip()
    if path.hidden:
        return f"{label}: {path.hidden} is never read"
    if not path.inside:
        where = "may be written" if path.mode == "write" else "may be read"
        return f"{label}: {_shown(path.real)} lies outside what {where}"
    if path.mode == "write" and path.protected:
        return f"{label}: {path.protected} is protected and never written"
    return f"{label}: a file with another name elsewhere is not written" if path.linked else ""


def _shown(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _refused(request: Request, policy: Policy, matching: Iterable[Rule]) -> Decision | None:
    """The word of a person against the call: a rule, an effect that is denied, an earlier no."""
    against_it = [rule for rule in matching if rule.verdict == "deny"]
    if against_it:
        return Decision("deny", "DENIED", _places(against_it), _whys(against_it))
    if _setting(request, policy) == "deny":
        return _deny("DENIED", f"effects.{request.effect}", f"effect {request.effect} is denied")
    if request.refused_before is not None:
        return _deny("DENIED", "person", f"a person refused this call: {request.refused_before}")
    return None


def _places(rules: Collection[Rule]) -> tuple[str, ...]:
    """The order of rules says nothing, so none is kept."""
    return tuple(sorted({rule.place for rule in rules}))


def _whys(rules: Collection[Rule]) -> tuple[str, ...]:
    return tuple(sorted({f"{rule.why} ({rule.place})" if rule.why else rule.place for rule in rules}))


def _setting(request: Request, policy: Policy) -> Setting:
    """What the policy says of the effect; for money and destruction at least a question, whatever it says."""
    setting = policy.effects.get(request.effect, "deny")
    if request.effect not in RELAXABLE or not request.effect_declared:
        return max(setting, "ask", key=SETTINGS.index)
    return setting


def _ungrounded(request: Request) -> Decision | None:
    unknown = [one for one in request.grounding if not one.sources]
    if not unknown:
        return None
    reasons = [
        f"{one.option} {_shown(one.value)} {one.echo or 'is in nothing that the user or a result said'}"
        + (f"; nearest: {', '.join(one.nearest)}" if one.nearest else "")
        for one in unknown
    ]
    return _deny("UNGROUNDED", "known", *reasons, fix=_way_out(request, unknown))


def _way_out(request: Request, unknown: Collection[Grounding]) -> str:
    """What makes such a value known: one that is, a look that is still to come, or a person."""
    ways = ["use one of these"] if any(one.nearest for one in unknown) else []
    if not all(one.written for one in unknown):
        ways += [f"find it with {', '.join(request.finders)}"] if request.finders else []
        ways += ["read a file that holds it"]
    return f"{', or '.join([*ways, 'ask the user to name it'])}; saying it in a call makes nothing known"


def over_budget(effect: str, amounts: Mapping[str, Decimal], policy: Policy, spent: Spent) -> Decision | None:
    """The denial of one more call of this effect and these amounts, or None. No approval lifts it."""
    for key in ("calls", EFFECT_KEYS.get(effect, effect)):
        bound = limit(policy.budget, key)
        if bound is not None and used(spent, key, 0.0) + 1 > bound:
            return _over(key, f"{key}: {used(spent, key, 0.0)} of {bound} used", policy)
    bounds = money_limits(policy.budget)
    for currency, amount in sorted(amounts.items()):
        before = money_spent(spent, currency)
        if currency in bounds and before + amount > bounds[currency]:
            said = f"money: {amount:f} {currency} more than the {before:f} of {bounds[currency]:f} {currency} spent"
            return _over(f"money {currency}", said, policy)
    return None


def _over(key: str, said: str, policy: Policy) -> Decision:
    place = policy.places.get(key, "")
    fix = f"raise it in {place}" if place else f"go on with more: harness resume RUN -b {key.split()[0]}=…"
    return _deny("OVER_BUDGET", f"budget {key}", f"{said} ({place})" if place else said, fix=fix)


def _judged(request: Request, policy: Policy, matching: Collection[Rule], given: Sequence[Grant]) -> Decision:
    """What is left is allowed or asked: the effect's own word, relaxed by a person's, tightened by another."""
    doubts = _doubts(request, policy)
    relaxed = _relaxed(request, matching, given) if doubts else ()
    asking = [rule for rule in matching if rule.verdict == "ask"]
    odd = [dest for dest in request.dests if not dest.value.isascii()]
    if asking:
        return Decision("ask", None, _places(asking), _whys(asking))
    if odd and request.effect == "external":
        return Decision("ask", None, ("destinations",), tuple(_odd_text(dest) for dest in odd))
    if doubts and not relaxed:
        return Decision("ask", None, (_doubtful(request),), doubts)
    return Decision("allow", None, relaxed or ("default",))


def _doubtful(request: Request) -> str:
    """What of the policy the question comes from."""
    if request.unconfined:
        return "sandbox.unconfined"
    return "secrets" if request.ungranted else "default"


def _odd_text(dest: Destination) -> str:
    return f"{dest.option} is not plain ASCII: {_shown(code_points(dest.value))}"


def _doubts(request: Request, policy: Policy) -> tuple[str, ...]:
    """Why the effect alone makes the call ask; empty where it does not."""
    if request.unconfined:
        return ("the tool runs without confinement",)
    if request.ungranted:
        return (f"it would get {' '.join(request.ungranted)}, which your policy does not give to {request.tool}",)
    if not request.effect_declared:
        return ("no effect declared",)
    setting = _setting(request, policy)
    if setting == "allow" and request.effect == "external" and request.tainted:
        setting = "named"
    if setting == "named":
        return _unnamed(request)
    return (f"effect {request.effect}",) if setting == "ask" else ()


def _unnamed(request: Request) -> tuple[str, ...]:
    """The destinations that the user did not name; an external call without any has none that could be named."""
    if not request.dests:
        return (f"effect {request.effect}",)
    return tuple(
        f"effect {request.effect}: {dest.option} {_shown(dest.value)} is not in your words"
        for dest in request.dests if not dest.named
    )  # fmt: skip


def _relaxed(request: Request, matching: Iterable[Rule], given: Sequence[Grant]) -> tuple[str, ...]:
    """The rules and grants that turn the question into a yes, as a person is shown them."""
    if request.effect not in RELAXABLE or request.unconfined or request.ungranted:
        return ()
    rules = [
        rule for rule in matching
        if rule.verdict == "allow" and (not request.tainted or ties(rule, request))
        and (request.effect_declared or binds_all(rule, request))
    ]  # fmt: skip
    if rules:
        return _places(rules)
    if not request.effect_declared:
        return ()
    return tuple(sorted(f"grant {grant.id}" for grant in given if grants(grant, request)))
