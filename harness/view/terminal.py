"""The controlling terminal while a person is asked: its modes, keys and lines. Never standard input.

Modes come back on every path out: an answer, a signal, a lost terminal, a bug.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from harness.view.text import one_line

DEAD_TIME = 0.25
"""Seconds after a prompt in which keys are thrown away."""
Poll = Callable[[], str | None]
"""Asked while a prompt waits; a text closes the prompt and is printed (`approved elsewhere by NAME`)."""
CTRL_C, CTRL_D, ENTER = "\x03", "\x04", ("\r", "\n")
_POLL_SECONDS = 0.1
Answer = TypeVar("Answer")


class LostError(Exception):
    """The terminal is gone, or something else ended the prompt; its text says what."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal that is being asked."""

    fd: int

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self.fd, data) :]

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            columns, lines = os.get_terminal_size(self.fd)
        except OSError:
            columns, lines = shutil.get_terminal_size()
        return columns or 80, lines or 24


@contextmanager
def asking(path: str = "/dev/tty") -> Iterator[Terminal | None]:
    """The terminal, one key at a time and without echo; None where there is none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        with _modes(fd) as usable:
            yield Terminal(fd) if usable else None
    finally:
        os.close(fd)


def answered(path: str, ask: Callable[[Terminal], Answer]) -> Answer | None:
    """What a person answers there; None where there is no terminal, or where it is lost meanwhile."""
    with asking(path) as terminal:
        try:
            return ask(terminal) if terminal is not None else None
        except (LostError, OSError, termios.error):
            return None


@contextmanager
def _modes(fd: int) -> Iterator[bool]:
    try:
        saved = termios.tcgetattr(fd)
    except (OSError, termios.error):
        yield False
        return

    def restore() -> None:
        try:
            termios.tcsetattr(fd, termios.TCSANOW, saved)
        except (OSError, termios.error):
            return

    try:
        with _signals(restore):
            _set_keys(fd)
            yield True
    finally:
        restore()


@contextmanager
def _signals(restore: Callable[[], None]) -> Iterator[None]:
    """Signals restore the terminal before anything else; one that is handled, or a hang-up, ends the prompt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: old for number in numbers if (old := signal.getsignal(number)) not in (None, signal.SIG_IGN)}

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        old = before[signal.Signals(number)]
        if callable(old):
            old(number, frame)
        elif number != signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise LostError

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _set_keys(fd: int) -> None:
    """One key at a time, no echo, and Ctrl-C, Ctrl-Z as keys."""
    modes = termios.tcgetattr(fd)
    modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def _set_line(fd: int) -> None:
    """A line with echo and the terminal's own editing; Ctrl-C ends it as Enter does."""
    modes = termios.tcgetattr(fd)
    modes[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK
    modes[6][termios.VEOF], modes[6][termios.VEOL] = CTRL_D.encode(), CTRL_C.encode()
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def settle(fd: int, seconds: float = DEAD_TIME) -> None:
    """Throw away what was typed before, and for a moment after, a question stood there."""
    termios.tcflush(fd, termios.TCIFLUSH)
    if seconds:
        time.sleep(seconds)
        termios.tcflush(fd, termios.TCIFLUSH)


def read_key(fd: int, poll: Poll | None = None, dead: float = DEAD_TIME) -> str:
    """The next key. Several bytes at once (a paste, an arrow key) are no key: they come back whole and mean nothing."""
    settle(fd, dead)
    data = _read(fd, poll)
    if not data:
        raise LostError
    text = data.decode("utf-8", "replace")
    return text[0] if len(text) == 2 and text[1] in ENTER else text


def read_line(terminal: Terminal, poll: Poll | None = None) -> str | None:
    """A line as typed, without blanks around it; None at Ctrl-D or Ctrl-C."""
    _set_line(terminal.fd)
    try:
        text = _read(terminal.fd, poll).decode("utf-8", "replace")
    finally:
        _set_keys(terminal.fd)
    if not text.endswith("\n"):
        terminal.write("\n")
    return None if not text or text.endswith(CTRL_C) else text.strip()


def _read(fd: int, poll: Poll | None) -> bytes:
    while not select.select([fd], [], [], _POLL_SECONDS)[0]:
        if poll and (words := poll()) is not None:
            os.write(fd, f"\n{one_line(words)}\n".encode())
            raise LostError(words)
    return os.read(fd, 4096)
