"""A disk in memory beside the real one: what the kernel has, what the platter has, and what a crash leaves of both."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from harness.events.io import IO
from harness.models import Prompt

if TYPE_CHECKING:
    import subprocess

CRASHES = ("kill", "lost", "half", "zeros", "names")
"""A process that was killed; then four kinds of lost power: nothing that was not synced is left; half of each file's
new bytes; zeros in their place; all bytes, but no new name of a folder that was not synced."""
KILLS = ("kill", "orphan")
"""Nothing that was written is lost. An orphan is a tool whose harness alone was killed: it goes on to its own end."""

Action = tuple[object, ...]
Image = tuple[tuple[str, bytes | None], ...]
"""Paths below the runs folder with their bytes, None for a folder."""


class Recorder(IO):
    """Does every action below `root`, but for the slow syncs, and notes it."""

    def __init__(self, root: Path) -> None:
        self.root, self.trace = root, list[Action]()
        self._mutex = threading.RLock()

    def heard(self, prompt: Prompt, worker: str = "") -> None:
        """A request to the model is an action of the world, too."""
        with self._mutex:
            self.trace.append(("request", prompt.turn, worker))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else ""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        with self._mutex:
            fd = super().open(path, flags, mode)
            self.trace.append(("open", self._name(path), fd))
            return fd

    def write(self, fd: int, data: bytes) -> int:
        with self._mutex:
            done = super().write(fd, data)
            self.trace.append(("write", fd, data[:done]))
            return done

    def truncate(self, fd: int, length: int) -> None:
        with self._mutex:
            super().truncate(fd, length)
            self.trace.append(("truncate", fd, length))

    def sync(self, fd: int) -> None:
        with self._mutex:
            self.trace.append(("sync", fd))

    def sync_dir(self, path: Path) -> None:
        with self._mutex:
            self.trace.append(("sync_dir", self._name(path)))

    def rename(self, src: Path, dst: Path) -> None:
        with self._mutex:
            super().rename(src, dst)
            self.trace.append(("rename", self._name(src), self._name(dst)))

    def mkdir(self, path: Path, mode: int = 0o700) -> None:
        with self._mutex:
            super().mkdir(path, mode)
            self.trace.append(("mkdir", self._name(path)))

    def link(self, src: Path, dst: Path) -> None:
        self.put(dst, self.read(src))  # the disk of these tests knows no second names

    def unlink(self, path: Path) -> None:
        with self._mutex:
            super().unlink(path)
            self.trace.append(("unlink", self._name(path)))

    def rmdir(self, path: Path) -> None:
        with self._mutex:
            super().rmdir(path)
            self.trace.append(("unlink", self._name(path)))

    def spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, stdout: int, stderr: int,
        pass_fds: Sequence[int] = (), placed: Mapping[int, int] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        with self._mutex:
            self.trace.append(("spawn", env["HARNESS_OP_ID"]))
        return super().spawn(argv, cwd, env, stdin, stdout, stderr, pass_fds, placed)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


@dataclass
class Disk:
    """Names and bytes, as the kernel sees them and as they would be found after a loss of power. A folder is None.

    `ledger` is what happened in the world outside, which no crash undoes: effects of tools, requests to the model.
    """

    names: dict[str, int | None] = field(default_factory=dict)
    bytes_of: dict[int, bytes] = field(default_factory=dict)
    durable: dict[str, int | None] = field(default_factory=dict)
    synced: dict[int, bytes] = field(default_factory=dict)
    open_files: dict[int, int] = field(default_factory=dict)
    count: int = 0
    ledger: tuple[Action, ...] = ()

    def copy(self) -> Disk:
        return Disk(*(copy(getattr(self, name)) for name in self.__dataclass_fields__))

    def act(self, action: Action, cut: int | None = None) -> None:
        """Let one action happen; of a write only the first `cut` bytes, if given."""
        kind, *given = action
        if hasattr(self, f"_{kind}"):
            getattr(self, f"_{kind}")(*given, *([cut] if kind == "write" else []))

    def _open(self, name: str, fd: int) -> None:
        if name and self.names.get(name) is None:
            self.count += 1
            self.names[name], self.bytes_of[self.count], self.synced[self.count] = self.count, b"", b""
        node = self.names.get(name)
        if node is not None:
            self.open_files[fd] = node

    def _write(self, fd: int, data: bytes, cut: int | None) -> None:
        self.bytes_of[self.open_files[fd]] += data[:cut]

    def _overwrite(self, fd: int, data: bytes) -> None:
        node = self.open_files[fd]
        self.bytes_of[node] = data + self.bytes_of[node][len(data) :]

    def _tool(self, _spawn: int, *action: object) -> None:
        """What a tool or its shim does is done whoever else is dead."""
        self.act(action)

    def _effect(self, *what: object) -> None:
        self.ledger = (*self.ledger, what)

    def _request(self, turn: int, worker: str) -> None:
        self.ledger = (*self.ledger, ("request", turn, worker))

    def _truncate(self, fd: int, length: int) -> None:
        self.bytes_of[self.open_files[fd]] = self.bytes_of[self.open_files[fd]][:length]

    def _sync(self, fd: int) -> None:
        self.synced[self.open_files[fd]] = self.bytes_of[self.open_files[fd]]

    def _sync_dir(self, folder: str) -> None:
        for names in (self.durable, self.names):
            for name in [n for n in names if _folder(n) == folder.removeprefix(".")]:
                if name in self.names:
                    self.durable[name] = self.names[name]
                else:
                    del self.durable[name]

    def _rename(self, src: str, dst: str) -> None:
        for name in [n for n in self.names if n == src or n.startswith(f"{src}/")]:
            self.names[dst + name.removeprefix(src)] = self.names.pop(name)

    def _mkdir(self, name: str) -> None:
        self.names[name] = None

    def _unlink(self, name: str) -> None:
        del self.names[name]

    def crash(self, how: str) -> Disk:
        """What a process that starts afterwards finds. Only a kill leaves bytes that are not on the platter."""
        left = self.copy()
        left.open_files = {}
        if how in KILLS:
            return left
        if how in ("lost", "names"):
            left.names = {n: node for n, node in self.durable.items() if self._is_reachable(n)}
        left.bytes_of = {node: self._left(node, how) for node in left.names.values() if node is not None}
        left.synced, left.durable = dict(left.bytes_of), dict(left.names)
        return left

    def _is_reachable(self, name: str) -> bool:
        above = _folder(name)
        return not above or (above in self.durable and self._is_reachable(above))

    def _left(self, node: int, how: str) -> bytes:
        new, old = self.bytes_of[node], self.synced[node]
        if how == "lost":
            return old
        if how == "names" or not new.startswith(old):
            return new
        more = len(new) - len(old)
        return old + (new[len(old) :][: more // 2] if how == "half" else bytes(more))

    def image(self) -> Image:
        found = {n: None if node is None else self.bytes_of[node] for n, node in self.names.items()}
        return tuple(sorted((n, b"" if n.endswith("/lock") else raw) for n, raw in found.items()))

    def journal(self, run: str, durable: bool = False) -> tuple[bytes, set[str]]:
        """The bytes of a run's journal and the names of its blobs, as the kernel or the platter has them.

        On the platter a name counts where its folder's has come there, too.
        """
        names, files = (self.durable, self.synced) if durable else (self.names, self.bytes_of)
        path = f"{run}/events.jsonl"
        node = names.get(path) if not durable or self._is_reachable(path) else None
        blobs = {PurePosixPath(name).name for name in names if _folder(name) == f"{run}/blobs"}
        return b"" if node is None else files[node], blobs


def unpack(image: Image, root: Path, at: float) -> None:
    """Put an image on the real disk below `root`, which is new. `at` is when an owner was last seen."""
    root.mkdir()
    for name, raw in image:
        path = root / name
        if raw is None:
            path.mkdir()
        else:
            path.write_bytes(raw)
            os.utime(path, (at, at))


def points(trace: Sequence[Action]) -> Iterator[tuple[int, int | None]]:
    """Where a crash can come: before each action, inside each write of any length, and after the last."""
    for n, action in enumerate(trace):
        yield n, None
        if action[0] == "write":
            length = len(action[2])  # type: ignore[arg-type]
            for cut in sorted({1, 8, 9, length // 2, length - 2, length - 1} & set(range(1, length))):
                yield n, cut
    yield len(trace), None


def orphans(disk: Disk, trace: Sequence[Action], n: int) -> None:
    """Let the tools that were started before action `n` go on to their end."""
    for action in trace[n:]:
        if action[0] == "tool" and isinstance(action[1], int) and action[1] < n:
            disk.act(action)


def at_point(disk: Disk, trace: Sequence[Action], n: int, cut: int | None) -> Disk:
    """The disk at a point of the trace, from what it was at its beginning."""
    disk = disk.copy()
    for action in trace[:n]:
        disk.act(action)
    if cut is not None:
        disk.act(trace[n], cut)
    return disk
