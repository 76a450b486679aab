"""One request to the model, journaled on both sides. A failure is an event; its meaning for the run is said here."""

from __future__ import annotations

import math
import queue
import time
from dataclasses import replace
from typing import Any

from harness.errors import TOO_LARGE
from harness.events.fold import UNSETTLED
from harness.events.line import at_text, to_json, whole
from harness.events.log import INLINE, INLINE_LARGE
from harness.loop import cover, threads
from harness.loop.act import Crew
from harness.loop.context import SHORTER, compose, second_try
from harness.loop.ending import end, park
from harness.loop.reserve import Refused, charged, reserve, reserved_usd
from harness.loop.run import Run, Stop
from harness.loop.toolset import moment
from harness.models import LOCAL, Call, Failure, ModelRef, Prompt, Reply
from harness.models.failures import failure
from harness.models.retry import STANDS_IN_FOR, wait_s
from harness.models.verbs import depth_of
from harness.policy.budget import limit
from harness.prompt import prefix_digest
from harness.prompt.brief import Moment, with_brief
from harness.secrets.masker import Stream

POLL = 0.05
CALLERS = ("none", "agent")
"""Models that are the caller itself: no request goes out."""
NEXT_STEP = "the agent's next step"
MAX_PAUSES = 3
MOST_DEPTH = 128
"""How deep a reply may nest with all that a provider puts around its calls; a call itself may less."""
MOST_WORD = 500
"""Letters of a name, a code or a request's id that a provider gives."""
MOST_CALLS, SHORT = INLINE_LARGE * 3 // 4, 128
"""Bytes of all calls of a reply in its event, and of one argument where there are many calls."""
CUT = {"refusal": ("DENIED", 1), "length": ("FAILED", 1), "overflow": ("OVER_BUDGET", 6)}
"""Replies that nothing may act on: (class, exit code)."""


def is_waiting(crew: Crew) -> bool:
    """Whether a request that failed is due again only later; waits a little, so that a word or a signal is heard."""
    at, now = crew.run.state.asking.at, crew.run.log.now()
    if at is None or at <= now:
        return False
    crew.rested = True
    crew.run.world.clock.sleep(min(POLL, at - now))
    return True


def ask_model(run: Run) -> Stop | None:
    """Compose, reserve, ask, journal the reply. None when there is something to act on, or to ask again."""
    assert run.model is not None
    ref, asking = run.model.ref, run.state.asking
    composed = compose(run)
    if isinstance(composed, Stop):
        return composed
    if ref.scheme == LOCAL:
        composed = with_brief(composed, _moment(run, composed.turn))
    prompt = reserve(run, replace(composed, deadline=_deadline(run)), ref)
    if isinstance(prompt, Refused):
        return end(run, "budget", limit=prompt.limit, error=prompt.why)
    if asking.cut and prompt.max_tokens <= run.state.request["max_tokens"]:
        return _truncated(run)
    if ref.scheme not in CALLERS:
        _journal_request(run, prompt, ref)
    reply = _call(run, prompt)
    if isinstance(reply, Failure) and reply.reason == "turn":
        return park(run, "waiting", [], NEXT_STEP)
    if isinstance(reply, Reply):
        reply = _usable(run, reply)
    if isinstance(reply, Failure):
        return _failed(run, reply, prompt)
    run.append("model.reply", _reply_data(run, reply, prompt, ref))
    return None


def _moment(run: Run, turn: int) -> Moment:
    """What there is for a model that only chooses."""
    goal = run.text(run.state.start.get("goal") or "")
    return moment(run.toolset, run.ground(), goal, run.name, turn, run.text)


def _deadline(run: Run) -> float | None:
    """When the run's time is over, in seconds of the monotonic clock."""
    bound = limit(run.state.budget, "seconds")
    return None if bound is None else time.monotonic() + max(0.0, float(bound) - run.active_s())


def _journal_request(run: Run, prompt: Prompt, ref: ModelRef) -> None:
    """`model.start`: what is sent, by digest; a field that equals the last request's is left out."""
    fields: dict[str, Any] = {
        "model": ref.text, "context": prompt.context,
        "parts": [[part.id, part.sha, part.bytes] for part in prompt.parts],
        "prefix": prefix_digest(prompt)[:12], "body": prompt.body[:12], "bytes": prompt.bytes,
        "estimate": prompt.estimate, "max_tokens": prompt.max_tokens, "usd": reserved_usd(ref, prompt),
    }  # fmt: skip
    mode = getattr(run.model, "mode", None)
    if mode is not None:
        fields["mode"] = mode
    changed = {key: value for key, value in fields.items() if run.last_request.get(key, ...) != value}
    run.last_request = fields
    run.append("model.start", {**_counted(run, prompt), **changed})


def _counted(run: Run, prompt: Prompt) -> dict[str, Any]:
    """The turn of a request, and which try of it this is."""
    number = run.state.asking.tries + 1
    return {"turn": prompt.turn} | ({"try": number} if number > 1 else {})


def _call(run: Run, prompt: Prompt) -> Reply | Failure:
    """Call the model in a thread, so that an interruption, or the end of the run's time, drops the request at once."""
    model, done = run.model, queue.Queue[Reply | Failure | BaseException]()
    assert model is not None
    shown = Stream(run.masker, run.world.delta)

    def work() -> None:
        try:
            done.put(model(prompt, on=shown.feed, cancel=run.world.cancel))
            shown.flush()
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


def _usable(run: Run, reply: Reply) -> Reply | Failure:
    """The reply, or why nothing may act on it."""
    found: Failure | None = None
    if reply.stop in CUT:
        found = Failure(reply.stop, *CUT[reply.stop], _why_cut(reply))
    elif reply.stop == "pause" and run.state.asking.pauses >= MAX_PAUSES:
        found = Failure("protocol", "FAILED", 1, f"the model paused {MAX_PAUSES + 1} times in a row")
    elif depth_of(reply.content, MOST_DEPTH) > MOST_DEPTH:  # no journal takes it, and nobody means it
        found = failure("protocol", f"{TOO_LARGE}: the reply is JSON nested more than {MOST_DEPTH} deep")
    elif len(to_json(_calls(run, reply)).encode()) > MOST_CALLS:
        found = failure("protocol", f"{len(reply.calls)} calls in one reply are more than a turn takes")
    told: dict[str, Any] = {"began": True, "usage": reply.usage, "request_id": reply.request_id}
    told |= {"stop_raw": reply.stop_raw, "content": tuple(reply.content) if reply.stop in CUT else ()}
    return reply if found is None else replace(found, **told)


def _why_cut(reply: Reply) -> str:
    if reply.detail.get("message"):  # of a recorded reply, whose blocks are gone
        return str(reply.detail["message"])
    if reply.stop == "refusal":
        said = str(reply.detail.get("explanation") or reply.text or "no explanation")
        return f"the model refused ({reply.detail.get('category') or 'no category'}): {said}"
    return reply.text or f"the reply stopped by {reply.stop}"


def _reply_data(run: Run, reply: Reply, prompt: Prompt, ref: ModelRef) -> dict[str, Any]:
    data = _counted(run, prompt)
    if ref.scheme in CALLERS:
        data["provider"] = ref.scheme
    content, calls = _large(run, reply.content), _calls(run, reply)
    data |= {"content": content, "dialect": reply.dialect, "calls": calls, "stop": reply.stop}
    data |= _stop_raw(run, reply) | charged(ref, prompt, reply.usage) | {"ms": reply.ms}
    told = {"first_ms": reply.first_ms, "served": reply.served, "request_id": reply.request_id}
    known = (None, "", ref.text, ref.name, "none")
    data |= {name: _word(run, value) for name, value in told.items() if value not in known}
    if reply.calls_from:
        data["calls_from"] = reply.calls_from
    if reply.demonstration:
        data["demonstration"] = True
    return data


def _stop_raw(run: Run, found: Reply | Failure) -> dict[str, str]:
    return {"stop_raw": _word(run, found.stop_raw)} if found.stop_raw else {}


def _word(run: Run, said: Any) -> Any:
    """What a provider calls something, for an event: masked, since its `code` is no word of ours, and no longer."""
    return cover.text(run, said)[:MOST_WORD] if isinstance(said, str) else said


def _calls(run: Run, reply: Reply) -> list[dict[str, Any]]:
    """The calls for an event, with only short arguments in it where there are many."""
    for inline in (INLINE, SHORT):
        found = [_call_data(run, call, run.state.next_op + i, inline) for i, call in enumerate(reply.calls)]
        if len(to_json(found)) <= MOST_CALLS // 2:
            break
    return found


def _call_data(run: Run, call: Call, n: int, inline: int) -> dict[str, Any]:
    """One call; an argument too long for the line is kept outside it, so that the call itself can still be read."""
    given = cover.arguments(run, call.verb, call.arguments)
    arguments = {name: _long(run, value, inline) for name, value in given.items()}
    data: dict[str, Any] = {"op": n, "id": cover.text(run, call.id), "verb": cover.text(run, call.verb)}
    data["arguments"] = arguments
    if call.error or (run.toolset.form is not None and call.verb != "finish"):
        data["error"] = cover.text(run, call.error or "no call is possible here: answer in words")
    if call.implicit:
        data["implicit"] = True
    return data


def _long(run: Run, value: Any, inline: int) -> Any:
    if isinstance(value, str):
        return run.log.fit_masked(whole(value).encode(), inline)
    raw = to_json(value).encode()
    return value if len(raw) <= inline else run.log.keep(raw)


def _large(run: Run, content: Any) -> Any:
    content = cover.hide_all(run, content)
    raw = to_json(content).encode()
    return content if len(raw) <= INLINE_LARGE else run.log.keep(raw)


def _failed(run: Run, found: Failure, prompt: Prompt) -> Stop | None:
    """Journal a failed request. None where it is asked again, by this model or another; else the run's stop."""
    assert run.model is not None
    counted = _counted(run, prompt)
    tries, ref = counted.get("try", 1), run.model.ref
    wait = wait_s(found, f"{run.name}/{prompt.turn}", tries, ref.scheme)
    asked_for = found.retry_after if wait is None else wait
    data = counted | {"reason": found.reason, "class": found.error_class, "message": run.log.fit(found.message)}
    data |= ({"content": _large(run, list(found.content))} if found.content else {}) | _stop_raw(run, found)
    was_sent = found.began or found.reason in UNSETTLED
    if found.free:
        data |= {"usage": None, "cost": 0}
    elif found.usage is not None or (was_sent and not (ref.price and ref.price.is_free)):
        data |= charged(ref, prompt, found.usage)
    told = {"status": found.status, "code": found.code, "request_id": found.request_id, "retry_after": asked_for}
    run.append("model.fail", data | {name: _word(run, value) for name, value in told.items() if value is not None})
    if wait is not None or found.reason == "cancelled":
        return None  # of an interruption, or the end of the time, the loop itself knows more
    if found.reason == "length":
        return _truncated(run) if run.state.asking.cut > 1 else None
    if second_try(run, found.reason, prompt):
        return None
    return _given_up(run, found)


def _given_up(run: Run, found: Failure) -> Stop | None:
    """No further try: another model takes over where the person said so, else the run waits or ends."""
    if found.reason in STANDS_IN_FOR and run.stand_in():
        return None
    if found.exit_code == 75:
        return _wait_for(run, found)
    if found.reason == "pipeline":
        return _as_the_pipeline(run, found)
    stop = {1: "failed", 6: "budget", 8: "no-progress"}.get(found.exit_code, "error")
    code = 3 if found.exit_code == 2 and run.state.ops else found.exit_code
    error = f"{_reason(found)}; {SHORTER}" if stop == "budget" else _reason(found)
    return end(run, stop, code, limit="context" if stop == "budget" else None, error=error)


def _as_the_pipeline(run: Run, found: Failure) -> Stop:
    """What denied the pipeline that speaks in place of a model, or used up its budget, stops the run by that name."""
    call = max((op for op in run.state.ops.values() if op.tool == run.toolset.stand_in), key=lambda op: op.n)
    stop = (call.result or {}).get("stop")
    if stop == "denied" or call.code == "DENIED":
        return end(run, "denied", error=_reason(found))
    if stop == "budget":
        child = run.world.child_receipts(run.folder.parent / str(call.child))
        limit = (child.end or {}).get("limit") if child is not None else None
        return end(run, "budget", limit=limit, error=_reason(found))
    return end(run, "failed", error=_reason(found))


def _wait_for(run: Run, found: Failure) -> Stop:
    """Park until the time the other side named; else whoever looks next may try again."""
    now = run.log.now()
    until = float(math.floor(min(now, run.world.clock.wall())))
    if found.retry_after:
        until = float(math.ceil(now + found.retry_after))
    when = f" before {at_text(until)}" if until > now else ""
    hint = f"the model is not available{when} ({found.reason}); then: harness resume {run.name}"
    return park(run, "waiting", [], hint, until=until)


def _truncated(run: Run) -> Stop:
    most = run.state.request.get("max_tokens")
    return end(run, "failed", error=f"truncated: the reply does not fit into {most} tokens, nor into what it may have")


def _reason(found: Failure) -> str:
    """The first line, and the request's own name at the provider: what follows is for whoever reads the event."""
    name = f" (request {found.request_id})" if found.request_id else ""
    return found.message.split("\n", 1)[0] + name
