"""The seam for everything that changes the disk or starts a process, so that a test can count, stop at or fail each.

Not a place for decisions: every method is one action of the operating system (`put` is four of them). A subclass that
overrides a method sees every such action of the harness.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    import subprocess

_spawning = threading.Lock()
_children: WeakSet[subprocess.Popen[bytes]] = WeakSet()
_aside = itertools.count()


def own_children() -> set[int]:
    """The processes started through `IO.spawn` that have not been waited for. Waits for a spawn under way."""
    with _spawning:
        return {child.pid for child in _children if child.returncode is None}


def make_private(folder: Path) -> None:
    """Make a folder that is for nobody else, its parents too from the one called `harness` on. Raises OSError."""
    ways = [*reversed(folder.parents), folder]
    top = next((at for at, way in enumerate(ways) if way.name == "harness"), len(ways) - 1)
    ways[top].parent.mkdir(parents=True, exist_ok=True)
    for way in ways[top:]:  # `parents` would make those on the way for everybody
        way.mkdir(mode=0o700, exist_ok=True)


class IO:
    """The real thing. Every descriptor it opens is close-on-exec; errors are the `OSError` of the system."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A descriptor of `path`; `flags` as for `os.open`."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, fd: int, data: bytes) -> int:
        """One write; how many bytes of `data` it took, which may be fewer than there are."""
        return os.write(fd, data)

    def size(self, fd: int) -> int:
        """The length of the open file in bytes."""
        return os.fstat(fd).st_size

    def truncate(self, fd: int, length: int) -> None:
        """Cut the open file to `length` bytes."""
        os.ftruncate(fd, length)

    def punch(self, fd: int, start: int, length: int) -> bool:
        """Give the disk space of a part of the open file back; its size stays. False where that is not to be had."""
        import ctypes  # few files ever need it

        keep_size, punch_hole = 1, 2
        try:
            call = ctypes.CDLL(None).fallocate64
        except (OSError, AttributeError):
            return False
        numbers = ctypes.c_int(fd), ctypes.c_int(keep_size | punch_hole), ctypes.c_int64(start), ctypes.c_int64(length)
        return bool(call(*numbers) == 0)

    def sync(self, fd: int) -> None:
        """Bring the file's data, and the length needed to read it, to the disk."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        elif hasattr(fcntl, "F_FULLFSYNC"):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync alone leaves the data in the drive's cache there
        else:
            os.fsync(fd)

    def sync_dir(self, path: Path) -> None:
        """Bring the names in directory `path` to the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, src: Path, dst: Path) -> None:
        """Give `src` the name `dst`, in place of what had it."""
        src.replace(dst)

    def link(self, src: Path, dst: Path) -> None:
        """Give a file that never changes a second name; a copy where the file system has no such links."""
        try:
            os.link(src, dst, follow_symlinks=False)
        except OSError:
            self.put(dst, self.read(src))

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        """Make one directory, which must not exist."""
        path.mkdir(mode)

    def unlink(self, path: Path) -> None:
        """Remove one file."""
        path.unlink()

    def rmdir(self, path: Path) -> None:
        """Remove one directory, which must be empty."""
        path.rmdir()

    def chmod(self, path: Path, mode: int) -> None:
        """Set the mode of `path`, which must not be a link."""
        path.chmod(mode)

    def touch(self, path: Path, at: float) -> None:
        """Set the times of `path`, which must exist, to `at` (epoch seconds)."""
        os.utime(path, (at, at))

    def lock(self, fd: int) -> bool:
        """Take the exclusive lock of the open file without waiting; False when somebody else has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def read(self, path: Path) -> bytes:
        """The whole file."""
        return path.read_bytes()

    def put(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Make `path` hold exactly `data`, or leave it as it was: written aside, synced, renamed."""
        aside = path.with_name(f".{path.name}.{os.getpid()}-{next(_aside)}")
        fd = self.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            try:
                self._write_all(fd, data)
                self.sync(fd)
            finally:
                os.close(fd)
            self.rename(aside, path)
        except OSError:
            with suppress(OSError):
                self.unlink(aside)
            raise

    def _write_all(self, fd: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(fd, bytes(rest)) :]

    def spawn(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        placed: Mapping[int, int] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `argv`, whose first word is a path, in a session of its own with umask 077.

        `stdin`, `stdout`, `stderr` are descriptors; of all others the child gets `pass_fds` under the same numbers, and
        those that `placed` names under the numbers it gives them, which must be open here and in nobody's use. A
        process that is started in a session of its own in any other way may be taken for a runaway of a tool that runs
        at the time, and be killed. Raises `OSError` or `ValueError` when nothing was started.
        """
        import subprocess  # whoever only reads a log does not need it

        with _spawning, _inheritable(pass_fds, placed or {}):  # nothing else may be forked meanwhile
            # close_fds closes one by one where the fast ways are forbidden; every descriptor is close-on-exec
            child: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                bufsize=0,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                close_fds=False,
                start_new_session=True,
                umask=0o077,
            )
            _children.add(child)
            return child


@contextmanager
def _inheritable(fds: Sequence[int], placed: Mapping[int, int]) -> Iterator[None]:
    """Let children inherit `fds`, and the others of `placed` under its numbers, for a while."""
    kept: dict[int, int] = {}
    try:
        for fd in fds:
            os.set_inheritable(fd, True)
        for number, fd in placed.items():
            kept[number] = os.dup(number)
            os.dup2(fd, number)
        yield
    finally:
        for fd in fds:
            os.set_inheritable(fd, False)
        for number, fd in kept.items():
            os.dup2(fd, number, inheritable=False)
            os.close(fd)
