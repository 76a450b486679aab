"""A run in a process of its own that is killed after each event, for good; another process goes on with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import journal_invariants as must
from tests.journal_disk import Recorder
from tests.journal_site import PLAIN, Site, make_site, started

ROOT = Path(__file__).resolve().parent.parent
VICTIM = """
import os, signal, sys
from pathlib import Path
from tests.journal_lines import NoSync
from tests.journal_site import read_site

class Mortal(NoSync):
    left = int(sys.argv[3])

    def write(self, fd, data):
        done = super().write(fd, data)
        if data.startswith(b'{"v":1,'):
            Mortal.left -= 1
            if not Mortal.left:
                os.kill(os.getpid(), signal.SIGKILL)
        return done

read_site(Path(sys.argv[1])).carry(Mortal(), Path(sys.argv[2]))
"""


def killed_after(site: Site, runs: Path, events: int) -> None:
    """Run until so many events are in the journal, and no step further."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", VICTIM, str(site.root), str(runs), str(events)]
    assert subprocess.run(command, env=env, timeout=60).returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(tmp_path_factory.mktemp("kill") / "project", PLAIN)


def test_case_11_a_kill_after_each_event_of_a_reading_run(site: Site, tmp_path: Path) -> None:
    site.carry(Recorder(tmp_path / "whole"), tmp_path / "whole")
    folder = started(tmp_path / "whole")
    assert folder is not None
    reference = (folder / "events.jsonl").read_bytes()
    for events in range(1, len(reference.splitlines())):
        runs = tmp_path / str(events)
        killed_after(site, runs, events)
        folder = started(runs)
        assert folder is not None
        before = must.whole_events((folder / "events.jsonl").read_bytes())
        assert len(before) == events
        recorder = Recorder(runs)
        stop = site.carry(recorder, runs, recorder.heard)
        must.all_of(folder, stop, must.folded(reference))
        must.events_stay(before, (folder / "events.jsonl").read_bytes())
        asked = [action[1] for action in recorder.trace if action[0] == "request"]
        must.no_reply_is_asked_for_again(before, [turn for turn in asked if isinstance(turn, int)])
        spawned = [str(action[1]) for action in recorder.trace if action[0] == "spawn"]
        must.no_ended_operation_runs_again(before, spawned, folder.name)
