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
from harness.events.line import MAX_LINE, BadLine, at_seconds, parse
from harness.events.log import follow
from harness.runs.find import all_runs

WITHOUT = ("open", "stopped", "never started", "damaged", "unreadable")
"""States without an end or a park: owned; its owner is gone; no first event; no journal; no right to read it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One run: `stop` is the name of its end or park, or one of WITHOUT."""

    folder: Path
    skill: str
    goal: str
    began: float
    stop: str
    parked: bool
    waiting: tuple[int, ...]
    code: int | None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def tools(self) -> frozenset[str]:
        """The tools it called; reads the whole journal."""
        try:
            return frozenset(op.tool for op in fold(follow(self.folder)).ops.values())
        except (OSError, HarnessError):
            return frozenset()

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
    """One run from the two ends of its journal; what cannot be read is told, never raised."""
    first, newest = ends(folder)
    if first is None or newest is None or first["kind"] != "run.start":
        return unreadable(folder)
    start, goal = first["data"], first["data"].get("goal", "")
    last = newest["data"] if newest["kind"] in ("run.end", "park") else {}
    stop = last.get("stop") or ("open" if is_owned(folder) else "stopped")
    parked = newest["kind"] == "park"
    return Listed(
        folder, start.get("skill", ""), goal if isinstance(goal, str) else "…", at_seconds(first["at"]), stop, parked,
        tuple(last.get("ops") or ()) if parked else (), last.get("exit"),
    )  # fmt: skip


def unreadable(folder: Path) -> Listed:
    """A folder without a beginning, as far as its name and its size tell."""
    stamp, _, rest = folder.name.partition("-")
    try:
        began = at_seconds(f"{stamp}Z")
    except ValueError:
        began = folder.lstat().st_mtime
    try:
        stop = "damaged" if (folder / "events.jsonl").stat().st_size else "never started"
    except FileNotFoundError:
        stop = "never started"
    except OSError:
        stop = "unreadable"
    return Listed(folder, rest.rpartition("-")[0], "", began, stop, False, (), None)


def ends(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The first event and the newest good one, without reading what lies between them."""
    try:
        with open(folder / "events.jsonl", "rb") as file:
            first = file.readline(MAX_LINE)
            file.seek(max(len(first), file.seek(0, os.SEEK_END) - MAX_LINE))
            rest = file.read().split(b"\n")[:-1]
    except OSError:
        return None, None
    events = (_event(piece) for piece in reversed([first.removesuffix(b"\n"), *rest]))
    return _event(first.removesuffix(b"\n")), next((event for event in events if event is not None), None)


def _event(piece: bytes) -> dict[str, Any] | None:
    try:
        return parse(piece)
    except BadLine:
        return None


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
