"""Reading what should be a file: whoever wrote a project may have put a pipe, a device or a giant in its place."""

from __future__ import annotations

from pathlib import Path

from harness.events.regular import open_regular


def read_regular(path: Path, most: int) -> bytes:
    """At most `most` + 1 bytes of a regular file; OSError for anything that is none, without waiting for it."""
    with open_regular(path) as file:
        return file.read(most + 1)
