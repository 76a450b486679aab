"""Runs as rows of a table, each folded from its journal. A folder that cannot be read is a row that says so."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.fold import fold
from harness.events.line import at_seconds
from harness.events.log import follow
from harness.runs.find import all_runs


@dataclass(frozen=True, slots=True)
class Listed:
    """One run: `stop` is the name of its end or park, or open, stopped (its owner is gone), damaged."""

    name: str
    skill: str
    goal: str
    began: float
    stop: str
    parked: bool
    waiting: tuple[int, ...]
    tools: frozenset[str]
    code: int | None

    @property
    def age_s(self) -> float:
        return time.time() - self.began

    @property
    def shown(self) -> str:
        return f"{self.stop} {' '.join(f'#{n}' for n in self.waiting)}".strip()

    def fits(self, waiting: bool, status: str | None, skill: str | None, tool: str | None) -> bool:
        """Whether the run passes every filter that was given."""
        return (
            (not waiting or self.parked)
            and status in (None, self.stop)
            and skill in (None, self.skill)
            and (tool is None or tool in self.tools)
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.name, "skill": self.skill, "goal": self.goal, "began": self.began, "stop": self.stop,
            "code": self.code, "waiting": list(self.waiting),
        }  # fmt: skip


def listed(runs_dir: Path, wanted: Callable[[Path], bool]) -> Iterator[Listed]:
    """Every run that is wanted, newest first, read one by one."""
    for folder in all_runs(runs_dir):
        if wanted(folder):
            yield read(folder)


def read(folder: Path) -> Listed:
    """One run from its journal; what cannot be read is told, never raised."""
    try:
        events = follow(folder)
    except (OSError, HarnessError):
        events = []
    if not events or events[0]["kind"] != "run.start":
        return Listed(folder.name, "?", "", 0.0, "never started", False, (), frozenset(), None)
    state = fold(events)
    goal = state.start.get("goal", "")
    last = state.end or state.park or {}
    stop = last.get("stop") or ("open" if is_owned(folder) else "stopped")
    return Listed(
        folder.name, state.start.get("skill", ""), goal if isinstance(goal, str) else "…",
        at_seconds(events[0]["at"]), stop, state.status == "parked", tuple((state.park or {}).get("ops") or ()),
        frozenset(op.tool for op in state.ops.values()), last.get("exit"),
    )  # fmt: skip


def is_owned(folder: Path) -> bool:
    """Whether some process holds the run; asked without waiting and without taking it."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
