"""One process at a time where a record of the person's is changed: a lock beside it, waited for a moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BusyError
from harness.events.io import IO

PATIENCE, PAUSE = 5.0, 0.02


@contextmanager
def alone(lock: Path, io: IO, what: str) -> Iterator[None]:
    """Nobody else changes `what` meanwhile. Raises BusyError where another process keeps it, OSError."""
    fd = io.open(lock, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + PATIENCE
        while not io.lock(fd):
            if time.monotonic() >= deadline:
                raise BusyError(f"another process changes {what}", "try again", str(lock.parent))
            time.sleep(PAUSE)
        yield
    finally:
        os.close(fd)
