"""The verdict on one call: allow, ask or deny, with its reason. One pure, total function; deny > ask > allow.

It sees a request that was built from the tool's header and the run's state, never the model's opinion of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.events.state import Spent
from harness.policy.budget import EFFECT_KEYS, limit, used

Verdict = Literal["allow", "ask", "deny"]
EFFECTS = ("read", "write", "external", "money", "destructive")
MAX_ARGS, MAX_ARGV_BYTES = 256, 128 * 1024
DEFAULT_VERDICTS: Mapping[str, Verdict] = {
    "read": "allow", "write": "allow", "external": "ask", "money": "ask", "destructive": "ask",
}  # fmt: skip
RELAXABLE = ("read", "write", "external")
Values = Mapping[str, tuple[str, ...]]
"""Option name → its values as text, defaults filled in; `args` for a tool that declares no arguments."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call as it would be carried out.

    `known` is False for a name that is no tool of the skill, `listed` False for one outside its closed list (`near`
    holds close names). `broken` is the finding that keeps the tool from being offered; `problems` what is wrong with
    the arguments; `needs` why it is not released. `effect_declared` is False when the header names no effect;
    `refused_before` is a person's earlier no to the same call; `outside` why a path may not be read.
    `level` is the confinement it would get, `caged` why it gets too little; `unconfined` that the person's policy lets
    the tool run without any. `auth` says which of its secrets it lacks. `halted` is (class, rule, reason) when calls of
    the tool may not start now, whatever their arguments.
    """

    tool: str
    argv: tuple[str, ...] = ()
    effect: str = "external"
    effect_declared: bool = True
    known: bool = True
    listed: bool = True
    near: str = ""
    empty_list: bool = False
    broken: str | None = None
    problems: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    refused_before: str | None = None
    caged: str | None = None
    auth: tuple[str, ...] = ()
    unconfined: bool = False
    level: str = ""
    values: Values = field(default_factory=dict)
    outside: str | None = None
    halted: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What the person's flags say: calls that may run (tool, values that must be equal), tools that may not."""

    allow: tuple[tuple[str, Values], ...] = ()
    deny: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """`code` is the error class of a denial; `rules` what decided; `reasons` lines for the model and the person."""

    verdict: Verdict
    code: str | None = None
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = field(default=())


def decide(request: Request, rules: Rules, budget: Mapping[str, Any], spent: Spent) -> Decision:
    """Judge a call: hard denials first, then the effect's default, then the flags, then what is affordable."""
    denied = _hard(request) or _flagged(request, rules)
    if denied is not None:
        return denied
    over = over_budget(request.effect, budget, spent)
    if over is not None:
        return over
    return _base(request, rules)


def _deny(code: str, rule: str, *reasons: str) -> Decision:
    return Decision("deny", code, (rule,), reasons)


def _hard(request: Request) -> Decision | None:
    """What no flag, approval or answer lifts."""
    if len(request.argv) > MAX_ARGS or sum(len(a.encode("utf-8", "replace")) for a in request.argv) > MAX_ARGV_BYTES:
        return _deny("DENIED", "form", "too large")
    if request.empty_list:
        return _deny("NOT_RELEASED", "allowed-tools", "none of this skill's tools is available here")
    if not request.known:
        return _deny("DENIED", "allowed-tools", f"no tool of this skill is called {request.tool!r}{request.near}")
    if not request.listed:
        return _deny("DENIED", "allowed-tools", f"{request.tool} is not in the skill's allowed-tools{request.near}")
    if request.effect not in EFFECTS:
        return _deny("DENIED", "effect", f"{request.tool} declares the unknown effect {request.effect!r}")
    if request.broken:
        return _deny("MISCONFIGURED", "header", request.broken)
    if request.outside:
        return _deny("DENIED", "paths", request.outside)
    if request.needs:
        return _deny("NOT_RELEASED", "graph", *request.needs)
    if request.problems:
        return _deny("INVALID_INPUT", "arguments", *request.problems)
    if request.halted:
        return _deny(*request.halted)
    if request.caged:
        return _deny("DENIED", "sandbox.require", request.caged)
    return _deny("NEEDS_AUTH", "secrets", *request.auth) if request.auth else None


def _flagged(request: Request, rules: Rules) -> Decision | None:
    if request.tool in rules.deny:
        return _deny("DENIED", "flag --deny", f"--deny {request.tool}")
    if request.refused_before is not None:
        return _deny("DENIED", "person", f"a person refused this call: {request.refused_before}")
    return None


def over_budget(effect: str, budget: Mapping[str, Any], spent: Spent) -> Decision | None:
    """The denial of one more call of this effect, or None where it is affordable. No approval lifts it."""
    for key in ("calls", EFFECT_KEYS.get(effect, effect)):
        bound = limit(budget, key)
        if bound is not None and used(spent, key, 0.0) + 1 > bound:
            return _deny("OVER_BUDGET", f"budget {key}", f"{key}: {used(spent, key, 0.0)} of {bound} used")
    return None


def _base(request: Request, rules: Rules) -> Decision:
    if request.unconfined:
        return Decision("ask", None, ("sandbox.unconfined",), ("the tool runs without confinement",))
    base: Verdict = DEFAULT_VERDICTS[request.effect] if request.effect_declared else "ask"
    said = f"effect {request.effect}" if request.effect_declared else "no effect declared"
    if base == "ask" and request.effect in RELAXABLE and _allowed_by_flag(request, rules.allow):
        return Decision("allow", None, ("flag --allow",))
    return Decision(base, None, ("default",), (said,) if base == "ask" else ())


def _allowed_by_flag(request: Request, allow: Sequence[tuple[str, Values]]) -> bool:
    """A rule holds when each value it names is equal; without a declared effect it must name every argument."""
    return any(
        name == request.tool
        and all(request.values.get(option) == values for option, values in where.items())
        and (request.effect_declared or set(where) >= set(request.values))
        for name, where in allow
    )
