"""What lies at protected names at one moment: kinds, modes, link texts, and copies of files to put back later.

Copies lie in a file without a name, which no tool can reach. Not a place that changes anything in a workspace.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Literal, NamedTuple

MAX_FILE = 8 << 20
"""A larger file is not copied: a change is seen, but not put back."""
MAX_COPIES = 256 << 20
MAX_ENTRIES = 20_000
"""More than that at protected names is not looked at."""

Kind = Literal["file", "folder", "link", "other"]

_RACY_NS = 50_000_000  # a file changed again within the tick of the file system's clock looks unchanged
_GIT_COVERED = frozenset({"hooks", "info", "config", "config.worktree", "commondir"})
_GIT_MOVING = ("index", "HEAD", "packed-refs", "refs", "objects")
_GIT_MODULE_CLOSED = frozenset({"objects", "refs", "logs", "lfs"})
_HARNESS_OPEN = frozenset({"runs", "drafts"})


class Entry(NamedTuple):
    """One thing on disk. `stamp` changes with every change of a file; `copy` is a place and a length in the copies."""

    kind: Kind
    mode: int
    owner: tuple[int, int]
    stamp: tuple[int, ...]
    modified: int
    link: str
    copy: tuple[int, int] | None
    fresh: bool


class Copies:
    """Contents of files in one file without a name, each stored once for as long as the file stays as it is."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        self.known: dict[tuple[int, ...], tuple[int, int]] = {}
        self.end = 0
        self.lock = threading.Lock()

    def take(self, folder: int, name: str, stamp: tuple[int, ...], fresh: bool) -> tuple[int, int] | None:
        """Store the file of this stamp; None when it is too large, changes meanwhile, or cannot be read."""
        with self.lock:
            size = stamp[2]
            found = self.known.get(stamp)
            if found is None and size <= MAX_FILE and self.end + size <= MAX_COPIES:
                data = content(folder, name, stamp)
                if data is not None:
                    found = (self.end, len(data))
                    os.pwrite(self.file.fileno(), data, self.end)
                    self.end += len(data)
                    if not fresh:  # else it may hold something else under the same stamp next time
                        self.known[stamp] = found
            return found

    def get(self, place: tuple[int, int]) -> bytes:
        """What was stored."""
        return os.pread(self.file.fileno(), place[1], place[0])


@cache
def copies() -> Copies:
    """The copies of this process."""
    return Copies()


def content(folder: int, name: str, stamp: tuple[int, ...] | None = None) -> bytes | None:
    """The bytes of a file up to the most that is copied; None when it is not the file of the stamp, or unreadable."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (stamp is not None and stamp_of(status) != stamp):
            return None
        return file.read(MAX_FILE + 1)


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """The time of the last change cannot be set by anybody, so an equal stamp is an unchanged file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def record(workspace: Path, protect: Iterable[Path], keep: bool) -> dict[str, Entry]:
    """Path inside the workspace → what is there now, for protected paths and all in them; copied if `keep`."""
    found: dict[str, Entry] = {}
    for path in protect:
        parts = path.relative_to(workspace).parts
        with suppress(OSError):
            folder = open_folder(workspace, parts[:-1])
            try:
                for inside, entry in _walk(folder, parts[-1:], keep):
                    found["/".join((*parts[:-1], *inside))] = entry
                    if len(found) >= MAX_ENTRIES:
                        return found
            finally:
                os.close(folder)
    return found


def open_folder(top: Path, parts: Iterable[str]) -> int:
    """A descriptor of a folder below `top`; no link on the way is followed."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            below = open_below(fd, part)
        finally:
            os.close(fd)
        fd = below
    return fd


def open_below(folder: int, name: str) -> int:
    """A descriptor of a folder in a folder, not through a link."""
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def look(folder: int, name: str, keep: bool) -> Entry | None:
    """One thing in a folder; None when it is not there."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        link = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""
    except OSError:
        return None
    kind = _kind(status.st_mode)
    stamp = stamp_of(status)
    fresh = time.time_ns() - status.st_ctime_ns < _RACY_NS
    copy = copies().take(folder, name, stamp, fresh) if keep and kind == "file" else None
    owner = (status.st_uid, status.st_gid)
    return Entry(kind, stat.S_IMODE(status.st_mode), owner, stamp, status.st_mtime_ns, link, copy, fresh)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_ISREG(mode) else "other"


def _walk(folder: int, parts: tuple[str, ...], keep: bool) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """A thing and all in it; `parts` is the way to it from the protected name, that name included."""
    entry = look(folder, parts[-1], keep)
    if entry is None:
        return
    if _covered(parts):
        yield parts, entry
    if entry.kind != "folder" or not _entered(parts):
        return
    with suppress(OSError):
        fd = open_below(folder, parts[-1])
        try:
            with os.scandir(fd) as entries:
                inside = sorted(entry.name for entry in entries)
            for name in inside:
                yield from _walk(fd, (*parts, name), keep)
        finally:
            os.close(fd)


def _covered(parts: tuple[str, ...]) -> bool:
    """Of a repository what can make somebody's git run a program; of the harness's folder all but runs and drafts."""
    top = parts[0].casefold()
    if len(parts) == 1:
        return True
    if top == ".harness":
        return parts[1].casefold() not in _HARNESS_OPEN
    if top == ".git":
        first = parts[1].casefold()
        return first in _GIT_COVERED or (first == "modules" and any(part.casefold() in _GIT_COVERED for part in parts))
    return True


def _entered(parts: tuple[str, ...]) -> bool:
    top = parts[0].casefold()
    if top == ".git" and len(parts) > 1 and parts[1].casefold() == "modules":
        return parts[-1].casefold() not in _GIT_MODULE_CLOSED
    return len(parts) == 1 or _covered(parts)


Moving = dict[str, tuple[int, ...]]
"""Full path → what tells that it has moved. Never put back: a person's own commits move it too."""


def moving(workspace: Path) -> Moving:
    """The repository's index, references and objects, and the logs of runs."""
    git, runs = workspace / ".git", workspace / ".harness" / "runs"
    paths = [str(git / name) for name in _GIT_MOVING]
    paths += [*_inside(str(git / "refs"), 8), *_inside(str(git / "objects"), 1)]
    found: Moving = {}
    for path in paths:
        with suppress(OSError):
            status = os.lstat(path)
            found[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    for path in _inside(str(runs), 1):
        log = f"{path}/events.jsonl"
        with suppress(OSError):
            status = os.lstat(log)
            found[log] = (status.st_ino, status.st_size)
    return found


def _inside(folder: str, depth: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.path
            if depth > 1 and entry.is_dir(follow_symlinks=False):
                yield from _inside(entry.path, depth - 1)
