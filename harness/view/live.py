"""The live view: finished turns stay in scrollback, the active one is redrawn below them. Only on a terminal.

Events come through a queue and a thread of its own draws, so a slow terminal loses frames, never events, and never
slows the run. `rich` draws; it is told what the terminal is and given `Text`, never markup.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

from harness.view import Event, Reader
from harness.view.closing import first_line, last_lines
from harness.view.fold import apply
from harness.view.frame import FRAME, Story
from harness.view.mode import LEAST_HEIGHT, LEAST_WIDTH, terminal_size
from harness.view.plain import Plain
from harness.view.rows import Tree
from harness.view.text import Glyphs, Line, ansi, escape, one_line, trim, wrap
from harness.view.tree import Stages

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 5.0
"""Seconds that a caller waits for a terminal which takes no bytes."""
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
NO_WRAP, WRAP = "\x1b[?7l", "\x1b[?7h"
CLEAR = "\r\x1b[K\x1b[2G\x1b[J\r"
"""Erases from here on, in two steps: tmux takes one for clearing the screen and keeps what was there in scrollback."""


class Region:
    """The lines at the bottom that are redrawn. Owned by the drawing thread.

    Between frames the cursor stands at the start of the first line. A terminal that breaks lines anew when it
    is resized keeps the cursor there, and what is below it is the region, however many lines that has become.
    """

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self.stream, self.colour = stream, colour
        self.console: Console | None = None
        self.open = False
        self.lines: list[Line] = []
        self.size = (0, 0)

    def paint(self, above: list[Line], lines: list[Line], size: tuple[int, int]) -> None:
        """Print `above` over the region and draw `lines` in it; nothing is written when nothing changed."""
        if self.open and not above and lines == self.lines and size == self.size:
            return
        printed = "".join(self._shown(line, size[0]) + "\n" for line in above)
        drawn = "\n".join(self._shown(line, size[0]) for line in lines)
        up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        # A terminal may be narrower than it has told us yet: what is too long is then lost, and makes no further line.
        self._write(f"{HIDE_CURSOR}{NO_WRAP}{CLEAR}{printed}{drawn}\r{up}{WRAP}")
        self.open, self.lines, self.size = True, lines, size

    def _shown(self, line: Line, columns: int) -> str:
        """One line with its colours. `rich` gets a text without markup and is told all that it would ask for."""
        from rich.text import Text

        if self.console is None:
            self.console = self._console()
        text = Text.assemble(*trim(line), no_wrap=True, overflow="crop", end="")
        with self.console.capture() as captured:
            self.console.print(text, width=columns, end="")
        return captured.get()

    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=self.stream, force_terminal=True, force_interactive=False, force_jupyter=False, legacy_windows=False,
            color_system="standard" if self.colour else None, no_color=not self.colour, highlight=False, markup=False,
            emoji=False, _environ={"TERM": "xterm"}, width=200, height=50,
        )  # fmt: skip

    def write(self, lines: list[Line]) -> None:
        """Print lines where there is no region."""
        self._write("".join(ansi(line, self.colour) + "\n" for line in lines))

    def close(self) -> None:
        """Take the region away and show the cursor."""
        if self.open:
            self._write(CLEAR + SHOW_CURSOR)
        self.open, self.lines = False, []

    def abandon(self, words: str) -> None:
        """Leave the terminal usable after a failure, with a line that says so."""
        try:
            self._write(f"{CLEAR}{WRAP}{SHOW_CURSOR}{words}\n")
        except (OSError, ValueError):
            return

    def _write(self, text: str) -> None:
        if text:
            self.stream.write(text)
            self.stream.flush()


class Live:
    """A sink that draws on `stream`, a terminal. `size` gives columns and lines and is asked at each frame."""

    def __init__(
        self,
        stream: TextIO,
        read: Reader,
        glyphs: Glyphs,
        colour: bool = True,
        size: Callable[[], tuple[int, int]] = terminal_size,
        stages: Stages | None = None,
    ) -> None:
        self.stream, self.glyphs, self.size = stream, glyphs, size
        self.story, self.region = Story(read, glyphs, stages), Region(stream, colour)
        self.plain = Plain(stream, read, glyphs, colour)
        self.plain.tree = self.story.tree
        self.queue: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self.thread: threading.Thread | None = None
        self.suspended, self.failed, self.over, self.bug = 0, False, False, ""

    def history(self, events: Iterable[Event], run: str, depth: int = 0) -> None:
        """Take in what happened in earlier processes, before the first event of this one."""
        self.story.history(events, run, depth)

    def event(self, event: Event, run: str, depth: int) -> None:
        if self.thread is None and depth == 0 and event["kind"] in ("run.start", "resume"):
            self._first(event, run)
        self._put("event", (event, run, depth))

    def delta(self, text: str) -> None:
        self._put("delta", text)

    def notice(self, text: str) -> None:
        """A line of the harness's own, printed above the region."""
        self._put("notice", text)

    def interrupt(self) -> None:
        """Ctrl-C was heard: say what is waited for and what a second one does."""
        self._put("interrupt", None)

    def suspend(self) -> None:
        """Close the region and return when the terminal is free, for a question or a stop. Nests."""
        self._wait("suspend")

    def resume(self) -> None:
        """Draw again after `suspend`."""
        self._wait("resume")

    def close(self) -> None:
        """Print what is left and how the run ended; the cursor is visible afterwards."""
        if self.thread is None:
            return
        self._wait("close")
        self.thread = None
        if self.bug:
            self.region.abandon(f"warning: the live view stopped: {one_line(self.bug)}")

    def on_stop(self, signum: int, frame: object) -> None:
        """For SIGTSTP: leave the terminal as a shell wants it, stop, and draw again when continued."""
        self.suspend()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.resume()

    def _first(self, event: Event, run: str) -> None:
        """The first line, written at once and without the library that draws."""
        tree = self.story.tree
        if event["kind"] == "run.start":
            tree = Tree()
            apply(tree, event, run, 0)
        try:
            self.stream.write(first_line(tree.main, self.glyphs, self.size()[0]) + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return  # the drawing thread meets the same and gives up

    def _put(self, what: str, value: Any) -> None:
        if self.thread is None and not self.over:
            self.thread = threading.Thread(target=self._draw, daemon=True, name="live-view")
            self.thread.start()
        self.queue.put((what, value))

    def _wait(self, what: str) -> None:
        if self.over:
            return
        done = threading.Event()
        self._put(what, done)
        done.wait(PATIENCE)

    def _draw(self) -> None:
        try:
            while not self.over:
                self._take()
                self._frame()
        except (OSError, ValueError):  # the terminal is gone: the run goes on without a view
            self._serve()
        except Exception as bug:  # noqa: BLE001 a view that cannot show something must not end the run
            self.bug = f"{type(bug).__name__}: {bug}"
            self._serve()

    def _serve(self) -> None:
        """Draw no more, and let nobody wait."""
        self.failed = True
        while not self.over:
            what, value = self.queue.get()
            if isinstance(value, threading.Event):
                self._control(what, value)

    def _take(self) -> None:
        """Take in what comes until the next frame is due; what a caller waits for is not delayed."""
        due = time.monotonic() + FRAME
        while not self.over and (left := due - time.monotonic()) > 0:
            try:
                what, value = self.queue.get(timeout=left)
            except Empty:
                return
            self._handle(what, value)

    def _handle(self, what: str, value: Any) -> None:
        if what == "event":
            self._event(*value)
        elif what == "delta":
            self.story.said += value
        elif what == "notice":
            self.story.above += [((line, ""),) for line in wrap(escape(value), self.size()[0])]
        elif what == "interrupt":
            self.story.interrupt()
        else:
            self._control(what, value)

    def _control(self, what: str, done: threading.Event) -> None:
        try:
            if what == "resume":
                self.suspended = max(0, self.suspended - 1)
            elif not self.failed:
                self._leave(what == "close")
            self.suspended += what == "suspend"
        finally:
            self.over = what == "close"
            done.set()

    def _leave(self, for_good: bool) -> None:
        """Print what is finished, close the region, and at the end say how the run ended."""
        main, columns = self.story.tree.main, self.size()[0]
        if for_good:
            self.story.finish_turn(columns, self._is_narrow())
        if for_good or not self.suspended:
            self._print_above(columns)
        self.region.close()
        if for_good and (main.end or main.park):
            for line in last_lines(self.story.tree, self.glyphs, columns):
                self.stream.write(line + "\n")
        self.stream.flush()

    def _print_above(self, columns: int) -> None:
        lines = self.story.take_above(columns)
        if lines and self.region.open:
            self.region.paint(lines, self.region.lines, self.size())
        else:
            self.region.write(lines)

    def _event(self, event: Event, run: str, depth: int) -> None:
        narrow = self._is_narrow()
        self.story.event(event, run, depth, self.size()[0], narrow)
        if narrow and not self.suspended:
            self.region.close()
            self.plain.say(event, run)

    def _is_narrow(self) -> bool:
        columns, lines = self.size()
        return columns < LEAST_WIDTH or lines < LEAST_HEIGHT

    def _frame(self) -> None:
        if self.suspended or self.over or not self.story.tree.top:
            return
        columns, lines = size = self.size()
        if self._is_narrow():
            self.region.close()
            self.region.write(self.story.take_above(columns))
            return
        self.story.finish_stages(columns)
        self.region.paint(self.story.take_above(columns), self.story.frame(columns, lines - 2), size)
