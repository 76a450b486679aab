"""The seam: each action does what it says, on real files, and can be counted and failed."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness.events.io import IO, own_children

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


class Failing(IO):
    """Counts actions and fails the named one, as a full or broken disk does."""

    def __init__(self, failing: str = "", limit: int = 1 << 30) -> None:
        self.failing, self.limit = failing, limit
        self.seen: list[str] = []

    def _act(self, name: str) -> None:
        self.seen.append(name)
        if name == self.failing:
            raise OSError(errno.EIO, "failed on purpose")

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._act("open")
        return super().open(path, flags, mode)

    def write(self, fd: int, data: bytes) -> int:
        self._act("write")
        return super().write(fd, data[: self.limit])

    def sync(self, fd: int) -> None:
        self._act("sync")
        super().sync(fd)

    def rename(self, src: Path, dst: Path) -> None:
        self._act("rename")
        super().rename(src, dst)


def test_open_write_size_truncate_read(tmp_path: Path) -> None:
    io, path = IO(), tmp_path / "log"
    fd = io.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    assert not os.get_inheritable(fd)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (io.write(fd, b"one"), io.write(fd, b"two"), io.size(fd)) == (3, 3, 6)
    io.truncate(fd, 4)
    io.sync(fd)
    io.sync_dir(tmp_path)
    assert (io.size(fd), io.read(path)) == (4, b"onet")
    os.close(fd)


def test_names(tmp_path: Path) -> None:
    io = IO()
    io.mkdir(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        io.mkdir(tmp_path / "new")
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    io.rename(tmp_path / "a", tmp_path / "b")
    io.touch(tmp_path / "b", 12.5)
    assert (tmp_path / "b").stat().st_mtime == 12.5
    assert io.read(tmp_path / "b") == b"a"
    io.unlink(tmp_path / "b")
    assert [left.name for left in tmp_path.iterdir()] == ["new"]
    with pytest.raises(FileNotFoundError):
        io.touch(tmp_path / "b", 0.0)


def test_one_lock_at_a_time_free_when_its_holder_dies(tmp_path: Path) -> None:
    io, path = IO(), tmp_path / "lock"
    first, second = (io.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert (io.lock(first), io.lock(first), io.lock(second)) == (True, True, False)
    os.close(first)
    assert io.lock(second)
    os.close(second)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        third = io.open(path, os.O_RDWR)
        assert not io.lock(third)
    finally:
        holder.kill()
        holder.communicate()
    assert io.lock(third)
    os.close(third)


def test_put_replaces_the_whole_file(tmp_path: Path) -> None:
    io, path = Failing(), tmp_path / "blob"
    path.write_bytes(b"old and longer")
    io.put(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    assert io.seen == ["open", "write", "sync", "rename"]
    assert [left.name for left in tmp_path.iterdir()] == ["blob"]


def test_put_goes_on_after_a_short_write(tmp_path: Path) -> None:
    io = Failing(limit=4)
    io.put(tmp_path / "blob", b"0123456789")
    assert (tmp_path / "blob").read_bytes() == b"0123456789"
    assert io.seen.count("write") == 3


@pytest.mark.parametrize("action", ["open", "write", "sync", "rename"])
def test_put_that_fails_leaves_what_was_there(tmp_path: Path, action: str) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="on purpose"):
        Failing(action).put(path, b"new")
    assert path.read_bytes() == b"old"
    assert [left.name for left in tmp_path.iterdir()] == ["blob"]


def test_spawn_passes_the_named_descriptors_only(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    kept, other = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("kept", "other"))
    listing = ["/bin/bash", "-c", "ls -l /proc/$$/fd; echo told >&$KEPT"]
    child = IO().spawn(listing, tmp_path, {"KEPT": str(kept)}, null, writing, null, [kept])
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        seen = file.read()
    assert child.wait() == 0
    assert (b"/kept" in seen, b"/other" in seen) == (True, False)
    assert (tmp_path / "kept").read_text() == "told\n"
    assert not os.get_inheritable(kept)
    for fd in (null, kept, other):
        os.close(fd)


def test_spawn_makes_a_session_and_is_known_until_waited_for(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    child = IO().spawn(["/bin/sleep", "600"], tmp_path, {}, null, null, null)
    os.close(null)
    assert os.getsid(child.pid) == child.pid
    assert child.pid in own_children()
    os.killpg(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert child.pid not in own_children()


def test_placed_descriptors_reach_the_child_under_their_numbers_and_come_back(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    number = os.dup(null)
    with (tmp_path / "told").open("w") as told:
        places = {number: told.fileno()}
        words = ["/bin/bash", "-c", f"echo there >&{number}"]
        assert IO().spawn(words, tmp_path, {}, null, null, null, placed=places).wait() == 0
    assert (tmp_path / "told").read_text() == "there\n"
    assert (str(Path(f"/dev/fd/{number}").readlink()), os.get_inheritable(number)) == (os.devnull, False)
    os.close(number)
    os.close(null)


def test_punched_space_is_given_back_and_the_size_stays(tmp_path: Path) -> None:
    path, mib = tmp_path / "file", 1 << 20
    path.write_bytes(b"x" * (4 * mib))
    with path.open("rb+") as file:
        if not IO().punch(file.fileno(), mib, 3 * mib):
            pytest.skip("files have no holes here")
        os.fsync(file.fileno())
    assert path.stat().st_size == 4 * mib
    assert path.stat().st_blocks * 512 <= mib + 65536
    assert path.read_bytes() == b"x" * mib + bytes(3 * mib)
