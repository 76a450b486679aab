"""Daemon threads that are used again: starting one costs as much as a journaled step. Nobody waits for them at exit."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]
_idle: deque[SimpleQueue[Work]] = deque()


def start(work: Work) -> None:
    """Do `work`, which must not raise, in a thread of its own."""
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue()
        threading.Thread(target=_serve, args=(inbox,), name="work", daemon=True).start()
    inbox.put(work)


def _serve(inbox: SimpleQueue[Work]) -> None:
    while True:
        inbox.get()()
        _idle.append(inbox)
