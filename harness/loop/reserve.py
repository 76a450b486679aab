"""What a request may cost before it is sent, and what it did cost: reserve, then less output, then refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from harness.events.spending import MONEY
from harness.loop.run import Run
from harness.models import ModelRef, Prompt, Usage
from harness.models.prices import affordable, cost_nanos, prompt_tokens, reserved_nanos
from harness.policy.budget import limit, used

MAX_TOKENS = {"strong": 16_000, "cheap": 4_000}
LEAST = 1_024
"""Tokens of output below which a request is not worth sending."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is not sent: the limit it would break, and why in words."""

    limit: str
    why: str


def reserve(run: Run, prompt: Prompt, ref: ModelRef) -> Prompt | Refused:
    """The prompt with its estimate and as much output as its limits leave it."""
    estimate = prompt_tokens(prompt, run.state.asking.measured)
    wanted = _wanted(run, prompt, ref)
    for key, room in (("usd", _bought(run, ref, estimate)), ("tokens", _counted(run, ref, estimate))):
        if room is not None and room < min(wanted, LEAST):
            return Refused(key, _why(run, ref, estimate, key))
        wanted = wanted if room is None else min(wanted, room)
    return replace(prompt, estimate=estimate, max_tokens=wanted)


def _wanted(run: Run, prompt: Prompt, ref: ModelRef) -> int:
    """Twice as much as the reply had that was cut off, else what a question asks for, or the role has."""
    if run.state.asking.cut:
        return min(2 * int(run.state.request["max_tokens"]), ref.facts.max_out)
    return min(prompt.max_tokens if run.toolset.form is not None else MAX_TOKENS[ref.role], ref.facts.max_out)


def _bought(run: Run, ref: ModelRef, estimate: int) -> int | None:
    """Tokens of output that what is left of the money buys; None where nothing limits it."""
    bound = limit(run.state.budget, "usd")
    if bound is None or ref.price is None or ref.price.is_free:
        return None
    return affordable(ref.price, estimate, bound * MONEY - run.state.spent.nanos)


def _counted(run: Run, ref: ModelRef, estimate: int) -> int | None:
    bound = limit(run.state.budget, "tokens")
    if bound is None or (ref.price is not None and ref.price.is_free):
        return None
    return int(bound - used(run.state.spent, "tokens", 0.0)) - estimate


def _why(run: Run, ref: ModelRef, estimate: int, key: str) -> str:
    if key == "tokens":
        return f"the next request is about {estimate} tokens and {LEAST} of output: more than is left of tokens"
    least = Decimal(reserved_nanos(ref.price, estimate, LEAST) or 0) / MONEY
    left = (limit(run.state.budget, "usd") or Decimal(0)) - Decimal(run.state.spent.nanos) / MONEY
    return f"the next request may cost {least.normalize():f} USD, and {max(left, Decimal(0)).normalize():f} are left"


def reserved_usd(ref: ModelRef, prompt: Prompt) -> float | int | None:
    """What is set aside for a request, in USD; None where nobody knows."""
    return dollars(reserved_nanos(ref.price, prompt.estimate, prompt.max_tokens))


def dollars(nanos: int | None) -> float | int | None:
    """Nano-dollars as an event holds them."""
    return nanos / MONEY if nanos else nanos


def charged(ref: ModelRef, prompt: Prompt, usage: Usage | None) -> dict[str, Any]:
    """`usage` and `cost` of an event: by what the provider counted, else as it was reserved for."""
    if usage is None and ref.price is not None and ref.price.is_free:
        return {"usage": None, "cost": 0}
    if usage is None or not usage.complete:
        counted = {"input": prompt.estimate, "out": prompt.max_tokens, "estimated": True}
        return {"usage": counted, "cost": reserved_usd(ref, prompt)}
    return {"usage": _figures(usage), "cost": dollars(cost_nanos(ref.price, usage))}


def _figures(usage: Usage) -> dict[str, Any]:
    """Tokens in and out, and what else is not as usual."""
    every = {name: getattr(usage, name) for name in usage.__slots__}
    return {name: n for name, n in every.items() if name in ("input", "out") or n != getattr(Usage(), name)}
