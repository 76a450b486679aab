"""The journal's writer: what it does when the disk refuses, who owns it, and what its clock says."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BusyError, HarnessError, JournalError
from harness.events.io import IO
from harness.events.line import at_seconds
from harness.events.log import Log, create, follow, open_log
from tests.journal_lines import START, Hands, journal, new

ROOT = Path(__file__).resolve().parent.parent
OWNER = """
import sys
from pathlib import Path
from tests.journal_lines import new
log = new(Path(sys.argv[1]))
log.beat()
for number in range(20):
    log.append("note", {"why": "warning", "text": str(number)})
print("owned", flush=True)
sys.stdin.read()
"""


class Counting(IO):
    """Counts the actions on the journal itself, and fails or shortens those it is told to."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.fail: str = ""
        self.short: int | None = None
        self.code = errno.EIO

    def _act(self, name: str) -> None:
        self.actions.append(name)
        if self.fail == name:
            raise OSError(self.code, os.strerror(self.code))

    def write(self, fd: int, data: bytes) -> int:
        self._act("write")
        return super().write(fd, data[: self.short])

    def sync(self, fd: int) -> None:
        self._act("sync")
        super().sync(fd)

    def sync_dir(self, path: Path) -> None:
        self._act(f"sync {path.name}")
        super().sync_dir(path)

    def truncate(self, fd: int, length: int) -> None:
        self._act("truncate")
        super().truncate(fd, length)

    def size(self, fd: int) -> int:
        self._act("size")
        return super().size(fd)

    def rename(self, src: Path, dst: Path) -> None:
        self._act("rename")
        super().rename(src, dst)


def note(log: Log, text: Any = "x") -> dict[str, Any]:
    return log.append("note", {"why": "warning", "text": text})


def refused(action: Callable[[], Any], match: str) -> JournalError:
    with pytest.raises(JournalError, match=match) as found:
        action()
    assert found.value.exit_code == 3 and "harness resume" in found.value.fix
    return found.value


def test_an_event_is_one_write_and_sinks_hear_it_in_order(tmp_path: Path) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    heard: list[tuple[str, bytes]] = []

    def broken(event: dict[str, Any], line: bytes) -> None:
        heard.append(("broken", line))
        raise RuntimeError("a view")

    log.sinks += [broken, lambda event, line: heard.append((event["kind"], line))]
    io.actions.clear()
    note(log)
    note(log)
    log.close()
    assert io.actions == ["size", "write", "size", "write"]
    lines = (tmp_path / "run" / "events.jsonl").read_bytes().splitlines(keepends=True)[1:]
    assert heard == [("broken", lines[0]), ("note", lines[0]), ("note", lines[1])]


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, errno.EFBIG, None])
def test_case_7_a_failed_or_short_write_leaves_no_half_line_and_nothing_follows(
    tmp_path: Path, failure: int | None
) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    note(log)
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    io.fail, io.code, io.short = ("write", failure, None) if failure else ("", 0, 9)
    refused(lambda: note(log), "cannot be written")
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    io.fail, io.short = "", None
    io.actions.clear()
    for action in (lambda: note(log), log.sync, lambda: log.blob(b"x")):
        refused(action, "nothing more is appended")
    assert io.actions == []
    log.close()
    again = open_log(tmp_path / "run", IO(), Hands())
    assert again.repaired is None
    note(again)
    again.close()
    assert [event["seq"] for event in follow(tmp_path / "run")] == [1, 2, 3]


def test_case_7_where_even_the_cut_fails_the_next_opener_cuts(tmp_path: Path) -> None:
    class Stuck(Counting):
        def truncate(self, fd: int, length: int) -> None:
            raise OSError(errno.EIO, "stuck")

    io = Stuck()
    log = new(tmp_path / "run", io)
    io.short = 20
    refused(lambda: note(log), "only part")
    log.close()
    again = open_log(tmp_path / "run", IO(), Hands())
    again.close()
    assert again.repaired is not None and again.repaired["bytes"] == 20


@pytest.mark.parametrize("fail", ["sync", "sync blobs"])
def test_case_7_a_failed_sync_is_never_repeated(tmp_path: Path, fail: str) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    note(log, log.fit("x" * 5000))
    io.fail = fail
    refused(log.sync, "cannot be synced")
    io.fail = ""
    io.actions.clear()
    refused(log.sync, "nothing more")
    assert io.actions == []
    log.close()
    again = open_log(tmp_path / "run", IO(), Hands())
    again.sync()
    again.close()
    assert len(again.events) == 2


def test_case_7_a_blob_that_cannot_be_written_is_never_named(tmp_path: Path) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    io.fail, io.code = "rename", errno.ENOSPC
    refused(lambda: log.fit("x" * 5000), "a blob cannot be written")
    log.close()
    assert list((tmp_path / "run" / "blobs").iterdir()) == []


def test_s0_brings_the_run_and_its_folder_to_the_disk(tmp_path: Path) -> None:
    io = Counting()
    new(tmp_path / "runs", io).close()
    assert io.actions == ["size", "write", "sync runs", f"sync {tmp_path.name}", "sync"]


def test_blobs_reach_the_disk_before_what_proves_them(tmp_path: Path) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    note(log, log.fit("x" * 5000))
    io.actions.clear()
    log.append("park", {"stop": "waiting", "exit": 75, "ops": [], "hint": ""})
    assert io.actions == ["sync blobs", "size", "write"]
    io.actions.clear()
    log.sync()
    assert io.actions == ["sync"]
    log.close()


def test_names_that_another_process_left_unsynced_are_synced_with_ours(tmp_path: Path) -> None:
    log = new(tmp_path / "run")
    note(log, log.fit("x" * 5000))
    log.close()
    io = Counting()
    again = open_log(tmp_path / "run", io, Hands())
    again.sync()
    again.close()
    assert io.actions == ["sync blobs", "sync run", f"sync {tmp_path.name}", "sync"]


def test_a_blob_that_is_there_is_kept_and_one_with_other_bytes_is_made_anew(tmp_path: Path) -> None:
    io = Counting()
    log = new(tmp_path / "run", io)
    named = log.fit("x" * 5000)
    assert isinstance(named, dict) and named["bytes"] == 5000
    path = tmp_path / "run" / "blobs" / named["blob"]
    io.actions.clear()
    assert log.fit("x" * 5000) == named and io.actions == []
    path.write_bytes(b"damaged")
    assert log.fit("x" * 5000) == named
    log.close()
    assert path.read_bytes() == b"x" * 5000 and log.read_blob(named) == b"x" * 5000


@pytest.mark.parametrize(
    ("value", "kept"),
    [("grüß", "grüß"), (b"gr\xc3\xbc", "grü"), ("a\ud800b", "a\ufffdb"), ("\0", "\0"), ("é" * 2048, "é" * 2048)],
)
def test_short_text_stays_in_the_event(tmp_path: Path, value: str | bytes, kept: str) -> None:
    log = new(tmp_path / "run")
    assert log.fit(value) == kept
    log.close()


@pytest.mark.parametrize("value", [b"\xff", "x" * 4097, "é" * 2049])
def test_long_text_and_what_is_no_text_stay_outside(tmp_path: Path, value: str | bytes) -> None:
    log = new(tmp_path / "run")
    raw = value.encode() if isinstance(value, str) else value
    found = log.fit(value)
    assert isinstance(found, dict) and found["bytes"] == len(raw)
    assert log.read_blob(found) == raw
    log.close()


def test_somebody_elses_line_ends_the_run(tmp_path: Path) -> None:
    log = new(tmp_path / "run")
    with (tmp_path / "run" / "events.jsonl").open("ab") as file:
        file.write(b"mine\n")
    refused(lambda: note(log), "somebody else writes")
    assert (tmp_path / "run" / "events.jsonl").read_bytes().endswith(b"mine\n")
    log.close()


@pytest.mark.parametrize("name", ["events.jsonl", "lock"])
def test_a_replaced_file_is_found_at_the_next_sync(tmp_path: Path, name: str) -> None:
    log = new(tmp_path / "run")
    path = tmp_path / "run" / name
    raw = path.read_bytes()
    path.unlink()
    path.write_bytes(raw)
    refused(log.sync, "replaced by another file")
    log.close()


def test_case_39_at_never_falls_when_the_wall_steps_back(tmp_path: Path) -> None:
    clock = Hands()
    log = new(tmp_path / "run", clock=clock)
    clock.at -= 3600
    clock.up += 1.5
    note(log)
    log.close()
    later = open_log(tmp_path / "run", IO(), clock)
    later.append("resume", {"by": "user", "lost_s": 0})
    clock.up += 2
    note(later)
    later.close()
    assert [at_seconds(event["at"]) - START for event in follow(tmp_path / "run")] == [0.0, 1.5, 1.5, 3.5]


def test_the_lock_says_who_owns_the_run_and_its_time_when_it_was_last_seen(tmp_path: Path) -> None:
    clock = Hands()
    log = new(tmp_path / "run", clock=clock)
    log.beat()
    clock.pass_(40)
    log._touch()
    log.close()
    words = (tmp_path / "run" / "lock").read_text().split("\n")
    assert words[0] == f"pid {os.getpid()}" and words[1].startswith("host ") and words[2] == "epoch 1"
    clock.pass_(1000)
    later = open_log(tmp_path / "run", IO(), clock)
    assert later.lost == pytest.approx(40)
    later.close()
    again = open_log(tmp_path / "run", IO(), clock)  # the one before never began to work
    assert again.lost == pytest.approx(40)
    again.append("resume", {"by": "user", "lost_s": 40})
    again.beat()
    again.close()
    assert "epoch 2" in (tmp_path / "run" / "lock").read_text()


def test_case_9_a_second_owner_is_refused_and_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OWNER, str(folder)]
    owner = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None and owner.stdout.readline() == b"owned\n"
        before = (folder / "events.jsonl").read_bytes()
        owner.send_signal(signal.SIGSTOP)  # a stopped owner still owns
        with pytest.raises(BusyError, match=f"still running, pid {owner.pid} on .* since 20") as busy:
            open_log(folder, IO(), Hands())
        assert busy.value.exit_code == 75
        assert (folder / "events.jsonl").read_bytes() == before
    finally:
        owner.kill()
        owner.communicate()
    log = open_log(folder, IO(), Hands(), wait=0.0)
    log.append("resume", {"by": "user", "lost_s": 0})
    log.close()
    assert (log.repaired, follow(folder)[-1]["epoch"]) == (None, 2)


def test_case_9_one_try_more_is_enough_when_the_owner_goes_meanwhile(tmp_path: Path) -> None:
    journal(tmp_path / "run")

    class Slow(IO):
        tries = 0

        def lock(self, fd: int) -> bool:
            self.tries += 1
            return self.tries == 3

    io = Slow()
    open_log(tmp_path / "run", io, Hands()).close()
    assert io.tries == 4  # the last one asks for a second lock


def test_a_lock_that_keeps_nobody_out_is_refused(tmp_path: Path) -> None:
    class Idle(IO):
        def lock(self, fd: int) -> bool:
            return True

    class Lockless(IO):
        def lock(self, fd: int) -> bool:
            raise OSError(errno.ENOLCK, "no locks available")

    for number, io in enumerate((Idle(), Lockless())):
        with pytest.raises(HarnessError, match="the run's lock") as found:
            create(tmp_path / str(number), io, Hands())
        assert found.value.exit_code == 2 and "runs.dir" in found.value.fix


def test_nothing_of_a_refused_opening_is_left_open(tmp_path: Path) -> None:
    lines = journal(tmp_path / "run")
    (tmp_path / "run" / "events.jsonl").write_bytes(b"".join(lines[:3] + lines[4:]))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(JournalError):
            open_log(tmp_path / "run", IO(), Hands())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("fail", ["write", "sync", "truncate", "rename", "sync run"])
def test_a_repair_that_the_disk_refuses_has_a_cause_and_loses_nothing(tmp_path: Path, fail: str) -> None:
    folder = tmp_path / "run"
    lines = journal(folder)
    torn = b"".join(lines)[:-7]
    (folder / "events.jsonl").write_bytes(torn)
    io = Counting()
    io.fail = fail
    refused(lambda: open_log(folder, io, Hands()), "torn end cannot be cut off")
    log = open_log(folder, IO(), Hands())
    log.close()
    assert (folder / "events.jsonl").read_bytes() == b"".join(lines[:-1])
    assert (folder / f"torn-{len(b''.join(lines[:-1]))}.bin").read_bytes() == lines[-1][:-7]
