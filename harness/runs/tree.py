"""A run's folder as a tree of files, however deep and however locked a tool left it. Links are never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from harness.events.io import IO

OPEN = 0o700


def entries(folder: Path, lost: list[Path]) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder; what cannot be looked into is added to `lost`."""
    left = [str(folder)]
    while left:
        at = left.pop()
        try:
            with os.scandir(at) as found:
                here = list(found)
        except OSError:
            lost.append(Path(at))
            continue
        left += [entry.path for entry in here if entry.is_dir(follow_symlinks=False)]
        yield from here


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, as far as it can be looked into."""
    total = 0
    for entry in entries(folder, []):
        with suppress(OSError):
            total += entry.stat(follow_symlinks=False).st_size
    return total


def open_up(folder: Path, io: IO) -> None:
    """Make every folder below one that can be read and changed: a tool may have locked some."""
    left = [folder]
    while left:
        at = left.pop()
        with suppress(OSError):
            if stat.S_IMODE(at.stat().st_mode) & OPEN != OPEN:
                io.chmod(at, OPEN)
            left += _folders(at)


def empty(folder: Path, io: IO) -> None:
    """Delete a folder with all that is in it, its `lock` last. Raises OSError.

    What lies deep is first moved up: the path of a deep file may be longer than the system takes.
    """
    names = count()
    while folders := _folders(folder):
        for at in folders:
            _flatten(at, folder, names, io)
    for path in sorted(folder.iterdir(), key=lambda path: path.name == "lock"):
        io.unlink(path)
    io.rmdir(folder)


def _flatten(at: Path, top: Path, names: Iterator[int], io: IO) -> None:
    """Delete a folder whose own folders are moved to the top."""
    if stat.S_IMODE(at.stat().st_mode) & OPEN != OPEN:
        io.chmod(at, OPEN)
    below = set(_folders(at))
    for path in list(at.iterdir()):
        if path not in below:
            io.unlink(path)
            continue
        if stat.S_IMODE(path.stat().st_mode) & OPEN != OPEN:
            io.chmod(path, OPEN)  # whose parent changes must be writable itself
        io.rename(path, _free(top, names))
    io.rmdir(at)


def _free(top: Path, names: Iterator[int]) -> Path:
    return next(path for n in names if not os.path.lexists(path := top / f".up-{n}"))


def _folders(at: Path) -> list[Path]:
    with os.scandir(at) as found:
        return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]
