"""What is known of the runs of one folder, kept beside them so that a question about thousands reads few journals.

Derived, best effort, and nothing decides by it: what is missing, changed, corrupt, of another version or not of this
user's own making is read from the journals again, and where it cannot be written every answer comes from them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import randbits
from typing import Any

from harness.errors import HarnessError
from harness.events.fold import fold
from harness.events.io import IO
from harness.events.log import follow
from harness.events.seal import ready
from harness.runs.find import all_runs
from harness.runs.list import LIVE, UNTOLD, Listed, live, read, whole

NAME = ".index.sqlite"
VERSION = 1
PATIENCE = 0.2
"""Seconds to wait for another process that writes the index; after them this one goes without."""

BESIDE = ("", "-journal", "-wal", "-shm")
OF_THE_MACHINE = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
    | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
)
"""Errors that say nothing against the file itself."""

TABLES = f"""
CREATE TABLE runs(name TEXT PRIMARY KEY, mark TEXT, skill TEXT, goal TEXT, began REAL, stop TEXT, parked INTEGER,
  waiting TEXT, code INTEGER, parent TEXT, fork TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE ops(run TEXT, n INTEGER, tool TEXT, verb TEXT, class TEXT, PRIMARY KEY(run, n)) WITHOUT ROWID;
CREATE INDEX callers ON ops(tool, run);
PRAGMA user_version = {VERSION};
"""
Rows = list[tuple[str, int, str, str, str]]


class Index:
    """The runs of one folder, each as its journal says. What had to be read anew is kept when it is closed.

    `seals` is the folder outside the project that says which index is this user's own; without it none is used.
    """

    def __init__(self, runs_dir: Path, seals: Path | None) -> None:
        self.runs_dir = runs_dir
        self._db = _opened(runs_dir / NAME, _witness(runs_dir, seals))
        self._rows = {row[0]: row for row in self._ask("SELECT * FROM runs")}
        self._read: dict[str, tuple[str, Listed]] = {}
        self._names: frozenset[str] = frozenset()
        self._ops: dict[str, Rows] = {}

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def runs(self) -> Iterator[Listed]:
        """Every run, newest first, looked at one by one. Raises JournalError where the folder cannot be read."""
        folders = all_runs(self.runs_dir)
        self._names = frozenset(folder.name for folder in folders)
        self._forget(self._rows.keys() - self._names)
        return map(self.run, folders)

    def is_top(self, run: Listed) -> bool:
        """Whether no other run that is still there began it: who lost its parent stands for itself."""
        return run.parent not in self._names

    def run(self, folder: Path) -> Listed:
        """One run: as it is kept, if its journal is the same still; otherwise from the journal."""
        mark, row = _mark(folder), self._rows.get(folder.name)
        if mark and row is not None and row[1] == mark:
            with suppress(TypeError, ValueError):
                return _listed(folder, row)
        found = whole(read(folder))
        if mark and found.stop not in ("open", *UNTOLD):
            self._read[folder.name] = (mark, found)
        return found

    def callers(self, tool: str) -> Callable[[Listed], bool]:
        """Whether a run called this tool."""
        kept = {str(row[0]) for row in self._ask("SELECT DISTINCT run FROM ops WHERE tool = ?", tool)}

        def called(run: Listed) -> bool:
            if run.name in self._rows and run.name not in self._read and run.stop != "open":
                return run.name in kept
            return any(row[2] == tool for row in self._ops_of(run.folder))

        return called

    def _ops_of(self, folder: Path) -> Rows:
        if folder.name not in self._ops:
            self._ops[folder.name] = _operations(folder)
        return self._ops[folder.name]

    def _ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; none where the index fails, and then it is not asked again."""
        if self._db is None:
            return []
        try:
            return self._db.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._rows = None, {}
        if _is_corrupt(error):
            _remove(self.runs_dir / NAME)

    def _forget(self, names: Iterable[str]) -> None:
        gone = [(name,) for name in names]
        if gone:
            self._write([("DELETE FROM runs WHERE name = ?", gone), ("DELETE FROM ops WHERE run = ?", gone)])

    def close(self) -> None:
        """Keep what was read anew."""
        if self._read and self._db is not None:
            runs = [_row(mark, run) for mark, run in self._read.values()]
            ops = [op for _, run in self._read.values() for op in self._ops_of(run.folder)]
            names = [(name,) for name in self._read]
            self._write([
                (f"INSERT OR REPLACE INTO runs VALUES({','.join('?' * 12)})", runs),
                ("DELETE FROM ops WHERE run = ?", names), ("INSERT INTO ops VALUES(?,?,?,?,?)", ops),
            ])  # fmt: skip
        if self._db is not None:
            self._db.close()
        self._db = None

    def _write(self, orders: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
        """All of it or nothing. Another process that writes, or a folder that takes no file, is no error."""
        if self._db is None:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for order, rows in orders:
                self._db.executemany(order, rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(error)


def update(runs_dir: Path, seals: Path | None, names: Iterable[str]) -> None:
    """Read these runs again, after a park or an end."""
    with Index(runs_dir, seals) as index:
        for name in names:
            index.run(runs_dir / name)


def erase(runs_dir: Path, seals: Path | None, names: Iterable[str]) -> bool:
    """Leave no byte of these runs in the index. False where that cannot be done."""
    path = runs_dir / NAME
    db = _opened(path, _witness(runs_dir, seals)) if path.exists() else None
    try:
        if db is not None:
            rows = [(name,) for name in names]
            db.executemany("DELETE FROM runs WHERE name = ?", rows)
            db.executemany("DELETE FROM ops WHERE run = ?", rows)
            db.execute("VACUUM")
            db.close()
            return True
    except sqlite3.Error:
        pass
    return _remove(path)


def _witness(runs_dir: Path, seals: Path | None) -> int | None:
    """The number that an index of ours in this place bears: one that came along with the folder has another.

    Made once, and kept where no project can know it. None where it cannot be kept.
    """
    if (seals := ready(seals)) is None:
        return None
    kept = seals / f"{sha256(os.fsencode(os.path.realpath(runs_dir))).hexdigest()}.index"
    with suppress(OSError, ValueError):
        return int(kept.read_text(encoding="ascii"))
    try:
        number = 1 + randbits(30)
        IO().put(kept, f"{number}\n".encode())
        return number
    except OSError:
        return None


def _opened(path: Path, witness: int | None) -> sqlite3.Connection | None:
    """The index, made anew where it is missing, corrupt, another's or of another version; None where there can be none.
    """
    for _ in range(2 if witness is not None else 0):
        try:
            if not _is_usable(path):
                return None
            return _checked(path, witness)
        except (sqlite3.Error, OSError) as error:
            if not _is_corrupt(error) or not _remove(path):
                return None
    return None


def _is_usable(path: Path) -> bool:
    """Whether a plain file is there, or could be made: anything else might be waited for, or lead elsewhere."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        return True


def _checked(path: Path, witness: int | None) -> sqlite3.Connection:
    """Raises sqlite3.Error; DatabaseError itself for a file that is not an index of this version and this user."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA synchronous = OFF")
        (version,), (bears,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id"))
        if version == 0 and path.stat().st_size == 0:
            db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {witness}; COMMIT;")
        elif (version, bears) != (VERSION, witness):
            raise sqlite3.DatabaseError("another version, or another's")
    except BaseException:
        db.close()
        raise
    return db


def _is_corrupt(error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in OF_THE_MACHINE


def _remove(path: Path) -> bool:
    try:
        for end in BESIDE:
            path.with_name(path.name + end).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _mark(folder: Path) -> str:
    """What changes whenever a journal does; empty where there is none to be read."""
    try:
        at = os.stat(f"{folder}/events.jsonl")  # noqa: PTH116 - there may be thousands
    except OSError:
        return ""
    return f"{at.st_size}:{at.st_mtime_ns}:{at.st_ino}"


def _row(mark: str, run: Listed) -> tuple[Any, ...]:
    return (
        run.name, mark, run.skill, run.goal, run.began, "" if run.stop in LIVE else run.stop, int(run.parked),
        json.dumps(run.waiting), run.code, run.parent, run.fork, run.until,
    )  # fmt: skip


def _listed(folder: Path, row: tuple[Any, ...]) -> Listed:
    """A run as it was kept. Whether somebody owns it is asked now. Raises TypeError or ValueError for a strange row."""
    _, _, skill, goal, began, stop, parked, waiting, code, parent, fork, until = row
    return Listed(
        folder, str(skill), str(goal), float(began), str(stop) or live(folder), bool(parked),
        () if waiting == "[]" else tuple(map(int, json.loads(waiting))), None if code is None else int(code),
        str(parent), str(fork), None if until is None else float(until),
    )  # fmt: skip


def _operations(folder: Path) -> Rows:
    try:
        ops = fold(follow(folder)).ops.values()
    except (OSError, HarnessError, LookupError, TypeError, ValueError, AttributeError):
        return []  # a journal that checks out and makes no sense: whoever opens it is told
    return [(folder.name, op.n, op.tool, op.verb, op.code or (op.result or {}).get("class") or "") for op in ops]
