"""Asking whether an operation had its effect, by the read that its tool's header names for it. Closes or clears it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.events.state import Operation
from harness.executor import Outcome
from harness.loop.act import Crew
from harness.loop.result import artifacts_there, filled, result_digest
from harness.loop.run import Run
from harness.tools import can_answer
from harness.tools.arguments import canonical, looks_like_option, parse

HAPPENED, DID_NOT = 0, 1
_PLACE = re.compile(r"\{(--)?[A-Za-z][A-Za-z0-9_-]*\}")


def ask(crew: Crew, ops: Sequence[Operation]) -> None:
    """Start the query of each operation as an attempt of it. One that cannot be asked is left to a person."""
    made = [_query_of(crew.run, op) for op in ops]
    crew.query([asked for asked in made if asked is not None], query_data)


def _query_of(run: Run, op: Operation) -> Operation | None:
    """The query as a call of its own tool, under the number of the operation it asks about."""
    tool = run.toolset.tools.get(op.tool)
    query = tool.query if tool is not None else ()
    asked = run.toolset.tools.get(query[0]) if query else None
    if asked is None or not can_answer(asked):  # it was when the call was decided on: the file may be another one now
        gone = f"its query {query[0]} is no read of this run" if query else f"{op.tool} names no query"
        _leave(run, op, f"{gone} any more")
        return None
    values = run.values(op.tool, run.argv(op))
    words = [filled(word.replace("{op}", f"{run.name}/{op.n}"), values) for word in query[1:]]
    given, problems = parse(asked, words)
    problems += [f"{made!r} for {word}" for word, made in zip(query[1:], words, strict=True) if _is_odd(word, made)]
    if problems:
        _leave(run, op, f"its query {asked.name} cannot be asked: {'; '.join(problems)}")
        return None
    return replace(op, tool=asked.name, argv=canonical(asked, given), effect="read", repeat="pure", role="query",
                   digest=None)  # fmt: skip


def _leave(run: Run, op: Operation, why: str) -> None:
    """Nothing can be asked: a person must tell what happened."""
    data = {"try": op.attempt, "outcome": "unknown", "exit": None, "by": "query", "ms": 0, "out": "", "result": ""}
    run.append("tool.end", data | {"why": why}, op.n)


def _is_odd(word: str, made: str) -> bool:
    """A place that the call gave nothing for, or a value that would be read as an option: it would ask for another."""
    return bool(_PLACE.search(made)) or (word.startswith("{") and looks_like_option(made))


def query_data(run: Run, op: Operation, outcome: Outcome) -> dict[str, Any]:
    """The `tool.end` of a query: it happened (its stdout is the evidence), it did not, or nobody knows."""
    code = outcome.exit if outcome.signal is None and not outcome.timed_out else None
    data: dict[str, Any] = {"try": op.attempt}
    if outcome.cancelled:
        return data | _left("cut", "stopped by a person", outcome, run)
    if code == DID_NOT:
        return data | _left("not-started", "its query says that it did not happen", outcome, run)
    if code != HAPPENED:
        why = outcome.why or f"its query ended {'without an exit' if code is None else f'with exit {code}'}"
        return data | _left("unknown", why, outcome, run)
    about = run.state.ops[op.n]
    artifacts = artifacts_there(run, about, run.toolset.tools[about.tool])
    data |= {"outcome": "done", "exit": 0, "class": "OK", "by": "query", "ms": outcome.ms}
    data |= {"out": run.log.fit(outcome.out), "result": result_digest(0, outcome.out, artifacts)}
    return data | ({"artifacts": artifacts} if artifacts else {})


def _left(word: str, why: str, outcome: Outcome, run: Run) -> dict[str, Any]:
    data = {"outcome": word, "exit": outcome.exit, "by": "query", "ms": outcome.ms, "out": run.log.fit(outcome.out)}
    return data | {"result": "", "why": why}
