"""One line for each operation of a run: what it was, how it ended, whether it still stands, where its output is."""

from __future__ import annotations

import json
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.events.state import Operation, State
from harness.prompt import observation as seen
from harness.prompt.results import said
from harness.prompt.texts import Blob

MANY = 20
"""Lines of one shape that are written out; more of them are told in one."""
WORDS = 240  # characters of a call, and of a reason
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_=./:,@%+")


@dataclass(frozen=True, slots=True)
class Receipt:
    """One operation as a line says it. `shape` is equal for those that differ in their values only."""

    op: int
    call: str
    end: str
    shape: str


def receipt_lines(state: State, fresh: Collection[int], blob: Blob, mark: str) -> list[str]:
    """The lines in the order of the operations; a shape that stands often is one line with a count."""
    receipts = [_receipt(op, state, fresh, blob, mark) for op in state.ops.values()]
    groups: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        groups.setdefault(receipt.shape, []).append(receipt)
    folded = {receipt.op for group in groups.values() if len(group) > MANY for receipt in group[1:]}
    return [_line(receipt, groups[receipt.shape]) for receipt in receipts if receipt.op not in folded]


def _line(receipt: Receipt, group: Sequence[Receipt]) -> str:
    if len(group) <= MANY:
        return f"op {receipt.op}  {receipt.call}  {receipt.end}"
    return f"{len(group)} operations  {receipt.shape}: op {spans([r.op for r in group])}"


def spans(numbers: Iterable[int]) -> str:
    """Ascending numbers in few words: `1-4, 7, 9-12`."""
    found: list[list[int]] = []
    for n in numbers:
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in found)


def _receipt(op: Operation, state: State, fresh: Collection[int], blob: Blob, mark: str) -> Receipt:
    words, how = _words(op, blob), _how(op, fresh)
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    call = _cut(" ".join([_label(op), *map(_quoted, words)]), WORDS)
    end = ", ".join(part for part in (how, _age(op, state), _where(op), _why(op)) if part)
    shape = " ".join([_label(op), *options])
    return Receipt(op.n, _one_line(call, mark), _one_line(end, mark), _one_line(f"{shape}  {how}", mark))


def _label(op: Operation) -> str:
    return f"check {op.tool}" if op.verb == "verify" else op.tool or op.verb


def _words(op: Operation, blob: Blob) -> list[str]:
    """The words of a call: as they were judged, or as the model wrote them."""
    arguments = op.arguments
    if op.verb == "read":
        return [str(arguments[key]) for key in ("path", "lines") if arguments.get(key) is not None]
    if op.verb in ("ask", "finish"):
        return [said(arguments.get("question", ""), blob)] if op.verb == "ask" else []
    given = arguments.get("args") or ()
    given = json.loads(blob(given)) if isinstance(given, Mapping) else given
    kept_outside = op.argv is not None and op.argv[:1] and op.argv[0].startswith("blob:")
    return [str(word) for word in (op.argv if op.argv and not kept_outside else given)]


def _quoted(word: str) -> str:
    """A word as it stands, or in quotes where it could be taken for several, or for ours."""
    return word if word and not set(word) - _PLAIN else json.dumps(word, ensure_ascii=False)


def _how(op: Operation, fresh: Collection[int]) -> str:
    if op.verb == "ask" and op.error is None:
        return "answered"
    if op.verb == "finish" and op.error is None:
        return "proposed"
    ended = seen.error_class(op)
    if ended != "OK" or op.verb not in ("run", "read"):
        return ended
    return "OK, fresh" if op.n in fresh else "OK, stale"


def _age(op: Operation, state: State) -> str:
    return "" if op.ended_at is None else f"{max(0, int(state.at - op.ended_at))} s ago"


def _where(op: Operation) -> str:
    result = op.result or {}
    out, err = seen.length(result.get("out")), seen.length(result.get("err"))
    found = [f"{out} bytes in op:{op.n}"] if out else []
    return ", ".join([*found, *([f"{err} bytes in op:{op.n}/err"] if err else [])])


def _why(op: Operation) -> str:
    why = op.error or "; ".join(op.reasons) if op.error or op.code else str((op.result or {}).get("why") or "")
    return _cut(why, WORDS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _one_line(text: str, mark: str) -> str:
    return " ".join(seen.neutral(text, mark).split("\n"))
