"""The plain view: one line for each thing that is finished, in words, for pipes, logs and screen readers.

No control codes, no redrawing, no model text, and no meaning in alignment: `TIME EVENT NAME #OP STATE SECONDS DETAIL`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from harness.view import Event, Reader
from harness.view.closing import first_line, last_lines
from harness.view.fold import apply
from harness.view.frame import stopping
from harness.view.results import detail, fetch, seconds, tail
from harness.view.rows import Row, Run, Tree, failing, moment, run_on, short
from harness.view.text import STATE_STYLE, Glyphs, duration, money, one_line, painter, plural

EVERY = 30.0
"""Seconds between two `running` lines of one thing."""
MOST_TAIL = 8
"""Lines below a model's failure; of more, as a whole prompt, it is said where they are."""


class Plain:
    """A sink that writes lines to `stream`. Thread-safe; a closed stream ends the view, not the run."""

    def __init__(self, stream: TextIO, read: Reader, glyphs: Glyphs, colour: bool = False) -> None:
        self.stream, self.read, self.glyphs, self.paint = stream, read, glyphs, painter(colour)
        self.tree = Tree()
        self.open = True
        self.told: dict[tuple[str, int], float] = {}
        self.lock = threading.RLock()
        self.done = threading.Event()

    def history(self, events: Iterable[Event], run: str, depth: int = 0) -> None:
        """Take in what happened in earlier processes, without a word."""
        with self.lock:
            for event in events:
                apply(self.tree, event, run, depth)

    def event(self, event: Event, run: str, depth: int) -> None:
        with self.lock:
            apply(self.tree, event, run, depth)
            if depth == 0 and event["kind"] in ("run.start", "resume"):
                self._write(first_line(self.tree.main, self.glyphs))
            self.say(event, run)

    def say(self, event: Event, run: str) -> None:
        """Write the line of an event that the tree has already taken in."""
        line = self._line(event, self.tree.runs[run])
        if line:
            self._write(line)
            self._write_tail(event, self.tree.runs[run])

    def delta(self, text: str) -> None:
        """Model text is not shown here."""

    def notice(self, text: str) -> None:
        """A line of the harness's own: a warning, the model line, what Ctrl-C will do."""
        with self.lock:
            for line in text.split("\n"):
                self._write(one_line(line))

    def interrupt(self) -> None:
        """Ctrl-C was heard: say what is waited for and what a second one does."""
        with self.lock:
            self._write(stopping(self.tree, self.glyphs))

    def suspend(self) -> None:
        """Nothing is in the way of a question here."""

    def resume(self) -> None:
        """See `suspend`."""

    def tick(self, now: float) -> None:
        """Say what still runs, each thing every 30 s. `now` is epoch seconds."""
        with self.lock:
            for run in self.tree.runs.values():
                for op, started, words in _running(run):
                    if now - self.told.get((run.name, op), started) >= EVERY:
                        self.told[run.name, op] = now
                        self._write(self._compose(now, f"{words} running {duration(now - started)}", run))

    def keep_ticking(self, clock: Callable[[], float] = time.time) -> None:
        """Call `tick` once a second from a thread of its own until the view is closed."""

        def beat() -> None:
            while not self.done.wait(1.0):
                self.tick(clock())

        threading.Thread(target=beat, daemon=True, name="plain-view").start()

    def close(self) -> None:
        """Print how the run ended, once."""
        self.done.set()
        with self.lock:
            main = self.tree.main
            if self.open and (main.end or main.park):
                for line in last_lines(self.tree, self.glyphs):
                    self._write(line)
            self.open = False

    def _line(self, event: Event, run: Run) -> str | None:
        words = _WORDS.get(event["kind"])
        said = words(event, run, self) if words else None
        return self._compose(moment(event["at"]), said, run) if said else None

    def _compose(self, at: float, words: str, run: Run) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        return f"{clock} {words}" if run.depth == 0 else f"{clock} {_place(self.tree, run)}{words}"

    def _write_tail(self, event: Event, run: Run) -> None:
        row = run.rows.get(event.get("op") or 0)
        if event["kind"] == "tool.end" and row and row.closed:
            for line in tail(row, run, self.read):
                self._write("  " + one_line(line))
        said = event["data"].get("message") if event["kind"] == "model.fail" else None
        more = said.split("\n")[1:] if isinstance(said, str) else []
        for line in more if len(more) <= MOST_TAIL else ():
            self._write("  " + one_line(line))
        if len(more) > MOST_TAIL:
            self._write(f"  {len(more)} more lines: harness show {short(run.name)} --event {event['seq']}")

    def _write(self, line: str) -> None:
        if not self.open:
            return
        encoding = self.stream.encoding or "utf-8"
        try:
            self.stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            self.open = False

    def state(self, row: Row) -> str:
        """The state's word, coloured where colours are wanted."""
        return self.paint(row.state, STATE_STYLE[row.state])


def _place(tree: Tree, run: Run) -> str:
    """`in diagnose-batch #7: ` before the line of a child run."""
    for parent in tree.runs.values():
        for row in parent.rows.values():
            if row.child == run.name:
                return f"in {one_line(row.name)} #{row.op}: "
    return f"in {one_line(run.name)}: "


def _running(run: Run) -> list[tuple[int, float, str]]:
    """What runs: (operation, since, words); operation 0 is the model."""
    found = [
        (row.op, row.started, f"tool.start {one_line(row.name)} #{row.op}")
        for row in run.rows.values()
        if row.state == "running" and row.started is not None
    ]
    if run.opened is not None:
        found.append((0, run.opened, f"model.start {one_line(run.model or 'model')}"))
    return found


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


_BY = {"shim": "(found)", "query": "(its query says so)", "person": "(a person says so)"}
"""Who tells the end of an attempt, where this process did not see it."""


def _tool_end(event: Event, run: Run, view: Plain) -> str:
    row = run.rows[event["op"]]
    head = f"tool.end {one_line(row.name)} #{row.op}"
    data = event["data"]
    took, by = duration((data.get("ms") or 0) / 1000), _BY.get(data.get("by") or "", "")
    if row.state == "waiting":
        return _join(head, view.state(row), took, "asks a person", by)
    if not row.closed:
        pause = data.get("retry")
        why = f"will retry in {duration(pause.get('after') or 0)}" if pause else data.get("outcome") or ""
        return _join(head, one_line(why), took, one_line(data.get("class") or ""), by)
    if row.state == "unknown":
        return _join(head, view.state(row), took, "outcome not known", by)
    return _join(head, view.state(row), seconds(row, 0), detail(row, run, view.read, view.glyphs), by)


def _decide(event: Event, run: Run, view: Plain) -> str | None:
    row = run.rows[event["op"]]
    by = str(event["data"].get("by") or "")
    if row.state not in ("refused", "skipped", "waiting") and not by.startswith(("user", "channel")):
        return None
    words = detail(row, run, view.read, view.glyphs) if row.state != "new" else ""
    state = "allowed" if row.state in ("new", "running") else view.state(row)
    return _join(f"decide {one_line(row.name)} #{row.op}", state, words)


def _reply(event: Event, run: Run, view: Plain) -> str:
    data, calls = event["data"], event["data"].get("calls")
    cost = money(*_cost(data)) if data.get("provider") != "agent" else ""
    many = plural(len(calls), "call") if isinstance(calls, list) else ""
    took = duration((data.get("ms") or 0) / 1000)
    name = one_line(data.get("served") or run.model or "model")
    return _join(f"model.reply {name}", view.paint("ok", "green"), took, f"turn {data.get('turn')}", many, cost)


def _cost(data: dict[str, Any]) -> tuple[int, int]:
    return (0, 1) if data.get("cost") is None else (round(float(data["cost"]) * 1e9), 0)


def _model_fail(event: Event, run: Run, view: Plain) -> str:
    data = event["data"]
    said = data.get("message")
    message = one_line(said.split("\n", 1)[0]) if isinstance(said, str) else ""
    why = one_line(str(data.get("reason") or data.get("class") or ""))
    return _join(f"model.fail {one_line(run.model or 'model')}", view.paint("failed", "red"), why, message)


def _ask(row: Row, view: Plain) -> str:
    question = row.question if isinstance(row.question, str) else ""
    return _join(f"ask #{row.op}", view.state(row), one_line(question))


def _verify(event: Event, run: Run, view: Plain) -> str:
    data = event["data"]
    if data.get("ok"):
        return _join("verify answer", view.paint("ok", "green"))
    question = fetch(data.get("question"), run.name, view.read)
    if question:
        return _join("verify answer", view.paint("waiting", "yellow"), one_line(question))
    missing = [f"{item.get('name')} {item.get('why')}" for item in data.get("missing") or ()]
    checks = [f"{check.get('name')} exit {check.get('exit')}" for check in failing(data)]
    return _join("verify answer", view.paint("failed", "red"), one_line("; ".join(missing + checks)))


def _note(event: Event, run: Run, view: Plain) -> str:
    text = event["data"].get("text")
    said = one_line(run_on(text)) if isinstance(text, str) else ""
    return _join("note", one_line(str(event["data"].get("why") or "")), said)


def _amend(event: Event, run: Run, view: Plain) -> str:
    data, value = event["data"], event["data"].get("value")
    shown = f"= {value}" if data.get("what") == "input" else ""
    words = one_line(f"{data.get('what')} {data.get('target')} {shown}".rstrip())
    return _join("amend", words, one_line(f"by {data.get('by')}: {data.get('why')}"))


def _park(event: Event, run: Run, view: Plain) -> str:
    asks = [row for row in run.rows.values() if row.verb == "ask" and row.state == "waiting"]
    return "; ".join(_ask(row, view) for row in asks)


def _leak(event: Event, run: Run, view: Plain) -> str:
    data = event["data"]
    return one_line(f"secret.leak {data.get('tool')} masked {data.get('name')} in {data.get('sink')}")


_WORDS: dict[str, Callable[[Event, Run, Plain], str | None]] = {
    "tool.end": _tool_end, "decide": _decide, "model.reply": _reply, "model.fail": _model_fail, "verify": _verify,
    "note": _note, "amend": _amend, "park": _park, "secret.leak": _leak,
}  # fmt: skip
