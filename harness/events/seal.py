"""The seal of a journal: its SHA-256 kept outside the project when a run stops, compared when the run is opened.

A checksum a line finds accidents; this finds whoever writes lines with right checksums. Not a signature: who can write
the state directory can make a seal.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from harness.errors import JournalError
from harness.events.io import IO, make_private
from harness.events.log import Log

OPEN = "open"
"""What follows in a seal while a process goes on with the run: the journal may have grown, but only at its end."""


def seal_path(seals: Path, run: str) -> Path:
    return seals / f"{run}.sha256"


def ready(seals: Path | None) -> Path | None:
    """The folder of seals, made if need be; None where it cannot be made, and then nothing is sealed."""
    if seals is not None:
        try:
            make_private(seals)
        except OSError:
            return None
    return seals


def keep(seals: Path | None, log: Log, *, going_on: bool = False) -> None:
    """Keep the digest over what this process knows to be in the journal. Raises JournalError."""
    if seals is None:
        return
    digest, size = log.mark()
    with log.guarded("the journal's digest cannot be kept"):
        text = f"{digest} {size} {OPEN if going_on else ''}".rstrip()
        log.io.put(seal_path(seals, log.name), f"{text}\n".encode())


def check_written(log: Log) -> None:
    """Compare the file with what this process wrote into it. Raises JournalError when they differ."""
    path = log.folder / "events.jsonl"
    with log.guarded("the journal cannot be read"):
        raw = log.io.read(path)
    found = sha256(raw).hexdigest()
    if (found, len(raw)) != log.mark():
        raise _differs(log.folder, found, log.mark()[0], "this process wrote")


def compare(seals: Path | None, log: Log) -> None:
    """Compare a journal that was just opened with its seal. No seal: nothing to compare. Raises JournalError."""
    check(seals, log.folder, log.io)


def check(seals: Path | None, folder: Path, io: IO) -> None:
    """The same for a journal that nobody needs to own. Raises JournalError."""
    if seals is None:
        return
    path = seal_path(seals, folder.name)
    try:
        words = path.read_text(encoding="ascii").split()
        digest, size = words[0], int(words[1])
    except FileNotFoundError:
        return
    except (OSError, ValueError, IndexError) as error:
        raise JournalError("the journal's digest cannot be read", f"look at {path}", str(path)) from error
    raw = io.read(folder / "events.jsonl")
    part = raw[:size] if words[2:] == [OPEN] else raw
    found = sha256(part).hexdigest()
    if found != digest or len(part) < size:
        raise _differs(folder, found, digest, f"{path} holds")


def _differs(folder: Path, found: str, known: str, where: str) -> JournalError:
    path = folder / "events.jsonl"
    what = f"the journal was changed by something else: its SHA-256 is {found[:16]}, {where} {known[:16]}"
    return JournalError(what, "do not trust this run; restore its folder from a copy", str(path))
