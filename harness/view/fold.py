"""The fold from events to rows. Draws nothing, has no clock.

A row is closed by the end of its own last attempt and by nothing else. What is still open when the run ends is
`stopped`, or `unknown` where an effect may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.events.words import AGENT
from harness.view import Event
from harness.view.rows import ASKS, Row, Run, Spent, Tree, account_of, failing, moment, run_on


def replay(events: Iterable[Event], run: str) -> Tree:
    """The tree of one log read from its file."""
    tree = Tree()
    for event in events:
        apply(tree, event, run, 0)
    return tree


def apply(tree: Tree, event: Event, run: str, depth: int) -> None:
    """Take one event in. Unknown kinds only move the clock."""
    state = tree.runs.get(run)
    if state is None:
        state = tree.runs[run] = Run(run, depth)
    if depth == 0:
        tree.top = run
    at = moment(event["at"])
    if event["epoch"] == state.epoch:
        state.spent.seconds += max(0.0, at - state.at)
    state.at, state.epoch, state.seq = at, event["epoch"], event["seq"]
    handler = _KINDS.get(event["kind"])
    if handler:
        handler(state, event, event["data"])
    if (state.start.get("fork") or {}).get("seq") == event["seq"]:
        _inherit(state)


def _start(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.start = data
    run.model = str((data.get("model") or {}).get("ref") or "")


def _inherit(run: Run) -> None:
    """What was used up to here is the source's; the fork counts from zero."""
    account = (run.end or {}).get("spent") or {}
    run.inherited = account_of(account) if account else run.spent
    run.spent, run.costs, run.seam = Spent(), {}, max(run.rows, default=0)
    if run.end is not None:
        run.end = {key: value for key, value in run.end.items() if key != "spent"}


def _amended(run: Run, event: Event, data: dict[str, Any]) -> None:
    """A result that a person supplied is a row of its own; other amendments show in what runs by them."""
    run.redacted = run.redacted or data.get("what") == "redact"
    value = data.get("value")
    if data.get("what") != "receipt" or not isinstance(value, dict) or "op" not in event:
        return
    verb = "stage" if value.get("stage") else "run"
    row = Row(event["op"], verb, str(value.get("stage") or value.get("tool")), _words(value.get("argv")), run.turn)
    row.epoch, row.state, row.end, row.end_seq = event["epoch"], "ok", {**value, "by": "person"}, event["seq"]
    if verb == "stage":
        _forget(run, row)
    run.rows[row.op] = row


def _leaked(run: Run, event: Event, data: dict[str, Any]) -> None:
    leak = {**{key: data.get(key) for key in ("name", "tool", "sink")}, "op": event.get("op")}
    if leak not in run.leaks:
        run.leaks.append(leak)


def _forget(run: Run, row: Row) -> None:
    """A stage is shown once, as it was decided on last."""
    for other in [old.op for old in run.rows.values() if old.name == row.name and old.op != row.op]:
        del run.rows[other]


def _resume(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.end = run.park = None
    for row in run.rows.values():
        if row.state == "stopped":
            row.state = "new"


def _asked(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.opened = run.at
    run.turn = max(run.turn, data.get("turn") or 0)
    run.model = data.get("model") or run.model


def _reply(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.opened = None
    run.turn, run.demonstration = data.get("turn") or run.turn, bool(data.get("demonstration"))
    run.spent.turns += 1
    _pay(run, data)
    calls = data.get("calls")
    for call in calls if isinstance(calls, list) else ():
        run.rows[call["op"]] = _called(run, event, call)


def _called(run: Run, event: Event, call: dict[str, Any]) -> Row:
    verb, given = call.get("verb") or "", call.get("arguments")
    arguments = given if isinstance(given, dict) else {}
    row = Row(call["op"], verb, verb, turn=run.turn, epoch=event["epoch"])
    if verb == "run":
        row.name, row.argv = str(arguments.get("tool") or "run"), _words(arguments.get("args"))
    elif verb == "read":
        row.argv = _words(arguments.get("path"))
    elif verb == "ask":
        row.question, row.state = arguments.get("question"), "waiting"
    if call.get("error"):
        row.state, row.code, row.reasons = "refused", "INVALID_INPUT", _told(str(call["error"]))
    return row


def _told(*reasons: str) -> tuple[str, ...]:
    """Reasons as a row tells them: their lines one after another."""
    return tuple(map(run_on, reasons))


def _words(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def _failed_reply(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.opened = None
    if "cost" in data:
        _pay(run, data)


def _pay(run: Run, data: dict[str, Any]) -> None:
    usage = data.get("usage") or {}
    turn = run.costs.setdefault(run.turn, Spent())
    for spent in (run.spent, turn):
        spent.tokens += sum(usage.get(key) or 0 for key in ("input", "out"))
        if data.get("provider") == AGENT:
            spent.unmetered += 1
        elif data.get("cost") is None:
            spent.unpriced += 1
        else:
            spent.nanos += round(float(data["cost"]) * 1e9)


def _decide(run: Run, event: Event, data: dict[str, Any]) -> None:
    row = run.rows.get(event["op"]) or _unasked(run, event, data)
    for name in ("code", "effect", "repeat", "digest", "level"):
        setattr(row, name, data.get(name) or "")
    row.reasons = _told(*_words(data.get("reasons")))
    row.asked = {key: data[key] for key in ("sources", "secrets", "via") if key in data}
    if isinstance(data.get("argv"), list) and not row.argv:
        row.argv = _words(data["argv"])
    if data["verdict"] == "deny":
        row.state = "skipped" if row.code == "SKIPPED" else "refused"
    else:
        row.state = "waiting" if data["verdict"] == "ask" else "new"
    if row.verb == "read" and row.state == "new":  # a read has no start of its own
        row.state, row.started = "running", run.at


def _unasked(run: Run, event: Event, data: dict[str, Any]) -> Row:
    """The row of an operation that no reply named: a stage or a verifier."""
    call = data.get("call") or {}
    verb = "stage" if "stage" in call else "verify" if "verifier" in call else "run"
    name = str(call.get("stage") or call.get("verifier") or call.get("tool") or verb)
    argv = _words(call.get("args")) if isinstance(call.get("args"), list) else ()
    row = run.rows[event["op"]] = Row(event["op"], verb, name, argv, run.turn, event["epoch"])
    if verb == "stage":
        _forget(run, row)
    return row


def _started(run: Run, event: Event, data: dict[str, Any]) -> None:
    row = run.rows.get(event["op"]) or run.rows.setdefault(event["op"], _stray(run, event, data))
    row.state, row.started, row.outcome = "running", run.at, ""
    row.attempt, row.epoch = data.get("try") or 1, event["epoch"]
    row.name = row.name if row.name != "run" else str(data.get("tool") or "run")
    row.child = data.get("child") or row.child


def _stray(run: Run, event: Event, data: dict[str, Any]) -> Row:
    return Row(event["op"], "run", str(data.get("tool") or "tool"), turn=run.turn, epoch=event["epoch"])


def _ended(run: Run, event: Event, data: dict[str, Any]) -> None:
    row = run.rows.get(event["op"]) or run.rows.setdefault(event["op"], _stray(run, event, data))
    ms = data.get("ms") or 0
    row.ms = ms if data.get("by") == "child" else row.ms + ms  # of a child run it is all of its time
    row.end, row.end_seq, row.outcome = data, event["seq"], data.get("outcome") or ""
    if data.get("retry") or row.outcome in ("cut", "not-started"):
        row.state = "new" if row.closed else row.state  # what was unknown has been settled
        return
    if row.outcome == "unknown":
        row.state = "unknown"
    elif row.verb == "verify" and data.get("exit") == ASKS:
        row.state = "waiting"
    else:
        row.state = "ok" if row.outcome == "done" and not data.get("exit") and _passed(data) else "failed"
    row.code = data.get("class") or ""


def _passed(data: dict[str, Any]) -> bool:
    return data.get("class") in (None, "", "OK") and data.get("stop") in (None, "passed")


def _said(run: Run, event: Event, data: dict[str, Any]) -> None:
    row = run.rows.get(data.get("answers") or 0)
    if row:
        row.state = "ok"


def _verified(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.verdict = data
    proposed = [row for row in run.rows.values() if row.verb == "finish" and not row.closed]
    for row in proposed[-1:]:
        row.state = "ok" if data.get("ok") else "waiting" if data.get("question") else "failed"
        row.reasons = tuple(f"{item.get('name')} {item.get('why')}" for item in data.get("missing") or ())
        row.reasons += tuple(f"{item.get('name')} exit {item.get('exit')}" for item in failing(data))


def _parked(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.park, run.opened = data, None
    _stop_clocks(run)
    for row in run.rows.values():
        if row.closed and row.state != "unknown":
            continue
        if row.op in (data.get("ops") or ()):
            row.state = "unknown" if data["stop"] == "unknown-outcome" else "waiting"
        elif row.state == "running":
            row.state = _left(row)


def _run_ended(run: Run, event: Event, data: dict[str, Any]) -> None:
    run.end, run.park, run.opened = data, None, None
    _stop_clocks(run)
    for row in run.rows.values():
        if not row.closed:
            row.state = "ok" if row.verb == "finish" and data["stop"] == "passed" else _left(row)
        elif data["stop"] == "passed" and row.state == "ok" and row.verb == "stage" and row.epoch < run.epoch:
            row.state = "fresh"


def _stop_clocks(run: Run) -> None:
    """An attempt that is open when the run stops has taken its time, too: a child run that was interrupted or waits."""
    for row in run.rows.values():
        if row.state == "running" and row.started is not None and not row.outcome:
            row.ms += round(1000 * max(0.0, run.at - row.started))


def abandon(run: Run) -> None:
    """The owner is gone without a word: what is open is shown as stopped, or unknown."""
    run.opened = None
    for row in run.rows.values():
        if row.state == "running":
            row.state = _left(row)


def _left(row: Row) -> str:
    begun = row.started is not None and row.outcome != "not-started" and row.verb != "read"
    harmless = row.effect == "read" and row.repeat in ("", "pure")
    return "unknown" if begun and not harmless else "stopped"


_KINDS: dict[str, Callable[[Run, Event, dict[str, Any]], None]] = {
    "run.start": _start, "resume": _resume, "model.start": _asked, "model.reply": _reply, "model.fail": _failed_reply,
    "decide": _decide, "tool.start": _started, "tool.end": _ended, "user.say": _said, "verify": _verified,
    "park": _parked, "run.end": _run_ended, "amend": _amended, "secret.leak": _leaked,
}  # fmt: skip
