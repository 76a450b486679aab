"""`finish` is a proposal: required receipts must be fresh and every verifier accept, or the model hears why not."""

from __future__ import annotations

from typing import Any

from harness.events.state import LABEL, Operation, Receipt
from harness.graph.fresh import Ground, fresh_receipt, why_missing, why_stale
from harness.loop import cover
from harness.loop.act import Crew, Extra
from harness.loop.gate import judge
from harness.loop.result import ASKS
from harness.loop.run import Run

ACCEPTS, REJECTS = 0, 1
FORM = "format"
"""The check of an answer's form, which no process makes."""


def missing(run: Run) -> list[dict[str, str]]:
    """The required tools that hold no fresh receipt, and why: [{"name", "why"}]."""
    ground = run.ground()
    found = []
    for name in run.toolset.requires:
        if fresh_receipt(ground, name) is None and _in_pipelines(run, name) is None:
            found.append({"name": name, "why": why_missing(ground, name) or f"{name} has no result yet"})
    return found


def _in_pipelines(run: Run, name: str) -> Receipt | None:
    """A fresh receipt that a stage of a pipeline of this run holds: its call here must be fresh, too."""
    ground = run.ground()
    for op in run.state.ops.values():
        receipt = run.state.receipts.get(op.n)
        if op.child is None or receipt is None or why_stale(ground, receipt) is not None:
            continue
        inner = run.world.child_receipts(run.folder.parent / op.child)
        found = fresh_receipt(Ground(inner, ground.now, run.changed), name) if inner is not None else None
        if found is not None:
            return found
    return None


def judge_answer(run: Run, crew: Crew, answer: str) -> None:
    """Judge a proposed answer and append the `verify` event; the loop goes by what it says.

    Interrupted, nothing is appended: the answer is judged anew when the run goes on.
    """
    _write(run, answer)
    absent = missing(run)
    checks: list[dict[str, Any]] = []
    question: str | None = None
    for words in run.toolset.verify if not absent else ():
        op = _run_verifier(run, crew, words, answer)
        if run.world.cancel.level:
            return
        checks.append({"name": words[0], "op": op.n, "exit": _exit(op)})
        if _exit(op) == ASKS:
            question = run.text((op.result or {}).get("out", "")).strip() or f"{words[0]} needs an answer"
            break
    if (why := misfit(run, answer)) and not absent:
        checks.append({"name": FORM, "exit": REJECTS})
        run.note("format", f"your answer does not fit: {why}; {run.toolset.form.asked if run.toolset.form else ''}")
    ok = not absent and all(check["exit"] == ACCEPTS for check in checks)
    data: dict[str, Any] = {"answer": run.log.fit(answer), "ok": ok, "checks": checks, "missing": absent}
    if question is not None:
        data["question"] = run.log.fit(question)
    data["try"] = run.state.finishes + (0 if question is not None else 1)
    if run.state.demonstration:
        _write(run, f"{LABEL}\n\n{answer}")
    run.append("verify", data)


def _write(run: Run, answer: str) -> None:
    """Put the answer where people and verifiers find it: the latter without the label, which is no part of it."""
    with run.log.guarded("the answer cannot be written"):
        run.world.io.put(run.folder / "answer.md", answer.encode("utf-8", "replace"))


def misfit(run: Run, answer: str) -> str:
    """Why an answer has not the form that was asked for; empty where it has, or where none was."""
    return run.toolset.form.misfit(answer) if run.toolset.form is not None else ""


def _exit(op: Operation) -> int | None:
    """A verifier's exit; None when it was refused or could not be run to its end."""
    result = op.result or {}
    return result.get("exit") if result.get("outcome") in ("done", "failed") else None


def _run_verifier(run: Run, crew: Crew, words: tuple[str, ...], answer: str) -> Operation:
    op = _decided(run, words)
    if op.verdict != "allow":
        return op
    env = [("HARNESS_ANSWER", str(run.folder / "answer.md"))]
    if run.state.replies:
        env.append(("HARNESS_REPLY", run.text(run.state.replies[-1])))
    crew.start([op], {}, Extra(answer.encode("utf-8", "replace"), tuple(env)))
    crew.wait()
    return op


def _decided(run: Run, words: tuple[str, ...]) -> Operation:
    """The verifier's operation: one that a killed process decided on and did not start, or a new one."""
    arguments = {"tool": words[0], "args": cover.words(run, words[0], words[1:])}
    for op in run.state.open_ops.values():
        if op.verb == "verify" and op.arguments == arguments and not op.attempt:
            return op
    op = Operation(n=run.state.next_op, verb="verify", tool=words[0], arguments=arguments, role="verify")
    judge(run, op, call={"verifier": words[0], **arguments})
    return run.state.ops[op.n]
