"""Whether journals are as they were written: lines, blobs, and the digests kept outside. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.errors import JournalError
from harness.events import seal
from harness.events.scan import Scan, journal_bytes, never_started, reading, scan

DIFFERS, DAMAGED = 1, 3
"""Exit codes: the journal reads well and nothing proves it to be what was written; it does not read well."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at one journal came to. `problem` is empty where all of it holds; `note`: what else is to be known.

    `digest` is the SHA-256 of its good lines, `size` their bytes.
    """

    run: str
    events: int = 0
    size: int = 0
    digest: str = ""
    problem: str = ""
    note: str = ""
    code: int = 0


def verify(folder: Path, seals: Path, is_live: bool) -> Iterator[Verdict]:
    """A verdict on a run and on each run that it began, at every depth.

    `is_live` says that somebody may be writing: a line that is not whole yet is none of theirs.
    """
    try:
        with reading(folder):
            raw = journal_bytes(folder)
        found = scan(raw, folder)
        if not found.started:
            raise never_started(folder)
    except JournalError as error:
        yield Verdict(folder.name, problem=error.message, code=DAMAGED)
        return
    yield _judged(folder, raw[: found.good], seals, found, is_live)
    for name, must_be in _children(found).items():
        if (folder.parent / name).is_dir():
            yield from verify(folder.parent / name, seals, is_live)
        elif must_be:
            yield Verdict(name, problem="its folder is gone", code=DAMAGED)


def _judged(folder: Path, good: bytes, seals: Path, found: Scan, is_live: bool) -> Verdict:
    problem, notes = "", []
    try:
        known = seal.kept(seals, folder.name)
        seal.check(seals, folder, good)
        if known is None:
            problem = f"no digest of it is kept in {seals}: its checksums hold, which anybody can make"
        elif known.size < len(good):
            notes.append(f"the digest covers its first {known.size} bytes")
    except JournalError as error:
        problem = error.message
    if found.torn and not is_live:
        notes.append(f"{len(found.torn)} bytes of a torn line follow")
    digest, code = sha256(good).hexdigest(), DIFFERS if problem else 0
    return Verdict(folder.name, len(found.events), len(good), digest, problem, "; ".join(notes), code)


def _children(found: Scan) -> dict[str, bool]:
    """The runs that it began, and whether they must be there: one that was done has left a journal."""
    begun: dict[Any, str] = {}
    must_be: dict[str, bool] = {}
    for event in found.events:
        if event["kind"] == "tool.start" and "child" in event["data"]:
            begun[event["op"]] = event["data"]["child"]
            must_be.setdefault(event["data"]["child"], False)
        elif event["kind"] == "tool.end" and event["op"] in begun:
            must_be[begun[event["op"]]] |= event["data"]["outcome"] == "done"
    return must_be
