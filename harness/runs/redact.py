"""Taking a value out of a run for good: out of its journal, its blobs, its operations' files. Nothing else changes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events import seal
from harness.events.clock import Clock
from harness.events.fold import fold
from harness.events.io import IO
from harness.events.line import at_text, frame, parse, told, with_data
from harness.events.log import Log, open_log
from harness.events.scan import REDACTS, blob_names
from harness.events.state import State
from harness.runs.cut import Cut, Wish, holds_any, holds_bytes, needles_of, spellings
from harness.runs.tree import empty, entries, open_up

MIN_SHA = 8
KEPT = ("events.jsonl", "lock", "blobs", "ops", "inbox")
"""What every run's folder has, by its name."""


@dataclass(slots=True)
class Taken:
    """What was taken out: the events it was in, how many values, the files that went.

    `left` are events that hold the text still, as a name or a word of the format.
    """

    seqs: list[int] = field(default_factory=list)
    values: int = 0
    files: list[str] = field(default_factory=list)
    left: list[int] = field(default_factory=list)


def redact(
    folder: Path, wish: Wish, why: str, by: str, io: IO, clock: Clock, seals: Path | None, dry: bool = False
) -> Taken:
    """Take it out, under the run's lock. Raises HarnessError (exit 2) where nothing holds it, BusyError, JournalError.

    `dry` only looks. Killed in between, the same command said again ends what this one began.
    """
    log = open_log(folder, io, clock, check=partial(_unchanged, seals, folder))
    try:
        state = fold(log.events)
        _check(folder, state, wish, why)
        lines, taken, doomed = _planned(log, wish)
        if not dry:
            _carry_out(log, lines, doomed, taken, _amendment(log, wish, why, by, taken), seals)
        return taken
    finally:
        log.close()


def redact_all(
    folders: Sequence[Path], wish: Wish, why: str, by: str, io: IO, clock: Clock, seals: Path | None, dry: bool = False
) -> dict[Path, Taken]:
    """The same for several runs, as far as they hold it. Each is looked at first: a refusal changes none of them."""
    them = meant(folders, wish)
    for folder in them if len(them) > 1 else ():
        redact(folder, wish, why, by, io, clock, seals, dry=True)
    return {folder: redact(folder, wish, why, by, io, clock, seals, dry) for folder in them}


def meant(folders: Sequence[Path], wish: Wish) -> list[Path]:
    """Those of a run and its relatives that hold it; the run itself, which is the last, where none of several does."""
    held = also_holding(folders, wish) if len(folders) > 1 else []
    return [folder for folder in folders if folder.name in held] or list(folders[-1:])


def _unchanged(seals: Path | None, folder: Path, good: bytes) -> None:
    """A redaction that was killed half-way left the seal of what it took out."""
    if REDACTS not in good:
        seal.check(seals, folder, good)


def _check(folder: Path, state: State, wish: Wish, why: str) -> None:
    if state.status not in ("ended", "parked"):
        raise HarnessError("only a run that has ended or waits can be redacted", f"harness stop {folder.name}")
    if wish.seq is not None and not 1 <= wish.seq <= state.seq:
        raise HarnessError(f"{folder.name} has no event {wish.seq}", f"give a number from 1 to {state.seq}")
    if wish.text is None:
        return
    if not wish.text.strip():
        raise HarnessError("--text is empty", "give the text that shall go")
    if holds_any(why, spellings(wish.text)):
        raise HarnessError("the reason holds the very text", "say why without it")
    if holds_any(folder.name, spellings(wish.text)):
        raise HarnessError("the run's own name holds the text", f"delete it whole: harness runs prune {folder.name}")


def _planned(log: Log, wish: Wish) -> tuple[list[bytes], Taken, list[Path]]:
    """The lines as they shall be, what that takes out, the files that go. Raises HarnessError where nothing does."""
    folder = log.folder
    open_up(folder, log.io)
    wish = _whole_sha(folder, wish)
    lines, taken, held, ops = _rewritten(log.io.read(folder / "events.jsonl"), folder, wish)
    doomed = _files(folder, wish, lines, held, ops)
    if not taken.values and not doomed:
        raise HarnessError(f"nothing in {folder.name} holds it", f"look: harness show {folder.name}")
    taken.files = [path.relative_to(folder).as_posix() for path in doomed]
    return lines, taken, doomed


def _carry_out(
    log: Log, lines: list[bytes], doomed: list[Path], taken: Taken, amendment: bytes, seals: Path | None
) -> None:
    """First the journal, which then says what happened; then the files that it does not name any more."""
    if taken.values:
        _replace(log, [*lines, amendment], seals)
    for path in doomed:
        with log.guarded(f"{path.name} cannot be deleted"):
            _delete(path, log.io)


def _rewritten(raw: bytes, folder: Path, wish: Wish) -> tuple[list[bytes], Taken, set[bytes], set[int]]:
    """Each line as it shall be, what was taken, the bytes of it, and the operations whose files hold it."""
    lines, taken, held, ops = [], Taken(), set(), set()
    needles = needles_of(wish.text) if wish.text is not None else []
    for line in raw.split(b"\n")[:-1]:
        event, cut = parse(line), Cut(wish, folder)
        data = cut.data(event)
        lines.append(_line(event, data) if cut.held else line + b"\n")
        if cut.held:
            taken.seqs.append(event["seq"])
            taken.values += len(cut.held)
            held.update(cut.held)
        if event["kind"].startswith("tool.") and (cut.held or event["seq"] == wish.seq):
            ops.add(event["op"])
        if any(needle in lines[-1] for needle in needles):
            taken.left.append(event["seq"])
    return lines, taken, held, ops


def _line(event: dict[str, Any], data: dict[str, Any]) -> bytes:
    try:
        return with_data(event, data)
    except ValueError as error:
        raise HarnessError(f"it cannot be taken out: {error}", "take a longer part of it, or prune the run") from error


def _whole_sha(folder: Path, wish: Wish) -> Wish:
    """The blob that the beginning of a digest means. Raises HarnessError."""
    if wish.blob is None:
        return wish
    names = {path.name for path in (folder / "blobs").iterdir() if path.name.startswith(wish.blob)}
    if len(wish.blob) < MIN_SHA or len(names) > 1:
        raise HarnessError(f"--blob {wish.blob} is no blob's digest", f"give more of it, at least {MIN_SHA} digits")
    if not names:
        raise HarnessError(f"{folder.name} has no blob {wish.blob}", f"they are in {folder / 'blobs'}")
    return Wish(blob=names.pop())


def _amendment(log: Log, wish: Wish, why: str, by: str, taken: Taken) -> bytes:
    last = log.events[-1]
    value = {"values": taken.values, "events": taken.seqs[:100]}
    data = {"what": "redact", "target": wish.target, "value": value, "by": by, "why": why}
    return frame(last["seq"] + 1, last["epoch"], at_text(log.now()), "amend", data)


def _replace(log: Log, lines: list[bytes], seals: Path | None) -> None:
    """Put the new journal in place of the old one, and its digest in place of the old one's."""
    _check_readable(lines)
    whole = b"".join(lines)
    with log.guarded("the journal cannot be replaced"):
        log.io.put(log.folder / "events.jsonl", whole)
        log.io.sync_dir(log.folder)
    if seals is not None and (path := seal.seal_path(seals, log.name)).exists():
        with log.guarded("the journal's digest cannot be kept"):
            log.io.put(path, f"{sha256(whole).hexdigest()} {len(whole)}\n".encode())


def _check_readable(lines: list[bytes]) -> None:
    """Nothing is put in place that nobody could show. Raises HarnessError."""
    try:
        fold({**event, "data": told(event["data"])} for event in (parse(line[:-1]) for line in lines))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = "without it the journal could not be read any more"
        raise HarnessError(what, "take a longer part of it, or prune the run") from error


def _files(folder: Path, wish: Wish, lines: list[bytes], held: set[bytes], ops: set[int]) -> list[Path]:
    """What goes beside the journal: blobs that no event names any more, and files that hold what was taken."""
    named = {name for line in lines for name in blob_names(parse(line[:-1])["data"])}
    doomed = [path for path in (folder / "blobs").iterdir() if path.name not in named]
    if wish.text is None:
        doomed += [folder / "ops" / str(n) for n in sorted(ops) if (folder / "ops" / str(n)).is_dir()]
        doomed += [path for path in _plain_files(folder) if _is_one_of(path, held)]
    else:
        doomed += list(_holding(folder, needles_of(wish.text)))
    return list(dict.fromkeys(path for path in doomed if not any(above in doomed for above in path.parents)))


def _is_one_of(path: Path, held: set[bytes]) -> bool:
    sizes = {len(value) for value in held}
    with suppress(OSError):
        return path.stat().st_size in sizes - {0} and path.read_bytes() in held
    return False


def _plain_files(folder: Path) -> Iterator[Path]:
    """Every file below a run but its journal, its lock and the blobs, which the journal accounts for."""
    for entry in entries(folder, []):
        path = Path(entry.path)
        top = path.relative_to(folder).parts[0]
        if top not in ("events.jsonl", "lock", "blobs") and entry.is_file(follow_symlinks=False):
            yield path


def _holding(folder: Path, needles: list[bytes]) -> Iterator[Path]:
    """Every file, link or folder below a run that holds one of the needles, in its bytes or in its name."""
    lost: list[Path] = []
    for entry in entries(folder, lost):
        path = Path(entry.path)
        if path.parent == folder and entry.name in KEPT:
            continue
        is_file = entry.is_file(follow_symlinks=False)
        if _names(path, needles) or (is_file and holds_bytes(path, needles)):
            yield path
    yield from lost  # they may


def _names(path: Path, needles: list[bytes]) -> bool:
    link = os.fsencode(path.readlink()) if path.is_symlink() else b""
    return any(needle in os.fsencode(path.name) or needle in link for needle in needles)


def _delete(path: Path, io: IO) -> None:
    if path.is_dir() and not path.is_symlink():
        empty(path, io)
    else:
        io.unlink(path)


def also_holding(folders: Sequence[Path], wish: Wish) -> list[str]:
    """Which of these other runs hold the same: they are not touched."""
    if wish.text is not None:
        needles = needles_of(wish.text)
        return [folder.name for folder in folders if _has(folder, needles)]
    if wish.blob is not None:
        return [folder.name for folder in folders if any((folder / "blobs").glob(f"{wish.blob}*"))]
    return []


def _has(folder: Path, needles: list[bytes]) -> bool:
    return holds_bytes(folder / "events.jsonl", needles) or any(_holding(folder, needles))
