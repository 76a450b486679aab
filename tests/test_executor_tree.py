"""Nothing of a tool outlives its result: whatever it forks, wherever that goes, however many tools run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.events.io import IO
from harness.executor import Cancel, Job, Outcome, environment, kill_tree, run, survivors, tree

ROOT = Path(__file__).resolve().parents[1]
RUN = f"run-{os.getpid()}"

# Each line leaves a process behind that writes its pid to the file `left`.
LEAVERS = {
    "background": "(echo $BASHPID >left; exec sleep 600) &",
    "stdout-open": "(echo $BASHPID >left; trap '' PIPE TERM HUP; while :; do echo more; sleep 0.2; done) &",
    "stdout-closed": "(echo $BASHPID >left; exec sleep 600) >/dev/null 2>&1 </dev/null &",
    "double-fork": "( (echo $BASHPID >left; exec sleep 600) & )",
    "setsid": "setsid sh -c 'echo $$ >left; exec sleep 600' &",
    "double-fork-setsid": "( setsid sh -c '(sh -c \"echo \\$\\$ >left; exec sleep 600\" &)' & )",
    "no-environment": "env -i setsid -f /bin/sh -c 'echo $$ >left; exec /bin/sleep 600'",
    "ignores-term": "setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >left; while :; do sleep 0.1; done' &",
}


def script(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "tool"
    path.write_text(text)
    path.chmod(0o755)
    return path


def attempt(path: Path, op_id: str = f"{RUN}/1", timeout: float = 30, cancel: Cancel | None = None) -> Outcome:
    env = environment(op_id=op_id, run=path.parent, out=path.parent, depth=0, passed={}, skill=None)
    return run(Job((str(path),), path.parent, env, timeout, op_id), IO(), cancel or Cancel())


def leaver(folder: Path, kind: str, then: str) -> Path:
    return script(folder, f"#!/bin/bash\n{LEAVERS[kind]}\nuntil [ -s left ]; do sleep 0.01; done\n{then}\n")


def state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def left(folder: Path) -> int:
    return int((folder / "left").read_text())


KNOWN: set[int] = set()
"""What this process had adopted before the test: whatever earlier tests killed may have come to it."""


@pytest.fixture(autouse=True)
def earlier() -> None:
    KNOWN.clear()
    KNOWN.update(zombies())


def zombies() -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            status, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if status == "Z" and int(parent) == os.getpid() and int(path.parent.name) not in KNOWN:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("kind", LEAVERS)
def test_nothing_outlives_a_tool_that_ends(tmp_path: Path, kind: str) -> None:
    got = attempt(leaver(tmp_path, kind, "echo result; exit 3"))
    assert (got.exit, got.timed_out) == (3, False)
    assert b"result\n" in got.out
    assert state(left(tmp_path)) is None
    assert not zombies()


def test_a_sweep_that_comes_late_still_kills_and_reaps(tmp_path: Path) -> None:
    """On a crowded machine one look at all processes takes longer than what does not die is waited for."""
    tree.prepare()
    born = time.monotonic()
    path = leaver(tmp_path, "setsid", "exit 0")
    with subprocess.Popen((str(path),), cwd=tmp_path, start_new_session=True) as leader:
        leader.wait()
    assert state(left(tmp_path)) not in (None, "Z")
    tree.sweep(tree.Tree(f"{RUN}/late", leader.pid, born), time.monotonic() - 60)
    assert state(left(tmp_path)) is None
    assert not zombies()


@pytest.mark.parametrize("kind", ["background", "double-fork-setsid", "no-environment", "ignores-term"])
def test_nothing_outlives_a_tool_at_its_deadline(tmp_path: Path, kind: str) -> None:
    got = attempt(leaver(tmp_path, kind, "sleep 600"), timeout=0.5)
    assert got.timed_out
    assert state(left(tmp_path)) is None
    assert not zombies()


def test_nothing_outlives_a_cancelled_tool(tmp_path: Path) -> None:
    cancel, tool = Cancel(), leaver(tmp_path, "double-fork-setsid", "sleep 600")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(attempt, tool, cancel=cancel)
        while not (tmp_path / "left").exists():
            time.sleep(0.01)
        cancel.level = 2
        assert running.result(30).cancelled
    assert state(left(tmp_path)) is None


def test_nothing_outlives_a_tool_that_dies_by_a_signal(tmp_path: Path) -> None:
    got = attempt(leaver(tmp_path, "setsid", "kill -KILL $$"))
    assert got.signal == signal.SIGKILL
    assert state(left(tmp_path)) is None


def test_runaways_of_parallel_tools_are_ended_each_with_its_own(tmp_path: Path) -> None:
    """A quick tool's end must neither hurt the helpers of a slow one nor take the exit code of anything else."""
    slow = script(
        tmp_path / "slow",
        "#!/bin/bash\n(setsid sh -c 'echo $$ >left; sleep 1.5; echo helped >done' &)\nsleep 2\ncat done; exit 9\n",
    )
    kinds = [kind for kind in LEAVERS if kind != "no-environment"] * 2  # of that one nobody can say whose it is
    quick = [leaver(tmp_path / f"quick-{n}", kind, f"exit {n}") for n, kind in enumerate(kinds)]
    other = subprocess.Popen(["sh", "-c", "sleep 0.5; exit 42"])
    with ThreadPoolExecutor(16) as pool:
        waiting = pool.submit(attempt, slow, f"{RUN}/slow")
        outcomes = list(pool.map(lambda n: attempt(quick[n], f"{RUN}/{n}"), range(len(kinds))))
        late = waiting.result(60)
    assert [got.exit for got in outcomes] == list(range(len(kinds)))
    assert (late.exit, late.out) == (9, b"helped\n")
    assert other.wait() == 42
    assert [state(left(path.parent)) for path in quick] == [None] * len(kinds)
    assert not zombies()


def test_a_runaway_that_nothing_tells_apart_goes_with_the_first_tool_that_ends(tmp_path: Path) -> None:
    slow = script(tmp_path / "slow", "#!/bin/sh\nuntil [ -e ../ended ]; do sleep 0.02; done; exit 9\n")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(attempt, slow, f"{RUN}/slow")
        quick = leaver(tmp_path / "quick", "no-environment", "exit 8")
        assert attempt(quick, f"{RUN}/quick").exit == 8
        assert state(left(quick.parent)) is None
        (tmp_path / "ended").touch()
        assert waiting.result(30).exit == 9


def test_a_process_of_our_own_is_let_alone(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nsleep 0.3\n")
    null = os.open(os.devnull, os.O_RDWR)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(attempt, tool)
        time.sleep(0.1)
        ours = IO().spawn(["/bin/sleep", "600"], tmp_path, {}, null, null, null)
        running.result(30)
    assert ours.poll() is None
    ours.kill()
    assert ours.wait() == -signal.SIGKILL
    os.close(null)


def test_a_leaders_number_in_somebody_elses_hands_makes_nobody_a_member() -> None:
    """Once waited for, its number is given out again: whose it is then, and what that one started, is let alone."""
    assert list(tree.members(tree.Tree(f"{RUN}/gone", 1, time.monotonic()))) == []


def test_more_processes_than_allowed_end_the_tool(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/bash\nfor n in {1..200}; do sleep 600 & done\nsleep 600\n")
    got = attempt(tool)
    assert (got.signal, got.why) == (signal.SIGKILL, "killed: more than 128 processes")
    assert not survivors(f"{RUN}/1")


def test_survivors_are_found_by_their_operation_and_killed(tmp_path: Path) -> None:
    """As after a crash: nobody here started them, and only their environment tells."""
    op_id = f"{RUN}/crashed-3"
    env = {"PATH": os.environ["PATH"], "HARNESS_OP_ID": op_id}
    shell = f"cd {tmp_path}; (setsid sh -c 'trap \"\" TERM; echo $$ >left; while :; do sleep 0.1; done' &)"
    subprocess.run(["sh", "-c", shell], env=env, check=True)
    bystander = subprocess.Popen(["sleep", "600"], env={**env, "HARNESS_OP_ID": f"{op_id}3"})
    while not (tmp_path / "left").exists():
        time.sleep(0.01)
    assert left(tmp_path) in survivors(op_id)
    assert kill_tree(op_id) == []
    assert survivors(op_id) == []
    assert survivors(f"{op_id}3") == [bystander.pid]
    bystander.kill()
    bystander.wait()


TWIN = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from test_executor_tree import attempt
print(attempt(Path(sys.argv[1]), "twin/1").exit)
"""


def test_an_attempt_does_not_reach_for_the_same_operation_of_another_harness(tmp_path: Path) -> None:
    """Two copies of one project may well give the same id."""
    code = TWIN.format(root=str(ROOT), tests=str(ROOT / "tests"))
    wait = "#!/bin/sh\n: >began; until [ -e ../{}/began ]; do sleep 0.02; done; {}\n"
    twins = []
    for name, other, then in [("short", "long", "setsid sleep 600 & exit 0"), ("long", "short", "sleep 1; exit 6")]:
        tool = script(tmp_path / name, wait.format(other, then))
        twins.append(subprocess.Popen([sys.executable, "-c", code, str(tool)], stdout=subprocess.PIPE))
        while not (tmp_path / name / "began").exists():
            time.sleep(0.01)
    assert [twin.communicate()[0] for twin in twins] == [b"0\n", b"6\n"]


def test_killing_where_nothing_is_left_does_nothing() -> None:
    assert kill_tree("never/1") == []


DEGRADED = """
import os, sys
del os.pidfd_open
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from test_executor_tree import RUN, attempt, survivors, kill_tree
got = attempt(Path({tool!r}), timeout={timeout})
print(got.exit, got.timed_out, got.out, survivors(RUN + "/1"), kill_tree(RUN + "/1"))
"""


@pytest.mark.parametrize(
    ("then", "timeout", "expected"),
    [("exit 5", 30, "5 False b'x\\n' [] []"), ("sleep 600", 0.5, "143 True b'x\\n' [] []")],
)
def test_without_proc_and_pidfd_the_process_group_is_ended(
    tmp_path: Path, then: str, timeout: float, expected: str
) -> None:
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us hide /proc")
    tool = leaver(tmp_path, "background", f"echo x; {then}")
    code = DEGRADED.format(root=str(ROOT), tests=str(ROOT / "tests"), tool=str(tool), timeout=timeout)
    done = subprocess.run([*hidden, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (expected, "")
    assert state(left(tmp_path)) in (None, "Z")
