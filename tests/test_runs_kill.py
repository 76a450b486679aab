"""Runs in processes of their own that are killed, for good; other processes go on with them.

`make torture` kills at every event, and at random up to three times a run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import journal_invariants as must
from tests.command import is_stopped, waits
from tests.journal_disk import Recorder
from tests.journal_site import PLAIN, Site, make_site, started
from tests.torture_kill import VICTIMS, Blow, Yard, yard

LONG = os.environ.get("TORTURE") == "1"
EVENTS = range(1, 50) if LONG else (8, 15, 21, 33)
SEEDS = range(200 if LONG else 4)
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


@pytest.fixture
def here(tmp_path: Path) -> Yard:
    return yard(tmp_path)


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("victim", ["harness", "group"])
def test_l2_a_confined_run_of_every_class_is_killed_at_an_event(here: Yard, events: int, victim: str) -> None:
    here.check(here.live(Blow(events, victim)))


@pytest.mark.parametrize("seed", SEEDS)
def test_l2_random_kills_of_harness_group_shim_or_tool(here: Yard, seed: int) -> None:
    chance = random.Random(seed)
    blows = [
        Blow(chance.randint(1, 48), chance.choice(VICTIMS), chance.choice((0.0, 0.02, 0.1)))
        for _ in range(chance.randint(1, 3))
    ]
    here.check(here.live(*blows))


@pytest.mark.parametrize("call", ["mail c", "pay e", "book b", "note a"])
@pytest.mark.parametrize("victim", ["group", "shim", "tool"])
def test_l2_a_kill_right_after_an_effect_does_not_repeat_it(here: Yard, call: str, victim: str) -> None:
    here.check(here.live(Blow(1, victim, until=call), Blow(1, victim, until=call)))


def test_l2_with_blind_retries_the_same_kill_shows_a_second_effect(tmp_path: Path) -> None:
    blind = yard(tmp_path, blind=True)
    blind.live(Blow(1, "group", until="mail c"))
    assert blind.effects()["mail c"] == 2


def test_l2_a_stopped_owner_still_owns_and_a_killed_one_does_not(here: Yard) -> None:
    owner = here.command(Blow(21, "stop"), "run", "work", "x", "-m", "scripted:script.yaml", "--allow", "book")
    waits(lambda: is_stopped(owner.pid))
    folder = here.folder()
    assert folder is not None
    here.look()
    before = (folder / "events.jsonl").read_bytes()
    second = here.command(Blow(), "resume", folder.name)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 75 and f"pid {owner.pid}" in err
    assert (folder / "events.jsonl").read_bytes() == before
    owner.kill()
    owner.communicate()
    here.check(here.live())
