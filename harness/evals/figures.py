"""What one run did, as numbers: the fold of its journal and of those it began. Nothing is asked or started."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.events.fold import apply
from harness.events.log import follow
from harness.events.receipt import argv_in
from harness.events.scan import blob_text
from harness.events.state import Operation, State
from harness.policy.grounding import Known, Source

MAX_WHY = 200
ESCALATES = ("needs-approval", "needs-answer", "unknown-outcome")
_VALUE = re.compile(r"[^\s\"'`,;()\[\]{}<>=|]*\d[^\s\"'`,;()\[\]{}<>=|]*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_EVIDENCE = re.compile(r"[\w-]+\.E\d+|op:\d+|.+#L\d+")


@dataclass(frozen=True, slots=True)
class Call:
    """One call that ended, in the order of starts: `code` is its class; times in seconds since the run began."""

    tool: str
    code: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in numbers: money in nano-dollars, times in seconds, counts over the run and all below it.

    `why` is the reason of its stop, where that names none. `first_s` is from the start to the first call that was
    started, None where there was none. `bad_calls` had a form that no tool takes, of `proposed` calls and refused
    replies; `refused` are the refusals by code. A call is repaired where its tool had failed or been refused before and
    then did well. `values` are the lines of the answer that hold a figure or an id, `unsupported` those with one that
    the run never saw.
    """

    stop: str
    exit: int
    why: str = ""
    seconds: float = 0.0
    waiting_s: float = 0.0
    first_s: float | None = None
    turns: int = 0
    tokens: int = 0
    nanos: int = 0
    unpriced: int = 0
    proposed: int = 0
    bad_calls: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    repaired: int = 0
    escalations: int = 0
    values: int = 0
    unsupported: int = 0
    calls: tuple[Call, ...] = ()

    @property
    def passed(self) -> bool:
        return self.stop == "passed"

    @property
    def failed_calls(self) -> int:
        """Calls that were started and did not do well."""
        return sum(call.code != "OK" for call in self.calls)

    @property
    def stumbled(self) -> bool:
        """Whether anything went wrong that the run had to recover from."""
        return bool(self.failed_calls or self.refused or self.bad_calls)


@dataclass(slots=True)
class _Count:
    """What is counted along one journal and those below it."""

    start: float = 0.0
    open: dict[int, float] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    troubled: set[str] = field(default_factory=set)
    proposed: int = 0
    bad: int = 0
    repaired: int = 0
    escalations: int = 0


def figures_of(folder: Path) -> Figures:
    """The numbers of a run's folder. Raises JournalError where its journal is damaged, OSError where it is gone."""
    count, known = _Count(), Known()
    state = _walk(folder, count, known)
    last = state.end or state.park or {}
    values, unsupported = _judged(blob_text(folder, (state.end or {}).get("answer", "")), known)
    spent, calls = state.spent, tuple(sorted(count.calls, key=lambda call: call.began))
    return Figures(
        stop=str(last.get("stop", "stopped")), exit=int(last.get("exit", 130)), why=_why(last),
        seconds=spent.active_ms / 1000, waiting_s=spent.waiting_ms / 1000,
        first_s=min((call.began for call in calls), default=None),
        turns=spent.turns, tokens=spent.tokens_in + spent.tokens_out, nanos=spent.nanos, unpriced=spent.unpriced,
        proposed=count.proposed, bad_calls=count.bad, refused=dict(count.refused), repaired=count.repaired,
        escalations=count.escalations, values=values, unsupported=unsupported, calls=calls,
    )  # fmt: skip


def _why(last: Mapping[str, Any]) -> str:
    """Why a run stopped, in its own words and on one line."""
    said = last.get("error") or last.get("limit") or last.get("hint") or ""
    return " ".join(str(said).split())[:MAX_WHY]


def _walk(folder: Path, count: _Count, known: Known, top: bool = True) -> State:
    """Fold one journal, counting as it goes, and then those of the runs it began."""
    state, opened = State(), dict[int, float]()
    for event in follow(folder):
        apply(state, event)
        at = datetime.fromisoformat(event["at"]).timestamp()
        count.start = count.start or at
        _count_event(count, state, event, at, opened)
    _file(folder, state, known, top)
    for op in state.ops.values():
        if op.child is not None and (folder.parent / op.child).is_dir():
            _walk(folder.parent / op.child, count, known, top=False)
    return state


def _count_event(count: _Count, state: State, event: Mapping[str, Any], at: float, opened: dict[int, float]) -> None:
    kind, data = event["kind"], event["data"]
    op = state.ops.get(event.get("op") or 0)
    if kind == "model.reply":
        count.proposed += len(state.turn_ops)
    elif kind == "note" and data.get("why") == "format":
        count.proposed, count.bad = count.proposed + 1, count.bad + 1
    elif kind == "park":
        count.escalations += data.get("stop") in ESCALATES
    elif op is not None and op.role != "query":
        _count_call(count, op, kind, data, at, opened)


def _count_call(
    count: _Count, op: Operation, kind: str, data: Mapping[str, Any], at: float, opened: dict[int, float]
) -> None:
    name = op.tool or op.verb
    if kind == "decide" and data.get("verdict") == "deny":
        code = str(data.get("code") or "DENIED")
        count.bad += code == "INVALID_INPUT"
        if code != "SKIPPED":
            count.refused[code] += 1
            count.troubled.add(name)
    elif kind == "tool.start":
        opened.setdefault(op.n, at - count.start)
    elif kind == "tool.end" and op.closed and op.verb != "read":
        code = str(data.get("class") or ("OK" if data.get("outcome") == "done" else "FAILED"))
        count.calls.append(Call(name, code, opened.get(op.n, at - count.start), at - count.start))
        count.repaired += code == "OK" and name in count.troubled
        (count.troubled.discard if code == "OK" else count.troubled.add)(name)


def _file(folder: Path, state: State, known: Known, top: bool) -> None:
    """What the run saw: the person's words, its inputs, what its calls printed. A model's own words are none of it."""
    if top:
        texts = [*state.said, *state.given, state.start.get("goal"), *map(str, _flat(state.inputs))]
        for text in texts:
            known.file(Source("user", "the user's words"), _text(folder, text))
    for op in state.ops.values():
        if op.result is not None and op.role != "verify" and op.child is None:
            said = argv_in(op, lambda value: _text(folder, value))
            for part in ("out", "err"):
                known.file(Source(f"tool:{op.tool}", op.tool), _text(folder, op.result.get(part, "")), said)


def _flat(inputs: Mapping[str, Any]) -> Iterator[Any]:
    for value in inputs.values():
        yield from value if isinstance(value, list | tuple) else (value,)


def _text(folder: Path, value: object) -> str:
    try:
        return blob_text(folder, value)
    except OSError:
        return ""  # pruned or redacted: what cannot be read supports nothing


def _judged(answer: str, known: Known) -> tuple[int, int]:
    """How many lines of an answer hold a figure or an id, and how many of these hold one that was never seen."""
    plain = (_THOUSANDS.sub("", line) for line in answer.splitlines())
    lines = [[word.strip(".:") for word in _VALUE.findall(line)] for line in plain]
    held = [[word for word in words if not _EVIDENCE.fullmatch(word)] for words in lines]
    held = [words for words in held if words]
    return len(held), sum(any(not known.sources(word) for word in words) for words in held)
