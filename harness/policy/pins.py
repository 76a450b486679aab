"""Files as they were trusted: a pin of each, and a copy to show what has changed. Reads; `keep_copies` alone writes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from harness.errors import HarnessError
from harness.events.io import IO
from harness.skills.reading import entries

MOST_FILES = 10_000
MOST_LINES = 120
"""Lines of a difference that are shown."""
COPIED = 256 * 1024
"""Bytes of a file up to which a copy is kept."""
SKIPPED = frozenset((".git", ".harness"))
"""Folders below a skill that are none of it: what git and the harness keep there changes by itself."""
_CHUNK = 1 << 20


def skill_files(folder: Path) -> Iterator[Path]:
    """Every file and link below a skill's folder. Raises HarnessError where there are too many, or one is unseen."""
    count, todo = 0, [folder]
    while todo:
        for entry in entries(str(todo.pop()), _refuse):
            if entry.is_dir(follow_symlinks=False):
                todo += [Path(entry.path)] if entry.name not in SKIPPED else []
                continue
            count += 1
            if count > MOST_FILES:
                fix = "take out of it what is none of the skill"
                raise HarnessError(f"the skill holds more than {MOST_FILES} files", fix, str(folder))
            yield Path(entry.path)


def pin(path: Path) -> str:
    """KIND and SHA-256 of a file: whether it is a program, and its bytes; of a link its text, and then the same.

    Raises HarnessError for what cannot be read.
    """
    try:
        at, digest, kind = path.lstat(), hashlib.sha256(), ""
        if stat.S_ISLNK(at.st_mode):
            digest.update(os.fsencode(path.readlink()) + b"\0")
            kind, at = "link-to-", path.stat() if path.exists() else at
        if stat.S_ISREG(at.st_mode):
            _add_bytes(path, digest)
    except OSError as error:
        _refuse(str(path), (error.strerror or str(error)).lower(), error)
    return f"{kind}{_kind(at.st_mode)} {digest.hexdigest()}"


def _kind(mode: int) -> str:
    if not stat.S_ISREG(mode):
        return "folder" if stat.S_ISDIR(mode) else "special"
    return "program" if mode & 0o111 else "file"


def _add_bytes(path: Path, digest: hashlib._Hash) -> None:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)


def _refuse(path: str, reason: str, cause: OSError | None = None) -> NoReturn:
    raise HarnessError(f"what must be trusted cannot be read: {reason}", "make it readable", path) from cause


def keep_copies(folder: Path, io: IO, files: Mapping[Path, str]) -> None:
    """Keep what was pinned, path → pin, as far as it is small and still the same."""
    for path, known in files.items():
        kept = folder / known.split()[-1]
        with suppress(OSError):
            if not known.startswith(("file ", "program ")) or kept.exists() or path.stat().st_size > COPIED:
                continue
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() == kept.name:
                io.put(kept, data)


def copy_of(folder: Path, known: str) -> bytes | None:
    """The bytes that a pin stands for, where a copy of them is kept and is what it should be."""
    try:
        data = (folder / known.split()[-1]).read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == known.split()[-1] else None


def forget_copies(folder: Path, io: IO, held: Collection[str]) -> None:
    """Take away the copies that no pin of these stands for any more."""
    wanted = {known.split()[-1] for known in held}
    with suppress(OSError):
        for path in [path for path in folder.iterdir() if path.name not in wanted]:
            io.unlink(path)


def difference(before: bytes | None, path: Path) -> list[str]:
    """What changed in a file since a copy of it was kept, as lines of a diff; a long one is cut, and says so."""
    import difflib

    now = bytes_of(path)
    if before is None or now is None or b"\0" in before + now:
        return ["  (its bytes cannot be shown)"]
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, now))
    return cut_lines(list(difflib.unified_diff(old, new, lineterm="", n=2))[2:])


def bytes_of(path: Path) -> bytes | None:
    """The bytes of a file, where it can be read."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def cut_lines(lines: list[str]) -> list[str]:
    """The first of the lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"  (and {more} more lines)"]
