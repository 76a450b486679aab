"""One run, all the crashes it can meet, and what comes of each: the driver of the crash tests.

The run is made once and every action of it noted; each crash is a disk, and a world around it, that those actions can
leave behind. The run is gone on with from there. Equal crashes are gone on with once.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.errors import HarnessError
from harness.events.attempts import MAX_TRIES
from harness.events.fold import apply
from harness.events.io import IO
from harness.events.state import Operation, State
from harness.loop.run import Stop
from harness.runs import facts
from harness.runs.flags import Options
from harness.runs.session import resume
from tests import journal_invariants as must
from tests.journal_disk import CRASHES, KILLS, Action, Disk, Image, at_point, orphans, points, unpack
from tests.journal_site import USAGE, Site
from tests.torture_site import UNKNOWN, WideSite, top_run
from tests.torture_stage import Ledger

HOWS = ("orphan", *CRASHES)
Point = tuple[int, int | None]
OPAQUE = ("mail", "pay")
"""Tools that promise nothing: all that may wait for a word on what happened."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a process that starts after a crash finds: the disk, the world outside, and whether the machine went on."""

    image: Image = ()
    ledger: Ledger = ()
    boot: int = 0


@dataclass(frozen=True, slots=True)
class Recovered:
    """How a run went on from there."""

    stop: Stop
    name: str
    logs: dict[str, bytes]
    trace: tuple[Action, ...]
    ledger: Ledger

    @property
    def log(self) -> bytes:
        return self.logs[self.name]


@dataclass(frozen=True, slots=True)
class Crash:
    """A disk at the moment of the crash, what is left of it, and how often the machine was started before."""

    at: Disk
    left: Disk
    boot: int


class Matrix:
    """The reference run and what came of every crash so far."""

    def __init__(self, place: Path, site: WideSite) -> None:
        self.place, self.site = place, site
        self.known: dict[Left, Recovered] = {}
        self.count = 0
        whole = self.recover(Left())
        self.trace = whole.trace
        self.done = sorted(str(what[1:-1]) for what in whole.ledger if what[0] == "effect")
        self.reference: State = must.folded(whole.log)

    def singles(self) -> list[tuple[int, int | None, str]]:
        return [(n, cut, how) for n, cut in points(self.trace) for how in HOWS]

    def recover(self, left: Left) -> Recovered:
        """Go on with what is there, to the end, and look at all that must hold whatever came before."""
        if left not in self.known:
            self.count += 1
            runs = self.place / f"runs-{self.count}"
            unpack(left.image, runs, self.site.clock.at)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(facts, "_boot", lambda: f"boot-{left.boot}")
                self.known[left] = self._lived(left, runs)
            shutil.rmtree(runs)
        return self.known[left]

    def _lived(self, left: Left, runs: Path) -> Recovered:
        stage = self.site.stage(runs, left.ledger)
        try:
            stop = self.site.live(stage, runs)
        finally:
            stage.close()
        folder = top_run(runs)
        assert folder is not None
        logs = {path.parent.name: path.read_bytes() for path in runs.glob("*/events.jsonl")}
        found = Recovered(stop, folder.name, logs, tuple(stage.trace), stage.ledger)
        self._check_end(folder, found)
        if left.image:
            self._check_nothing_done_again(left, found)
        return found

    def _check_end(self, folder: Path, found: Recovered) -> None:
        for name, raw in found.logs.items():
            if must.whole_events(raw):  # else it never started
                must.one_writer_at_a_time(raw)
                must.blobs_are_there(raw, folder.parent / name)
        must.ends_or_parks_with_a_cause(found.stop, must.folded(found.log))
        must.words_are_taken_once(found.log, folder)
        done = [str(what[1:-1]) for what in found.ledger if what[0] == "effect"]
        must.effects_happen_once(done)
        for raw in found.logs.values():
            only_what_nobody_can_tell_waits_for_a_word(raw)
        passed_run_stays(self.site, folder)
        if hasattr(self, "reference"):
            left = must.given_up(found.log)
            must.same_outcome(must.folded(found.log), self.reference, left)
            assert sorted(done) == [effect for effect in self.done if effect not in {str(call) for call in left}]

    def _check_nothing_done_again(self, left: Left, found: Recovered) -> None:
        names = {name.split("/")[0] for name, _ in left.image}
        for name in names & found.logs.keys():
            survived = must.whole_events(*journal_in(left.image, name))
            worker = "scout" if "-scout-" in name else ""
            asked = [a[1] for a in found.trace if a[0] == "request" and a[2] == worker]
            must.no_reply_is_asked_for_again(survived, [turn for turn in asked if isinstance(turn, int)])
            spawned = [str(a[1]) for a in found.trace if a[0] == "spawn"]
            must.no_ended_operation_runs_again(survived, spawned, name)

    def crash(self, before: Disk, trace: Sequence[Action], point: Point, how: str, boot: int) -> Crash:
        """What is there when the run is cut short at this point. Lost power forgives requests since the last sync."""
        at = at_point(before, trace, *point)
        if how == "orphan":
            orphans(at, trace, point[0])
        left = at.crash(how)
        if how not in KILLS:
            left.ledger = without_last(left.ledger, "request", known_requests(at))
        return Crash(at, left, boot + (how not in KILLS))

    def check(self, before: Disk, trace: Sequence[Action], point: Point, how: str, boot: int = 0) -> tuple[Left, Disk]:
        """One case: crash there, go on; what was on the disk then must be what the run went on from."""
        crash = self.crash(before, trace, point, how, boot)
        left = Left(crash.left.image(), crash.left.ledger, crash.boot)
        found = self.recover(left)
        for name in _runs(crash.at) & found.logs.keys():
            must.events_stay(must.whole_events(*crash.at.journal(name, durable=how not in KILLS)), found.logs[name])
            must.events_stay(must.whole_events(*crash.at.journal(name, durable=True)), found.logs[name])
        paid = sum(what[0] == "request" for what in found.ledger)
        must.spending_never_shrinks(must.folded(found.log), USAGE * paid)
        return left, crash.left

    def doubles(
        self, first: tuple[int, int | None, str], chance: random.Random, most: int, wanted: int | None = None
    ) -> int:
        """Crash, and then again at each action of the recovery, or at `most` of them; how many cases that were.

        Of each action no more than are `wanted`.
        """
        n, cut, how = first
        left, disk = self.check(Disk(), self.trace, (n, cut), how)
        again = self.recover(left).trace
        every = list(points(again))
        whole = [point for point in every if point[1] is None]
        cuts = [point for point in every if point[1] is not None]
        chosen = chance.sample(every, min(most, len(every))) if most else whole + chance.sample(cuts, len(cuts) // 8)
        chosen = chosen if wanted is None or len(chosen) <= wanted else chance.sample(chosen, wanted)
        for point in sorted(chosen, key=every.index):
            self.check(disk, again, point, chance.choice(HOWS), left.boot)
        self.forget()
        return len(chosen)

    def forget(self) -> None:
        """Keep no more than the reference: what else is known would fill the memory."""
        self.known = {Left(): self.known[Left()]}
        must.forget()


def only_what_nobody_can_tell_waits_for_a_word(raw: bytes) -> None:
    """Of the attempts in flight only those of opaque tools park a run, and the child runs that hold one."""
    state, events = State(), must.whole_events(raw)
    if not any(event["kind"] == "park" and event["data"]["stop"] == UNKNOWN for event in events):
        return
    for event in events:
        apply(state, event)
        if event["kind"] == "park" and event["data"]["stop"] == UNKNOWN:
            ops = [state.ops[n] for n in event["data"]["ops"]]
            assert ops and all(op.child or op.tool in OPAQUE or is_undecided(op) for op in ops), event


def is_undecided(op: Operation) -> bool:
    """Its query could not tell, it has been tried as often as may be, or it may not be tried again as it was."""
    result = op.result or {}
    other = str(result.get("why", "")).startswith(("it would be called otherwise", "it may not be tried again"))
    return result.get("by") == "query" or op.tries >= MAX_TRIES or (other and result["outcome"] == "unknown")


@contextmanager
def playground() -> Iterator[Path]:
    """A folder in memory where there is such a file system: thousands of small folders are made and removed."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place)


def _runs(disk: Disk) -> set[str]:
    return {name.split("/")[0] for name in (*disk.names, *disk.durable)}


def known_requests(at: Disk) -> int:
    """How many requests are known to the platter."""
    every = [event for name in _runs(at) for event in must.whole_events(*at.journal(name, durable=True))]
    return sum(event["kind"] == "model.start" for event in every)


def without_last(ledger: Ledger, what: str, most: int) -> Ledger:
    """The ledger with at most so many entries of one kind."""
    kept, count = [], 0
    for entry in ledger:
        count += entry[0] == what
        if entry[0] != what or count <= most:
            kept.append(entry)
    return tuple(kept)


def journal_in(image: Image, run: str) -> tuple[bytes, set[str]]:
    """The journal's bytes on a disk, and the names of the blobs there."""
    files = {name: raw for name, raw in image if raw is not None}
    blobs = {name.rsplit("/", 1)[1] for name in files if name.startswith(f"{run}/blobs/")}
    return files.get(f"{run}/events.jsonl", b""), blobs


def passed_run_stays(site: Site, folder: Path) -> None:
    """Going on with a passed run, without a word, changes no byte of its folder."""
    before = snapshot(folder)
    with pytest.raises(HarnessError) as refused:
        resume(site.world(IO(), folder.parent), site.catalog, folder, None, Options())
    assert refused.value.exit_code == 2
    assert snapshot(folder) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    names = [os.path.join(place, name) for place, _, files in os.walk(folder) for name in files]  # quicker than rglob
    return {name: _bytes(name) for name in names}


def _bytes(name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY)
    try:
        return os.read(fd, os.fstat(fd).st_size + 1)
    finally:
        os.close(fd)
