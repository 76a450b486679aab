"""A run of everything, cut short everywhere: by a kill and by a loss of power, and again while it recovers.

`make torture` takes every single crash and ten times as many double ones: `tests/torture.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.errors import JournalError
from harness.events.io import IO
from harness.events.scan import blob_names
from harness.runs import deliver
from tests import journal_invariants as must
from tests.journal_disk import Action, Disk, at_point, points, unpack
from tests.torture_matrix import HOWS, Left, Matrix, playground
from tests.torture_site import SHORT, SLOW, top_run, wide_site

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


@pytest.fixture(scope="module")
def short() -> Iterator[Matrix]:
    """The run of fewer steps, which recovers sooner."""
    with playground() as place:
        yield Matrix(place, wide_site(place / "project", SHORT))


@pytest.mark.parametrize("part", range(SINGLES // PART))
def test_l1_a_run_that_is_cut_short_anywhere_goes_on_to_the_same_end(matrix: Matrix, part: int) -> None:
    for n, cut, how in random.Random(part).sample(matrix.singles(), PART):
        matrix.check(Disk(), matrix.trace, (n, cut), how)
    matrix.forget()


@pytest.mark.parametrize("part", range(DOUBLES // PART))
def test_l1_a_crash_in_the_recovery_from_a_crash_is_recovered_from(short: Matrix, part: int) -> None:
    chance, done = random.Random(1_000 + part), 0
    while done < PART:
        done += short.doubles(chance.choice(short.singles()), chance, min(MOST, PART - done))


def test_l1_every_action_of_the_reference_run_can_be_cut_in_every_way(matrix: Matrix) -> None:
    whole = [n for n, cut in points(matrix.trace) if cut is None]
    assert whole == list(range(len(matrix.trace) + 1))
    assert len(matrix.singles()) == len(HOWS) * len(list(points(matrix.trace)))
    kinds = {action[0] for action in matrix.trace} | {action[2] for action in matrix.trace if action[0] == "tool"}
    assert kinds >= {"mkdir", "open", "write", "sync", "sync_dir", "rename", "unlink", "spawn", "request"}
    assert kinds >= {"tool", "effect", "overwrite"}


def test_l1_the_short_run_holds_all_that_can_be_cut_short(short: Matrix) -> None:
    state = short.reference
    kinds = {op.repeat for op in state.ops.values() if op.repeat}
    assert kinds == {"pure", "keyed", "queryable", "opaque"}
    assert [n for n, op in state.ops.items() if op.tries > 1] == [4]  # a retry
    events = must.whole_events(short.recover(Left()).log)
    assert [len(e["data"]["calls"]) for e in events if e["kind"] == "model.reply"] == [3, 3, 1]
    assert [e["op"] for e in events if e["kind"] == "decide" and e["data"].get("inbox")] == [5]  # an approval
    assert any(op.child for op in state.ops.values()) and any(e["kind"] == "verify" for e in events)
    assert any(list(blob_names(e["data"])) for e in events)


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


def test_l1_a_slow_read_whose_intent_was_lost_is_no_damage() -> None:
    """It goes through the shim and leaves a folder that the journal does not know, with or without its bytes."""
    with playground() as place:
        matrix = Matrix(place, wide_site(place / "project", SLOW))
        [read] = [n for n, a in enumerate(matrix.trace) if a[0] == "spawn" and a[2] == "slow"]
        last = next(n for n, a in enumerate(matrix.trace) if a[0] == "spawn" and n > read)
        for n, cut, how in matrix.singles():
            if read < n <= last:
                matrix.check(Disk(), matrix.trace, (n, cut), how)


def test_l1_a_child_run_of_which_nothing_was_on_the_disk_is_begun_anew(short: Matrix) -> None:
    """Killed before the child's first sync and gone on with; then the power goes before its first call begins. What
    its folder holds beside an empty journal never ran: it is no damage that a person must look at."""
    began = next(n for n, a in enumerate(short.trace) if a[0] == "write" and b'"parent":' in a[2])
    left, disk = short.check(Disk(), short.trace, (began + 1, None), "orphan")
    again = short.recover(left).trace
    [child] = {str(a[1]).partition("/")[0] for a in again if a[0] == "spawn" and "-scout-" in str(a[1])}
    spawn = next(n for n, a in enumerate(again) if a[0] == "spawn" and child in str(a[1]))
    folder = next(n for n, a in enumerate(again) if a[:2] == ("mkdir", f"{child}/ops/1"))
    for n in range(folder + 1, spawn + 1):
        for how in ("zeros", "half", "lost"):
            short.check(disk, again, (n, None), how, left.boot)


def test_l1_the_end_of_a_child_run_is_on_the_disk_before_the_run_above_records_it(short: Matrix) -> None:
    """Killed between the child's end and its sync: nobody opens the child again, and what it did must not get lost."""
    ended = next(n for n, a in enumerate(short.trace) if a[0] == "write" and b'"kind":"run.end"' in a[2])
    left, disk = short.check(Disk(), short.trace, (ended + 1, None), "kill")
    again = short.recover(left).trace
    for how in ("zeros", "half", "lost"):
        short.check(disk, again, (len(again), None), how, left.boot)


def words_taken(before: Disk, trace: Sequence[Action]) -> list[str]:
    """The kinds of the messages that a run removes from its inbox; the event of each is then on the platter."""
    taken = []
    for n, action in enumerate(trace, 1):
        if action[0] == "unlink" and "/inbox/" in str(action[1]):
            run, _, name = str(action[1]).partition("/inbox/")
            sure = must.whole_events(*at_point(before, trace, n, None).journal(run, durable=True))
            assert name.removesuffix(".json") in {event["data"].get("inbox") for event in sure}
            taken.append(name.partition("-")[0])
    return taken


def test_l1_a_word_that_was_taken_is_on_the_disk(matrix: Matrix) -> None:
    """A message is removed from the inbox only when no loss of power can lose its event."""
    assert sorted(words_taken(Disk(), matrix.trace)) == ["answer", "approve"]


def after_payment(matrix: Matrix) -> tuple[Left, Disk]:
    """Killed when the opaque payment had been made and nothing noted it."""
    paid = [n for n, a in enumerate(matrix.trace) if a[0] == "tool" and a[2:5] == ("effect", "effect", "pay")]
    return matrix.check(Disk(), matrix.trace, (paid[0] + 1, None), "kill")


def test_l1_a_settlement_that_was_taken_is_on_the_disk(matrix: Matrix) -> None:
    left, disk = after_payment(matrix)
    assert words_taken(disk, matrix.recover(left).trace) == ["settle"]


def test_l1_an_amendment_that_was_taken_is_on_the_disk(matrix: Matrix, tmp_path: Path) -> None:
    left, disk = after_payment(matrix)
    unpack(left.image, tmp_path / "runs", matrix.site.clock.at)
    stage = matrix.site.stage(tmp_path / "runs", left.ledger)
    folder = top_run(tmp_path / "runs")
    assert folder is not None
    deliver.send(folder, stage, {"kind": "amend", "what": "stale", "target": "look", "value": [["look"]], "why": "old"})
    stage.close()
    disk = at_point(disk, stage.trace, len(stage.trace), None)
    again = matrix.recover(Left(disk.image(), left.ledger, left.boot)).trace
    assert words_taken(disk, again) == ["amend", "settle"]


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
