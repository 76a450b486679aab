"""Tools that will not end, through whole runs at every level: closed descriptors, daemons, floods, stops."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cage_world import Caged, last, level, make, needs_full, needs_landlock, printed
from tests.loop_world import Ran

LEVELS = ["none", "limits", pytest.param("landlock", marks=needs_landlock), pytest.param("full", marks=needs_full)]
EFFECTS = ["read", "write"]
SOME = pytest.mark.parametrize(
    ("where", "effect"),
    [
        ("limits", "write"),
        pytest.param("landlock", "read", marks=needs_landlock),
        pytest.param("full", "write", marks=needs_full),
    ],
)
CLOSES = """
import os, time
os.closerange(0, 300)
time.sleep(0.2)
"""
UNLOCKS = """
import fcntl, os
for fd in range(300):
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    except OSError:
        pass
print("unlocked", flush=True)
"""
DAEMON = """
import os, time, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 300)
        os.environ.clear()
        time.sleep(300)
    os._exit(0)
print("left", flush=True)
"""
IGNORES = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("here", flush=True)
time.sleep(300)
"""
FLOOD = """
import sys
part = b"x" * (1 << 20)
for _ in range(64):
    sys.stdout.buffer.write(part)
"""
OPENS = """
import os
found = []
try:
    for _ in range(10_000):
        found.append(os.open("/dev/null", os.O_RDONLY))
    print("all")
except OSError as error:
    print(error.strerror, len(found) < 256)
"""
STOPS = """
import os, signal
print("stopping", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return make(tmp_path, monkeypatch)


def hostile(project: Caged, where: str, effect: str, body: str, seconds: int = 30) -> Ran:
    """Run it, and see that nothing of it is left a second after the result."""
    project.policy(f"sandbox:\n  require: {where}")
    project.python("hostile", body, f"@meta effect {effect}\n@meta timeout {seconds}")
    ran = project.one("hostile")
    assert level(ran) == where
    limit = time.monotonic() + 1.0
    while (left := alive(project)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not left
    return ran


def alive(project: Caged) -> list[str]:
    """Processes that were started from the project's tools."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(project.path / "bin" / "hostile") in line:
                found.append(line.decode())
    return found


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", LEVELS)
def test_it_closes_its_descriptors(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, CLOSES)
    assert ran.ends() == [("hostile", "OK")]


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", LEVELS)
def test_it_unlocks_them(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, UNLOCKS)
    assert (ran.ends(), printed(ran)) == ([("hostile", "OK")], "unlocked\n")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", LEVELS)
def test_it_daemonises(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, DAEMON)
    assert (ran.ends(), printed(ran)) == ([("hostile", "OK")], "left\n")


@SOME
def test_it_ignores_term(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, IGNORES, seconds=1)
    assert (last(ran)["class"], printed(ran)) == ("TIMEOUT", "here\n")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", [LEVELS[1], LEVELS[2], LEVELS[3]])
def test_it_prints_without_end(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, FLOOD)
    end = last(ran)
    assert end["class"] == "OK"
    assert (end["out"]["bytes"], end["dropped"]) == (8 << 20, 56 << 20)
    files = [path for path in ran.folder.rglob("*") if path.is_file() and path.name != "out"]
    assert sum(path.stat().st_blocks * 512 for path in files) < 10 << 20


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", LEVELS[1:])
def test_it_opens_ten_thousand_files(project: Caged, where: str, effect: str) -> None:
    assert printed(hostile(project, where, effect, OPENS)) == "Too many open files True\n"


@SOME
def test_it_stops_itself(project: Caged, where: str, effect: str) -> None:
    ran = hostile(project, where, effect, STOPS, seconds=1)
    assert (last(ran)["class"], printed(ran)) == ("TIMEOUT", "stopping\n")
