"""What an attempt that ended proves, as the data of its `tool.end`: class, output, digest, files. Starts nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.events.attempts import MAX_TRIES, may_retry, pause_s, tried
from harness.events.state import Operation
from harness.executor import Outcome
from harness.graph.fresh import Values
from harness.loop.clash import clash
from harness.loop.confine import Aftermath
from harness.loop.gate import repeat_of
from harness.loop.run import ChildEnd, Run
from harness.sandbox.protect import Change
from harness.tools import Tool
from harness.tools.notation import shown as quoted
from harness.tools.outcome import error_class, read_result

ASKS = 10
"""A verifier's exit that puts its output as a question to a person."""


def end_data(
    run: Run, op: Operation, outcome: Outcome, left: Aftermath | None = None, by: str = ""
) -> dict[str, Any]:
    """The `tool.end` of a process: its class, its output kept, and the digest that freshness compares.

    `by` says who tells, where this process did not see the end itself.
    """
    tool = begun(run, op)
    head = tried(op)
    name, word, why = classify(run, op, tool, outcome)
    artifacts, missing = _artifacts(run, op, tool, outcome) if name == "OK" else ([], "")
    if missing:
        name, word, why = "FAILED", "failed", missing
    elif both := clash(run, op, artifacts):
        name, word, why = "CONFLICT", "failed", both
    undone = [change for change in left.changes if change.what != "moved"] if left else []
    if undone:
        name, word, why = "DENIED", "failed", _undone_text(run, undone)
    shown = exit_of(outcome)
    data = {**head, "outcome": word, "exit": shown, **({"class": name} if name else {}), **({"by": by} if by else {})}
    data |= {"ms": outcome.ms, "out": run.log.fit(outcome.out)}
    if outcome.err:
        data["err"] = run.log.fit(outcome.err)
    if outcome.dropped:
        data["dropped"] = outcome.dropped
    data["result"] = result_digest(shown, outcome.out, artifacts)
    if artifacts:
        data["artifacts"] = artifacts
    if undone:
        data["undone"] = [_shown(run, change.path) for change in undone]
    if tool.ttl is not None:
        data["ttl"] = tool.ttl
    if left and left.refused and not why:
        why = "; ".join(left.refused)
    if may_retry(op, name, word):
        data["retry"] = {"after": pause_s(f"{run.name}/{op.n}", op.tries)}
    if why:
        data["why"] = why
    return data


def begun(run: Run, op: Operation) -> Tool:
    """The tool of an attempt, or where it is gone by now what is known of it: its failures say nothing then."""
    return run.toolset.tools.get(op.tool) or Tool(op.tool, Path(op.tool), repeat="opaque")


def _undone_text(run: Run, undone: Sequence[Change]) -> str:
    names = " ".join(_shown(run, change.path) for change in undone)
    kept = [change for change in undone if not change.restored]
    text = f"protected names changed while it ran and were put back: {names}"
    return text if not kept else f"{text}; not put back: {' '.join(_shown(run, change.path) for change in kept)}"


def _shown(run: Run, path: Path) -> str:
    return quoted(str(path.relative_to(run.project)) if path.is_relative_to(run.project) else str(path))


def exit_of(outcome: Outcome) -> int | None:
    return 128 + outcome.signal if outcome.signal else outcome.exit


def classify(run: Run, op: Operation, tool: Tool, outcome: Outcome) -> tuple[str, str, str]:
    """(class, outcome word, why). A tool without a header is believed only when it says 0.

    There is no class where a verifier asks.
    """
    if not outcome.started and outcome.cancelled:
        return "FAILED", "not-started", outcome.why or "stopped by a person"
    if not outcome.started and outcome.signal and op.attempt < MAX_TRIES:
        return "FAILED", "not-started", f"killed by signal {outcome.signal} before it began"
    if not outcome.started:
        return "MISCONFIGURED", "failed", outcome.why or "it could not be started"
    if outcome.cancelled:
        return "FAILED", "cut", "stopped by a person"
    if outcome.timed_out or outcome.signal:
        name = "TIMEOUT" if outcome.timed_out else "FAILED"
        why = f"no end within {tool.timeout:g} s" if outcome.timed_out else f"killed by signal {outcome.signal}"
        return name, "failed" if repeat_of(run, tool) == "pure" else "cut", why
    code = outcome.exit or 0
    if op.verb == "verify" and code == ASKS:
        return "", "done", ""  # it did its work: a person must answer
    name = error_class(code)
    if code and not tool.header:
        return name, "unknown", f"exit {code} of a tool without a header says nothing about its effect"
    return name, "done" if code == 0 else "failed", ""


def _artifacts(run: Run, op: Operation, tool: Tool, outcome: Outcome) -> tuple[list[dict[str, str]], str]:
    """The files a success stands on, hashed; or the sentence that names a missing one."""
    work = run.folder / "ops" / str(op.n) / str(op.attempt) / "work"
    found = []
    for path in [*produced(run, op, tool), *read_result(outcome.out).artifacts]:
        if not _inside(run.project / path, (run.project, work)):
            return [], f"artifact {quoted(path)} lies outside the workspace"
        sha = run.file_digest(path)
        if sha is None:
            return [], f"{quoted(path)} is not there, though {tool.name} says it made it"
        found.append({"path": path, "sha256": sha})
    return found, ""


def artifacts_there(run: Run, op: Operation, tool: Tool) -> list[dict[str, str]]:
    """Those of the files a call makes that are there, hashed: for one whose end nobody saw."""
    found = [(path, run.file_digest(path)) for path in produced(run, op, tool)]
    return [{"path": path, "sha256": sha} for path, sha in found if sha is not None]


def produced(run: Run, op: Operation, tool: Tool) -> list[str]:
    """The paths of `@meta produces`, the call's own values filled in."""
    values = run.values(tool.name, run.argv(op))
    return [filled(template, values) for template in tool.produces]


def filled(template: str, values: Values) -> str:
    """A text with `{--opt}` and `{arg}` replaced by the values of a call."""
    for name, texts in values.items():
        template = template.replace(f"{{--{name}}}", " ".join(texts)).replace(f"{{{name}}}", " ".join(texts))
    return template


def _inside(path: Path, roots: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(root.resolve()) for root in roots)


def result_digest(code: int | None, out: bytes, artifacts: Sequence[dict[str, str]]) -> str:
    """16 hex digits over exit, stdout and artifacts; not stderr, not time."""
    found = hashlib.sha256(f"{code}\n".encode() + out)
    for artifact in artifacts:
        found.update(f"\0{artifact['path']}\0{artifact['sha256']}".encode())
    return found.hexdigest()[:16]


def child_data(run: Run, op: Operation, end: ChildEnd) -> dict[str, Any]:
    """The `tool.end` of a child run: its stop reaches the parent unchanged."""
    ok = end.stop.name == "passed"
    code = 0 if ok else end.stop.code or 1
    data = tried(op)
    data |= {"outcome": "done" if ok else "failed", "exit": code, "class": "OK" if ok else end.error_class}
    artifacts = [{"path": p, "sha256": sha} for p, sha in end.artifacts if ok and run.file_digest(p) == sha]
    result = result_digest(code, end.output, artifacts)
    data |= {"by": "child", "ms": end.ms, "out": run.log.fit(end.output), "result": result}
    if artifacts:
        data["artifacts"] = artifacts
    data |= {"stop": end.stop.name, "spent": dict(end.spent)}
    if end.barred:
        data["barred"] = list(end.barred)
    if end.why:
        data["why"] = end.why
    return data
