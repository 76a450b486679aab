"""The loop: whatever the journal says, do the next thing, until the run ends or waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.events.state import Operation
from harness.loop import inbox, reading
from harness.loop.act import Crew
from harness.loop.batch import start_allowed
from harness.loop.below import errors_below
from harness.loop.drive import drive_by
from harness.loop.ending import end
from harness.loop.gate import judge, judge_read, over_budget
from harness.loop.people import ask_people, ask_question, park_for_approval, park_for_child
from harness.loop.request import ask_model, is_waiting
from harness.loop.run import Run, Stop
from harness.loop.scene import policy_of
from harness.loop.settle import pending
from harness.loop.verify import FORM, REJECTS, judge_answer, misfit
from harness.policy.budget import exhausted, limit, low_notes
from harness.tools.arguments import help_text, wants_help
from harness.tools.notation import MOST_STRIKES

MAX_FINISHES, MAX_REPLIES = 3, 2
"""How often an answer may be proposed; where a single reply is wanted there is one round to repair it."""


def drive(run: Run) -> Stop:
    """Go on with an open run until it stops. The same function begins, continues and resumes."""
    return drive_by(run, partial(_step, run))


def _step(run: Run, crew: Crew) -> Stop | None:
    """One thing: the first that is due."""
    state = run.state
    if state.verdict is not None and state.verdict.get("ok") and not state.open_ops:
        return _pass(run)
    if state.open_ops:
        return _act(run, crew)
    return None if is_waiting(crew) else _stuck(run) or ask_model(run)


def _act(run: Run, crew: Crew) -> Stop | None:
    """Judge what is undecided, ask who can be asked, run what is allowed, then judge a proposed answer."""
    _judge_all(run)
    ask_people(run)
    again = start_allowed(crew)
    while crew.busy:
        crew.next()
        again |= start_allowed(crew)  # there is room for one more, or a retry is due
        if inbox.take(run):
            return None
    return None if again or pending(crew) else _after_calls(run, crew)


def _judge_all(run: Run) -> None:
    """Decide on every call of the turn that has no verdict yet, in call order."""
    for n in run.state.turn_ops:
        op = run.state.open_ops.get(n)
        if op is None or op.verdict is not None:
            continue
        if op.verb == "run" and not _is_help(run, op):
            judge(run, op)
        elif op.verb == "read":
            judge_read(run, op, reading.request_of(run, op))


def _is_help(run: Run, op: Operation) -> bool:
    """`--help` is answered from the header, of a tool that still waits, too: no process, no receipt."""
    tool = run.toolset.tools.get(op.tool) or run.toolset.workers.get(op.tool)
    if tool is None or tool.broken or not wants_help(tool, run.args(op)):
        return False
    data = {"verdict": "allow", "argv": ["--help"], "rules": ["help"], "effect": "read", "repeat": "pure"}
    run.append("decide", data, op.n)
    end_data = {"outcome": "done", "exit": 0, "class": "OK", "ms": 0, "out": run.log.fit(help_text(tool)), "result": ""}
    run.append("tool.end", end_data, op.n)
    return True


def _after_calls(run: Run, crew: Crew) -> Stop | None:
    """All started calls have ended: park for people, stop for a budget, or judge the proposed answer."""
    state = run.state
    if inbox.take(run) or run.world.cancel.level:
        return None
    stop = park_for_child(crew) or _over_budget(run) or park_for_approval(run)
    if stop is not None:
        return stop
    if inbox.questions(run):
        return ask_question(run)
    left = [op for op in state.open_ops.values() if op.verb != "verify"]
    if [op.verb for op in left] != ["finish"]:
        return None
    judge_answer(run, crew, run.text(left[0].arguments.get("answer", "")))
    return None if run.world.cancel.level else _after_verdict(run)


def _over_budget(run: Run) -> Stop | None:
    """A call of this turn was refused for a limit, and the limit was not raised since."""
    for n in run.state.turn_ops:
        op = run.state.ops[n]
        over = over_budget(run, op) if op.code == "OVER_BUDGET" else None
        if over is not None:
            return end(run, "budget", limit=over.reasons[0].split(":")[0])
    return None


def _after_verdict(run: Run) -> Stop | None:
    """What a verdict on the answer leads to; None when the model hears what is missing."""
    verdict = run.state.verdict or {}
    if verdict.get("ok"):
        return _pass(run)
    if run.state.question is not None or (run.state.finishes < _tries(run) and not _denied(run, verdict)):
        return None
    if _denied(run, verdict):
        return end(run, "denied")
    return end(run, "declined" if verdict.get("missing") else "failed", error=_why_refused(run, verdict))


def _tries(run: Run) -> int:
    return MAX_FINISHES if run.toolset.form is None else MAX_REPLIES


def _pass(run: Run) -> Stop:
    """The answer was accepted; a script that still holds replies did not describe this run."""
    left_over = getattr(run.model, "left_over", None)
    left = left_over(errors_below(run)) if left_over is not None else None
    if left:
        return end(run, "failed", error=left)
    form = run.toolset.form
    return end(run, "passed", answer=form.normal(run.text(run.state.proposal)) if form is not None else None)


def _why_refused(run: Run, verdict: dict[str, Any]) -> str:
    absent = [f"{m['name']}: {m['why']}" for m in verdict.get("missing") or ()]
    failed = [_how_failed(run, check) for check in verdict.get("checks") or () if check["exit"] != 0]
    return "; ".join(absent + failed)


def _how_failed(run: Run, check: dict[str, Any]) -> str:
    if check["exit"] == REJECTS:
        return f"{check['name']} rejects the answer" if check["name"] != FORM else misfit(run, _proposed(run))
    op = run.state.ops[check["op"]]
    why = (op.result or {}).get("why") or "; ".join(op.reasons) or f"exit {check['exit']}"
    return f"the verifier {check['name']} is broken: {why}"


def _proposed(run: Run) -> str:
    return run.text(run.state.proposal)


def _denied(run: Run, verdict: dict[str, Any]) -> bool:
    """Whether a required tool that is missing was refused by a person, in a pipeline, or all calls of it by a rule."""
    absent = {m["name"] for m in verdict.get("missing") or ()}
    refused = _barred_by_rules(run) | {slot[0] for slot in run.state.denied}
    return bool(absent & refused) or any(absent & _refused_in(run, op) for op in run.state.ops.values())


def _barred_by_rules(run: Run) -> set[str]:
    """The tools that a rule denies whatever the call."""
    skill = run.state.start.get("skill", "")
    barring = [
        rule for rule in policy_of(run).rules
        if rule.verdict == "deny" and not rule.where and not rule.effects and (not rule.skills or skill in rule.skills)
    ]  # fmt: skip
    return {name for rule in barring for name in rule.tools}


def _refused_in(run: Run, op: Operation) -> set[str]:
    """The tools that a person refused to the stages of a pipeline."""
    if op.child is None or (op.result or {}).get("stop") != "denied":
        return set()
    child = run.world.child_receipts(run.folder.parent / op.child)
    return {stage.tool for stage in child.ops.values() if stage.code == "DENIED"} if child is not None else set()


def _stuck(run: Run) -> Stop | None:
    """Too many turns without anything new: say so, then stop."""
    state = run.state
    most = int(limit(state.budget, "strikes") or MOST_STRIKES)
    if state.strikes >= most:
        return end(run, "no-progress")
    if state.strikes >= max(1, most // 2):
        run.note("strikes", _strategy(run))
    key = exhausted(state.budget, state.spent, run.active_s(), ("turns", "tokens", "usd"))
    if key is not None:
        return end(run, "budget", limit=key)
    for text in low_notes(state.budget, state.spent, run.active_s()):
        run.note("budget", text)
    return None


def _strategy(run: Run) -> str:
    """What was repeated, what was never tried, what is still required."""
    state = run.state
    tried = {receipt.tool for receipt in state.receipts.values()}
    repeated = sorted({state.ops[n].tool for n in state.turn_ops if state.ops[n].tool})
    untried = [name for name in run.toolset.available if name not in tried and name not in repeated]
    required = [name for name in run.toolset.requires if name not in state.succeeded]
    lines = ["Nothing new came of the last turns. Change your strategy."]
    for label, names in (("repeated", repeated), ("never tried", untried), ("still required", required)):
        if names:
            lines.append(f"{label}: {' '.join(names)}")
    return "\n".join(lines)
