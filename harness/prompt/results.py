"""The answers to the calls of one reply, in call order, within the limits of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.events.state import Operation, State
from harness.models.turns import Picture, Result
from harness.prompt import labels
from harness.prompt import observation as seen
from harness.prompt.texts import Blob, Frame, marked, task_block

MOST_PICTURES = 4
ANSWERED = 4
"""Until this version of the labels an answer to a question was told as a failure of the call."""
REASON_LIMIT = 2000  # characters of one reason: it may quote what the model wrote


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the log names it."""

    op: int
    id: str
    verb: str
    implicit: bool


@dataclass(slots=True)
class _Piece:
    """One block of a result: its text is framed when it is data; only data is ever cut."""

    body: str
    attributes: Mapping[str, Any] | None = None
    pointer: str = ""

    def text(self, limit: int, mark: str) -> str:
        if self.attributes is None:
            return self.body
        frame_bytes = len(seen.frame(self.attributes, "", mark).encode())
        room = limit - frame_bytes - (0 if self.body.endswith("\n") else 1)
        return seen.frame(self.attributes, seen.cut(self.body, max(room, 0), self.pointer), mark)


def answers(
    calls: Sequence[Call], state: State, frame: Frame, blob: Blob, verify: Mapping[str, Any] | None
) -> list[Result]:
    """A result for each call. Raises ValueError for a call that is not closed: the caller asked too early."""
    pieces = [_pieces(call, state, frame, blob, verify) for call in calls]
    wanted = [tuple(piece.text(seen.RESULT_LIMIT, frame.mark) for piece in group) for group in pieces]
    sizes = [sum(len(text.encode()) for text in texts) for texts in wanted]
    level = share([min(size, seen.RESULT_LIMIT) for size in sizes], seen.TURN_LIMIT)
    made = []
    for call, group, texts, size in zip(calls, pieces, wanted, sizes, strict=True):
        failed = _has_failed(call, state.ops[call.op], frame, verify)
        told = texts if size <= level else _fit(group, level, frame.mark)
        made.append(Result(call.id, told, failed, _pictures(state.ops[call.op], frame.mark)))
    return _with_few_pictures(made, frame.mark)


def _has_failed(call: Call, op: Operation, frame: Frame, verify: Mapping[str, Any] | None) -> bool:
    if call.verb == "finish":
        return not _accepted(verify)
    is_answer = call.verb == "ask" and op.error is None and op.code is None
    return seen.error_class(op) != "OK" or (is_answer and frame.labels < ANSWERED)


def _pictures(op: Operation, mark: str) -> tuple[Picture, ...]:
    """The image of a read that the model is shown."""
    result = op.result or {}
    media, kept = result.get("media") or {}, result.get("out")
    if not media.get("shown") or not isinstance(kept, Mapping):
        return ()
    return (Picture(media["kind"], str(kept.get("blob")), media["bytes"], marked(f"the image of op:{op.n}", mark)),)


def _with_few_pictures(results: Sequence[Result], mark: str) -> list[Result]:
    """The first images of a turn; of the others is said how to see them."""
    made, left = [], MOST_PICTURES
    for result in results:
        left -= len(result.pictures)
        if result.pictures and left < 0:
            said = marked(f"not shown: a turn shows {MOST_PICTURES} images; read it in the next one", mark)
            result = replace(result, pictures=(), blocks=(*result.blocks, said))
        made.append(result)
    return made


def observed(op: Operation, state: State, frame: Frame, blob: Blob, limit: int) -> tuple[str, ...]:
    """What an operation brought, in at most `limit` bytes, as it was told after its call."""
    return _fit(_observed(op, state, frame, blob), limit, frame.mark)


def feedback(verify: Mapping[str, Any], state: State, frame: Frame, blob: Blob) -> tuple[str, ...]:
    """What was said to a proposed answer."""
    return _fit(_feedback(verify, state, frame, blob), seen.RESULT_LIMIT, frame.mark)


def _fit(group: Sequence[_Piece], level: int, mark: str) -> tuple[str, ...]:
    """The texts of one result in `level` bytes: the harness's own stay whole, the largest data is cut first."""
    fixed = sum(len(piece.body.encode()) for piece in group if piece.attributes is None)
    data = [len(piece.text(level, mark).encode()) for piece in group if piece.attributes is not None]
    each = share(data, max(level - fixed, 0))
    return tuple(piece.text(each, mark) for piece in group)


def share(sizes: Sequence[int], total: int) -> int:
    """The largest size a result may keep so that all together fit in `total`: the largest are cut first."""
    left, level = total, max(sizes, default=0)
    for position, size in enumerate(sorted(sizes)):
        even = left // (len(sizes) - position)
        if size > even:
            return even
        left -= size
    return level


def _accepted(verify: Mapping[str, Any] | None) -> bool:
    return bool(verify and verify.get("ok"))


def _pieces(
    call: Call, state: State, frame: Frame, blob: Blob, verify: Mapping[str, Any] | None
) -> list[_Piece]:
    op = state.ops[call.op]
    if op.error is not None or op.code is not None:
        return [_Piece(refusal(op, frame.mark))]
    if call.verb == "finish":
        return _feedback(verify, state, frame, blob)
    if call.verb == "ask" and op.answer is not None:
        words = seen.neutral(said(op.answer, blob), frame.mark)
        return [_Piece(task_block(words, frame.mark, labels.of_speaker(op.answered_by, frame)))]
    if op.result is None:
        raise ValueError(f"operation {op.n} has no result yet")
    return _observed(op, state, frame, blob)


def said(value: object, blob: Blob) -> str:
    """A text of an event: as it stands, or out of its blob."""
    return blob(value) if isinstance(value, Mapping) else str(value)


def refusal(op: Operation, mark: str) -> str:
    """Class, reason, what would change it."""
    code = seen.error_class(op)
    reasons = (op.error,) if op.error is not None else op.reasons
    lines = [row for reason in reasons for row in seen.neutral(reason[:REASON_LIMIT], mark).split("\n")]
    if not lines:
        return marked(code, mark)
    return marked("\n".join([f"{code}: {lines[0]}", *(f"  {row}" for row in lines[1:])]), mark)


def _observed(op: Operation, state: State, frame: Frame, blob: Blob) -> list[_Piece]:
    result, failed = op.result or {}, seen.error_class(op) != "OK"
    if isinstance(result.get("media"), Mapping):
        return [_image(result["media"], _source(op, state, frame), f"op:{op.n}", frame.mark)]
    out = seen.output(result.get("out"), blob)
    pieces = [_data(out, _source(op, state, frame), f"op:{op.n}", frame.mark)]
    if op.verb == "read" and failed and not out.text and result.get("why"):
        pieces = []  # there was nothing to read, and the reason says all
    err = seen.output(result.get("err"), blob)
    if failed and err.text:
        pieces.append(_stderr(err, f"tool:{op.tool}" if op.tool else op.verb, op.n, frame.mark))
    if failed and result.get("why"):
        pieces += _why_pieces(op, str(result["why"]), frame)
    return pieces


def _why_pieces(op: Operation, why: str, frame: Frame) -> list[_Piece]:
    """Why a call failed. What a run below says of its end may repeat a tool's or a model's words: it is data."""
    ended, mark = seen.error_class(op), frame.mark
    if op.child is None or frame.labels == 1:
        return [_Piece(marked(f"{ended}: {seen.line(why, mark)}", mark))]
    about = {"source": f"{labels.of_call(op, frame)}#{op.n}/why", "bytes": len(why.encode("utf-8", "replace"))}
    return [_Piece(marked(ended, mark)), _Piece(seen.neutral(why, mark), about, f"op:{op.n}")]


def _data(out: seen.Output, attributes: Mapping[str, Any], pointer: str, mark: str) -> _Piece:
    body = f"{out.described()[:-1]}; read {pointer}\n" if out.binary else seen.neutral(out.text, mark)
    return _Piece(body, {**attributes, "bytes": out.size}, pointer)


def _image(media: Mapping[str, Any], attributes: Mapping[str, Any], pointer: str, mark: str) -> _Piece:
    """An image in words: its bytes are no text."""
    sides = f", {media['width']}x{media['height']}" if "width" in media else ""
    digest = f", sha256 {media['sha256']}" if "sha256" in media else ""
    said = f"image {media['kind']}{sides}, {media['bytes']} bytes{digest}\n"
    return _Piece(seen.neutral(said, mark), {**attributes, "bytes": media["bytes"]}, pointer)


def _stderr(err: seen.Output, name: str, n: int, mark: str) -> _Piece:
    piece = _data(err, {"source": f"{name}#{n}/err"}, f"op:{n}/err", mark)
    piece.body = seen.last(piece.body, seen.ERR_LIMIT, piece.pointer)
    return piece


def _source(op: Operation, state: State, frame: Frame) -> dict[str, Any]:
    """Where a text came from and how the call went, as a frame says it."""
    result, ended = op.result or {}, seen.error_class(op)
    if op.verb == "read":
        return {**labels.of_read(op, state, frame), "class": ended, "dropped": result.get("dropped")}
    how = {"source": f"{labels.of_call(op, frame)}#{op.n}", "exit": result.get("exit"), "class": ended}
    return {**how, "s": _seconds(result.get("ms")), "stop": result.get("stop"), "dropped": result.get("dropped")}


def _seconds(ms: object) -> str | None:
    return f"{ms / 1000:.1f}" if isinstance(ms, int | float) else None


def _feedback(
    verify: Mapping[str, Any] | None, state: State, frame: Frame, blob: Blob
) -> list[_Piece]:
    """What the harness says to a proposed answer: accepted, or what is missing and what each check said."""
    if verify is None:
        raise ValueError("a proposed answer was not judged yet")
    if verify.get("ok"):
        return [_Piece(marked("accepted", frame.mark))]
    failing = [check for check in verify.get("checks") or () if check.get("exit") != 0]
    lines = ["not accepted"]
    lines += [f"missing: {item['name']}{_why(item)}" for item in verify.get("missing") or ()]
    lines += [_failing(check, state.ops.get(check.get("op", 0))) for check in failing]
    pieces = [_Piece(marked("\n".join(seen.line(line, frame.mark) for line in lines), frame.mark))]
    for check in failing:
        op = state.ops.get(check.get("op", 0))
        if op is not None and op.result is not None:
            pieces += _check_output(op, str(check.get("name", op.tool)), frame, blob)
    return pieces


def _why(item: Mapping[str, Any]) -> str:
    return f" ({item['why']})" if item.get("why") else ""


def _failing(check: Mapping[str, Any], op: Operation | None) -> str:
    if check.get("exit") in (1, 10):
        return f"check {check['name']}: {'rejected' if check['exit'] == 1 else 'a person has to answer'}"
    how = f"exit {check['exit']}" if check.get("exit") is not None else "no exit"
    if op is not None and op.code:
        how = ": ".join([op.code, "; ".join(op.reasons)] if op.reasons else [op.code])
    elif op is not None and op.result and op.result.get("why"):
        how = str(op.result["why"])
    return f"check {check['name']} is broken ({how})"


def _check_output(op: Operation, name: str, frame: Frame, blob: Blob) -> list[_Piece]:
    result = op.result or {}
    out, err = seen.output(result.get("out"), blob), seen.output(result.get("err"), blob)
    attributes = {"source": f"tool:{name}#{op.n}", "exit": result.get("exit"), "class": seen.error_class(op)}
    pieces = [_data(out, attributes, f"op:{op.n}", frame.mark)] if out.text else []
    if err.text:
        pieces.append(_stderr(err, f"tool:{name}", op.n, frame.mark))
    return pieces
