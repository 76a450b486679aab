"""Which run a person means: a folder's name, a unique part of its id, or `last`. Nothing is opened for writing."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

from harness.errors import HarnessError, JournalError, near_text
from harness.events.scan import open_journal

_NAME = re.compile(r"\d{8}T\d{6}-.+-[a-z2-7]{8}")
_AT = re.compile(rb'"at":"([^"]+)"')
HEAD = 200
MIN_PART = 4


def all_runs(runs_dir: Path) -> list[Path]:
    """Every run's folder, newest first; none where there is no such folder yet. Raises JournalError."""
    try:
        with os.scandir(runs_dir) as entries:
            found = [entry.name for entry in entries if _NAME.fullmatch(entry.name) and not entry.is_symlink()]
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise JournalError(f"runs cannot be read: {reason}", "make the folder readable", str(runs_dir)) from error
    same = Counter(map(_second, found))
    began = {name: _began(runs_dir / name) for name in found if same[_second(name)] > 1}
    found.sort(key=lambda name: (_second(name), began.get(name, "")), reverse=True)
    return [runs_dir / name for name in found]


def _second(name: str) -> str:
    return name.split("-", 1)[0]


def _began(folder: Path) -> str:
    """When a run began, to the millisecond: only runs of one second need a look into their journal."""
    try:
        with open_journal(folder) as file:
            found = _AT.search(file.read(HEAD))
    except OSError:
        return ""
    return found[1].decode() if found else ""


def is_child(folder: Path) -> bool:
    """Whether another run began this one; told from its first line alone."""
    try:
        with open_journal(folder) as file:
            return b'"parent":{' in file.readline(65_536).split(b'"budget":', 1)[0]
    except OSError:
        return False


def short_id(name: str) -> str:
    """The id at the end of a run's name."""
    return name.rsplit("-", 1)[-1]


def find_run(runs_dir: Path, text: str | None, allow_last: bool = True) -> Path:
    """The folder of the run that `text` names. Raises HarnessError (exit 2) with the candidates or the nearest."""
    if text == "":
        raise HarnessError("the run's name is empty", "give its id: harness runs lists them")
    runs = all_runs(runs_dir)
    if text in (None, "last"):
        return _last(runs_dir, runs, allow_last)
    exact = [p for p in runs if p.name == text or short_id(p.name) == text]
    if len(exact) == 1:
        return exact[0]
    part = [p for p in runs if text and len(text) >= MIN_PART and text in short_id(p.name)]
    if len(part) == 1:
        return part[0]
    if part:
        names = ", ".join(p.name for p in part[:8])
        raise HarnessError(f"'{text}' could be any of: {names}", "give more of its id")
    near = near_text(str(text), [short_id(p.name) for p in runs])
    raise HarnessError(f"no run '{text}' in {runs_dir}{near}", "list them: harness runs")


def _last(runs_dir: Path, runs: list[Path], allowed: bool) -> Path:
    if not allowed:
        raise HarnessError("this command needs the run's own id, never 'last'", "list them: harness runs")
    own = [p for p in runs if not is_child(p)]
    if not own:
        raise HarnessError(f"there is no run in {runs_dir} yet", "start one: harness run SKILL GOAL")
    return own[0]
