"""When a model's history begins anew: it grew too long, another model or driver speaks, or a request was refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.events.line import to_json
from harness.events.log import INLINE_LARGE
from harness.loop.ending import end
from harness.loop.run import Run, Stop
from harness.models import Prompt
from harness.models.prices import estimate_tokens, prompt_tokens

WHY = {"overflow": "overflow", "bad_request": "refused"}
"""Failures that a shorter history may mend, and how the event calls them."""
SHORTER = "give less, or name a model with a larger window: -m MODEL --accept-changes"
RAISE = "give less, or raise models.context in your config.yaml"


def compose(run: Run) -> Prompt | Stop:
    """The next request, in a new context where one is due. A Stop where what must be in it does not fit."""
    assert run.transcript is not None
    prompt = run.transcript.prompt(run.state)
    why = _due(run, prompt)
    if why is None:
        return prompt
    if not renew(run, why, limit_of(run)):
        return end(run, "budget", limit="context", error=_too_long(run))
    return run.transcript.prompt(run.state)


def _too_long(run: Run) -> str:
    """By how much what is never dropped does not fit, and what could be done about it."""
    assert run.transcript is not None
    most = limit_of(run) if run.transcript.has_replies else run.world.context
    way = RAISE if room(run) == run.world.context or not run.transcript.has_replies else SHORTER
    return f"what must be told is about {_floor(run)} tokens, and {most} fit; {way}"


def _due(run: Run, prompt: Prompt) -> str | None:
    """Why the next request begins a context; None when it does not."""
    assert run.transcript is not None and run.model is not None
    if run.anew or run.state.model not in ("", run.model.ref.text):
        return "model"
    if run.transcript.is_paused:  # the reply is sent back as it is, and goes on
        return None
    most = room(run) if run.transcript.has_replies else run.world.context  # a beginning has nothing that could go
    return "long" if tokens(run, prompt) > most else None


def tokens(run: Run, prompt: Prompt) -> int:
    """What a request is estimated to hold."""
    return prompt_tokens(prompt, run.state.asking.measured)


def room(run: Run) -> int:
    """How many tokens a request may grow to: as is set, within the model's window, and below its dearer prices."""
    assert run.model is not None
    ref = run.model.ref
    over = ref.price.over if ref.price is not None else None
    return min(run.world.context, ref.facts.window * 6 // 10, *(() if over is None else (over,)))


def limit_of(run: Run) -> int:
    """Tokens of a context's first request: there shall be room for as much again."""
    return room(run) // 2


def second_try(run: Run, reason: str, prompt: Prompt) -> bool:
    """Begin anew after a refused request, once: True where the next request differs from the refused one.

    A bad request counts only after a good one in the same context; else what was asked for is wrong itself. A history
    that was too long is halved; where what is never dropped is more than that, it goes alone.
    """
    assert run.transcript is not None
    why = WHY.get(reason)
    if why is None or run.state.renewed or (why == "refused" and not run.transcript.has_replies):
        return False
    if why == "refused":
        return renew(run, why, limit_of(run))
    if renew(run, why, min(limit_of(run), tokens(run, prompt) // 2)):
        return True
    return run.transcript.has_replies and renew(run, why, min(limit_of(run), _floor(run)))


def _floor(run: Run) -> int:
    """Tokens of a context's first request that holds nothing but what is never dropped."""
    assert run.transcript is not None
    bare = run.transcript.compiled(run.state, 0, run.state.context + 1)
    return estimate_tokens(bare.request, 0, None)


def renew(run: Run, why: str, limit: int) -> bool:
    """Append `context`. False, and nothing is written, where what must be in it is more than `limit` tokens."""
    assert run.transcript is not None and run.model is not None
    before, n = tokens(run, run.transcript.prompt(run.state)), run.state.context + 1
    first = run.transcript.compiled(run.state, limit, n)
    if not first.fits:
        return False
    dropped = [asdict(left) for left in first.dropped]
    kept_outside = len(to_json(dropped)) > INLINE_LARGE // 2
    data: dict[str, Any] = {"n": n, "why": why, **({"model": run.model.ref.text} if why == "model" else {})}
    data |= {"before": before, "after": estimate_tokens(first.request, 0, None), "kept": list(first.kept)}
    data |= {"dropped": run.log.blob(to_json(dropped).encode()) if kept_outside else dropped}
    run.append("context", data | {"digest": run.transcript.digest_of(first)[:12], "limit": limit})
    run.anew, run.last_request = False, {}
    return True
