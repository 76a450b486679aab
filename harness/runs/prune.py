"""Deleting runs, because a person says so: which ones go, and how a folder goes so that a kill leaves no half run."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BusyError, HarnessError
from harness.events import lock
from harness.events.attempts import is_unsettled
from harness.events.io import IO
from harness.events.seal import seal_path
from harness.events.witness import path_of
from harness.runs.above import check_held, held, parent_of, works_for
from harness.runs.find import short_id
from harness.runs.list import Listed, is_owned, read
from harness.runs.peek import read_state
from harness.runs.tree import empty

TRASH = ".trash-"
GOES = "never started"
"""The one state beside an end in which nothing is lost with a run."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which runs shall go: those that fit every part that is given.

    `older` in seconds, `keep` the number of newest ones that stay, `stop` a run's state. `named` are folders; `force`
    takes those among them that have not ended; `relatives` are `children`, `forks` or both.
    """

    older: float | None = None
    keep: int | None = None
    stop: str | None = None
    named: tuple[Path, ...] = ()
    force: bool = False
    relatives: frozenset[str] = frozenset()


def chosen(runs: Sequence[Listed], wish: Wish) -> list[Listed]:
    """The runs that go, of all there are (newest first); whom a run began goes before it.

    Raises HarnessError for a named one that may not go (exit 2), BusyError for one that somebody owns. A run that works
    for another one goes only with it: begun again under its name, it would do again what it did.
    """
    tops = _tops(runs)
    first = [run for run in runs if run.folder in wish.named] if wish.named else tops[wish.keep or 0 :]
    if wish.named and wish.keep is not None:
        first = [run for run in first if run not in tops[: wish.keep]]
    first = [run for run in first if _fits(run, wish)]
    if not wish.named:
        needed = {run.name for run, _ in held(runs, runs)}
        return [run for top in first if not why_not(top) for run in _family(runs, top, wish, needed) or ()]
    for run in first:
        _check_named(run, runs, wish)
    gone = list(dict.fromkeys(one for run in first for one in _with_relatives(runs, run, wish)))
    if not wish.force:
        check_held(runs, gone)
    return gone


def _tops(runs: Sequence[Listed]) -> list[Listed]:
    """Those that no run began that is still there."""
    names = {run.name for run in runs}
    return [run for run in runs if run.parent not in names]


def _fits(run: Listed, wish: Wish) -> bool:
    return (wish.older is None or run.age_s > wish.older) and wish.stop in (None, run.stop)


def why_not(run: Listed) -> str:
    """Why a run goes only by name and by force; empty for one that has ended with nothing left to settle."""
    if is_owned(run.folder):
        return "is running"
    if run.stop == GOES:
        return ""
    if not run.has_ended:
        return f"has not ended ({run.shown})"
    return "has a call whose outcome nobody knows" if _is_unsettled(run.folder) else ""


def _is_unsettled(folder: Path) -> bool:
    try:
        state = read_state(folder)
    except HarnessError:
        return True
    return state is not None and any(map(is_unsettled, state.open_ops.values()))


def _check_named(run: Listed, runs: Sequence[Listed], wish: Wish) -> None:
    """Raises HarnessError where the person cannot mean it."""
    parent = parent_of(runs, run)
    if is_owned(run.folder) or (parent is not None and is_owned(parent.folder)):
        raise BusyError(f"{run.name} is running{lock.owner(run.folder)}", f"harness stop {short_id(run.name)}")
    if parent is not None and parent.folder not in wish.named and works_for(run, parent):
        fix = f"harness runs prune {short_id(parent.name)} --force --with children"
        raise HarnessError(f"{run.name} works for {parent.name}, which would do it all again", fix)
    if wish.force:
        return
    if parent is not None:
        fix = f"prune that one with --with children, or say --force: {short_id(parent.name)}"
        raise HarnessError(f"{run.name} is part of the run {parent.name}", fix)
    if why := why_not(run):
        fix = f"look: harness show {short_id(run.name)}; delete it all the same: --force"
        raise HarnessError(f"{run.name} {why}", fix)


def _family(runs: Sequence[Listed], top: Listed, wish: Wish, needed: Collection[str]) -> list[Listed] | None:
    """A run with those that go along; None where one of them may not go, or a fork needs it still."""
    family = list(_with_relatives(runs, top, wish))
    return None if any(why_not(run) or run.name in needed for run in family) else family


def _with_relatives(runs: Sequence[Listed], run: Listed, wish: Wish) -> Iterator[Listed]:
    for other in runs:
        is_child = "children" in wish.relatives and other.parent == run.name
        if is_child or ("forks" in wish.relatives and other.fork == run.name):
            yield from _with_relatives(runs, other, wish)
    yield run


def family(runs: Sequence[Listed], folder: Path, relatives: frozenset[str]) -> list[Listed]:
    """A run and those of its children and forks that go along, itself last."""
    named = [run for run in runs if run.folder == folder]
    return [one for run in named for one in _with_relatives(runs, run, Wish(relatives=relatives))]


def left_behind(runs: Sequence[Listed], gone: Sequence[Listed]) -> list[str]:
    """Runs that stay and were begun by, or copied from, one that goes."""
    names = {run.name for run in gone}
    return [run.name for run in runs if run.name not in names and (run.parent in names or run.fork in names)]


def remove(run: Listed, io: IO, seals: Path, force: bool) -> None:
    """Take a run away: first its name, then its files. Raises BusyError where somebody owns it, OSError."""
    fd = lock.take(run.folder, io, wait=0.0)
    try:
        if not force and (why := _changed(read(run.folder))):
            raise BusyError(f"{run.name} {why} by now", "leave it, or say --force")
        trash = run.folder.with_name(TRASH + run.name)
        io.rename(run.folder, trash)
        io.sync_dir(run.folder.parent)
        for path in (seal_path(seals, run.name), path_of(seals, run.name)):
            with suppress(FileNotFoundError):
                io.unlink(path)
        empty(trash, io)
    finally:
        os.close(fd)


def _changed(run: Listed) -> str:
    """Why a run does not go any more, now that nobody else can own it."""
    return "" if run.has_ended or run.stop == GOES else "has been gone on with"


def leftovers(runs_dir: Path) -> list[Path]:
    """Folders that a killed prune left half deleted."""
    try:
        return sorted(path for path in runs_dir.glob(f"{TRASH}*") if path.is_dir() and not path.is_symlink())
    except OSError:
        return []
