"""The seal of a journal: its SHA-256 kept outside the project when a run stops, compared when the run is opened.

A checksum a line finds accidents; this finds whoever writes lines with right checksums. Not a signature: who can write
the state directory can make a seal.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
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


def note(seals: Path | None, run: str, io: IO) -> None:
    """Note that this user begins a run: an empty seal, which says nothing of the journal. A lost one only asks."""
    if seals is not None:
        with suppress(OSError):
            os.close(io.open(seal_path(seals, run), os.O_WRONLY | os.O_CREAT))


def is_known(seals: Path | None, run: str) -> bool:
    """Whether this user has begun a run or gone on with it: its folder may have come with somebody else's files."""
    return seals is not None and seal_path(seals, run).exists()


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
    with log.guarded("the journal cannot be read"):
        raw = log.io.read(log.folder / "events.jsonl")
    known = Seal(*log.mark())
    if not known.fits(raw):
        raise _differs(log.folder, raw, known, "this process wrote")


@dataclass(frozen=True, slots=True)
class Seal:
    """What is known of a journal: the digest and length of all of it, or of its beginning while it may grow."""

    digest: str
    size: int
    may_grow: bool = False

    def fits(self, raw: bytes) -> bool:
        return sha256(self.part(raw)).hexdigest() == self.digest and len(self.part(raw)) == self.size

    def part(self, raw: bytes) -> bytes:
        """Those bytes that it speaks of."""
        return raw[: self.size] if self.may_grow else raw


def kept(seals: Path, run: str) -> Seal | None:
    """The seal of a run, None where there is none or only its name was noted. Raises JournalError if unreadable."""
    path = seal_path(seals, run)
    try:
        words = path.read_text(encoding="ascii").split()
        return Seal(words[0], int(words[1]), words[2:] == [OPEN]) if words else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, IndexError) as error:
        raise JournalError("the journal's digest cannot be read", f"look at {path}", str(path)) from error


def check(seals: Path | None, folder: Path, good: bytes) -> None:
    """Compare the good lines of a journal with its seal. Nothing kept: nothing to compare. Raises JournalError.

    Before a torn end is cut off: what a seal covers was written whole, so that no crash tore it.
    """
    known = kept(seals, folder.name) if seals is not None else None
    if seals is not None and known is not None and not known.fits(good):
        raise _differs(folder, good, known, f"{seal_path(seals, folder.name)} holds")


def _differs(folder: Path, raw: bytes, known: Seal, where: str) -> JournalError:
    path, part = folder / "events.jsonl", known.part(raw)
    found = sha256(part).hexdigest()
    what = f"the journal was changed by something else: its SHA-256 is {found[:16]}, {where} {known.digest[:16]}"
    if len(part) < known.size:
        what += f"; its good lines end at byte {len(part)}, and there were {known.size}"
    return JournalError(what, "do not trust this run; restore its folder from a copy", str(path))
