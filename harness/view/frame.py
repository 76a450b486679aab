"""What the live view shows at one moment, and what of it is finished for good. Draws nothing and owns no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from harness.view import Event, Reader
from harness.view.closing import totals
from harness.view.fold import apply
from harness.view.rows import Row, Run, Tree
from harness.view.text import Glyphs, Line, duration, escape, fit, one_line, width, wrap
from harness.view.tree import Look, Stages, rows_of, turn_lines

FRAME = 1 / 8
"""Seconds between two frames, at least."""
KEPT_TEXT = 6
"""Lines of a turn's model text that stay in scrollback."""
_SPEECH = frozenset({"model.start", "model.reply", "model.fail"})


class Story:
    """The tree of a run, the active turn's text, and which rows stand above the region already."""

    def __init__(self, read: Reader, glyphs: Glyphs, stages: Stages | None = None) -> None:
        self.read, self.glyphs, self.stages = read, glyphs, stages
        self.tree = Tree()
        self.above: list[Line] = []
        self.printed: set[int] = set()
        self.said, self.spoken = "", ""
        self.interrupted = False
        self.at, self.heard = 0.0, time.monotonic()

    def history(self, events: Iterable[Event], run: str, depth: int) -> None:
        """Take in earlier events; what ended then is not shown again."""
        for event in events:
            apply(self.tree, event, run, depth)
        if depth == 0:
            self.printed = {row.op for row in self.tree.main.rows.values() if row.closed}

    def event(self, event: Event, run: str, depth: int, columns: int, narrow: bool) -> None:
        """Take in one event. A turn is finished when the next begins, or the run stops."""
        kind, top = event["kind"], depth == 0
        if top and kind in ("model.start", "model.reply") and event["data"].get("turn") != self.tree.main.turn:
            self.finish_turn(columns, narrow)
        apply(self.tree, event, run, depth)
        self.at, self.heard = self.tree.runs[run].at, time.monotonic()
        if top and kind in _SPEECH:
            self._speech(event)
        if top and kind in ("run.end", "park"):
            self.finish_turn(columns, narrow)

    def _speech(self, event: Event) -> None:
        """Model text belongs to its turn; the text of a final answer is not repeated here."""
        calls = event["data"].get("calls") or []
        final = any(call.get("implicit") for call in calls if isinstance(call, dict))
        if event["kind"] == "model.reply" and not final:
            self.spoken = self.said or content_text(event["data"].get("content"))
        self.said = ""

    def finish_turn(self, columns: int, narrow: bool) -> None:
        """Move the active turn above the region, once; where plain lines told it already, only forget it."""
        run, look = self.tree.main, self.look(columns)
        rows = [row for row in rows_of(run, look, run.turn) if row.op and row.op not in self.printed]
        self.printed |= {row.op for row in rows}
        if not narrow:
            shown = [row for row in rows if row.verb != "finish" or row.state == "failed"]
            self.above += kept_text(self.spoken, columns, self.glyphs)
            self.above += turn_lines(self.tree, run, run.turn, look, True, shown)
        self.spoken = ""

    def finish_stages(self, columns: int) -> None:
        """A pipeline has no turns: each stage is moved up when it has ended."""
        run, look = self.tree.main, self.look(columns)
        for row in active(run, look, self.printed):
            if row.turn == 0 and row.op and row.closed:
                self.printed.add(row.op)
                self.above += turn_lines(self.tree, run, 0, look, True, [row])

    def interrupt(self) -> None:
        """Ctrl-C was heard."""
        self.interrupted = True
        self.above.append(((stopping(self.tree, self.glyphs), "yellow"),))

    def look(self, columns: int) -> Look:
        """The layout for now; clocks go on from the newest event's time."""
        clock = time.monotonic()
        return Look(columns, self.glyphs, self.read, self.at + clock - self.heard, int(clock / FRAME), self.stages)

    def frame(self, columns: int, height: int) -> list[Line]:
        """The region's lines, at most `height`."""
        said = self.said or self.spoken
        return region(self.tree, self.look(columns), height, said, self.printed, self.interrupted)

    def take_above(self, columns: int) -> list[Line]:
        """What is to be printed above the region, cut to the terminal; it is handed out once."""
        lines, self.above = [fit(line, columns, self.glyphs.cut) for line in self.above], []
        return lines


def content_text(content: Any) -> str:
    """The text among a provider's blocks, or beside the calls of a message."""
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block.get("text") or (block.get("tool_calls") and block.get("content")) for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def region(tree: Tree, look: Look, height: int, said: str, printed: set[int], interrupted: bool) -> list[Line]:
    """The lines of one frame, at most `height`; rows that run are the last to be left out."""
    assert look.width is not None
    run = tree.main
    text = newest(said, look.width, 1 if look.width < 60 else 4)
    status = fit(((status_line(tree, look, interrupted), "dim"),), look.width, look.glyphs.cut)
    rows = active(run, look, printed)
    turn = run.turn if rows and rows[0].turn else 0
    lines = turn_lines(tree, run, turn, look, False, rows)
    return [*_cropped(lines, max(1, height - len(text) - 1), look.glyphs), *text, status]


def active(run: Run, look: Look, printed: set[int]) -> list[Row]:
    """The rows of the active turn that are not printed yet."""
    return [row for row in rows_of(run, look, run.turn) if row.op not in printed and row.verb != "finish"]


def _cropped(lines: Sequence[Line], room: int, glyphs: Glyphs) -> list[Line]:
    if len(lines) <= room:
        return list(lines)
    left_out = len(lines) - room + 1
    running = [line for line in lines if any(style == "cyan" for _, style in line)]
    others = [at for at, line in enumerate(lines) if line not in running]
    hidden = set(others[:left_out])
    kept = [line for at, line in enumerate(lines) if at not in hidden][: room - 1]
    return [((f"  {glyphs.cut} {left_out} more", "dim"),), *kept]


def newest(said: str, columns: int, lines: int) -> list[Line]:
    """The newest lines of model text, dim, indented."""
    if not said.strip():
        return []
    wrapped = wrap(escape(said[-columns * (lines + 2) :].strip()), columns, "   ")
    return [((line, "dim"),) for line in wrapped[-lines:]]


def kept_text(said: str, columns: int, glyphs: Glyphs) -> list[Line]:
    """The first lines of a turn's model text, for scrollback."""
    if not said.strip():
        return []
    wrapped = wrap(escape(said.strip()), columns, "   ")
    if len(wrapped) > KEPT_TEXT:
        more = len(wrapped) - KEPT_TEXT + 1
        wrapped = [*wrapped[: KEPT_TEXT - 1], f"   {glyphs.cut} {more} more lines"]
    return [((line, "dim"),) for line in wrapped]


def status_line(tree: Tree, look: Look, interrupted: bool) -> str:
    """`turn 3 of 20 · 11s · $0.06 of $0.50 · Ctrl-C stops after fetch-lines`, with less of it where it does not fit."""
    assert look.width is not None
    run = tree.main
    budget = run.start.get("budget") or {}
    spent = totals(tree, run)
    turn = f"turn {run.turn}" + (f" of {budget['turns']}" if budget.get("turns") is not None else "")
    cost = spent.cost if spent.turns else ""
    if cost and budget.get("usd") is not None:
        cost += f" of ${float(budget['usd']):.2f}"
    names = ", ".join(busy(tree, run))
    after = (f" after {names}" if names else "") if not interrupted else ""
    stop = "again to kill it" if interrupted else f"Ctrl-C stops{after}"
    asked = "the model answers" if run.opened is not None else ""
    seconds = spent.seconds + max(0.0, look.now - run.at)
    clock = f"{int(seconds)}s" if seconds < 60 else duration(seconds)
    parts = [turn if run.turn else "", clock, cost, asked, stop]
    kept = [one_line(part) for part in parts if part]
    dot = f" {look.glyphs.dot} "
    while len(kept) > 1 and width(dot.join(kept)) > look.width - 3:
        kept.pop()
    return "   " + dot.join(kept)


def stopping(tree: Tree, glyphs: Glyphs) -> str:
    """`stopping after search-logs · again to kill it`, for the first Ctrl-C. Escaped."""
    names = ", ".join(busy(tree, tree.main))
    return one_line(f"stopping after {names} {glyphs.dot} again to kill it" if names else "stopping")


def busy(tree: Tree, run: Run, depth: int = 0) -> list[str]:
    """The names of what runs, the deepest of each branch."""
    names: list[str] = []
    for row in run.rows.values():
        if row.state == "running":
            child = tree.child(row)
            names += (busy(tree, child, depth + 1) if child and depth < 3 else []) or [row.name]
    return names

