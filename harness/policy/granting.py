"""Remembered approvals as data: which may be offered for a call, what each would hold, and which still stand. Pure.

A grant never does more than turn the effect's own question into a yes: denials, rules that ask, limits and grounding
are judged beside it as ever, in `decide`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import cast

from harness.events.state import Spent
from harness.policy import WORDS, Grant, Level, Policy, Word
from harness.policy.decide import decide
from harness.policy.request import Request
from harness.policy.rules import grants

ANY_HOST = "any host"
DAY_S = 86_400.0


def offered(request: Request, policy: Policy, spent: Spent, days: int) -> tuple[Word, ...]:
    """The words of a person that would answer this call and the next one like it; none where they would be in vain.

    `days` is how long they would be remembered, 0 for not beyond the run.
    """
    words = [word for word in WORDS if word == "run" or days > 0]
    made = [(word, grant_of(request, word, 0.0, max(days, 1))) for word in words]
    return tuple(
        word for word, grant in made
        if grant is not None and decide(request, policy, (grant,), spent).verdict == "allow"
    )  # fmt: skip


def grant_of(request: Request, word: Word, now: float, days: int, by: str = "", pin: str = "") -> Grant | None:
    """The grant that a yes to this call stands for; None where there can be none of the kind."""
    hosts = request.hosts if word == "host" else ()
    if not request.digest or (word == "host" and (not request.reads or not hosts or ANY_HOST in hosts)):
        return None
    values = {} if word == "host" else dict(request.values)
    level = cast(Level, request.level or "none")
    until = inf if word == "run" else now + days * DAY_S
    made = Grant("", request.tool, request.digest, values, request.cwd, level, request.path, hosts, now, until, by, pin)
    return replace(made, id=f"#{request.op}" if word == "run" else f"g-{_sum(made)}")


def _sum(grant: Grant) -> str:
    """Eight hex digits of what it is for: the same yes said again takes the place of the earlier one."""
    what = [grant.tool, grant.path, grant.digest, grant.cwd, grant.level, dict(grant.values), grant.hosts]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:8]


def standing(given: Iterable[Grant], now: float, days: int) -> tuple[Grant, ...]:
    """Those that count now. `days` is how long today's policy remembers: less of it cuts what was said under more."""
    return tuple(one for one in given if one.since <= now < min(one.until, one.since + days * DAY_S))


def outdated(given: Iterable[Grant], request: Request) -> Grant | None:
    """A grant that would be one to this call, had the tool not changed since."""
    other = (one for one in given if one.tool == request.tool and one.digest != request.digest)
    return next((one for one in other if grants(replace(one, digest=request.digest), request)), None)
