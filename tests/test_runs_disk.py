"""A run whose disk refuses: full, failing once, or taking half a line. It stops with a cause and goes on from there."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.log import follow
from harness.events.scan import scan
from tests import journal_invariants as must
from tests.journal_disk import Recorder
from tests.journal_lines import NoSync
from tests.journal_site import ASKING, Site, make_site, read_site, started

STEP = 97


class Failing(NoSync):
    """Lets the action number `at` fail, or a write to the journal take all but one byte. Spawns are not counted."""

    def __init__(self, at: int, short: bool = False) -> None:
        self.at, self.short, self.count = at, short, 0

    def _due(self) -> bool:
        self.count += 1
        return self.count == self.at

    def _act(self) -> None:
        if not self.short and self._due():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write(self, fd: int, data: bytes) -> int:
        if self.short:
            return super().write(fd, data[:-1] if data.startswith(b'{"v":1,') and self._due() else data)
        self._act()
        return super().write(fd, data)


def _failing(name: str) -> Callable[..., Any]:
    def method(self: Failing, *given: Any) -> Any:
        self._act()
        return getattr(NoSync, name)(self, *given)

    return method


for _name in ("open", "size", "truncate", "sync", "sync_dir", "rename", "mkdir", "unlink", "touch"):
    setattr(Failing, _name, _failing(_name))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(tmp_path_factory.mktemp("disk") / "project", ASKING)


@pytest.fixture(scope="module")
def reference(site: Site) -> Path:
    """The folder of the run that nothing happened to."""
    runs = site.root.parent / "reference"
    site.carry(Recorder(runs), runs)
    folder = started(runs)
    assert folder is not None
    return folder


def says_how_to_go_on(error: HarnessError, runs: Path) -> None:
    """Only a run of which something was kept can be resumed."""
    wrong = "harness resume" if started(runs) is None else "begin it again"
    assert error.fix and wrong not in error.fix


def goes_on(site: Site, runs: Path, reference: Path) -> None:
    """With the disk well again, the run ends as the reference."""
    recorder = Recorder(runs)
    stop = site.carry(recorder, runs, recorder.heard)
    folder = started(runs)
    assert folder is not None
    must.all_of(folder, stop, must.folded((reference / "events.jsonl").read_bytes()))


def no_half_line(runs: Path) -> None:
    folder = started(runs)
    if folder is not None:
        assert scan((folder / "events.jsonl").read_bytes(), folder).torn == b""


@contextmanager
def file_size(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_l4_a_disk_that_is_full_at_any_byte_of_the_journal(site: Site, reference: Path, tmp_path: Path) -> None:
    length = (reference / "events.jsonl").stat().st_size
    for limit in range(1, length, STEP):
        runs = tmp_path / str(limit)
        with file_size(limit), pytest.raises(JournalError) as refused:
            site.carry(NoSync(), runs)
        assert refused.value.exit_code == 3
        says_how_to_go_on(refused.value, runs)
        no_half_line(runs)
        goes_on(site, runs, reference)


def test_l4_a_write_that_takes_half_a_line(site: Site, reference: Path, tmp_path: Path) -> None:
    events = len((reference / "events.jsonl").read_bytes().splitlines())
    for number in range(1, events + 1):
        runs = tmp_path / str(number)
        with pytest.raises(JournalError, match="only part of a line") as refused:
            site.carry(Failing(number, short=True), runs)
        says_how_to_go_on(refused.value, runs)
        no_half_line(runs)
        goes_on(site, runs, reference)


def test_case_7_every_action_of_a_run_fails_once(site: Site, reference: Path, tmp_path: Path) -> None:
    counting = Failing(0)
    site.carry(counting, tmp_path / "counted")
    failed = 0
    for number in range(1, counting.count + 1):
        runs = tmp_path / str(number)
        try:
            site.carry(Failing(number), runs)
        except HarnessError as error:
            assert error.exit_code == 3
            says_how_to_go_on(error, runs)
            failed += 1
            goes_on(site, runs, reference)
    assert failed == counting.count - 6  # twice the lock's text and time, which are for people, may fail unseen


def test_case_7_a_failed_sync_before_an_effect_starts_nothing(tmp_path: Path) -> None:
    spawned: list[str] = []

    class NoPlatter(NoSync):
        broken = False

        def sync(self, fd: int) -> None:
            if self.broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        def spawn(self, *given: Any, **more: Any) -> Any:
            spawned.append(given[2]["HARNESS_OP_ID"])
            return super().spawn(*given, **more)

    effect = "#!/bin/sh\n# @describe Writes\n# @meta effect write\n# @meta repeat keyed\necho done\n"
    site = make_site(tmp_path / "project", bodies={"alpha": effect, "beta": "echo beta"})
    io = NoPlatter()
    run = site.begin(site.world(io, tmp_path / "runs"))
    io.broken = True
    with pytest.raises(JournalError, match="cannot be synced"):
        site.drive(run)
    assert spawned == []
    assert must.whole_events((run.folder / "events.jsonl").read_bytes())[-1]["kind"] == "tool.start"


FILLED = """
import sys
from pathlib import Path
from harness.events.io import IO
from tests.journal_site import make_site

site = make_site(Path(sys.argv[1]) / "project", bodies={"report": sys.argv[2]})
site.carry(IO(), Path(sys.argv[1]) / "runs")
"""
FILLS = """#!/bin/sh
# @describe Fills the disk
# @meta effect write
head -c 5000 /dev/zero | tr '\\0' 7
cat /dev/zero > "$HARNESS_RUN/../big" 2>/dev/null
exit 0
"""
SMALL = ["unshare", "--mount", "sh", "-c"]
ON_SMALL = """
mount -t tmpfs -o size=1m none "$0" && "$1" -c "$2" "$0" "$3" 2> "$4"
echo "left $?"
rm -f "$0/runs/big"
cp -a "$0/." "$5"
"""


def can_mount(place: Path) -> bool:
    command = [*SMALL, 'mount -t tmpfs -o size=1m none "$0"', str(place)]
    return shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True).returncode


def test_l4_a_tool_that_fills_the_disk_is_recorded_when_there_is_space_again(tmp_path: Path) -> None:
    """Its exit is noted although nothing more can be written; the journal takes its end from the next process."""
    small, kept, err = tmp_path / "small", tmp_path / "kept", tmp_path / "err"
    small.mkdir()
    kept.mkdir()
    if not can_mount(small):
        pytest.skip("this machine does not let us mount a small disk")
    words = [str(small), sys.executable, FILLED, FILLS, str(err), str(kept)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run([*SMALL, ON_SMALL, *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "left 1\n", done.stderr
    assert "JournalError: a blob cannot be written" in err.read_text()
    folder = started(kept / "runs")
    assert folder is not None
    assert (folder / "ops" / "3" / "1" / "rc").read_bytes() == b"000\n"
    site = read_site(kept / "project")
    recorder = Recorder(kept / "runs")
    assert site.carry(recorder, kept / "runs").name == "passed"
    end = next(event["data"] for event in follow(folder) if event["kind"] == "tool.end" and event["op"] == 3)
    assert (end["outcome"], end["by"], end["out"]["bytes"]) == ("done", "shim", 5000)
    assert not [action for action in recorder.trace if action[0] == "spawn" and str(action[1]).endswith("/3")]
