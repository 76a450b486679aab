"""The digest of a journal, kept outside the project when a run stops and compared when it is opened again."""

from __future__ import annotations

import json
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from harness.errors import JournalError
from harness.events import line as lines
from harness.events.log import follow
from harness.runs.fork import fork, point, read_source
from tests.cage_world import Caged, sealed
from tests.loop_world import Ran, call, finish, reply, rewrite


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return sealed(tmp_path, monkeypatch)


def seal(project: Caged, ran: Ran) -> Path:
    return project.home / "seals" / f"{ran.folder.name}.sha256"


def test_it_is_kept_at_park_and_at_the_end(project: Caged) -> None:
    ran = project.one("send")
    assert ran.stop.parked
    for _ in range(2):
        raw = (ran.folder / "events.jsonl").read_bytes()
        assert seal(project, ran).read_text().split() == [sha256(raw).hexdigest(), str(len(raw))]
        assert stat.S_IMODE(seal(project, ran).stat().st_mode) == 0o600
        if ran.stop.parked:
            project.say(ran.folder, "approve", 1)
            ran = project.resume(ran.folder)
    assert ran.stop.name == "passed"


@pytest.mark.parametrize("change", ["rewritten", "cut", "prolonged"])
def test_A57_what_has_right_checksums_and_was_changed_is_found(project: Caged, change: str) -> None:
    ran = project.one("send")
    path = ran.folder / "events.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    if change == "rewritten":
        rewrite(ran, '"goal":"go"', '"goal":"no"')
    elif change == "cut":
        path.write_bytes(b"".join(whole[:-1]))
    else:
        last = json.loads(whole[-1])
        more = lines.frame(last["seq"] + 1, last["epoch"], last["at"], "note", {"why": "x", "text": "forged"}, None)
        path.write_bytes(b"".join([*whole, more]))
    before = path.read_bytes()
    with pytest.raises(JournalError) as error:
        project.resume(ran.folder)
    known = seal(project, ran).read_text().split()[0]
    assert error.value.exit_code == 3
    assert known[:16] in error.value.message and sha256(before).hexdigest()[:16] in error.value.message
    assert path.read_bytes() == before, "nothing was written"


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_sealed_end_that_is_gone_is_no_torn_tail(project: Caged, lost: int) -> None:
    """Nothing is cut: what a seal covers was written whole, with its newline."""
    ran = project.one("send")
    path = ran.folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-lost])
    before = {file.name: file.read_bytes() for file in ran.folder.iterdir() if file.is_file() and file.name != "lock"}
    with pytest.raises(JournalError, match="its good lines end at byte") as error:
        project.resume(ran.folder)
    assert error.value.exit_code == 3
    after = {file.name: file.read_bytes() for file in ran.folder.iterdir() if file.is_file() and file.name != "lock"}
    assert after == before
    with pytest.raises(JournalError, match="changed by something else"):
        fork(project.world(), source := read_source(ran.folder), point(source, None))


def test_a_fork_of_a_journal_with_a_torn_end_copies_what_was_sealed(project: Caged) -> None:
    ran = project.calls(call("send"), allow=("send",))
    with (ran.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":')
    source = read_source(ran.folder)
    assert len(follow(fork(project.world(), source, point(source, None)))) == len(ran.events)


def test_without_a_seal_there_is_nothing_to_compare(project: Caged) -> None:
    ran = project.one("send")
    seal(project, ran).unlink()
    rewrite(ran, '"goal":"go"', '"goal":"no"')
    project.say(ran.folder, "approve", 1)
    assert project.resume(ran.folder).stop.name == "passed"


def test_a_process_that_died_leaves_a_journal_that_may_only_have_grown(project: Caged) -> None:
    """It had opened the run, so more was written than the seal covers; what it covers still holds."""
    ran = project.one("send")
    sealed = seal(project, ran).read_text()
    path = ran.folder / "events.jsonl"
    short = path.read_bytes()
    project.resume(ran.folder)
    grown = path.read_bytes()
    seal(project, ran).write_text(f"{sealed.strip()} open\n")
    project.say(ran.folder, "approve", 1)
    assert project.resume(ran.folder).stop.name == "passed"
    path.write_bytes(grown.replace(b'"goal":"go"', b'"goal":"no"')[: len(short)])
    seal(project, ran).write_text(f"{sealed.strip()} open\n")
    with pytest.raises(JournalError):
        project.resume(ran.folder)


def test_a_torn_end_is_no_tampering(project: Caged) -> None:
    ran = project.one("send")
    with (ran.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":')
    project.say(ran.folder, "approve", 1)
    assert project.resume(ran.folder).stop.name == "passed"


def test_a_child_has_its_own(project: Caged) -> None:
    project.stages("line", "a: {run: [send]}")
    project.skill(tools="line send")
    ran = project.run([reply(call("line")), finish()], allow=("send",))
    names = {path.name for path in (project.home / "seals").iterdir()}
    assert names == {f"{ran.folder.name}.sha256", f"{ran.child().name}.sha256"}
