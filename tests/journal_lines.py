"""Journals written by the real `Log` into a folder, for tests that damage them, and clocks that tests can set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.line import at_text, frame
from harness.events.log import Log, create

START = 1_796_039_123.0
RUN: dict[str, Any] = {"run": "r", "skill": "look", "goal": "g", "inputs": {}, "budget": {}, "model": {"ref": "none"}}


def steps(count: int) -> list[bytes]:
    """Lines of a run of `count` steps, five lines each."""
    lines: list[bytes] = []

    def add(kind: str, data: dict[str, Any], op: int | None = None) -> None:
        lines.append(frame(len(lines) + 1, 1, at_text(START), kind, data, op))

    add("run.start", RUN)
    for n in range(1, count + 1):
        said = {"tool": "search-logs", "args": ["--service", f"s{n}"]}
        call = {"op": n, "id": f"call_{n}", "verb": "run", "arguments": said}
        content = [{"type": "tool_use", "id": f"call_{n}", "name": "run", "input": said}]
        add("model.start", {"turn": n, "body": f"{n:012x}", "bytes": 3000, "estimate": 1000})
        usage = {"input": 1000, "out": 20}
        add("model.reply", {"turn": n, "content": content, "dialect": "anthropic", "calls": [call], "stop": "calls",
                            "usage": usage, "cost": 0.001, "ms": 900})  # fmt: skip
        decided = {"verdict": "allow", "argv": said["args"], "rules": ["default"], "effect": "read", "repeat": "pure"}
        add("decide", decided, n)
        add("tool.start", {"level": "none"}, n)
        add("tool.end", {"outcome": "done", "exit": 0, "class": "OK", "ms": 40, "out": f"{n} lines\n" * 20,
                         "result": f"{n:016x}"}, n)  # fmt: skip
    return lines


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
