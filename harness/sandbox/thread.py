"""A fresh thread that gives something up for good, starts one thing and ends. Not a place that knows what or why."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(enter: Callable[[], None], start: Callable[[], T]) -> T:
    """What `start` returns after `enter` in a thread of their own; what either raises is raised here."""
    import subprocess  # noqa: F401 - a confined thread may not be able to read the module

    done: list[T] = []
    failed: list[BaseException] = []
    running = _thread.allocate_lock()

    def body() -> None:
        try:
            enter()
            done.append(start())
        except BaseException as error:  # noqa: BLE001 - raised where the thread is waited for
            failed.append(error)
        finally:
            running.release()

    running.acquire()
    _thread.start_new_thread(body, ())  # a `Thread` makes its starter wait until it runs
    running.acquire()
    if failed:
        raise failed[0]
    return done[0]
