"""Whom a person trusts: the record of it, and how what a run would use of a folder stands to that record.

The record lies in the state directory, keyed by canonical path and (device, inode), never in a project. Data alone: it
asks nobody, and it knows nothing of skills and tools, only files.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError
from harness.events.io import IO, make_private
from harness.policy.alone import alone
from harness.policy.files import check_place, check_private
from harness.policy.pins import forget_copies, keep_copies
from harness.tools.regular import read_regular

Word = Literal["own", "trusted", "once", "changed", "unknown"]
Files = Mapping[str, str]
"""Name of a file (below its folder, or absolute) → its pin."""
VERSION, MAX_BYTES = 1, 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """What is recorded of one folder. `own`: the person's own work, of which nothing is pinned.

    `files` are pins; `uses` says which of them were shown together, by what was to be run; `runs` holds what a run may
    use though its project stays untrusted. `since` is in epoch seconds.
    """

    path: str
    device: int
    inode: int
    own: bool = False
    since: float = 0.0
    files: Files = field(default_factory=dict)
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runs: Mapping[str, Files] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Book:
    """The whole record."""

    entries: tuple[Entry, ...] = ()

    def of(self, folder: Path) -> Entry | None:
        """What holds for this very folder: one that was copied, moved or put in its place has nothing."""
        return next((entry for entry in self.entries if is_same(entry, folder)), None)

    def put(self, entry: Entry) -> Book:
        """The record with this entry in place of all others of its path."""
        return Book((*self.without(entry.path).entries, entry))

    def without(self, path: str) -> Book:
        return Book(tuple(entry for entry in self.entries if entry.path != path))


@dataclass(frozen=True, slots=True)
class Standing:
    """How what would be used of a folder stands to the record. The names are of files, for `changed`."""

    word: Word
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def is_same(entry: Entry, folder: Path) -> bool:
    """Whether an entry is about the folder that is there now."""
    try:
        path = folder.resolve(strict=True)
        at = path.stat()
    except (OSError, RuntimeError):
        return False
    return (entry.path, entry.device, entry.inode) == (str(path), at.st_dev, at.st_ino)


def fresh(folder: Path) -> Entry:
    """An entry about a folder in which nothing is trusted yet. Raises HarnessError where it cannot be looked at."""
    try:
        path = folder.resolve(strict=True)
        at = path.stat()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HarnessError(f"cannot look at {folder}: {reason.lower()}", "name a folder that is there") from error
    return Entry(str(path), at.st_dev, at.st_ino, since=time.time())


def standing(entry: Entry | None, key: str, files: Files, run: str = "") -> Standing:
    """The standing of the files that `key` would use; `run` names one that goes on."""
    if entry is None:
        return Standing("unknown")
    if entry.own:
        return Standing("own")
    changed = tuple(name for name in files if name in entry.files and entry.files[name] != files[name])
    added = tuple(name for name in files if name not in entry.files)
    removed = tuple(name for name in entry.uses.get(key, ()) if name not in files)
    if not (changed or added or removed):
        return Standing("trusted")
    if run and entry.runs.get(run) == files:
        return Standing("once")
    known = key in entry.uses or (key in entry.files and key not in added)
    return Standing("changed" if known else "unknown", changed, added, removed)


def with_files(entry: Entry, key: str, files: Files) -> Entry:
    """The entry in which these are trusted, what the same key used before and does not any more taken out."""
    gone = {name for name in entry.uses.get(key, ()) if name not in files}
    uses = {**entry.uses, key: tuple(files)}
    kept = {name: known for name, known in entry.files.items() if name not in gone or _is_used(uses, name)}
    return replace(entry, files={**kept, **files}, uses=uses, since=time.time())


def _is_used(uses: Mapping[str, tuple[str, ...]], name: str) -> bool:
    return any(name in names for names in uses.values())


def with_run(entry: Entry, run: str, files: Files, runs_dir: Path) -> Entry:
    """The entry in which one run may use these files; runs that are not there any more are forgotten."""
    kept = {name: held for name, held in entry.runs.items() if (runs_dir / name).is_dir()}
    return replace(entry, runs={**kept, run: files})


def record(state: Path) -> Path:
    """Where the record is, in the state directory."""
    return state / "trust.json"


def copies(state: Path) -> Path:
    """Where copies of what was pinned are."""
    return state / "trust"


def read_book(state: Path, home: Path) -> Book:
    """The record; an empty one where there is none. Raises HarnessError where it is damaged, or somebody else's."""
    path = record(state)
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Book()
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    try:
        check_private(state)
        check_place(path, {os.geteuid(), 0}, None, home)
        data = read_regular(path, MAX_BYTES)
    except (OSError, RuntimeError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or str(error)) from error
    if len(data) > MAX_BYTES:
        raise _unusable(path, f"over {MAX_BYTES // 1024 // 1024} MiB")
    return _parsed(data, path)


def _unusable(path: Path, reason: str) -> HarnessError:
    what = f"what is trusted cannot be read: {reason.lower()}"
    return HarnessError(what, f"mend it; or begin anew, and be asked again: rm {path}", str(path))


def _parsed(data: bytes, path: Path) -> Book:
    try:
        whole = json.loads(data)
        if type(whole) is not dict or whole.get("version") != VERSION:
            raise ValueError(f"it is not of version {VERSION}")
        return Book(tuple(_entry(each) for each in whole["projects"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unusable(path, f"it is damaged ({type(error).__name__}: {error})") from error


def _entry(given: Any) -> Entry:
    return Entry(
        _is(given["path"], str), _is(given["device"], int), _is(given["inode"], int), _is(given["own"], bool),
        float(given["since"]), _files(given["files"]),
        {key: tuple(_is(name, str) for name in _is(names, list)) for key, names in _is(given["uses"], dict).items()},
        {run: _files(files) for run, files in _is(given["runs"], dict).items()},
    )  # fmt: skip


def _is(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _files(given: Any) -> Files:
    return {name: _is(known, str) for name, known in _is(given, dict).items()}


def _text(book: Book) -> bytes:
    made = [
        {
            "path": entry.path, "device": entry.device, "inode": entry.inode, "own": entry.own, "since": entry.since,
            "files": dict(entry.files), "uses": {key: list(names) for key, names in entry.uses.items()},
            "runs": {run: dict(files) for run, files in entry.runs.items()},
        }
        for entry in book.entries
    ]  # fmt: skip
    return (json.dumps({"version": VERSION, "projects": made}, indent=1) + "\n").encode()


def update(state: Path, home: Path, io: IO, change: Callable[[Book], Book], seen: Mapping[Path, str] = {}) -> Book:
    """Change the record: alone, and whole or not at all. `seen` are files whose copies are kept, path → pin.

    Raises HarnessError (exit 2) where the record cannot be used or written, BusyError where another process keeps it.
    """
    try:
        make_private(state)
        check_private(state)
        with alone(state / "trust.lock", io, "what is trusted"):
            book = change(read_book(state, home))
            held = [known for entry in book.entries for files in (entry.files, *entry.runs.values())
                    for known in files.values()]  # fmt: skip
            copies(state).mkdir(mode=0o700, exist_ok=True)
            keep_copies(copies(state), io, seen)
            io.put(record(state), _text(book))
            forget_copies(copies(state), io, held)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"what is trusted cannot be kept: {reason}", "make it writable", str(state)) from error
    return book
