"""When a failed request is sent again: never by a library, where nobody would see it, stop it or count its cost."""

from __future__ import annotations

from harness.events.attempts import pause_s
from harness.models import Failure, ModelRef

TRIES = 5
LONGEST_WAIT_S = 60.0
STANDS_IN_FOR = frozenset({"overloaded", "unavailable", "rate_limited"})
"""Reasons for which another model may take over: not those that another model would meet as well."""


def wait_s(found: Failure, key: str, tries: int, scheme: str) -> float | None:
    """Seconds before the next try after `tries` that failed; None when there is none. `key` spreads the waits.

    A script is asked again at once: its pauses are those it names.
    """
    if not found.retry or tries >= TRIES:
        return None
    plain = 0.0 if scheme == "scripted" else pause_s(key, tries)
    wait = max(plain, found.retry_after or 0.0)
    return wait if wait <= LONGEST_WAIT_S else None


def is_dearer(other: ModelRef, now: ModelRef) -> bool:
    """Whether a model costs more than the one it would stand in for, or may do so."""
    if other.price is None or now.price is None:
        return True
    return other.price.input > now.price.input or other.price.out > now.price.out
