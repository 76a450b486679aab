"""Whose words lie in a run's inbox: the digest of each is kept where no tool can write, beside the journals' seals.

A tool that may write in the workspace can write an inbox, too; a word without its digest is nobody's.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from harness.events.io import IO, make_private


def path_of(words: Path, run: str) -> Path:
    """The digests of the words said to a run, one a line."""
    return words / f"{run}.words"


def bear(words: Path, message: Path, body: bytes, io: IO) -> None:
    """Keep the digest of a message that is about to be put into an inbox; on the disk first. Raises OSError."""
    make_private(words)
    fd = io.open(path_of(words, _run(message)), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        io.write(fd, f"{_digest(message, body)}\n".encode())  # so short that it is written at once
        io.sync(fd)
    finally:
        os.close(fd)


def is_borne(words: Path | None, message: Path) -> bool:
    """Whether this very message was put there by a person's command; always where nothing is kept (`words` None)."""
    if words is None:
        return True
    try:
        known = path_of(words, _run(message)).read_text(encoding="ascii").split()
        return _digest(message, message.read_bytes()) in known
    except (OSError, ValueError):
        return False


def _run(message: Path) -> str:
    return message.parent.parent.name


def _digest(message: Path, body: bytes) -> str:
    """Of the content under its name: a word that was said once is not said again by a copy."""
    return sha256(message.name.encode() + b"\0" + body).hexdigest()
