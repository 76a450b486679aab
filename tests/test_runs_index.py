"""The index is only a memory: every list is the same with it, without it, and with one that is wrong (case 42)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from harness.events.line import frame
from harness.runs import index
from harness.runs.index import NAME, Index
from tests.command import events, harness, newest, start, waits
from tests.past_runs import ENDED, PARKED, past_run
from tests.run_files import add_pipeline, add_skill, calls, finish, make_project, script

LISTS = ((), ("--waiting",), ("--status", "passed"), ("--skill", "work"), ("--tool", "act"), ("--last", "2"))
LISTS += (("--json",),)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return three_runs(tmp_path / "p")


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project that also holds a folder of a run that never started, and its tables."""
    project = three_runs(tmp_path_factory.mktemp("listed") / "p")
    (project / ".harness/runs/20200101T000000-none-aaaaaaaa").mkdir()
    found = tables(project)
    assert (project / ".harness/runs" / NAME).stat().st_mode & 0o777 == 0o600
    return project, found


def three_runs(place: Path) -> Path:
    """One of them with a child."""
    folder = make_project(place)
    add_pipeline(folder, "both", "  a: {run: [look]}\n  b: {run: [look, --x, '2'], needs: [a]}\n")
    harness("run", "work", "the first", "-m", script(folder, calls(["look"]), finish("x")), cwd=folder)
    harness("run", "work", "the second", "-m", script(folder, calls(["act"]), finish("x")), cwd=folder)
    add_skill(folder, "joint", "both")
    harness("run", "joint", "the third", "-m", script(folder, calls(["both"]), finish("x")), cwd=folder)
    return folder


def tables(project: Path) -> list[str]:
    return [harness("runs", *words, cwd=project).stdout for words in LISTS]


def spoil(path: Path, how: str) -> None:
    if how == "another version":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 7")
    elif how == "came with a repository":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA application_id = 5")
            db.execute("UPDATE runs SET goal = 'forged', stop = 'passed', code = 0, waiting = '[]'")
    elif how == "other tables":
        with sqlite3.connect(path) as db:
            db.execute("DROP TABLE ops")
            db.execute("ALTER TABLE runs RENAME COLUMN goal TO aim")
    elif how == "corrupt page":
        raw = path.read_bytes()
        path.write_bytes(raw[:4096] + b"\xff" * (len(raw) - 4096))
    else:
        path.unlink()
        if how != "deleted":
            {"corrupt": lambda: path.write_bytes(b"no database" * 999), "empty": path.touch, "folder": path.mkdir,
             "pipe": lambda: os.mkfifo(path)}[how]()  # fmt: skip


HOWS = ("deleted", "came with a repository", "corrupt", "corrupt page", "another version", "other tables", "empty")
HOWS += ("folder", "pipe")


@pytest.mark.parametrize("how", HOWS)
def test_case_42_the_table_is_the_same_whatever_became_of_the_index(listed: tuple[Path, list[str]], how: str) -> None:
    project, wanted = listed
    path = project / ".harness/runs" / NAME
    assert path.is_file()
    assert all(text in wanted[0] for text in ("the first", "the second", "never started", "needs-approval"))
    spoil(path, how)
    try:
        assert tables(project) == wanted
        assert harness("runs", cwd=project).stdout == wanted[0]
    finally:
        if how in ("folder", "pipe"):
            path.rmdir() if how == "folder" else path.unlink()
            harness("runs", cwd=project)
    if how not in ("folder", "pipe"):
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (index.VERSION,)
            assert len(db.execute("SELECT * FROM runs").fetchall()) == 4


def test_a_run_that_stops_is_kept_at_once_with_a_row_for_each_operation(project: Path) -> None:
    with sqlite3.connect(project / ".harness/runs" / NAME) as db:
        runs = db.execute("SELECT skill, stop, parent <> '' FROM runs ORDER BY name, parent").fetchall()
        ops = db.execute("SELECT tool, class FROM ops ORDER BY run, n").fetchall()
    assert sorted(runs) == [("both", "passed", 1), ("joint", "passed", 0), ("work", "needs-approval", 0),
                            ("work", "passed", 0)]  # fmt: skip
    assert ("look", "OK") in ops and ("act", "") in ops


def test_a_kept_run_is_not_read_again_until_its_journal_changes(tmp_path: Path) -> None:
    folder = past_run(tmp_path, 1, ENDED, goal="as it was")
    for _ in range(2):
        with Index(tmp_path, tmp_path.with_name("seals")) as found:
            assert [run.goal for run in found.runs()] == ["as it was"]
    with sqlite3.connect(tmp_path / NAME) as db:
        db.execute("UPDATE runs SET goal = 'from the index'")
    db.close()
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert [run.goal for run in found.runs()] == ["from the index"]
    with (folder / "events.jsonl").open("ab") as file:
        file.write(frame(3, 2, "2026-12-30T11:45:23.000Z", "resume", {"by": "user"}))
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert [(run.goal, run.stop) for run in found.runs()] == [("as it was", "stopped")]


def test_a_run_that_is_gone_leaves_the_index_too(tmp_path: Path) -> None:
    folder = past_run(tmp_path, 1, ENDED, goal="a secret name")
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert len(list(found.runs())) == 1
    (folder / "events.jsonl").unlink()
    folder.rename(tmp_path / "elsewhere")
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert list(found.runs()) == []
    assert b"a secret name" not in (tmp_path / NAME).read_bytes()


def test_a_live_run_is_shown_as_it_is_now(project: Path) -> None:
    before = newest(project)
    process = start("run", "work", "x", "-m", script(project, calls(["slow", "--x", "60"])), cwd=project)
    try:
        run = waits(lambda: newest(project) if newest(project) != before else None)
        waits(lambda: events(run, "tool.start"))
        for _ in range(2):
            assert "  open" in harness("runs", "--last", "1", cwd=project).stdout
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for _ in range(2):
        assert "  stopped" in harness("runs", "--last", "1", cwd=project).stdout
    assert harness("stop", run.name, "--now", cwd=project).returncode == 0
    assert "  interrupted" in harness("runs", "--last", "1", cwd=project).stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_project_that_cannot_be_written_lists_its_runs(project: Path) -> None:
    runs = project / ".harness/runs"
    wanted = tables(project)
    (runs / NAME).unlink()
    runs.chmod(0o500)
    assert tables(project) == wanted and not (runs / NAME).exists()


def test_an_index_that_somebody_else_holds_is_gone_without(tmp_path: Path) -> None:
    past_run(tmp_path, 1, PARKED, "park")
    db = sqlite3.connect(tmp_path / NAME, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert [run.shown for run in found.runs()] == ["needs-approval #1"]
    db.close()


def test_who_lost_its_parent_stands_for_itself(tmp_path: Path) -> None:
    top = past_run(tmp_path, 1, ENDED)
    past_run(tmp_path, 2, ENDED, parent={"run": top.name, "op": 1, "depth": 1})
    past_run(tmp_path, 3, ENDED, parent={"run": "20200101T000000-gone-aaaaaaaa", "op": 1, "depth": 1})
    with Index(tmp_path, tmp_path.with_name("seals")) as found:
        assert sorted(run.name[-8:] for run in found.runs() if found.is_top(run)) == ["baaaaaaa", "daaaaaaa"]


def newer(folder: Path, first: bool) -> None:
    """A journal whose first or last line a later format wrote."""
    import zlib

    lines = (folder / "events.jsonl").read_bytes().splitlines()
    at = 0 if first else -1
    body = lines[at].rpartition(b',"crc"')[0].replace(b'{"v":1', b'{"v":2', 1)
    lines[at] = body + b',"crc":"%08x"}' % zlib.crc32(body)
    (folder / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")


@pytest.mark.parametrize("first", [True, False])
def test_case_5_a_newer_journal_is_named_with_both_formats_by_every_reader(project: Path, first: bool) -> None:
    run = newest(project)
    newer(run, first)
    listed = harness("runs", cwd=project)
    assert listed.returncode == 0 and "newer" in listed.stdout
    words = "the journal has format 2; this harness reads up to 1"
    assert words in listed.stdout and "the first" in listed.stdout
    [row] = [row for row in json.loads(harness("runs", "--json", cwd=project).stdout)["runs"] if row["problem"]]
    assert row["problem"] == words and row["run"] == run.name
    for command in (["show"], ["resume"], ["stop"], ["runs", "redact", "--seq", "1", "--why", "w"]):
        done = harness(*command, run.name, cwd=project)
        assert done.returncode == 2 and words in done.stderr, command
    assert harness("runs", "prune", run.name, cwd=project).returncode == 2 and run.exists()
