"""What an attempt left, masked before it is written down: what it printed, the files in its folder, and their names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.events.hiding import masked_text
from harness.events.io import IO
from harness.executor import Outcome
from harness.loop.run import Run
from harness.secrets.masker import Masker, Pieces

Leak = tuple[str, str]
"""The name of a secret, and the sink it was masked in."""
CHUNK = 1 << 20
OPEN = 0o700
CAPTURES = {"out": "stdout", "err": "stderr"}


def covered(run: Run, outcome: Outcome, folder: Path) -> tuple[Outcome, tuple[Leak, ...]]:
    """The outcome of an attempt with every secret masked, and what was found. The files in `folder` are replaced.

    Call it when nothing of the attempt runs any more, and when the files that hand secrets over are gone.
    """
    found: set[Leak] = set()

    def hide(raw: bytes, name: str) -> bytes:
        names: set[str] = set()
        made = run.masker.raw(raw, names, net=True)
        found.update((one, CAPTURES[name]) for one in names)
        if names and (folder / name).exists():
            _put_in_place(folder / name, made, run.world.io)
        return made

    out, err = hide(outcome.out, "out"), hide(outcome.err, "err")
    found.update(files(run, folder))
    return replace(outcome, out=out, err=err), tuple(sorted(found))


def files(run: Run, folder: Path) -> set[Leak]:
    """Put its masked form in place of each file of an attempt that holds a secret. Follows no link."""
    found: set[Leak] = set()
    for path in _below(folder, run.world.io) if run.masker.longest else ():
        names: set[str] = set()
        with suppress(OSError):  # it went away meanwhile, or is not ours
            _cover_file(path, run.masker, run.world.io, names)
            _cover_name(path, run.masker, run.world.io, names)
        sink = CAPTURES.get(path.name, "file") if path.parent == folder else "file"
        found.update((name, sink) for name in names)
    return found


def _below(folder: Path, io: IO) -> Iterator[Path]:
    """Everything below a folder, what lies in a folder before the folder itself; one that a tool locked is opened."""
    with suppress(OSError):
        if stat.S_IMODE(folder.lstat().st_mode) & OPEN != OPEN:
            io.chmod(folder, OPEN)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path), io)
            yield Path(entry.path)


def _cover_file(path: Path, masker: Masker, io: IO, names: set[str]) -> None:
    at = path.lstat()
    if not stat.S_ISREG(at.st_mode) or not at.st_size:
        return
    if not at.st_mode & stat.S_IRUSR:
        io.chmod(path, stat.S_IMODE(at.st_mode) | stat.S_IRUSR)
    with path.open("rb", buffering=0) as file:
        pieces = Pieces(masker, names)
        for piece in _data(file.fileno(), at.st_size):
            pieces.feed(piece)
        pieces.flush()
    if names:
        _replace(path, masker, io, stat.S_IMODE(at.st_mode))


def _data(fd: int, size: int) -> Iterator[bytes]:
    """A file in pieces; of a hole nothing but its end."""
    at = 0
    while at < size:
        with suppress(OSError):
            at = os.lseek(fd, at, os.SEEK_DATA)
        piece = os.pread(fd, CHUNK, at)
        if not piece:
            return
        yield piece
        at += len(piece)


def _replace(path: Path, masker: Masker, io: IO, mode: int) -> None:
    """Write the masked form aside and rename it. What cannot be written anew is removed: it must not stay as it is."""
    aside = path.with_name(f".masked-{os.urandom(8).hex()}")
    try:
        fd = io.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            _write(path, fd, Pieces(masker, set()), io)
        finally:
            os.close(fd)
        io.rename(aside, path)
    except OSError:
        _remove(io, aside, path)


def _put_in_place(path: Path, made: bytes, io: IO) -> None:
    try:
        io.put(path, made)
    except OSError:
        _remove(io, path)


def _remove(io: IO, *paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            io.unlink(path)


def _write(path: Path, fd: int, pieces: Pieces, io: IO) -> None:
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            _put(fd, pieces.feed(piece), io)
    _put(fd, pieces.flush(), io)


def _put(fd: int, data: bytes, io: IO) -> None:
    while data:
        data = data[io.write(fd, data) :]


def _cover_name(path: Path, masker: Masker, io: IO, names: set[str]) -> None:
    """A name that holds a secret becomes another; a link that leads to such a name goes."""
    before = set(names)
    if path.is_symlink():
        masked_text(str(path.readlink()), masker.raw, names)
        if names != before:
            io.unlink(path)
            return
    made = masked_text(path.name, masker.raw, names)
    if made != path.name:
        io.rename(path, path.with_name(made))
