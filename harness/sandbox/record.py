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
MAX_ENTRIES, MAX_DEPTH = 20_000, 64
"""What is more than that at protected names, or deeper, is not looked at."""

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


class Picture(NamedTuple):
    """Path inside the workspace → what is there, and the folders that hold more than is looked at."""

    entries: dict[str, Entry]
    closed: set[str]


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


def record(workspace: Path, protect: Iterable[Path], keep: bool, before: Picture | None = None) -> Picture:
    """What is at protected paths now and in them; copied if `keep`.

    With `before`, an earlier picture, folders that were not there or not looked into then are not looked into either:
    however much a tool puts there, what else it did is seen.
    """
    picture = Picture({}, set())
    for path in protect:
        parts = path.relative_to(workspace).parts
        with suppress(OSError):
            folder = open_folder(workspace, parts[:-1])
            try:
                _walk(folder, parts, len(parts) - 1, _View(picture, before, keep))
            finally:
                os.close(folder)
    return picture


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


class _View(NamedTuple):
    """What a walk fills, and by what it goes."""

    picture: Picture
    before: Picture | None
    keep: bool

    def enters(self, parts: tuple[str, ...], start: int) -> bool:
        """Whether to look into a folder."""
        path, own = "/".join(parts), parts[start:]
        if not _entered(own) or len(parts) > MAX_DEPTH:
            return False
        if self.before is None or path in self.before.closed:
            return self.before is None
        return not _covered(own) or (path in self.before.entries and self.before.entries[path].kind == "folder")

    def closes(self, parts: tuple[str, ...], count: int) -> bool:
        """Whether a folder holds too much to be looked at, which holds for later pictures too."""
        if self.before is not None or len(self.picture.entries) + count <= MAX_ENTRIES:
            return False
        self.picture.closed.add("/".join(parts))
        return True


def _walk(folder: int, parts: tuple[str, ...], start: int, view: _View) -> None:
    """A thing and all in it; `parts` is the way to it in the workspace, of which the protected name is at `start`."""
    entry = look(folder, parts[-1], view.keep)
    if entry is None:
        return
    if _covered(parts[start:]):
        view.picture.entries["/".join(parts)] = entry
    if entry.kind != "folder" or not view.enters(parts, start):
        return
    try:
        fd = open_below(folder, parts[-1])
    except OSError:
        view.closes(parts, MAX_ENTRIES + 1)
        return
    try:
        with os.scandir(fd) as entries:
            inside = sorted(entry.name for entry in entries)
        if not view.closes(parts, len(inside)):
            for name in inside:
                _walk(fd, (*parts, name), start, view)
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
