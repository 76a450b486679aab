"""The loop: whatever the journal says, do the next thing, until the run ends or waits."""

from __future__ import annotations

from typing import Any

from harness.events.state import Operation
from harness.executor import kill_tree
from harness.loop import inbox, reading
from harness.loop.act import Crew, is_child, is_harmless
from harness.loop.ending import end, park, unknown_hint
from harness.loop.gate import build_request, call_digest, judge, person_decides, record, shown
from harness.loop.request import ask_model
from harness.loop.run import Run, Stop
from harness.loop.verify import judge_answer
from harness.policy.budget import exhausted, low_notes
from harness.policy.decide import decide
from harness.tools.arguments import help_text, wants_help

NOTE_AT, STOP_AT = 3, 6
MAX_FINISHES = 3
LOOK = 0.5


def drive(run: Run) -> Stop:
    """Go on with an open run until it stops. The same function begins, continues and resumes."""
    crew = Crew(run)
    while True:
        stop = _step(run, crew)
        if stop is not None:
            return stop


def _step(run: Run, crew: Crew) -> Stop | None:
    """One thing: the first that is due."""
    state = run.state
    inbox.take(run)
    if state.status == "ended" and state.end is not None:
        return Stop(state.end["stop"], state.end["exit"])
    if run.world.cancel.level:
        return interrupt(run, crew)
    stop = out_of_time(run) or settle(run, crew)
    if stop is not None:
        return stop
    if state.verdict is not None and state.verdict.get("ok") and not state.open_ops:
        return _pass(run)
    if state.open_ops:
        return _act(run, crew)
    return _stuck(run) or ask_model(run)


def interrupt(run: Run, crew: Crew) -> Stop:
    """Start nothing more; let running attempts end (a second signal kills them), then stop."""
    while crew.busy:
        crew.next(LOOK)
    return end(run, "interrupted")


def out_of_time(run: Run) -> Stop | None:
    """The wall-clock budget: the next step is refused before it begins."""
    active = active_s(run)
    if exhausted(run.state.budget, run.state.spent, active, ("seconds",)):
        return end(run, "budget", limit="seconds")
    return None


def active_s(run: Run) -> float:
    """Active seconds up to now, waits for people left out."""
    return run.state.spent.active_ms / 1000 + max(0.0, run.log.now() - run.state.at)


def settle(run: Run, crew: Crew) -> Stop | None:
    """Attempts that an earlier process, a signal or a deadline cut short: never repeated blindly."""
    for op in list(run.state.open_ops.values()):
        if op.n in crew.busy or op.n in crew.parked:
            continue
        if op.attempt_open:
            if is_child(run, op):
                crew.go_on(op)
            else:
                _cut(run, op)
        elif op.verb == "verify" and op.verdict == "allow":
            _record_lost(run, op, "not-started")
        cut = not op.closed and op.result is not None and op.result["outcome"] in ("cut", "unknown")
        if cut and not is_harmless(op):
            return park(run, "unknown-outcome", [op.n], unknown_hint(run, op))
    return None


def _cut(run: Run, op: Operation) -> None:
    """Nothing of the old attempt may live on beside a new one; of one with an effect nothing is touched."""
    if is_harmless(op) or op.role == "verify":
        kill_tree(f"{run.name}/{op.n}")
    _record_lost(run, op, "cut")


def _record_lost(run: Run, op: Operation, outcome: str) -> None:
    data: dict[str, Any] = {"try": op.attempt} if op.attempt > 1 else {}
    why = "the harness ended before it did"
    data |= {"outcome": outcome, "exit": None, "ms": 0, "out": "", "result": "", "why": why}
    run.append("tool.end", data, op.n)


def _act(run: Run, crew: Crew) -> Stop | None:
    """Judge what is undecided, ask who can be asked, run what is allowed, then judge a proposed answer."""
    _judge_all(run)
    ask_people(run)
    start_allowed(run, crew)
    while crew.busy:
        crew.next(LOOK)
        if inbox.take(run):
            break
    if crew.busy:
        return None
    return _after_calls(run, crew)


def _judge_all(run: Run) -> None:
    """Decide on every call of the turn that has no verdict yet, in call order."""
    for n in run.state.turn_ops:
        op = run.state.open_ops.get(n)
        if op is None or op.verdict is not None:
            continue
        if op.verb == "run" and not _is_help(run, op):
            judge(run, op)
        elif op.verb == "read":
            _judge_read(run, op)


def _judge_read(run: Run, op: Operation) -> None:
    request = reading.request_of(run, op)
    record(run, op.n, request, decide(request, run.rules, run.state.budget, run.state.spent))


def _is_help(run: Run, op: Operation) -> bool:
    """`--help` is answered from the header, of a tool that still waits, too: no process, no receipt."""
    tool = run.toolset.tools.get(op.tool)
    if tool is None or tool.broken or not wants_help(tool, run.args(op)):
        return False
    data = {"verdict": "allow", "argv": ["--help"], "rules": ["help"], "effect": "read", "repeat": "pure"}
    run.append("decide", data, op.n)
    end_data = {"outcome": "done", "exit": 0, "class": "OK", "ms": 0, "out": run.log.fit(help_text(tool)), "result": ""}
    run.append("tool.end", end_data, op.n)
    return True


def ask_people(run: Run) -> None:
    """At a terminal, ask for each waiting call in order; `quit` stops before any of them runs."""
    ask = run.world.ask
    waiting = inbox.approvals(run) if ask is not None else []
    for position, op in enumerate(waiting, 1):
        assert ask is not None
        said = ask.approve(shown(run, op, {"n": position, "of": len(waiting)}), lambda: inbox.has_word(run.folder))
        if said.verdict == "quit":
            run.world.cancel.level = max(1, run.world.cancel.level)
        if said.verdict not in ("allow", "deny"):
            return
        person_decides(run, op, said.verdict, "user", "prompt", said.why or "")


def start_allowed(run: Run, crew: Crew) -> None:
    """Start every allowed call that has no attempt under way, as one batch, up to what may run at once."""
    ready: dict[int, tuple[int, ...]] = {}
    for op in list(run.state.open_ops.values()):
        if op.verdict != "allow" or op.n in crew.busy or op.n in crew.parked or op.attempt_open or op.verb == "verify":
            continue
        if op.verb == "read":
            run.append("tool.end", reading.perform(run, op), op.n)
        elif len(crew.busy) + len(ready) < run.world.parallel and (needs := _checked(run, op)) is not None:
            ready[op.n] = needs
    if ready and not run.world.cancel.level:
        crew.start([run.state.ops[n] for n in ready], ready)


def _checked(run: Run, op: Operation) -> tuple[int, ...] | None:
    """Look once more, right before the start: what it consumes, or None where it may not start as it was decided.

    A person may have said yes days ago; what it waits for must hold now, and what runs must be what was approved.
    """
    request, needs = build_request(run, op)
    if op.digest and not call_digest(run, op.n, request).startswith(op.digest):
        run.note("changed", f"the approval of operation {op.n} is void: {op.tool} is not what it was.")
        judge(run, op)
        return None
    if request.needs or request.problems or request.broken or not request.known:
        judge(run, op)
        return None
    return needs


def _after_calls(run: Run, crew: Crew) -> Stop | None:
    """All started calls have ended: park for people, stop for a budget, or judge the proposed answer."""
    state = run.state
    if inbox.take(run):
        return None
    if crew.parked:
        return park_for_child(run, crew)
    if any(state.ops[n].code == "OVER_BUDGET" for n in state.turn_ops):
        over = next(state.ops[n] for n in state.turn_ops if state.ops[n].code == "OVER_BUDGET")
        return end(run, "budget", limit=over.reasons[0].split(":")[0])
    waiting = inbox.approvals(run)
    if waiting:
        hint = f"harness approve {run.name} {waiting[0].n}  or  harness deny {run.name} {waiting[0].n}"
        return park(run, "needs-approval", [op.n for op in waiting], hint)
    asking = inbox.questions(run)
    if asking:
        return _ask_question(run, asking)
    finish = next((op for op in state.open_ops.values() if op.verb == "finish"), None)
    if finish is None or len(state.open_ops) > 1:
        return None
    judge_answer(run, crew, run.text(finish.arguments.get("answer", "")))
    return _after_verdict(run)


def park_for_child(run: Run, crew: Crew) -> Stop:
    """A child run waits or was interrupted: its stop becomes this run's, unchanged."""
    n, child = next(iter(crew.parked.items()))
    if child.stop.name == "interrupted":
        return end(run, "interrupted")
    return park(run, child.stop.name, [n], child.hint, child.stop.code)


def _ask_question(run: Run, asking: list[int]) -> Stop | None:
    """Put the first open question to a person, or park until one answers."""
    n = asking[0]
    op = run.state.ops[n]
    text = run.text(run.state.question) if op.verb == "verify" else str(op.arguments.get("question", ""))
    options = [str(o) for o in op.arguments.get("options") or ()]
    if run.world.ask is not None:
        said = run.world.ask.question(text, options, lambda: inbox.has_word(run.folder))
        if said is not None:
            run.append("user.say", {"text": run.log.fit(said), "by": "user", "answers": n})
            run.log.sync()
            return None
        if inbox.has_word(run.folder):
            return None
    return park(run, "needs-answer", asking, f"harness answer {run.name} {n} TEXT")


def _after_verdict(run: Run) -> Stop | None:
    """What a verdict on the answer leads to; None when the model hears what is missing."""
    verdict = run.state.verdict or {}
    if verdict.get("ok"):
        return _pass(run)
    if run.state.question is not None or (run.state.finishes < MAX_FINISHES and not _denied(run, verdict)):
        return None
    if _denied(run, verdict):
        return end(run, "denied")
    return end(run, "declined" if verdict.get("missing") else "failed", error=_why_refused(run, verdict))


def _pass(run: Run) -> Stop:
    """The answer was accepted; a script that still holds replies did not describe this run."""
    left_over = getattr(run.model, "left_over", None)
    left = left_over() if left_over is not None else None
    return end(run, "failed", error=left) if left else end(run, "passed")


def _why_refused(run: Run, verdict: dict[str, Any]) -> str:
    absent = [f"{m['name']}: {m['why']}" for m in verdict.get("missing") or ()]
    failed = [f"{c['name']} exit {c['exit']}" for c in verdict.get("checks") or () if c["exit"]]
    return "; ".join(absent + failed)


def _denied(run: Run, verdict: dict[str, Any]) -> bool:
    """Whether a required tool that is missing was refused by a person or a flag."""
    absent = {m["name"] for m in verdict.get("missing") or ()}
    return bool(absent & (set(run.rules.deny) | {slot[0] for slot in run.state.denied}))


def _stuck(run: Run) -> Stop | None:
    """Too many turns without anything new: say so, then stop."""
    state = run.state
    if state.strikes >= STOP_AT:
        return end(run, "no-progress")
    if state.strikes >= NOTE_AT:
        run.note("strikes", _strategy(run))
    key = exhausted(state.budget, state.spent, active_s(run), ("turns", "tokens", "usd"))
    if key is not None:
        return end(run, "budget", limit=key)
    for text in low_notes(state.budget, state.spent, active_s(run)):
        run.note("budget", text)
    return None


def _strategy(run: Run) -> str:
    """What was repeated, what was never tried, what is still required."""
    state = run.state
    tried = {receipt.tool for receipt in state.receipts.values()}
    repeated = sorted({state.ops[n].tool for n in state.turn_ops if state.ops[n].tool})
    untried = [name for name in run.toolset.available if name not in tried]
    required = [name for name in run.toolset.requires if name not in state.succeeded]
    lines = ["Nothing new came of the last turns. Change your strategy."]
    for label, names in (("repeated", repeated), ("never tried", untried), ("still required", required)):
        if names:
            lines.append(f"{label}: {' '.join(names)}")
    return "\n".join(lines)
