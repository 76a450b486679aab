"""The time from a tool's start to the moment nothing of it is left: its end, its deadline, a person's word, its crowd.

The same for every kind of attempt. Not a place that starts anything or knows what a tool's exit means.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.executor import tree
from harness.executor.outcome import Cancel
from harness.executor.proc import ahead

_TICK_S = 0.05
_TICK_BLIND_S = 0.01  # where the end of a process does not wake us
_COUNT_S = 0.1
_DRAIN_S = 0.5


class Source(Protocol):
    """Something of the tool's that is read while it runs."""

    fd: int

    def read(self) -> bool:
        """Take what is there; False at the end."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms an attempt runs: `deadline` in seconds from its start, `procs` at most.

    `look` is called every 50 ms. With `shim`, the leader's process group outlives the SIGKILL of the rest a little.
    """

    deadline: float
    procs: int
    shim: bool = False
    look: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen: `code` as `Popen.returncode`, `ms` until the leader's end, `why` when its crowd ended it."""

    code: int
    ms: int
    timed_out: bool
    cancelled: bool
    why: str | None


class Watch:
    """A started tool: waits for its end, at its deadline or a person's word brings it about, and clears up."""

    def __init__(
        self, found: tree.Tree, child: subprocess.Popen[bytes], cancel: Cancel, terms: Terms, *sources: Source
    ) -> None:
        self.tree, self.child, self.cancel, self.terms, self.sources = found, child, cancel, terms, sources
        self.deadline = found.born + terms.deadline
        self.selector = selectors.PollSelector()
        self.exit_fd = _exit_fd(child.pid)
        self.count_at = found.born + _COUNT_S
        self.kill_at: float | None = None
        self.spare_until = 0.0
        self.timed_out = self.cancelled = False
        self.why: str | None = None

    def finish(self) -> Watched:
        """Wait, end what is left, and report."""
        try:
            for source in self.sources:
                self.selector.register(source.fd, selectors.EVENT_READ, source)
            if self.exit_fd is not None:
                self.selector.register(self.exit_fd, selectors.EVENT_READ)
            self._watch()
            ended = time.monotonic()
            self._clear(self.kill_at or ended)
            self._drain()
        finally:
            self._close()
        ms = round((ended - self.tree.born) * 1000)
        return Watched(self.child.returncode, ms, self.timed_out, self.cancelled, self.why)

    def _watch(self) -> None:
        """Until the leader has ended."""
        tick = _TICK_BLIND_S if self.exit_fd is None else _TICK_S
        while True:
            now = time.monotonic()
            self._stop_if_due(now)
            self._count_if_due(now)
            if self.terms.look:
                self.terms.look()
            until = self.deadline if self.kill_at is None else self.kill_at
            if self._read_ready(max(0.0, min(tick, until - now))):
                return

    def _read_ready(self, timeout: float) -> bool:
        """Take the output that is there; True when the leader has ended."""
        ended = False
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                ended = True
            elif not key.data.read():
                self.selector.unregister(key.fd)
        return ended or (self.exit_fd is None and self.child.poll() is not None)

    def _stop_if_due(self, now: float) -> None:
        if self.kill_at is not None:
            if now >= self.kill_at:
                self._kill(now)
                self.kill_at = now + _TICK_S  # again, should something have been born meanwhile
        elif self.cancel.level >= 2 or now >= self.deadline:
            self.cancelled = self.cancel.level >= 2
            self.timed_out = not self.cancelled
            tree.signal_tree(self.tree, signal.SIGTERM)
            tree.signal_tree(self.tree, signal.SIGCONT)  # what is stopped would not notice
            self._kill_from(now + tree.GRACE_S)

    def _kill_from(self, at: float) -> None:
        self.kill_at = at
        self.spare_until = at + (tree.SPARE_S if self.terms.shim else 0.0)

    def _kill(self, now: float) -> None:
        tree.kill(self.tree, spare=now < self.spare_until)

    def _count_if_due(self, now: float) -> None:
        if now < self.count_at or self.kill_at is not None:
            return
        began = time.thread_time()  # not the clock: on a crowded machine a look takes long, and is what helps
        with ahead():
            if tree.crowded(self.tree, self.terms.procs):
                self._disperse(now)
            elif self.terms.shim:
                tree.wake(self.tree)
        spent = time.thread_time() - began
        self.count_at = now + max(_COUNT_S, 100 * spent)  # counting may cost one hundredth of the time

    def _disperse(self, now: float) -> None:
        self.why = f"killed: more than {self.terms.procs} processes"
        self._kill_from(now)
        if tree.encloses(self.tree):  # one kill for all of them is worth the shim's note
            self.spare_until = now
        self._kill(now)

    def _clear(self, kill_at: float) -> None:
        """The leader has ended: end the rest, at once unless it is in its grace, and wait for all."""
        if kill_at <= time.monotonic():
            tree.signal_group(self.tree, signal.SIGKILL)
        self.child.wait()
        tree.sweep(self.tree, kill_at)

    def _drain(self) -> None:
        """Read the outputs to their end, which is now, unless something outside the tree holds them open."""
        until = time.monotonic() + _DRAIN_S
        if self.exit_fd is not None:
            self.selector.unregister(self.exit_fd)
        while self.selector.get_map() and (left := until - time.monotonic()) > 0:
            self._read_ready(left)

    def _close(self) -> None:
        """Also when something was raised, a keyboard interrupt for one: nothing of the tool may go on."""
        if self.child.returncode is None:
            tree.signal_tree(self.tree, signal.SIGKILL)
            self._clear(time.monotonic())
        self.selector.close()
        if self.exit_fd is not None:
            os.close(self.exit_fd)


def _exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process has ended, where there is such a thing."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
