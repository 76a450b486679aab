"""A run that only reads, cut short everywhere: by a kill and by a loss of power, and again while it recovers.

The run is made once and every action of it noted; each crash is a disk that those actions can leave behind. The run is
gone on with from there, with real tools. Equal disks are gone on with once.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.io import IO
from harness.events.state import State
from harness.loop.run import Stop
from harness.runs.flags import Options
from harness.runs.session import resume
from tests import journal_invariants as must
from tests.journal_disk import CRASHES, Action, Disk, Image, Recorder, at_point, points, unpack
from tests.journal_site import ASKING, PLAIN, USAGE, Site, make_site, started

SEEDS = [(ASKING, 1), (PLAIN, 2), (PLAIN, 3), (PLAIN, 4)]
DOUBLES = 500  # of each seed, after so many first crashes:
FIRSTS = 40


@dataclass(frozen=True)
class Recovered:
    """How a run went on from one disk."""

    stop: Stop
    name: str
    log: bytes
    trace: tuple[Action, ...]

    def did(self, kind: str) -> list[object]:
        return [action[1] for action in self.trace if action[0] == kind]


class Matrix:
    """The reference run and what came of every disk so far."""

    def __init__(self, place: Path, script: str) -> None:
        self.place, self.site = place, make_site(place / "project", script)
        self.known: dict[Image, Recovered] = {}
        self.reference: State = must.folded(self.recover(()).log)
        self.trace = self.known[()].trace

    def recover(self, image: Image) -> Recovered:
        """Go on with what is on this disk, to the end, and look at all that must hold whatever came before."""
        if image not in self.known:
            runs = self.place / f"runs-{len(self.known)}"
            unpack(image, runs, self.site.clock.at)
            self.known[image] = self._carried(image, runs)
            shutil.rmtree(runs)
        return self.known[image]

    def _carried(self, image: Image, runs: Path) -> Recovered:
        recorder = Recorder(runs)
        stop = self.site.carry(recorder, runs, recorder.heard)
        folder = started(runs)
        assert folder is not None
        found = Recovered(stop, folder.name, (folder / "events.jsonl").read_bytes(), tuple(recorder.trace))
        if image:
            must.all_of(folder, stop, self.reference)
            survived = must.whole_events(*journal_in(image, folder.name))
            must.no_reply_is_asked_for_again(survived, [turn for turn in found.did("request") if isinstance(turn, int)])
            must.no_ended_operation_runs_again(survived, map(str, found.did("spawn")), folder.name)
            passed_run_stays(self.site, folder)
        return found

    def check(self, before: Disk, trace: tuple[Action, ...], n: int, cut: int | None, how: str, sent: int = 0) -> Disk:
        """One case: crash there, go on; what was on the disk then must be what the run went on from."""
        at = at_point(before, trace, n, cut)
        left = at.crash(how)
        found = self.recover(left.image())
        sure = must.whole_events(*at.journal(found.name, durable=how != "kill"))
        must.events_stay(sure, found.log)
        must.events_stay(must.whole_events(*at.journal(found.name, durable=True)), found.log)
        paid = sum(event["kind"] == "model.reply" for event in sure)
        if how == "kill" and sure:
            paid = sent + sum(action[0] == "request" for action in trace[:n])
        must.spending_never_shrinks(must.folded(found.log), USAGE * (paid + len(found.did("request"))))
        return left


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
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where there is such a file system: thousands of small folders are made and removed."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path_factory.getbasetemp()) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def matrices(place: Path) -> dict[str, Matrix]:
    return {script: Matrix(place / str(number), script) for number, script in enumerate((ASKING, PLAIN))}


@pytest.fixture
def matrix(matrices: dict[str, Matrix]) -> Matrix:
    return matrices[ASKING]


def singles(matrix: Matrix) -> list[tuple[int, int | None, str]]:
    return [(n, cut, how) for n, cut in points(matrix.trace) for how in CRASHES]


@pytest.mark.parametrize("how", CRASHES)
def test_l1_every_crash_of_a_reading_run_is_recovered_from(matrix: Matrix, how: str) -> None:
    for n, cut in points(matrix.trace):
        matrix.check(Disk(), matrix.trace, n, cut, how)


@pytest.mark.parametrize(("script", "seed"), SEEDS, ids=["asking", "plain", "plain-2", "plain-3"])
def test_l1_a_crash_in_the_recovery_from_a_crash_is_recovered_from(
    matrices: dict[str, Matrix], script: str, seed: int
) -> None:
    matrix, chance = matrices[script], random.Random(seed)
    firsts = chance.sample(singles(matrix), FIRSTS)
    for _ in range(DOUBLES):
        n, cut, how = chance.choice(firsts)
        left = matrix.check(Disk(), matrix.trace, n, cut, how)
        again = matrix.recover(left.image()).trace
        sent = sum(action[0] == "request" for action in matrix.trace[:n]) if how == "kill" else 0
        matrix.check(left, again, *chance.choice(list(points(again))), chance.choice(CRASHES), sent)


def test_l1_the_matrix_is_as_wide_as_it_says(matrix: Matrix) -> None:
    assert len(singles(matrix)) >= 1_000
    assert len(SEEDS) * DOUBLES >= 2_000


def test_l1_a_lost_page_with_later_ones_kept_is_damage(matrix: Matrix, tmp_path: Path) -> None:
    disk = at_point(Disk(), matrix.trace, len(matrix.trace), None)
    name = matrix.recover(()).name
    raw = disk.journal(name)[0]
    unpack(disk.image(), tmp_path / "runs", matrix.site.clock.at)
    holed = raw[:4096] + bytes(4096) + raw[8192:]
    (tmp_path / "runs" / name / "events.jsonl").write_bytes(holed)
    with pytest.raises(JournalError, match="damaged at byte") as refused:
        matrix.site.reopen(matrix.site.world(IO(), tmp_path / "runs"), tmp_path / "runs" / name)
    assert refused.value.exit_code == 3
    assert (tmp_path / "runs" / name / "events.jsonl").read_bytes() == holed
