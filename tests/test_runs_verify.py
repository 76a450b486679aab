"""`show --verify`: a verdict on each journal of a family of runs; and what is no journal is said at once."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from harness.cli.entry import run as command
from harness.errors import HarnessError, JournalError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.lock import owner
from harness.events.log import follow, open_log
from harness.events.scan import first_data
from harness.runs.find import find_run
from harness.runs.fork import read_source
from harness.runs.list import is_owned, read
from harness.runs.lost import damage_of
from harness.runs.peek import peek
from harness.runs.verify import DAMAGED, DIFFERS, Verdict, verify
from tests.cage_world import Caged, sealed
from tests.loop_world import Ran, call, finish, reply, rewrite
from tests.odd_files import odd_file

KINDS = {"pipe": "a pipe", "device": "a device", "folder": "a folder", "socket": "a socket"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return sealed(tmp_path, monkeypatch)


def verdicts(project: Caged, ran: Ran, live: bool = False) -> list[Verdict]:
    return list(verify(ran.folder, project.home / "seals", live))


def nested(project: Caged) -> Ran:
    project.stages("line", "a: {run: [send]}")
    project.skill(tools="line send")
    return project.run([reply(call("line")), finish()], allow=("send",))


def test_every_journal_of_a_family_is_verified(project: Caged) -> None:
    ran = nested(project)
    top, below = verdicts(project, ran)
    assert (top.run, top.events, top.problem, top.code) == (ran.folder.name, len(ran.events), "", 0)
    assert (below.run, below.problem) == (ran.child().name, "")
    rewrite(Ran(ran.stop, ran.child(), []), "sent", "SENT")
    assert [one.code for one in verdicts(project, ran)] == [0, DIFFERS]


@pytest.mark.parametrize(("what", "code", "words"), [
    ("rewritten", DIFFERS, "changed by something else"), ("a newline lost", DIFFERS, "good lines end at byte"),
    ("no digest", DIFFERS, "no digest"), ("a bit flipped", DAMAGED, "damaged at byte"),
    ("a torn line", 0, ""), ("a child gone", DAMAGED, "folder is gone"),
])  # fmt: skip
def test_what_does_not_hold_is_said(project: Caged, what: str, code: int, words: str) -> None:
    ran = nested(project)
    path = ran.folder / "events.jsonl"
    raw = path.read_bytes()
    if what == "rewritten":
        rewrite(ran, '"goal":"go"', '"goal":"no"')
    elif what == "a newline lost":
        path.write_bytes(raw[:-1])
    elif what == "no digest":
        (project.home / "seals" / f"{ran.folder.name}.sha256").unlink()
    elif what == "a bit flipped":
        path.write_bytes(raw.replace(b'"goal":"go"', b'"goal":"gn"'))
    elif what == "a torn line":
        path.write_bytes(raw + b'{"v":1')
    else:
        ran.child().rename(project.home / "away")
    before = path.read_bytes()
    found = verdicts(project, ran)
    assert max(one.code for one in found) == code and words in "".join(one.problem for one in found)
    assert any("torn line" in one.note for one in found) is (what in ("a torn line", "a newline lost"))
    assert path.read_bytes() == before and not list(ran.folder.glob("torn-*"))


def test_the_command_says_it_in_lines_and_in_its_code(
    project: Caged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = nested(project)
    state = project.home / ".local" / "state" / "harness"
    state.mkdir(parents=True, mode=0o700)
    (project.home / "seals").rename(state / "logs")
    monkeypatch.chdir(project.path)
    assert command(["show", ran.folder.name, "--verify"]) == 0
    assert capsys.readouterr().out.count(" verified: ") == 2
    rewrite(ran, '"goal":"go"', '"goal":"no"')
    assert command(["show", ran.folder.name, "--verify", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verified"] is False and "changed by something else" in told["journals"][0]["problem"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_journal_is_said_and_never_waited_for(
    project: Caged, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = nested(project)
    folder, below = ran.folder, ran.child().name
    path = folder / "events.jsonl"
    path.unlink()
    if kind == "socket":
        monkeypatch.chdir(folder)  # the path of a socket has little room
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    else:
        odd_file(path, kind)
    assert find_run(folder.parent, folder.name) == folder, "it is a run still"
    assert find_run(folder.parent, "last").name in (folder.name, below)
    for look in (peek, read_source, lambda one: open_log(one, IO(), Clock())):
        with pytest.raises(JournalError, match=f"it is {KINDS[kind]}, not a file") as error:
            look(folder)
        assert error.value.exit_code == 3
    assert f"it is {KINDS[kind]}" in damage_of(folder) and first_data(folder) is None and not is_owned(folder)
    assert read(folder).stop == "damaged"
    assert f"it is {KINDS[kind]}" in verdicts(project, ran)[0].problem
    with pytest.raises((OSError, HarnessError)):
        follow(folder)


def test_a_blob_or_a_lock_that_is_a_pipe_is_never_waited_for(project: Caged) -> None:
    project.tool("long", "head -c 5000 /dev/zero | tr '\\0' x")
    ran = project.one("long")
    (ran.folder / "lock").unlink()
    os.mkfifo(ran.folder / "lock")
    assert not is_owned(ran.folder) and not owner(ran.folder)
    with pytest.raises(JournalError, match="the run cannot be opened: it is a pipe, not a file"):
        open_log(ran.folder, IO(), Clock())
    blob = next((ran.folder / "blobs").iterdir())
    blob.unlink()
    os.mkfifo(blob)
    assert "blob" in verdicts(project, ran)[0].problem
