"""Journals written by the real `Log` into a folder, for tests that damage them, and clocks that tests can set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.log import Log, create

START = 1_796_039_123.0
RUN: dict[str, Any] = {"run": "r", "skill": "look", "goal": "g", "inputs": {}, "budget": {}, "model": {"ref": "none"}}


class Hands(Clock):
    """A clock whose two hands a test sets."""

    def __init__(self, wall: float = START, boot: float = 100.0) -> None:
        self.at, self.up = wall, boot

    def wall(self) -> float:
        return self.at

    def boot(self) -> float:
        return self.up

    def pass_(self, seconds: float) -> None:
        self.at += seconds
        self.up += seconds


class NoSync(IO):
    """The real thing without its slow part, for tests that cut no power."""

    def sync(self, fd: int) -> None:
        """Nothing: the kernel has it."""

    def sync_dir(self, path: Path) -> None:
        """Nothing: the kernel has it."""


def new(folder: Path, io: IO | None = None, clock: Clock | None = None) -> Log:
    """A begun run: its first event is on the disk."""
    log = create(folder, io or IO(), clock or Hands())
    log.append("run.start", RUN)
    log.sync()
    return log


def journal(folder: Path, notes: int = 49, more: Callable[[Log], None] = lambda log: None) -> list[bytes]:
    """Write a run of one start and some notes, close it, and give its lines."""
    log = new(folder)
    for number in range(notes):
        log.append("note", {"why": "warning", "text": f"number {number}"})
    more(log)
    log.close()
    return (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
