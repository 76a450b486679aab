"""What a run used, part by part: the parts add up to what its last event says. Pure: events come in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from harness.events.amend import is_seam
from harness.events.fold import apply
from harness.events.spending import add_child
from harness.events.state import Operation, Spent, State
from harness.events.words import AGENT
from harness.view import Event
from harness.view.text import columns, duration, left_out, money, one_line, plural, wrap

CALLS = (
    "CALL", "TURN", "COST", "IN", "CACHED", "OUT", "TIME", "END", "WRITTEN", "THINKING", "TRY", "CONTEXT", "ESTIMATE",
    "FIRST", "MODEL",
)  # fmt: skip
"""What matters most stands first: a narrow terminal leaves out from the right."""
WORKERS = ("WORKER", "COST", "TURNS", "IN", "OUT", "RUN")


@dataclass(slots=True)
class Call:
    """One request: `tried` is its number in its turn; money in nano-dollars, times in milliseconds.

    `cached` and `written` are part of `input`. `estimate` is what was reckoned with before.
    """

    n: int
    turn: int
    tried: int
    model: str
    context: int
    estimate: int = 0
    input: int = 0
    cached: int = 0
    written: int = 0
    out: int = 0
    thinking: int = 0
    first_ms: int | None = None
    ms: int = 0
    nanos: int = 0
    unpriced: int = 0
    end: str = "lost"


@dataclass(slots=True)
class Part:
    """What a tool or a run of its own (`run`) used: `calls` of it, and for a run money and tokens."""

    name: str
    run: str = ""
    calls: int = 0
    ms: int = 0
    turns: int = 0
    input: int = 0
    out: int = 0
    nanos: int = 0
    unpriced: int = 0


@dataclass(slots=True)
class Bill:
    """All of a run's parts. `total` is what they add up to; `unmetered` are the replies of an agent that drives."""

    skill: str = ""
    calls: list[Call] = field(default_factory=list)
    tools: dict[str, Part] = field(default_factory=dict)
    children: list[Part] = field(default_factory=list)
    total: Part = field(default_factory=lambda: Part("total"))
    unmetered: int = 0


def bill(events: Iterable[Event], below: Callable[[str], Mapping[str, Any] | None] = lambda run: None) -> Bill:
    """Walk a journal and give each amount to the part that it was spent for.

    `below` says what a run that this one began has used where that has no end yet.
    """
    state, made = State(), Bill()
    for event in events:
        before = replace(state.spent)
        apply(state, event)
        if is_seam(state):  # what was copied is its source's
            made = Bill()
        else:
            _count(made, state, event, before)
    for op in [op for op in state.open_ops.values() if op.child and op.attempt_open]:
        if used := below(op.child or ""):
            _add_child(made, op, used, 0)
            add_child(state.spent, dict(used))
    spent = state.spent
    made.skill = str(state.start.get("skill", ""))
    made.total = Part(
        "total", "", spent.calls, spent.active_ms, spent.turns, spent.tokens_in, spent.tokens_out, spent.nanos,
        spent.unpriced,
    )  # fmt: skip
    return made


def _count(made: Bill, state: State, event: Event, before: Spent) -> None:
    """Give what an event counted to the child that ended, or to the newest request."""
    kind, data, now = event["kind"], event["data"], state.spent
    if kind == "tool.end":
        _end(made, state.ops[event["op"]], data)
    elif made.calls:
        call = made.calls[-1]
        call.input += now.tokens_in - before.tokens_in
        call.out += now.tokens_out - before.tokens_out
        call.nanos += now.nanos - before.nanos
        call.unpriced += now.unpriced - before.unpriced
    if kind == "model.start":
        known = state.request
        call = Call(len(made.calls) + 1, known["turn"], data.get("try", 1), known.get("model", ""), state.context)
        call.estimate = known.get("estimate", 0)
        made.calls.append(call)
    elif kind == "model.reply" and data.get("provider") == AGENT:
        made.unmetered += 1
    elif kind in ("model.reply", "model.fail") and made.calls and not data.get("provider"):
        _close(made.calls[-1], data)


def _close(call: Call, data: Mapping[str, Any]) -> None:
    usage = data.get("usage") or {}
    call.cached, call.written, call.thinking = (usage.get(key, 0) for key in ("cached", "written", "thinking"))
    call.first_ms, call.ms = data.get("first_ms"), data.get("ms", 0)
    call.end = str(data.get("reason") or data.get("stop") or "")


def _end(made: Bill, op: Operation, data: Mapping[str, Any]) -> None:
    spent = data.get("spent")
    if spent is None:
        part = made.tools.setdefault(op.tool or op.verb, Part(op.tool or op.verb))
        part.calls, part.ms = part.calls + 1, part.ms + data.get("ms", 0)
        return
    _add_child(made, op, spent, data.get("ms", 0))


def _add_child(made: Bill, op: Operation, spent: Mapping[str, Any], ms: int) -> None:
    keys = ("turns", "tokens_in", "tokens_out", "nanos", "unpriced")
    turns, tokens_in, tokens_out, nanos, unpriced = (int(spent.get(key, 0)) for key in keys)
    made.children.append(Part(op.tool, op.child or "", 1, ms, turns, tokens_in, tokens_out, nanos, unpriced))


def cost_text(made: Bill, width: int | None) -> str:
    """The parts in tables: each request, each tool, each run of its own, and what they add up to."""
    blocks = [_calls(made.calls, width), _tools(made, width), _children(made.children, width), _total(made)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _calls(calls: Sequence[Call], width: int | None) -> str:
    rows = [
        (
            str(c.n), str(c.turn), money(c.nanos, c.unpriced), str(c.input), _share(c.cached, c.input), str(c.out),
            duration(c.ms / 1000), c.end, str(c.written), str(c.thinking), str(c.tried), str(c.context), _error(c),
            "" if c.first_ms is None else duration(c.first_ms / 1000), one_line(c.model),
        )
        for c in calls
    ]  # fmt: skip
    return _table(rows, width, CALLS)


def _table(rows: Sequence[tuple[str, ...]], width: int | None, header: tuple[str, ...]) -> str:
    """Aligned columns, and the names of those that do not fit."""
    gone = left_out(rows, width, header) if rows else []
    more = [f"too narrow for {', '.join(gone)}: a pipe or --json shows all"] if gone else []
    told = [line for one in more for line in wrap(one, width or 80)]
    return "\n".join([*columns(rows, width, header), *told]) if rows else ""


def _share(part: int, whole: int) -> str:
    return f"{part} ({part * 100 // whole} %)" if part and whole else "0"


def _error(call: Call) -> str:
    """How far the estimate was off what the provider counted."""
    if not call.input or call.end == "lost":
        return str(call.estimate)
    return f"{call.estimate} ({(call.estimate - call.input) * 100 // call.input:+d} %)"


def _tools(made: Bill, width: int | None) -> str:
    rows = [(one_line(p.name), str(p.calls), duration(p.ms / 1000)) for p in made.tools.values()]
    return _table(rows, width, ("TOOL", "CALLS", "TIME"))


def _children(children: Sequence[Part], width: int | None) -> str:
    rows = [
        (one_line(p.name), money(p.nanos, p.unpriced), str(p.turns), str(p.input), str(p.out), p.run) for p in children
    ]
    return _table(rows, width, WORKERS)


def _total(made: Bill) -> str:
    total = made.total
    kinds = ("cached", "written", "thinking")
    cached, written, thinking = (sum(getattr(call, kind) for call in made.calls) for kind in kinds)
    more = [f"{_share(cached, total.input)} cached", *([f"{written} written"] if written else [])]
    thought = f" ({thinking} thinking)" if thinking else ""
    own = sum(call.nanos for call in made.calls), sum(call.unpriced for call in made.calls), made.unmetered
    parts = [plural(total.turns, "turn"), plural(len(made.calls), "request"), plural(total.calls, "call")]
    parts += [f"{total.input} tokens in ({', '.join(more)}), {total.out} out{thought}"]
    parts += [money(total.nanos, total.unpriced, made.unmetered)]
    return f"{one_line(made.skill)} itself {money(*own)}, in all {', '.join(parts)}"


def as_object(made: Bill) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return {**asdict(made), "tools": [asdict(part) for part in made.tools.values()]}
