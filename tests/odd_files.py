"""Files that are none: a pipe nobody writes to, a device without an end, a folder, one larger than any memory."""

from __future__ import annotations

import os
from pathlib import Path

ODD = ("pipe", "device", "folder", "huge")


def odd_file(path: Path, kind: str) -> Path:
    """Make `path` one of ODD."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    return path
