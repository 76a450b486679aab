"""A run that begins where another one stood: its lines copied byte for byte, its blobs linked, the source untouched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError, JournalError
from harness.events import seal
from harness.events.fold import apply, fold
from harness.events.line import frame
from harness.events.scan import blob_names, good_events, journal_bytes, never_started, reading
from harness.events.state import State
from harness.loop.run import World
from harness.runs.begin import new_log
from harness.runs.behind import Behind, behind, told_of
from harness.runs.facts import machine
from harness.runs.lost import begun_attempts, damage_of, lineage, settled, unaccounted, unaccounted_below


@dataclass(frozen=True, slots=True)
class Source:
    """The good part of a run that is copied: its events and where each line ends. `damage` says what is wrong after it.

    `quiet` are the sequence numbers at which no operation is open, `begun` the attempts that may have had an effect.
    """

    folder: Path
    raw: bytes
    events: tuple[dict[str, Any], ...]
    ends: tuple[int, ...]
    quiet: tuple[int, ...]
    damage: str = ""
    begun: tuple[Path, ...] = ()
    words: Path | None = None
    seals: Path | None = None

    @property
    def start(self) -> dict[str, Any]:
        data: dict[str, Any] = self.events[0]["data"]
        return data


def read_source(folder: Path, words: Path | None = None, seals: Path | None = None) -> Source:
    """What of a run can be copied. Raises JournalError where not even its beginning can.

    `words` is where it is kept what a person said of its calls, `seals` which runs have begun.
    """
    path = folder / "events.jsonl"
    begun = tuple(begun_attempts(folder))  # before the journal, which a live owner extends first
    with reading(folder):
        raw = journal_bytes(folder)
    found = list(good_events(raw, path))
    if not found or found[0][0]["kind"] != "run.start":
        raise never_started(folder)
    events = tuple(event for event, _ in found)
    damage = damage_of(folder, begun)
    return Source(folder, raw, events, tuple(end for _, end in found), _quiet(events), damage, begun, words, seals)


def _quiet(events: Sequence[dict[str, Any]]) -> tuple[int, ...]:
    state, found = State(), []
    for event in events:
        apply(state, event)
        if not state.open_ops:
            found.append(state.seq)
    return tuple(found)


def point(source: Source, seq: int | None) -> int:
    """Where to fork: the line that was named, or the last quiet one. Raises HarnessError naming the nearest that works.

    A journal that is damaged can be forked before the damage, once every attempt that the copy does not know of is
    settled (exit 11).
    """
    name, last = source.folder.name, source.events[-1]["seq"]
    at = source.quiet[-1] if seq is None else seq
    if not 1 <= at <= last:
        broken = f"; after it, {source.damage}" if source.damage else ""
        fix = f"harness fork {name}@{source.quiet[-1]}"
        raise HarnessError(f"{name} has no good event {at}: the last is {last}{broken}", fix)
    if any(event["kind"] == "amend" and event["data"]["what"] == "redact" for event in source.events):
        raise HarnessError(f"{name} was redacted: it can be shown, and not gone on with", f"harness show {name}")
    if at not in source.quiet:
        near = min(source.quiet, key=lambda n: (abs(n - at), n))
        open_now = " ".join(f"#{n}" for n in fold(source.events[:at]).open_ops)
        raise HarnessError(f"operation {open_now} is open at event {at}", f"harness fork {name}@{near}")
    _refuse_lost_blobs(source, at)
    settled_after(source, at)
    if seq is None:
        _refuse_repeats(source, at)
    return at


def _refuse_repeats(source: Source, at: int) -> None:
    """Where nobody said from where, nothing that was done is done again: a call that waits must be seen to first."""
    if done := done_after(source, at):
        waits = " ".join(f"#{n}" for n in fold(source.events).open_ops)
        what = f"{' '.join(done)} was done since {waits} is open, and a fork before that would do it again"
        name = source.folder.name
        raise HarnessError(what, f"harness resume {name}, or say so: harness fork {name}@{at}")


def done_after(source: Source, at: int) -> list[str]:
    """The calls after an event that had an effect, in words: a fork there may do them again."""
    return [call.text for call in _left_behind(source, at) if call.is_done]


def _left_behind(source: Source, at: int) -> list[Behind]:
    """The calls after an event; after damage nobody knows them, and their attempts are asked about."""
    known = fold(source.events[:at]).ops
    return [] if source.damage else behind(source.folder, fold(source.events), known, source.seals)


def settled_after(source: Source, at: int) -> list[dict[str, Any]]:
    """What a person said of the attempts that the copy would not account for, below it too.

    Raises HarnessError (exit 11).
    """
    state, is_damaged = fold(source.events[:at]), bool(source.damage)
    own = unaccounted(source.begun, state) if is_damaged else []
    lost = settled([*own, *unaccounted_below(source.folder, state, is_damaged)], source.folder, source.words)
    return lost + told_of(_left_behind(source, at), source.folder, source.words)


def _refuse_lost_blobs(source: Source, at: int) -> None:
    for event in source.events[:at]:
        for name in blob_names(event["data"]):
            if not (source.folder / "blobs" / name).is_file():
                good = max((n for n in source.quiet if n < event["seq"]), default=0)
                fix = f"harness fork {source.folder.name}@{good}" if good else "restore the folder from a copy"
                raise JournalError(f"blob {name[:12]} of event {event['seq']} is missing", fix, str(source.folder))


def fork(world: World, source: Source, at: int) -> Path:
    """A new run of its own with the first `at` lines of another, to be gone on with. Raises HarnessError.

    Grants are not taken over, and spending starts at zero under the limits that held there.
    """
    if parent := source.start.get("parent"):
        what = f"{source.folder.name} is part of the run {parent['run']}"
        raise HarnessError(what, f"harness fork {lineage(source.folder)[-1].name}")
    if not source.damage:
        seal.check(world.seals, source.folder, source.raw[: source.ends[-1]])
    state, said = fold(source.events[:at]), settled_after(source, at)
    made = copied(world, source, at, {"budget": dict(state.budget)} | ({"settled": said} if said else {}))
    if seal.is_known(world.seals, source.folder.name):
        seal.note(seal.ready(world.seals), made.name, world.io)
    return made


def copied(world: World, source: Source, at: int, fresh: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write the fork: `fresh` are the fields of its first line that are its own. All of its journal appears at once."""
    log = new_log(world, str(source.start["skill"]), folder)
    try:
        names = dict.fromkeys(name for event in source.events[:at] for name in blob_names(event["data"]))
        with log.guarded("the fork cannot be written"):
            for name in names:
                world.io.link(source.folder / "blobs" / name, log.folder / "blobs" / name)
            world.io.put(log.folder / "events.jsonl", _journal(source, at, log.name, fresh))
            for new in (log.folder / "blobs", log.folder, log.folder.parent):
                world.io.sync_dir(new)
    finally:
        log.close()
    return log.folder


def _journal(source: Source, at: int, name: str, fresh: Mapping[str, Any]) -> bytes:
    first = frame(1, 1, source.events[0]["at"], "run.start", _start(source, at, name, fresh))
    return first + source.raw[source.ends[0] : source.ends[at - 1]]


def _start(source: Source, at: int, name: str, fresh: Mapping[str, Any]) -> dict[str, Any]:
    """The source's first line under a new name and on this machine; its pins, its mark and its goal stay."""
    old, facts = dict(source.start), machine()
    link = {"run": source.folder.name, "seq": at}
    said = [*(old.get("fork") or {}).get("settled", ()), *fresh.get("settled", ())]  # what was lost before holds on
    given = {**fresh, "fork": link | ({"settled": said} if said else {})}
    flags = {key: words for key, words in (old.pop("flags", None) or {}).items() if key != "allow"}
    for key in ("run", "parent", "fork"):
        old.pop(key, None)
    data = {"run": name}
    for key, value in old.items():
        if key == "budget":  # what links a run to others stands before it
            data |= {more: given[more] for more in ("parent", "fork") if more in given}
        data[key] = given.get(key, value)
    data |= {"harness": __version__, **facts}
    return data | ({"flags": flags} if flags else {})
