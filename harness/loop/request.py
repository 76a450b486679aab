"""One request to the model, journaled on both sides. A failure is an event; its meaning for the run is said here."""

from __future__ import annotations

import queue
import time
from dataclasses import replace
from typing import Any

from harness.events.line import to_json
from harness.events.log import INLINE, INLINE_LARGE
from harness.loop import threads
from harness.loop.context import compose, second_try, tokens
from harness.loop.ending import end, park
from harness.loop.run import Run, Stop
from harness.models import Call, Failure, Prompt, Reply, Usage
from harness.models.failures import failure
from harness.policy.budget import limit
from harness.prompt import prefix_digest

POLL = 0.05
CALLERS = ("none", "agent")
"""Models that are the caller itself: no request goes out."""
NEXT_STEP = "the agent's next step"
CUT = {"refusal": ("DENIED", 1), "length": ("FAILED", 1), "overflow": ("OVER_BUDGET", 6)}
"""Replies that nothing may act on: (class, exit code)."""


def ask_model(run: Run) -> Stop | None:
    """Compose, ask, journal the reply. None when there are calls to act on, or an empty reply to answer."""
    assert run.model is not None
    composed = compose(run)
    if isinstance(composed, Stop):
        return composed
    prompt = replace(composed, deadline=_deadline(run))
    scheme = run.model.ref.scheme
    if scheme not in CALLERS:
        _journal_request(run, prompt)
    reply = _call(run, prompt)
    if isinstance(reply, Failure) and reply.reason == "turn":
        return park(run, "waiting", [], NEXT_STEP)
    if isinstance(reply, Failure):
        return _failed(run, reply, prompt)
    if reply.stop in CUT:
        message = reply.text or f"the reply stopped by {reply.stop}"
        return _failed(run, Failure(reply.stop, *CUT[reply.stop], message), prompt)
    run.append("model.reply", _reply_data(run, reply, prompt, scheme))
    return None


def _deadline(run: Run) -> float | None:
    """When the run's time is over, in seconds of the monotonic clock."""
    bound = limit(run.state.budget, "seconds")
    return None if bound is None else time.monotonic() + max(0.0, float(bound) - run.active_s())


def _journal_request(run: Run, prompt: Prompt) -> None:
    """`model.start`: what is sent, by digest; a field that equals the last request's is left out."""
    fields: dict[str, Any] = {
        "model": run.model.ref.text if run.model else "", "context": prompt.context,
        "parts": [[part.id, part.sha, part.bytes] for part in prompt.parts],
        "prefix": prefix_digest(prompt)[:12], "body": prompt.body[:12], "bytes": prompt.bytes,
        "estimate": tokens(prompt), "max_tokens": prompt.max_tokens, "usd": 0,
    }  # fmt: skip
    mode = getattr(run.model, "mode", None)
    if mode is not None:
        fields["mode"] = mode
    changed = {key: value for key, value in fields.items() if run.last_request.get(key, ...) != value}
    run.last_request = fields
    run.append("model.start", {"turn": prompt.turn, **changed})


def _call(run: Run, prompt: Prompt) -> Reply | Failure:
    """Call the model in a thread, so that an interruption, or the end of the run's time, drops the request at once."""
    model, done = run.model, queue.Queue[Reply | Failure | BaseException]()
    assert model is not None

    def work() -> None:
        try:
            done.put(model(prompt, on=run.world.delta, cancel=run.world.cancel))
        except BaseException as error:  # noqa: BLE001 - raised again in the loop's own thread
            done.put(error)

    threads.start(work)
    while True:
        try:
            found = done.get(timeout=POLL)
        except queue.Empty:
            if run.world.cancel.level or (prompt.deadline is not None and time.monotonic() >= prompt.deadline):
                return failure("cancelled", "the request was dropped")
            continue
        if isinstance(found, BaseException):
            raise found
        return found


def _reply_data(run: Run, reply: Reply, prompt: Prompt, scheme: str) -> dict[str, Any]:
    data: dict[str, Any] = {"turn": prompt.turn}
    if scheme in CALLERS:
        data["provider"] = scheme
    usage = reply.usage
    calls = [_call_data(run, call, run.state.next_op + i) for i, call in enumerate(reply.calls)]
    data |= {"content": _large(run, reply.content), "dialect": reply.dialect, "calls": calls, "stop": reply.stop}
    data["usage"] = None if usage is None else _figures(usage)
    data["cost"] = reply.cost_nanos / 1_000_000_000 if reply.cost_nanos else reply.cost_nanos
    data["ms"] = reply.ms
    if reply.calls_from:
        data["calls_from"] = reply.calls_from
    if reply.demonstration:
        data["demonstration"] = True
    return data


def _figures(usage: Usage) -> dict[str, Any]:
    """Tokens in and out, and what else is not as usual."""
    every = {name: getattr(usage, name) for name in usage.__slots__}
    return {name: n for name, n in every.items() if name in ("input", "out") or n != getattr(Usage(), name)}


def _call_data(run: Run, call: Call, n: int) -> dict[str, Any]:
    """One call; an argument too long for the line is kept outside it, so that the call itself can still be read."""
    arguments = {name: _long(run, value) for name, value in call.arguments.items()}
    data: dict[str, Any] = {"op": n, "id": call.id, "verb": call.verb, "arguments": arguments}
    if call.error or (run.toolset.form is not None and call.verb != "finish"):
        data["error"] = call.error or "no call is possible here: answer in words"
    if call.implicit:
        data["implicit"] = True
    return data


def _long(run: Run, value: Any) -> Any:
    if isinstance(value, str):
        return run.log.fit(value)
    raw = to_json(value).encode()
    return value if len(raw) <= INLINE else run.log.blob(raw)


def _large(run: Run, content: Any) -> Any:
    raw = to_json(content).encode()
    return content if len(raw) <= INLINE_LARGE else run.log.blob(raw)


def _failed(run: Run, failure: Failure, prompt: Prompt) -> Stop | None:
    """Journal a failed request; every class of it has its stop."""
    data: dict[str, Any] = {"turn": prompt.turn, "reason": failure.reason, "class": failure.error_class}
    run.append("model.fail", data | {"message": run.log.fit(failure.message)})
    if failure.reason == "cancelled":
        return None  # the loop sees the interruption, or the end of the time, itself
    if second_try(run, failure.reason, prompt):
        return None
    if failure.exit_code == 75:
        return park(run, "waiting", [], f"the model is not available; later: harness resume {run.name}")
    stop = {1: "failed", 6: "budget", 8: "no-progress"}.get(failure.exit_code, "error")
    return end(run, stop, failure.exit_code, limit="context" if stop == "budget" else None, error=_reason(failure))


def _reason(failure: Failure) -> str:
    """The first line: what follows it is for whoever reads the event."""
    return failure.message.split("\n", 1)[0]
