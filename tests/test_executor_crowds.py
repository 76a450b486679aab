"""Tools that multiply, as root and as an ordinary user: all of them end, though each is in a session of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from caged import Place, as_user, lacking, place, users

# What a bomb may have of the machine: it stops to grow at 2,500 tasks of all users, and after 20 seconds.
BOMB = """#!/usr/bin/env python3
import os, time
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        if int(open("/proc/loadavg").read().split()[3].partition("/")[2]) > 2500:
            time.sleep(0.002)
        elif os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.001)
time.sleep(300)
"""
# Thirty processes that each live until they have a child: one look sees some of them more than once, and on a busy
# machine must not count 128. The first one ends and leaves them alone.
RELAY = """#!/usr/bin/env python3
import os, time
end = time.monotonic() + 20
for _ in range(30):
    if os.fork() == 0:
        break
else:
    time.sleep(0.3)
    os._exit(0)
while time.monotonic() < end:
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        continue
    os.setsid()
time.sleep(300)
"""
# In the harness's place: one attempt, and what is left of it one second later.
ATTEMPT = """
import signal, time
from contextlib import suppress
from pathlib import Path
from harness.sandbox import Cage
level, way, tool, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
def left():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\\0")
            if tool.encode() in words and int(name) != os.getpid():
                found.append(int(name))
    return found
got = caged.attempt(Cage(level, folder, folder / "work", writable=True, read=(Path(tool).parent,)), way, tool)
until = time.monotonic() + 1
while left() and time.monotonic() < until:
    time.sleep(0.05)
survived = left()
print(json.dumps([got.started, got.signal, got.why, len(survived)]))
while left():
    for pid in left():
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
"""
LEVELS = ["limits", pytest.param("landlock", marks=pytest.mark.skipif(bool(lacking("landlock")), reason="no landlock"))]


def crowd(user: str, level: str, way: str, text: str) -> list[object]:
    with place(user) as made:
        tool = made.outside / "tools" / "tool"
        tool.parent.mkdir()
        tool.write_text(text)
        tool.chmod(0o755)
        return _attempt(made, level, way, tool)


def _attempt(made: Place, level: str, way: str, tool: Path) -> list[object]:
    folder = made.outside / "run"
    made.own()
    return list(as_user(made.user, ATTEMPT, level, way, tool, folder))


@pytest.mark.parametrize("way", ["shim", "direct"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("user", users())
def test_a_fork_bomb_of_many_sessions_is_ended_and_leaves_nothing(user: str, level: str, way: str) -> None:
    assert crowd(user, level, way, BOMB) == [True, 9, "killed: more than 128 processes", 0]


@pytest.mark.parametrize("way", ["shim", "direct"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("user", users())
def test_a_relay_of_processes_that_each_live_a_moment_is_ended(user: str, level: str, way: str) -> None:
    started, number, _, left = crowd(user, level, way, RELAY)
    assert (started, number, left) == (True, None, 0)
