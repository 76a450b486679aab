"""The first user turn of a new context: what remains of a run when its earlier turns are no longer sent. Pure.

What may never be lost comes first, then as much as there is room for, in a fixed order up to the first item that does
not fit: so half the room keeps a part of what the whole of it keeps. What is left out is named by a pointer that
`read` resolves to its exact bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.events.state import Operation, State
from harness.events.texts import texts_of
from harness.models import Part
from harness.prompt import labels
from harness.prompt import observation as seen
from harness.prompt.opening import Named, flat, opening, parts
from harness.prompt.receipts import receipt_lines, spans
from harness.prompt.results import feedback, observed, said, share
from harness.prompt.texts import Blob, Frame, Release, limits_text, marked, task_block

EXCERPT = 512  # bytes of a fresh required result
RECENT = 3  # turns that are kept in full observation size
NEW = (
    "new context {n}: the turns before are not shown; this is what remains of them. What is fresh need not be done "
    "again. `read op:N` gives all output of operation N, `op:N/err` its stderr."
)
OWN = "your own words of turn {turns} are not shown; for all of a turn read turn:N"


@dataclass(frozen=True, slots=True)
class Past:
    """One reply: its number, its operations, and the bytes of what `turn:N` gives."""

    turn: int
    ops: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """Words that came into a run: as an event holds them, the `ask` they answer or 0, and whose they are."""

    text: Any
    op: int
    by: str


@dataclass(frozen=True, slots=True)
class Story:
    """What of a run its state does not keep.

    `said` are the person's words in order; `verify` is the last judgement of an answer; `words` are the model's own, of
    the newest turns; `notes` were not told yet.
    """

    said: tuple[Spoken, ...] = ()
    verify: Mapping[str, Any] | None = None
    past: tuple[Past, ...] = ()
    words: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What a context is compiled from. `fresh` are the operations whose results stand; `n` is its number."""

    frame: Frame
    state: State
    story: Story
    release: Release
    fresh: Collection[int]
    blob: Blob
    n: int


@dataclass(frozen=True, slots=True)
class Left:
    """What is not in the turn: what it belongs to (0: no operation), its size in bytes, what to `read` for it."""

    op: int
    bytes: int
    pointer: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A first turn. `kept` are the operations whose observation is in it; `fits` is False where the floor has no room.

    `request` is the bytes of a request that holds this turn alone; `parts` is how the turn is recorded.
    """

    texts: tuple[str, ...]
    parts: tuple[Part, ...]
    kept: tuple[int, ...]
    dropped: tuple[Left, ...]
    request: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is kept while there is room: an excerpt, an observation, or the model's words of a turn."""

    op: int
    kind: str
    texts: tuple[str, ...]
    turn: int = 0


def compiled(view: View, room: int, empty: int) -> Compiled:
    """The first turn of a context whose first request has at most `room` bytes; `empty` of them are not this turn's."""
    begun, last = _begun(view), _words(view)
    head = (*flat(begun), *_rest_of_head(view))
    left = room - empty - sum(size(text) for text in (*head, *last)) - size(_own_line(view, ()))
    fits, kept = left >= 0, []
    for item in _items(view) if fits else ():
        left -= sum(size(text) for text in item.texts)
        if left < 0:
            break
        kept.append(item)
    body, own = _told(kept), _own_line(view, kept)
    texts = (*head, *body, *((own,) if own else ()), *last)
    whole = tuple(sorted(item.op for item in kept if item.kind == "result"))
    left_out, request = tuple(_left(view, kept)), empty + sum(map(size, texts))
    return Compiled(texts, _recorded(begun, texts), whole, left_out, request, fits)


def _recorded(begun: Sequence[Named], texts: tuple[str, ...]) -> tuple[Part, ...]:
    """What a run was begun with has its own parts, as in its first context; all the rest is the state."""
    fixed = [named for named in begun if named[0] != "state@1"]
    return parts((*fixed, ("state@1", texts[len(flat(fixed)) :])))


def size(text: str) -> int:
    """Bytes of a text in a request, with the comma behind it."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 1 if text else 0


def _begun(view: View) -> tuple[Named, ...]:
    """What is never dropped, first the beginning of the run: the task, and what is callable."""
    goal = said(view.state.start.get("goal") or "", view.blob)
    return opening(_now(view), goal, view.state.inputs, view.release, view.blob)


def _rest_of_head(view: View) -> tuple[str, ...]:
    """What else is never dropped before the person's words: a line an operation, the last judgement, notes."""
    mark = view.frame.mark
    receipts = "\n".join((NEW.format(n=view.n), *receipt_lines(view.state, view.fresh, view.blob, mark)))
    texts = [marked(receipts, mark)]
    if view.story.verify is not None:
        texts += feedback(view.story.verify, view.state, _now(view), view.blob)
    return (*texts, *(marked(seen.neutral(note, mark), mark) for note in view.story.notes))


def _now(view: View) -> Frame:
    """The frame with the limits as they are now."""
    budget = view.state.budget
    return replace(view.frame, limits=limits_text(budget, view.frame.labels)) if budget else view.frame


def _words(view: View) -> tuple[str, ...]:
    """The person's words, the newest last: what they correct stands before them."""
    mark, found = view.frame.mark, []
    for spoken in view.story.said:
        if spoken.op:
            found.append(marked(f"the person's answer to op {spoken.op}:", mark))
        found.append(task_block(seen.neutral(said(spoken.text, view.blob), mark), mark, spoken.by))
    return tuple(found)


def _items(view: View) -> Iterator[Item]:
    """What is kept while there is room, the most needed first."""
    newest = sorted(view.fresh, reverse=True)
    for n in newest:
        if view.state.ops[n].tool in view.frame.requires:
            yield Item(n, "excerpt", _observed(view, n, EXCERPT))
    recent = list(reversed(view.story.past[-RECENT:]))
    told = {n for past in recent for n in past.ops}
    for past in recent:
        yield from _turn(view, [n for n in past.ops if _is_shown(view.state.ops[n])])
    for n in newest:
        if n not in told:
            yield Item(n, "result", _observed(view, n, seen.RESULT_LIMIT))
    for past in recent:
        if words := view.story.words.get(past.turn):
            yield Item(0, "words", (_own(past.turn, words, view.frame),), past.turn)


def _turn(view: View, ops: Sequence[int]) -> Iterator[Item]:
    """The observations of a turn, as large as they were in it."""
    whole = {n: _observed(view, n, seen.RESULT_LIMIT) for n in ops}
    sizes = [sum(len(text.encode()) for text in texts) for texts in whole.values()]
    level = share(sizes, seen.TURN_LIMIT)
    for n, length in zip(ops, sizes, strict=True):
        yield Item(n, "result", whole[n] if length <= level else _observed(view, n, level))


def _is_shown(op: Operation) -> bool:
    """Answers of a person and judgements are told elsewhere."""
    return op.verb in ("run", "read") and op.result is not None


def _observed(view: View, n: int, limit: int) -> tuple[str, ...]:
    return observed(view.state.ops[n], view.state, view.frame, view.blob, limit)


def _own(turn: int, words: str, frame: Frame) -> str:
    body = seen.cut(seen.neutral(words, frame.mark), seen.RESULT_LIMIT, f"turn:{turn}")
    return seen.frame(labels.of_words(turn, words, frame), body, frame.mark)


def _told(kept: Sequence[Item]) -> list[str]:
    """The kept items in the order in which they happened; an excerpt goes where all of its result is there."""
    whole = {item.op for item in kept if item.kind == "result"}
    results = sorted((i for i in kept if i.op and (i.kind == "result" or i.op not in whole)), key=lambda i: i.op)
    words = sorted((item for item in kept if item.kind == "words"), key=lambda i: i.turn)
    return [text for item in (*results, *words) for text in item.texts]


def _own_line(view: View, kept: Iterable[Item]) -> str:
    """Where the model's own words are that are not in the turn."""
    gone = [past.turn for past in _silent(view, kept)]
    return marked(OWN.format(turns=spans(gone)), view.frame.mark) if gone else ""


def _silent(view: View, kept: Iterable[Item]) -> list[Past]:
    told = {item.turn for item in kept if item.kind == "words"}
    return [past for past in view.story.past if past.size and past.turn not in told]


def _left(view: View, kept: Sequence[Item]) -> Iterator[Left]:
    """Everything that is not told whole, and the pointer to it."""
    shown = {item.op: "\n".join(item.texts) for item in kept if item.kind == "result"}
    for op in view.state.ops.values():
        result = op.result or {}
        for key, pointer in (("out", f"op:{op.n}"), ("err", f"op:{op.n}/err")):
            length = seen.length(result.get(key))
            if length and not _is_whole(op, key, pointer, shown.get(op.n)):
                yield Left(op.n, length, pointer)
    for past in _silent(view, kept):
        yield Left(past.ops[0] if past.ops else 0, past.size, f"turn:{past.turn}")


def _is_whole(op: Operation, key: str, pointer: str, text: str | None) -> bool:
    """Whether an observation holds all of an output: stderr is told of failures only, an image is described."""
    if text is None or f"; read {pointer}" in text:
        return False
    return seen.error_class(op) != "OK" if key == "err" else "media" not in (op.result or {})


def own_words(content: Any, calls: Sequence[Mapping[str, Any]], plain: Callable[[object], str]) -> str:
    """What a model said in one reply, whatever its provider: its texts, then a line for each call.

    `plain` reads a value as an event holds it. This is what `read turn:N` gives.
    """
    lines = [*texts_of(content), *(_call_line(call, plain) for call in calls if not call.get("implicit"))]
    return "\n".join(line for line in lines if line.strip())


def _call_line(call: Mapping[str, Any], plain: Callable[[object], str]) -> str:
    arguments = {key: plain(value) if isinstance(value, Mapping) else value for key, value in
                 (call.get("arguments") or {}).items()}  # fmt: skip
    return f"> {call['verb']} {json.dumps(arguments, ensure_ascii=False)}"
