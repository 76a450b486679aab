"""Whether a trial was what its case expects: one check an expectation, each with its reason. Pure but for files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.evals.case import Case, Expect, FileTest
from harness.evals.figures import Figures
from harness.events.spending import MONEY
from harness.loop.paths import open_beneath

MAX_FILE = 1 << 20
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `ok` is None where a grader could not judge: such a trial has not passed.

    What does not `gates` is told and counts for nothing.
    """

    name: str
    ok: bool | None
    why: str = ""
    gates: bool = True


def checks_of(case: Case, figures: Figures, answer: str, workspace: Path) -> list[Check]:
    """All that a case expects of a trial without asking anybody."""
    expect = case.expect
    why = f" ({figures.why})" if figures.why else ""
    found = [Check("stop", figures.stop in expect.stop, f"{figures.stop}{why}, not {' or '.join(expect.stop)}")]
    found += [*_tools(expect, figures), *_answer(expect, answer), *_limits(expect, figures)]
    found += [_file(test, workspace) for test in expect.files]
    return [Check(one.name, one.ok, "" if one.ok else one.why) for one in found]


def _tools(expect: Expect, figures: Figures) -> Iterator[Check]:
    did = {call.tool for call in figures.calls if call.code == "OK"}
    began = {call.tool for call in figures.calls}
    yield from (Check(f"ran {name}", name in did, f"{name} never did well") for name in expect.ran)
    yield from (Check(f"never {name}", name not in began, f"{name} was started") for name in expect.never)
    for before, after in zip(expect.order, expect.order[1:], strict=False):
        why = f"{after} did not wait for {before}"
        yield Check(f"{before} before {after}", _is_before(figures, before, after), why)


def _is_before(figures: Figures, before: str, after: str) -> bool:
    """Whether a first success of one ended before the first start of the other, and both were."""
    done = min((call.ended for call in figures.calls if call.tool == before and call.code == "OK"), default=None)
    begun = min((call.began for call in figures.calls if call.tool == after), default=None)
    return done is not None and begun is not None and done <= begun


def _answer(expect: Expect, answer: str) -> Iterator[Check]:
    for text in expect.contains:
        yield Check(f"answer contains {text!r}", text.casefold() in answer.casefold(), "it does not")
    for text in expect.lacks:
        yield Check(f"answer lacks {text!r}", text.casefold() not in answer.casefold(), "it is there")
    for pattern in expect.matches:
        yield Check(f"answer matches {pattern!r}", bool(re.search(pattern, answer, re.MULTILINE)), "it does not")
    for path, text in expect.json:
        value = _at(answer, path)
        yield Check(f"answer {path} is {text!r}", _said(value) == text, f"it is {_said(value)!r}")


def _at(answer: str, path: str) -> Any:
    """The value at `a.b[0].c` of an answer that is JSON; None where there is none."""
    try:
        value = json.loads(answer)
        for name, index in _STEP.findall(path):
            value = value[int(index)] if index else value[name]
    except (ValueError, LookupError, TypeError):
        return None
    return value


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _limits(expect: Expect, figures: Figures) -> Iterator[Check]:
    used = {
        "turns": figures.turns, "calls": len(figures.calls), "tokens": figures.tokens, "seconds": figures.seconds,
        "usd": float("inf") if figures.unpriced else figures.nanos / MONEY,
    }  # fmt: skip
    for name, most in expect.limits.items():
        yield Check(f"{name} at most {most:g}", used[name] <= most, f"{used[name]:g}")


def _file(test: FileTest, workspace: Path) -> Check:
    """A file as the trial left it; what a link leads to counts for nothing."""
    try:
        with os.fdopen(open_beneath(workspace, test.path), "rb") as file:
            text = file.read(MAX_FILE).decode("utf-8", "replace")
    except OSError:
        return Check(f"file {test.path}", test.absent, "it is not there")
    absent = [part for part in test.contains if part not in text]
    if test.absent:
        return Check(f"file {test.path}", False, "it is there")
    return Check(f"file {test.path}", not absent, f"it does not hold {', '.join(map(repr, absent))}")
