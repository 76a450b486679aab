"""A run of everything, cut short everywhere: by a kill and by a loss of power, and again while it recovers.

`make torture` takes every single crash and ten times as many double ones: `tests/torture.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import JournalError
from harness.events.io import IO
from harness.events.scan import blob_names
from tests import journal_invariants as must
from tests.journal_disk import Disk, at_point, points, unpack
from tests.torture_matrix import HOWS, Left, Matrix, playground
from tests.torture_site import wide_site

SINGLES, DOUBLES, PART = 1_050, 2_100, 175
"""How many of each; and of one test, so that they can be shared out."""
SOON = 30
"""Actions in which a recovery has settled what it found."""
MOST = 25
"""Second crashes after one first crash."""


@pytest.fixture(scope="module")
def matrix() -> Iterator[Matrix]:
    with playground() as place:
        yield Matrix(place, wide_site(place / "project"))


@pytest.mark.parametrize("part", range(SINGLES // PART))
def test_l1_a_run_that_is_cut_short_anywhere_goes_on_to_the_same_end(matrix: Matrix, part: int) -> None:
    for n, cut, how in random.Random(part).sample(matrix.singles(), PART):
        matrix.check(Disk(), matrix.trace, (n, cut), how)
    matrix.forget()


@pytest.mark.parametrize("part", range(DOUBLES // PART))
def test_l1_a_crash_in_the_recovery_from_a_crash_is_recovered_from(matrix: Matrix, part: int) -> None:
    chance, done = random.Random(1_000 + part), 0
    while done < PART:
        done += matrix.doubles(chance.choice(matrix.singles()), chance, min(MOST, PART - done))


def test_l1_every_action_of_the_reference_run_can_be_cut_in_every_way(matrix: Matrix) -> None:
    whole = [n for n, cut in points(matrix.trace) if cut is None]
    assert whole == list(range(len(matrix.trace) + 1))
    assert len(matrix.singles()) == len(HOWS) * len(list(points(matrix.trace)))
    kinds = {action[0] for action in matrix.trace} | {action[2] for action in matrix.trace if action[0] == "tool"}
    assert kinds >= {"mkdir", "open", "write", "sync", "sync_dir", "rename", "unlink", "spawn", "request"}
    assert kinds >= {"tool", "effect", "overwrite"}


def test_l1_an_intent_that_was_never_synced_proves_no_blob_when_its_end_is_recorded_later(matrix: Matrix) -> None:
    """Killed between the intents of a batch and their sync, with a blob before them; then its name is lost."""
    intents = [
        n for n, action in enumerate(matrix.trace) if action[0] == "write" and b'"kind":"tool.start"' in action[2]
    ]
    spawns = [n for n, action in enumerate(matrix.trace) if action[0] == "spawn"]
    second = max(n for n in intents if n < spawns[3])  # the first batch has three
    left, disk = matrix.check(Disk(), matrix.trace, (second + 1, None), "kill")
    again = matrix.recover(left).trace
    for point in points(again):
        if point[0] < SOON:
            matrix.check(disk, again, point, "names")


def test_l1_a_word_that_was_taken_is_on_the_disk(matrix: Matrix) -> None:
    """A message is removed from the inbox only when no loss of power can lose its event."""
    taken = 0
    for n, action in enumerate(matrix.trace, 1):
        if action[0] == "unlink" and "/inbox/" in str(action[1]):
            run, _, name = str(action[1]).partition("/inbox/")
            sure = must.whole_events(*at_point(Disk(), matrix.trace, n, None).journal(run, durable=True))
            assert name.removesuffix(".json") in {event["data"].get("inbox") for event in sure}
            taken += 1
    assert taken == 2


def test_l1_no_blob_is_named_before_it_exists(matrix: Matrix) -> None:
    named = 0
    for n, action in enumerate(matrix.trace):
        line = action[2] if action[0] == "write" else b""
        for event in must.whole_events(line) if isinstance(line, bytes) else ():
            disk = at_point(Disk(), matrix.trace, n, None)
            there = {name.rpartition("/")[2] for name in disk.names}
            names = list(blob_names(event["data"]))
            assert there >= set(names)
            named += len(names)
    assert named > 0


def test_l1_a_lost_page_with_later_ones_kept_is_damage(matrix: Matrix, tmp_path: Path) -> None:
    disk = at_point(Disk(), matrix.trace, len(matrix.trace), None)
    name = matrix.recover(Left()).name
    raw = disk.journal(name)[0]
    unpack(disk.image(), tmp_path / "runs", matrix.site.clock.at)
    holed = raw[:4096] + bytes(4096) + raw[8192:]
    (tmp_path / "runs" / name / "events.jsonl").write_bytes(holed)
    with pytest.raises(JournalError, match="damaged at byte") as refused:
        matrix.site.reopen(matrix.site.world(IO(), tmp_path / "runs"), tmp_path / "runs" / name)
    assert refused.value.exit_code == 3
    assert (tmp_path / "runs" / name / "events.jsonl").read_bytes() == holed
