"""Rows as lines: marks, names, times, results, child rows below their call. For the live view and `show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.view import Reader
from harness.view.results import detail, edit_text, seconds, tail, title
from harness.view.rows import Row, Run, Tree
from harness.view.text import STATE_STYLE, Glyphs, Line, Span, cut, fit, one_line, pad, width

Stages = Callable[[str], Sequence[tuple[str, Sequence[str]]]]
"""`pipeline name -> ((stage, needs), …)`: the stages a pipeline has, to show those not begun. Called at each frame."""

MOST_DEPTH = 3
MOST_DETAIL = 40


@dataclass(frozen=True, slots=True)
class Look:
    """How to lay rows out. `width` None: a pipe, where nothing is cut. `now`: epoch seconds; `frame` turns spinners.

    `numbers`: with the number of each operation, which commands take.
    """

    width: int | None
    glyphs: Glyphs
    read: Reader
    now: float = 0.0
    frame: int = 0
    stages: Stages | None = None
    numbers: bool = False


def turns(run: Run) -> list[int]:
    """The turns that have rows, in order; 0 holds what no model asked for (the stages of a pipeline)."""
    return sorted({row.turn for row in run.rows.values()})


def rows_of(run: Run, look: Look, turn: int | None = None) -> list[Row]:
    """A run's rows in the order of their numbers, those of one turn if given, then the stages not begun."""
    rows = [row for _, row in sorted(run.rows.items()) if turn is None or row.turn == turn]
    if look.stages is None or turn or run.end:
        return rows
    begun = {row.name for row in rows}
    pending = [stage for stage in look.stages(str(run.start.get("skill") or "")) if stage[0] not in begun]
    return rows + [Row(0, "stage", name, needs=tuple(needs)) for name, needs in pending]


def turn_lines(
    tree: Tree, run: Run, turn: int, look: Look, whole: bool, rows: Sequence[Row] | None = None
) -> list[Line]:
    """The lines of one turn of the top run. `whole`: with the end of a failure's stderr and the lines of an edit."""
    rows = rows_of(run, look, turn) if rows is None else rows
    lines: list[Line] = []
    for at, row in enumerate(rows):
        first = at == 0 or not turn
        cost = run.costs.get(turn) if at == 0 else None
        price = cost.cost if cost and turn and not cost.unmetered else ""
        inner = 3 if not turn or (first and len(rows) == 1) else 6
        label = f"{turn}  " if first and turn else ""
        lines += _block(tree, run, row, look, whole, (0 if first else 3, label, price))
        lines += child_lines(tree, row, look, whole, inner)
    return lines


def child_lines(tree: Tree, row: Row, look: Look, whole: bool, indent: int, depth: int = 1) -> list[Line]:
    """The rows of the run that works for `row`, indented, three levels deep."""
    child = tree.child(row)
    if child is None or depth > MOST_DEPTH:
        return []
    lines: list[Line] = []
    for inner in rows_of(child, look):
        lines += _block(tree, child, inner, look, whole, (indent, "", ""))
        lines += child_lines(tree, inner, look, whole, indent + 3, depth + 1)
    return lines


def _block(tree: Tree, run: Run, row: Row, look: Look, whole: bool, place: tuple[int, str, str]) -> list[Line]:
    line = row_line(run, row, look, *place)
    if not whole:
        return [line]
    margin = " " * (place[0] + len(place[1]) + 2)
    return [*_edited(run, row, look, margin), line, *_left_behind(tree, run, row, look, margin)]


def _edited(run: Run, row: Row, look: Look, margin: str) -> list[Line]:
    if not row.end.get("changed"):
        return []
    _, lines = edit_text(row, run, look.read, look.glyphs)
    signs = {"+": ("+", "green"), "-": (look.glyphs.minus, "red")}
    return [_fitted(look, ((f"{margin}{signs[sign][0]} {text}", signs[sign][1]),)) for sign, text in lines]


def _left_behind(tree: Tree, run: Run, row: Row, look: Look, margin: str) -> list[Line]:
    if tree.child(row):  # the call that failed below says it itself
        return []
    return [_fitted(look, ((margin + one_line(text.expandtabs(4)), "dim"),)) for text in tail(row, run, look.read)]


def _fitted(look: Look, line: Line) -> Line:
    return line if look.width is None else fit(line, look.width, look.glyphs.cut)


def row_line(run: Run, row: Row, look: Look, indent: int = 0, label: str = "", price: str = "") -> Line:
    """`✓ 2  check-pods --ns shop   0.4s   3 pods, 1 not ready  $0.01`: narrower, the cost leaves, then the time."""
    narrow = look.width is not None and look.width < 60
    head = _head(row, look, indent, label, narrow)
    words = detail(row, run, look.read, look.glyphs, narrow)
    if look.width is None:
        took = pad(seconds(row, look.now), 7)
        return (*head, (f"  {took}  {words}", ""), ("  " + price if price else "", ""))
    return _fitted(look, (*head, *_facts(row, look, words, price, narrow)))


def _head(row: Row, look: Look, indent: int, label: str, narrow: bool) -> Line:
    name = one_line(row.name)
    state = "new" if row.stale else row.state  # what is said to be stale is to be done again
    mark = (look.glyphs.mark(state), STATE_STYLE[state])
    spin = look.glyphs.spinner[look.frame % len(look.glyphs.spinner)] if row.state == "running" else ""
    start: Line = ((" " * indent, ""), mark, (f" {label}", ""))
    number = f" #{row.op}" if look.numbers and row.op else ""
    room = left_column(look.width) - indent - len(label) - 2 - (2 if spin else 0) - len(number)
    if look.width is not None:
        name = cut(name, max(4, room), look.glyphs.cut)
        left = room - width(name) - 1
        words = cut(title(row, left if narrow else None), left, look.glyphs.cut) if left > 3 else ""
    else:
        words = title(row)
    shown: list[Span] = [
        (name, "bold"), (number, "dim"), (f" {words}" if words else "", ""), (f" {spin}" if spin else "", "cyan"),
    ]  # fmt: skip
    blanks = room + len(number) + (2 if spin else 0) - sum(width(text) for text, _ in shown)
    return (*start, *shown, (" " * max(0, blanks), ""))


def left_column(limit: int | None) -> int:
    """Columns of mark, name and arguments."""
    if limit is None:
        return 44
    return max(24, limit * 11 // 20 if limit < 60 else min(64, limit // 2 - 2))


def _facts(row: Row, look: Look, words: str, price: str, narrow: bool) -> Line:
    assert look.width is not None
    room = look.width - left_column(look.width) - 1
    if narrow:
        return ((" ", ""), (cut(words, min(room, MOST_DETAIL), look.glyphs.cut), _tone(row)))
    price = price if look.width >= 80 else ""
    room -= 9 + (width(price) + 2 if price else 0)
    shown = cut(words, min(room, MOST_DETAIL), look.glyphs.cut)
    gap = " " * max(2, min(room, MOST_DETAIL) - width(shown) + 2)
    took = seconds(row, look.now)
    return ((f" {took:>6}  ", "dim"), (shown, _tone(row)), (gap + price if price else "", "dim"))


def _tone(row: Row) -> str:
    """Failures and what waits keep their colour; results are plain."""
    return STATE_STYLE[row.state] if row.state in ("failed", "refused", "waiting", "unknown", "new") else ""
