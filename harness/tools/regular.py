"""Reading what should be a file: whoever wrote a project may have put a pipe, a device or a giant in its place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int) -> bytes:
    """At most `most` + 1 bytes of a regular file; OSError for anything that is none, without waiting for it."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        return file.read(most + 1)
