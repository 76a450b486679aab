"""When a model's history begins anew: it grew too long, another model or driver speaks, or a request was refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from harness.events.line import to_json
from harness.events.log import INLINE_LARGE
from harness.loop.ending import end
from harness.loop.run import Run, Stop
from harness.models import Prompt
from harness.prompt.transcript import FIRST_RATE

WHY = {"overflow": "overflow", "bad_request": "refused"}
"""Failures that a shorter history may mend, and how the event calls them."""


def compose(run: Run) -> Prompt | Stop:
    """The next request, in a new context where one is due. A Stop where what must be in it does not fit."""
    assert run.transcript is not None
    prompt = run.transcript.prompt(run.state)
    why = _due(run, prompt)
    if why is None:
        return prompt
    if not renew(run, why, limit_of(run)):
        return end(run, "budget", limit="context", error=f"what must be told does not fit into {limit_of(run)} tokens")
    return run.transcript.prompt(run.state)


def _due(run: Run, prompt: Prompt) -> str | None:
    """Why the next request begins a context; None when it does not."""
    assert run.transcript is not None and run.model is not None
    if run.anew or run.state.model not in ("", run.model.ref.text):
        return "model"
    if run.transcript.is_paused:  # the reply is sent back as it is, and goes on
        return None
    return "long" if tokens(prompt) > run.world.context else None


def tokens(prompt: Prompt) -> int:
    """What a request is estimated to hold."""
    return -(-prompt.bytes // FIRST_RATE)


def limit_of(run: Run) -> int:
    """Tokens of a context's first request: there shall be room for as much again."""
    return run.world.context // 2


def second_try(run: Run, reason: str, prompt: Prompt) -> bool:
    """Begin anew after a refused request, once: True where the next request differs from the refused one.

    A bad request counts only after a good one in the same context; else what was asked for is wrong itself.
    """
    assert run.transcript is not None
    why = WHY.get(reason)
    if why is None or run.state.renewed or (why == "refused" and not run.transcript.has_replies):
        return False
    limit = limit_of(run) if why == "refused" else min(limit_of(run), tokens(prompt) // 2)
    return renew(run, why, limit)


def renew(run: Run, why: str, limit: int) -> bool:
    """Append `context`. False, and nothing is written, where what must be in it is more than `limit` tokens."""
    assert run.transcript is not None and run.model is not None
    before, n = tokens(run.transcript.prompt(run.state)), run.state.context + 1
    first = run.transcript.compiled(run.state, limit, n)
    if not first.fits:
        return False
    dropped = [asdict(left) for left in first.dropped]
    kept_outside = len(to_json(dropped)) > INLINE_LARGE // 2
    data: dict[str, Any] = {"n": n, "why": why, **({"model": run.model.ref.text} if why == "model" else {})}
    data |= {"before": before, "after": -(-first.request // FIRST_RATE), "kept": list(first.kept)}
    data |= {"dropped": run.log.blob(to_json(dropped).encode()) if kept_outside else dropped}
    run.append("context", data | {"digest": first.digest[:12], "limit": limit})
    run.anew = False
    return True
