"""Runs as rows of a table, each folded from its journal. A folder that cannot be read is a row that says so."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, JournalError
from harness.events.line import MAX_LINE, BadLine, at_seconds, check_known, lifted, parse, told
from harness.events.scan import has_attempts, journal_bytes, open_journal, scan

LIVE = ("open", "stopped", "forked")
"""Neither ended nor parked: owned; its owner is gone; a fork that had none yet."""

UNTOLD = ("never started", "damaged", "unreadable", "newer")
"""No first event; no journal; no right to read it; written by a newer harness."""

WITHOUT = (*LIVE, *UNTOLD)


@dataclass(frozen=True, slots=True)
class Listed:
    """One run: `stop` is the name of its end or park, or one of WITHOUT; `parent` the run that began it, `fork` the
    one it was copied from.

    `until` is when a waiting run is due, in epoch seconds; `problem` why its journal is not read here.
    """

    folder: Path
    skill: str
    goal: str
    began: float
    stop: str
    parked: bool
    waiting: tuple[int, ...]
    code: int | None
    parent: str = ""
    fork: str = ""
    until: float | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def has_ended(self) -> bool:
        return self.code is not None and not self.parked

    @property
    def age_s(self) -> float:
        return time.time() - self.began

    @property
    def shown(self) -> str:
        return f"{self.stop} {' '.join(f'#{n}' for n in self.waiting)}".strip()

    def fits(self, waiting: bool, status: str | None, skill: str | None) -> bool:
        """Whether the run passes every filter that was given."""
        return (not waiting or self.parked) and status in (None, self.stop) and skill in (None, self.skill)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.name, "skill": self.skill, "goal": self.goal, "began": self.began, "stop": self.stop,
            "code": self.code, "waiting": list(self.waiting), "until": self.until, "problem": self.problem or None,
            "parent": self.parent or None, "fork": self.fork or None,
        }  # fmt: skip


def read(folder: Path) -> Listed:
    """One run from the two ends of its journal; what cannot be read is told, never raised."""
    first, newest = ends(folder)
    if first is None or newest is None:
        return unreadable(folder)
    try:
        for event in (first, newest):
            check_known(event, "")
    except HarnessError as error:
        return replace(unreadable(folder), stop="newer", problem=error.message)
    return unreadable(folder) if first["kind"] != "run.start" else _listed(folder, lifted(first), lifted(newest))


def whole(run: Listed) -> Listed:
    """The same run; one whose two ends read well and whose middle does not is damaged, however it ended."""
    if run.stop in ("open", *UNTOLD):
        return run
    try:
        scan(journal_bytes(run.folder), run.folder, blobs=False)
    except JournalError as error:
        return replace(run, stop="damaged", parked=False, waiting=(), code=None, problem=error.message)
    except (HarnessError, OSError):
        return run  # whoever opens it is told
    return run


def _listed(folder: Path, first: dict[str, Any], newest: dict[str, Any]) -> Listed:
    start, goal = first["data"], told(first["data"].get("goal", ""))
    last = newest["data"] if newest["kind"] in ("run.end", "park") else {}
    parked, until = newest["kind"] == "park", last.get("until")
    link = start.get("fork") or {}
    fork, is_fresh = link.get("run", ""), newest["seq"] <= link.get("seq", 0)
    began = (named_at(folder) if fork else None) or at_seconds(first["at"])  # a fork's first line has its source's time
    stop = last.get("stop") or live(folder, "forked" if is_fresh else "stopped")
    return Listed(
        folder, start.get("skill", ""), goal if isinstance(goal, str) else "…", began, stop, parked,
        tuple(last.get("ops") or ()) if parked else (), last.get("exit"),
        (start.get("parent") or {}).get("run", ""), fork,
        at_seconds(until) if until else None,
    )  # fmt: skip


def named_at(folder: Path) -> float | None:
    """When a run was made, as its name says it, in epoch seconds."""
    try:
        return at_seconds(f"{folder.name.partition('-')[0]}Z")
    except ValueError:
        return None


def live(folder: Path, unowned: str = "stopped") -> str:
    """The state of a run that has neither ended nor parked."""
    return "open" if is_owned(folder) else unowned


def unreadable(folder: Path) -> Listed:
    """A folder without a beginning, as far as its name and its size tell."""
    rest = folder.name.partition("-")[2]
    began = named_at(folder) or folder.lstat().st_mtime
    path = folder / "events.jsonl"
    try:
        is_damaged = (path.exists() and (path.stat().st_size or not path.is_file())) or has_attempts(folder)
        stop = "damaged" if is_damaged else "never started"
    except OSError:
        stop = "unreadable"
    return Listed(folder, rest.rpartition("-")[0], "", began, stop, False, (), None)


def ends(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The first event and the newest good one, without reading what lies between them.

    An amendment is no state of its own: it may follow the end that it leaves as it is.
    """
    try:
        with open_journal(folder) as file:
            first = file.readline(MAX_LINE)
            file.seek(max(len(first), file.seek(0, os.SEEK_END) - 2 * MAX_LINE))
            rest = file.read().split(b"\n")[:-1]
    except OSError:
        return None, None
    events = (_event(piece) for piece in reversed([first.removesuffix(b"\n"), *rest]))
    newest = (event for event in events if event is not None and event["kind"] != "amend")
    return _event(first.removesuffix(b"\n")), next(newest, None)


def _event(piece: bytes) -> dict[str, Any] | None:
    try:
        return parse(piece)
    except BadLine:
        return None


def is_owned(folder: Path) -> bool:
    """Whether some process holds the run; asked without waiting and without taking it."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
