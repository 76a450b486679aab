"""The journal's one writer: append, sync, blobs. It knows the shape of a line and nothing of its meaning."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events import line as lines
from harness.events import lock
from harness.events.clock import Clock, Hand
from harness.events.hiding import Hide, as_they_are
from harness.events.io import IO
from harness.events.regular import bytes_of
from harness.events.scan import Scan, blob_bytes, check_there, good_events, journal_bytes, never_started, proves, scan

INLINE = 4_096
INLINE_LARGE = 32_768
HEARTBEAT = 5.0

Sink = Callable[[dict[str, Any], bytes], None]
FIX = "free the cause, then: harness resume {run}; an unlocked run goes on as it is"
ANEW = "free the cause, then begin it again: no line of it was kept"


class Log:
    """An open journal. `folder` is the run's; only the holder of the lock has one of these.

    `events` are those found when it was opened, `lost` the seconds its last owner lived on after the last of them.
    `hide` masks the secrets of what becomes a blob; `found` collects the names of those that were in it.
    After any failed write or sync the log is `broken`: it appends no more, and the run is resumable as it lies on the
    disk.
    """

    def __init__(self, folder: Path, io: IO, clock: Clock, lock_fd: int) -> None:
        self.folder, self.io, self.clock = folder, io, clock
        self.sinks: list[Sink] = []
        self.hide: Hide = as_they_are
        self.found: set[str] = set()
        self.broken = False
        self._lock_fd, self._fd, self._good = lock_fd, -1, 0
        self._sum = hashlib.sha256()
        self._mutex = threading.Lock()
        self._seq, self._epoch = 0, 1
        self._new_names = [folder.parent, folder]  # folders with names that may not be on the disk yet
        self._hand = Hand(clock)
        self.events: tuple[dict[str, Any], ...] = ()
        self.repaired: dict[str, int] | None = None
        self.lost = 0.0
        self._stop_beating = threading.Event()

    @property
    def name(self) -> str:
        return self.folder.name

    def now(self) -> float:
        return self._hand.now()

    def append(self, kind: str, data: dict[str, Any], op: int | None = None) -> dict[str, Any]:
        """Write one event with a single write, then tell the sinks. Raises JournalError; then nothing was kept."""
        with self._mutex:
            at = lines.at_text(self.now())
            epoch = self._epoch + (1 if kind == "resume" else 0)
            line = lines.frame(self._seq + 1, epoch, at, kind, data, op)
            if proves(kind, data):
                self._sync_names()
            self._write(line)
            self._seq, self._epoch = self._seq + 1, epoch
        event = lines.parse(line[:-1])
        for sink in list(self.sinks):
            try:
                sink(event, line)
            except Exception:  # noqa: BLE001 - a view that fails must not end the run it shows
                self.sinks.remove(sink)
        return event

    def _write(self, line: bytes) -> None:
        self._refuse_if_broken()
        with self.guarded("the journal cannot be read"):
            size = self.io.size(self._fd)
        if size != self._good:
            self._break("the journal has another length than this process wrote: somebody else writes to it")
        try:
            written = self.io.write(self._fd, line)
        except OSError as error:
            self._cut()
            self._break(f"the journal cannot be written: {error.strerror or error}", error)
        if written != len(line):
            self._cut()
            self._break("the journal cannot be written: the disk took only part of a line")
        self._good += len(line)
        self._sum.update(line)

    def _cut(self) -> None:
        with contextlib.suppress(OSError):  # the next opener cuts what is left here
            self.io.truncate(self._fd, self._good)

    def _break(self, message: str, cause: BaseException | None = None) -> None:
        self.broken = True
        fix = FIX.format(run=self.name) if self._seq or self.events else ANEW
        raise JournalError(message, fix, str(self.folder / "events.jsonl")) from cause

    def _refuse_if_broken(self) -> None:
        if self.broken:
            self._break("the journal could not be written before; nothing more is appended")

    @contextlib.contextmanager
    def guarded(self, message: str) -> Iterator[None]:
        """Do something to the run's folder; should the disk refuse, nothing more is appended. Raises JournalError."""
        self._refuse_if_broken()
        try:
            yield
        except OSError as error:
            self._break(f"{message}: {error.strerror or error}", error)

    def sync(self) -> None:
        """Put everything appended on the disk: blobs, their names, the journal. Never repeated after a failure."""
        with self._mutex:
            self._sync_names()
            with self.guarded("the journal cannot be synced"):
                self.io.sync(self._fd)
            if not self._same_files():
                self._break("the journal or its lock was replaced by another file: somebody else writes to it")

    def _sync_names(self) -> None:
        """Blobs hold their bytes from the start; here their names, and at first that of the run, reach the disk."""
        with self.guarded("the run's folder cannot be synced"):
            while self._new_names:
                self.io.sync_dir(self._new_names[-1])
                self._new_names.pop()

    def _same_files(self) -> bool:
        pairs = ((self._fd, "events.jsonl"), (self._lock_fd, "lock"))
        try:
            return all(os.path.samestat(os.fstat(fd), (self.folder / name).stat()) for fd, name in pairs)
        except OSError:
            return False

    def fit(self, value: str | bytes, limit: int = INLINE) -> str | dict[str, Any]:
        """The text itself, or a reference to a blob when it is longer than `limit` bytes or no UTF-8; masked."""
        raw = lines.whole(value).encode() if isinstance(value, str) else value
        return self.fit_masked(self.hide(raw, self.found), limit)

    def fit_masked(self, raw: bytes, limit: int) -> str | dict[str, Any]:
        """The same for bytes that were masked."""
        if len(raw) <= limit:
            with contextlib.suppress(UnicodeDecodeError):
                return raw.decode()
        return self.keep(raw)

    def blob(self, raw: bytes) -> dict[str, Any]:
        """Keep bytes outside the journal, before the event that names them is appended."""
        return self.keep(self.hide(raw, self.found))

    def keep(self, raw: bytes) -> dict[str, Any]:
        """The same for bytes that were masked."""
        name = hashlib.sha256(raw).hexdigest()
        folder = self.folder / "blobs"
        with self._mutex, self.guarded("a blob cannot be written"):
            if not _holds(folder / name, raw):
                self.io.put(folder / name, raw)
            if folder not in self._new_names:
                self._new_names.append(folder)
        return {"blob": name, "bytes": len(raw)}

    def read_blob(self, value: object) -> bytes:
        """The bytes of a value as an event holds it: a text, or a reference."""
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and isinstance(value.get("blob"), str):
            return blob_bytes(self.folder, value["blob"])
        return b""

    def close(self) -> None:
        """Give up the lock. The folder stays as it is."""
        self._stop_beating.set()
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock_fd = -1

    def beat(self) -> None:
        """Sign the lock and go on touching it, so that the next owner knows how long this one lived."""
        lock.sign(self._lock_fd, self.io, self._epoch, self.now())
        self._touch()
        threading.Thread(target=self._beating, name=f"beat-{self.name}", daemon=True).start()

    def _beating(self) -> None:
        while not self._stop_beating.wait(HEARTBEAT):
            self._touch()

    def _touch(self) -> None:
        with contextlib.suppress(OSError):
            self.io.touch(self.folder / "lock", self.now())

    def mark(self) -> tuple[str, int]:
        """SHA-256 and length of the journal as this process found it and went on with it."""
        with self._mutex:
            return self._sum.hexdigest(), self._good

    def attach(self, found: Scan | None, raw: bytes = b"") -> None:
        """Take over the journal as it was found in `raw`, cutting off a torn tail; None begins an empty one."""
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if found is None else 0)
        if found is not None:
            self.events, self._good = found.events, found.good
        with self.guarded("the journal cannot be opened"):
            self._fd = self.io.open(self.folder / "events.jsonl", flags)
        if found is None:
            return
        self._sum.update(raw[: found.good])
        if found.torn:
            with self.guarded("the journal's torn end cannot be cut off"):
                self._repair(found.torn)
        last = found.events[-1]
        self._seq, self._epoch = last["seq"], last["epoch"]
        self._new_names.append(self.folder / "blobs")
        at = lines.at_seconds(last["at"])
        self._hand = Hand(self.clock, at)
        self.lost = max(0.0, os.fstat(self._lock_fd).st_mtime - at)

    def _repair(self, torn: bytes) -> None:
        """Keep what is cut off, then cut."""
        self.io.put(self.folder / f"torn-{self._good}.bin", torn)
        self.io.sync_dir(self.folder)
        self.io.truncate(self._fd, self._good)
        self.io.sync(self._fd)
        self.repaired = {"offset": self._good, "bytes": len(torn)}


def _holds(path: Path, raw: bytes) -> bool:
    try:
        return bytes_of(path) == raw
    except OSError:
        return False


def create(folder: Path, io: IO, clock: Clock) -> Log:
    """Begin a run's folder, which must not exist yet. Raises FileExistsError when its name is taken."""
    io.mkdir(folder)
    for part in ("ops", "blobs", "inbox"):
        io.mkdir(folder / part)
    return _attached(Log(folder, io, clock, lock.take(folder, io, wait=0.0)), None)


def open_log(
    folder: Path, io: IO, clock: Clock, wait: float = 1.0, check: Callable[[bytes], None] = lambda _: None
) -> Log:
    """Own a run's journal: lock, judge, cut off a torn tail. Raises BusyError or JournalError.

    `check` may refuse the good lines, as they stand, before anything is changed.
    """
    check_there(folder)
    try:
        log = Log(folder, io, clock, lock.take(folder, io, wait))
        with contextlib.ExitStack() as stack:
            stack.callback(log.close)
            raw = journal_bytes(folder)
            found = scan(raw, folder)
            if not found.started:
                raise never_started(folder)
            check(raw[: found.good])
            stack.pop_all()
    except OSError as error:
        what = f"the run cannot be opened: {error.strerror or error}"
        raise JournalError(what, "make its folder readable and writable", str(folder)) from error
    return _attached(log, found, raw)


def _attached(log: Log, found: Scan | None, raw: bytes = b"") -> Log:
    try:
        log.attach(found, raw)
    except BaseException:
        log.close()
        raise
    return log


def unowned(folder: Path, io: IO, clock: Clock) -> Log:
    """A journal for one who only looks: as it lies there, and nothing can be appended."""
    log = Log(folder, io, clock, -1)
    log.events, log.broken = tuple(follow(folder)), True
    return log


def follow(folder: Path) -> list[dict[str, Any]]:
    """The good events of a journal that somebody else may be writing: stops at the first line that is not good."""
    return [event for event, _ in good_events(journal_bytes(folder), folder / "events.jsonl")]
