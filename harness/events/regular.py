"""Opening what should be a file, when something else may have been put in its place: nothing here ever waits."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def open_regular(path: Path) -> BufferedReader:
    """A file, open for reading. Raises OSError, whose words say so, for anything that is none."""
    refuse_odd(path.stat())
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - the caller's
    try:
        refuse_odd(os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def refuse_odd(found: os.stat_result) -> None:
    """Raises OSError for what is no file."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something')}, not a file")


def bytes_of(path: Path) -> bytes:
    """All bytes of a file. Raises OSError as `open_regular`."""
    with open_regular(path) as file:
        return file.read()
