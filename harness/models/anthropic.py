"""Models of Anthropic, over the Messages API. The SDK is imported at the first call, or ahead of it, in a thread.

It sends the request and gives the raw events of the stream; what they mean is read in `messages`. Its own retries are
off: nobody could see them, stop them or count what they cost.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from queue import Empty
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.models import Failure, Model, ModelRef, Opening, Prompt, Reply
from harness.models.endpoints import check_base
from harness.models.exchange import (
    BASE_URL,
    KEYS,
    PATIENCE,
    POLL_S,
    Exchange,
    Patience,
    client_of,
    credential,
    stored_key,
)
from harness.models.failures import failure
from harness.models.messages import Assembly, Malformed, parameters
from harness.models.prices import facts_of

if TYPE_CHECKING:
    from harness.executor import Cancel
    from harness.skills import Skill

NAMES = tuple(
    f"claude-{name}"
    for name in (
        "haiku-5-5", "sonnet-5-5", "opus-5-5", "fable-5-2", "fable-5-1", "fable-5", "mythos-5-2", "mythos-5-1",
        "mythos-5", "mythos-preview", "sonnet-5", "opus-5", "opus-4-8", "opus-4-7", "opus-4-6", "opus-4-5",
        "sonnet-4-6", "sonnet-4-5", "haiku-4-5",
    )
)  # fmt: skip
"""Those that the SDK names, newest first; any other may be named as well."""
OVERFLOWS_FROM = 0.9
"""Share of the window from which a refused request counts as too long."""


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The model of this name, whatever it is. Raises HarnessError for no name, and for an address that is none."""
    if not re.fullmatch(r"[\w.:-]+", name):
        raise HarnessError(f"anthropic: names no model: {name!r}", "write anthropic:claude-haiku-5-5", source)
    url = os.environ.get(BASE_URL) or None
    if url is not None:
        check_base(url, "write https://HOST or unset it", f"env {BASE_URL}")
    facts = facts_of(f"anthropic:{name}")
    return ModelRef("anthropic", name, source, base_url=url, facts=replace(facts, images=facts.images is not False))


def opened(ref: ModelRef, how: Opening) -> Model:
    """The model; whether there is a credential for it is seen at the first call, but what is kept must be one."""
    stored_key(os.environ)
    return Anthropic(ref, how.cache, effort=how.effort)


class Anthropic:
    """One model. `ttl` is how long its prefix is kept by the provider: 5m or 1h; `effort` as it takes it."""

    def __init__(
        self, ref: ModelRef, ttl: str = "5m", patience: Patience = PATIENCE, effort: str | None = None
    ) -> None:
        self.ref, self.ttl, self.patience, self.effort = ref, ttl, patience, effort

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        broken = _unusable_key(os.environ)
        if broken is not None:
            return broken
        exchange = Exchange(parameters(prompt, self.ref, self.ttl, self.effort), self.patience)
        threading.Thread(target=exchange.run, name="anthropic", daemon=True).start()
        found = _listen(exchange, prompt, on, cancel, self.patience)
        if isinstance(found, Reply):
            return found
        if found.status == 400 and prompt.estimate >= OVERFLOWS_FROM * self.ref.facts.window:
            plain = failure("overflow", found.message)
            found = replace(found, reason="overflow", error_class=plain.error_class, exit_code=plain.exit_code)
        if found.reason == "auth" and found.status is not None:
            found = replace(found, message=f"{found.message}; look at {credential(os.environ) or KEYS[0]}")
        code, request_id = found.code and _hidden(found.code), found.request_id and _hidden(found.request_id)
        return replace(found, message=_hidden(found.message), code=code, request_id=request_id)

    def warm(self) -> None:
        """Import the SDK in a thread: it takes a second or two."""
        threading.Thread(target=client_of, args=(self.patience,), name="warm", daemon=True).start()

    def close(self) -> None:
        """The client stays: other models of this process use it, too."""


def _listen(
    exchange: Exchange, prompt: Prompt, on: Callable[[str], None], cancel: Cancel | None, patience: Patience
) -> Reply | Failure:
    """Put the reply together from what arrives, until it is whole, it is dropped, or it takes too long."""
    started = time.monotonic()
    assembly, heard_at, first_ms = Assembly(on), started, None
    while not assembly.ended:
        try:
            item = exchange.heard.get(timeout=POLL_S)
            item = item if item is None else _overdue(prompt, cancel, heard_at, inf) or item  # it may never rest
        except Empty:
            item = _overdue(prompt, cancel, heard_at, patience.first if first_ms is None else patience.between)
            if item is None:
                continue
        began = exchange.request_id is not None or first_ms is not None
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, Failure):
            exchange.drop()
            return replace(item, began=item.began or began, request_id=item.request_id or exchange.request_id)
        if item is None:
            return replace(failure("cut", "the stream ended before the reply did"), began=True,
                           request_id=exchange.request_id)  # fmt: skip
        heard_at = time.monotonic()
        if item:
            first_ms = first_ms if first_ms is not None else round((heard_at - started) * 1000)
            told = _taken(assembly, item)
            if told is not None:
                exchange.drop()
                return replace(told, began=True, request_id=exchange.request_id)
    exchange.leave()
    return _whole(assembly, round((time.monotonic() - started) * 1000), first_ms, exchange)


def _taken(assembly: Assembly, item: str) -> Failure | None:
    try:
        return assembly.feed(item)
    except Malformed as error:
        return failure("protocol", f"an event that means nothing here: {error}")


def _whole(assembly: Assembly, ms: int, first_ms: int | None, exchange: Exchange) -> Reply | Failure:
    try:
        found = assembly.reply(ms, first_ms, exchange.request_id)
    except (Malformed, RecursionError) as error:
        found = failure("protocol", f"a reply that means nothing here: {error}")
    if isinstance(found, Failure):
        return replace(found, began=True, request_id=exchange.request_id)
    return found


def _overdue(prompt: Prompt, cancel: Cancel | None, heard_at: float, limit: float) -> Failure | None:
    now = time.monotonic()
    if (cancel is not None and cancel.level) or (prompt.deadline is not None and now >= prompt.deadline):
        return failure("cancelled", "the request was dropped")
    if now - heard_at >= limit:
        return failure("timeout", f"nothing came for {limit:g} s")
    return None


def _unusable_key(env: Mapping[str, str]) -> Failure | None:
    """A key that no header can carry would show itself in the error of whoever tries."""
    for name in KEYS:
        if env.get(name) and not re.fullmatch(r"[\x21-\x7e]+", env[name]):
            return failure("auth", f"{name} holds a blank, a line end or another letter that no key has: set it anew")
    return None


def _hidden(text: str) -> str:
    """The text without the keys, which a server may have repeated."""
    for name in KEYS:
        value = os.environ.get(name)
        if value and len(value) >= 8:
            text = text.replace(value, f"[{name}]")
    return text
