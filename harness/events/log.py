"""The journal's one writer: lock, append, sync, blobs. It knows the shape of a line and nothing of its meaning."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import BusyError, JournalError
from harness.events import line as lines
from harness.events.clock import Clock, Hand
from harness.events.io import IO
from harness.events.scan import Scan, scan

INLINE = 4_096
INLINE_LARGE = 32_768
HEARTBEAT = 5.0

Sink = Callable[[dict[str, Any], bytes], None]
FIX = "free the cause, then: harness resume {run}; an unlocked run goes on as it is"


class Log:
    """An open journal. `folder` is the run's; only the holder of the lock has one of these.

    `events` are those found when it was opened. After any failed write or sync the log is `broken`: it appends no
    more, and the run is resumable as it lies on the disk.
    """

    def __init__(self, folder: Path, io: IO, clock: Clock, lock_fd: int) -> None:
        self.folder, self.io, self.clock = folder, io, clock
        self.sinks: list[Sink] = []
        self.broken = False
        self._lock_fd, self._fd, self._good = lock_fd, -1, 0
        self._mutex = threading.Lock()
        self._seq, self._epoch = 0, 1
        self._unsynced: list[Path] = []
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
        if self.io.size(self._fd) != self._good:
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

    def _cut(self) -> None:
        with contextlib.suppress(OSError):  # the next opener cuts what is left here
            self.io.truncate(self._fd, self._good)

    def _break(self, message: str, cause: BaseException | None = None) -> None:
        self.broken = True
        raise JournalError(message, FIX.format(run=self.name), str(self.folder / "events.jsonl")) from cause

    def _refuse_if_broken(self) -> None:
        if self.broken:
            self._break("the journal could not be written before; nothing more is appended")

    def sync(self) -> None:
        """Put everything appended on the disk: blobs, their folder, the journal. Never repeated after a failure."""
        with self._mutex:
            self._refuse_if_broken()
            try:
                self._sync_blobs()
                self.io.sync(self._fd)
            except OSError as error:
                self._break(f"the journal cannot be synced: {error.strerror or error}", error)
            if not self._same_files():
                self._break("the journal or its lock was replaced by another file: somebody else writes to it")

    def _sync_blobs(self) -> None:
        if not self._unsynced:
            return
        for path in self._unsynced:
            fd = self.io.open(path, os.O_RDONLY)
            try:
                self.io.sync(fd)
            finally:
                os.close(fd)
        self.io.sync_dir(self.folder / "blobs")
        self._unsynced.clear()

    def _same_files(self) -> bool:
        pairs = ((self._fd, "events.jsonl"), (self._lock_fd, "lock"))
        try:
            return all(os.path.samestat(os.fstat(fd), (self.folder / name).stat()) for fd, name in pairs)
        except OSError:
            return False

    def fit(self, value: str | bytes, limit: int = INLINE) -> str | dict[str, Any]:
        """The text itself, or a reference to a blob when it is longer than `limit` bytes or no UTF-8."""
        raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
        if len(raw) <= limit:
            with contextlib.suppress(UnicodeDecodeError):
                return raw.decode()
        return self.blob(raw)

    def blob(self, raw: bytes) -> dict[str, Any]:
        """Keep bytes outside the journal, before the event that names them is appended."""
        self._refuse_if_broken()
        name = hashlib.sha256(raw).hexdigest()
        path = self.folder / "blobs" / name
        if not path.exists():
            try:
                self.io.put(path, raw)
            except OSError as error:
                self._break(f"a blob cannot be written: {error.strerror or error}", error)
            self._unsynced.append(path)
        return {"blob": name, "bytes": len(raw)}

    def read_blob(self, value: object) -> bytes:
        """The bytes of a value as an event holds it: a text, or a reference."""
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and isinstance(value.get("blob"), str):
            return bytes((self.folder / "blobs" / value["blob"]).read_bytes())
        return b""

    def close(self) -> None:
        """Give up the lock. The folder stays as it is."""
        self._stop_beating.set()
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock_fd = -1

    def beat(self) -> None:
        """Start touching the lock, so that the next owner knows how long this one lived."""
        threading.Thread(target=self._beating, name=f"beat-{self.name}", daemon=True).start()

    def _beating(self) -> None:
        while not self._stop_beating.wait(HEARTBEAT):
            with contextlib.suppress(OSError):
                self.io.touch(self.folder / "lock")

    def attach(self, found: Scan | None) -> None:
        """Take over the journal as it was found, cutting off a torn tail; None begins an empty one."""
        flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if found is None else 0)
        self._fd = self.io.open(self.folder / "events.jsonl", flags)
        if found is None:
            return
        self.events, self._good = found.events, found.good
        if found.torn:
            self._repair(found)
        last = found.events[-1]
        self._seq, self._epoch = last["seq"], last["epoch"]
        self._hand = Hand(self.clock, lines.at_seconds(last["at"]))

    def _repair(self, found: Scan) -> None:
        raw = (self.folder / "events.jsonl").read_bytes()[found.good :]
        self.io.put(self.folder / f"torn-{found.good}.bin", raw)
        self.io.truncate(self._fd, found.good)
        self.io.sync(self._fd)
        self.repaired = {"offset": found.good, "bytes": len(raw)}


def create(folder: Path, io: IO, clock: Clock) -> Log:
    """Begin a run's folder, which must not exist yet. Raises FileExistsError when its name is taken."""
    io.mkdir(folder)
    for part in ("ops", "blobs", "inbox"):
        io.mkdir(folder / part)
    log = Log(folder, io, clock, _take_lock(folder, io, wait=0.0)[0])
    log.attach(None)
    return log


def open_log(folder: Path, io: IO, clock: Clock, wait: float = 1.0) -> Log:
    """Own a run's journal: lock, judge, cut off a torn tail. Raises BusyError or JournalError."""
    lock_fd, touched = _take_lock(folder, io, wait)
    try:
        log = Log(folder, io, clock, lock_fd)
        found = scan((folder / "events.jsonl").read_bytes(), folder)
        if not found.events or found.events[0]["kind"] != "run.start":
            raise JournalError("this run never started", "start it again; its folder may be deleted", str(folder))
        log.attach(found)
        log.lost = max(0.0, touched - lines.at_seconds(found.events[-1]["at"]))
        return log
    except BaseException:
        os.close(lock_fd)
        raise


def _take_lock(folder: Path, io: IO, wait: float) -> tuple[int, float]:
    """The held lock, and when its last owner touched it."""
    fd = io.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    deadline = time.monotonic() + wait
    while not io.lock(fd):
        if time.monotonic() >= deadline:
            owner = _owner(folder)
            os.close(fd)
            raise BusyError(f"the run is still running{owner}", f"wait for it, or look: harness show {folder.name} -F")
        time.sleep(0.02)
    touched = os.fstat(fd).st_mtime
    _name_owner(fd)
    return fd, touched


def _owner(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        pid, host, since = (folder / "lock").read_text().split("\n")[:3]
        return f", pid {pid} on {host} since {since}"
    return ""


def _name_owner(fd: int) -> None:
    """Say in the lock's text who owns it; only people read that."""
    text = f"{os.getpid()}\n{socket.gethostname()}\n{lines.at_text(time.time())}\n".encode()
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
        os.utime(fd)


def follow(folder: Path) -> list[dict[str, Any]]:
    """The good events of a journal that somebody else may be writing: stops at the first line that is not good."""
    found: list[dict[str, Any]] = []
    for piece in (folder / "events.jsonl").read_bytes().split(b"\n")[:-1]:
        try:
            event = lines.parse(piece)
        except lines.BadLine:
            break
        lines.check_known(event, str(folder / "events.jsonl"))
        if event.get("seq") != len(found) + 1:
            break
        found.append(event)
    return found
