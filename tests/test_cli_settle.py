"""What a killed or stopped process leaves, as a person meets it: waited for, found, named, settled, not done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.executor import survivors
from tests.command import events, harness, is_alive, newest, start, waits
from tests.run_files import add_tool, busy, calls, finish, make_project, script

KEYED = "# @meta effect write\n# @meta repeat keyed\n# @meta timeout 60"
OPAQUE = "# @meta effect write\n# @meta timeout 60"
WORK = 'echo $$ > {0}.pid; echo "$HARNESS_OP_ID" >> ledger; sleep "${{2:-1}}"; echo worked'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "p")
    for name, meta in (("slow", KEYED), ("drag", OPAQUE)):
        add_tool(folder, name, WORK.format(name), meta)
    return folder


def effects(project: Path) -> list[str]:
    return (project / "ledger").read_text().split()


def kill_all(project: Path, process: subprocess.Popen[str]) -> None:
    """The harness, the shim and the tool, as a machine that runs out of memory may."""
    process.kill()
    process.wait(30)
    for pid in survivors(f"{newest(project).name}/1"):
        os.kill(pid, signal.SIGKILL)
    waits(lambda: not survivors(f"{newest(project).name}/1"))


def outcomes(project: Path) -> list[tuple[str, str | None]]:
    return [(e["data"]["outcome"], e["data"].get("by")) for e in events(newest(project), "tool.end")]


def test_case_13_an_outcome_that_only_a_person_can_tell(project: Path, started: list[subprocess.Popen[str]]) -> None:
    busy(started, project, "drag", "30")
    kill_all(project, started[0])
    run = newest(project).name.rsplit("-", 1)[-1][:4]
    parked = harness("resume", "last", cwd=project)
    assert parked.returncode == 11
    lines = [line.strip() for line in parked.stderr.splitlines() if "harness settle" in line]
    words = ("happened", "did-not-happen", "unknown")
    assert lines == [f"next: harness settle {run} 1 {word}" for word in words]
    said = harness("settle", run, "1", "happened", "--why", "the ledger has it", cwd=project)
    assert (said.returncode, said.stdout) == (0, "") and f"harness resume {run}" in said.stderr
    done = harness("resume", run, cwd=project)
    assert (done.returncode, done.stdout, len(effects(project))) == (0, "done\n", 1)
    assert outcomes(project) == [("cut", None), ("done", "person")]


def test_case_17_a_tool_that_runs_on_is_waited_for(project: Path, started: list[subprocess.Popen[str]]) -> None:
    busy(started, project, "drag", "3")
    started[0].kill()
    started[0].wait(30)
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout, len(effects(project))) == (0, "done\n", 1), done.stderr
    assert "waiting for what an earlier process started: drag #1" in done.stderr
    assert outcomes(project) == [("done", "shim")]


def test_case_17_also_one_that_closed_what_it_inherited(project: Path, started: list[subprocess.Popen[str]]) -> None:
    add_tool(project, "drag", f"exec >&- 2>&- </dev/null; {WORK.format('drag')}", OPAQUE)
    busy(started, project, "drag", "3")
    started[0].kill()
    started[0].wait(30)
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, len(effects(project)), outcomes(project)[0][1]) == (0, 1, "shim"), done.stderr


def test_case_17_whoever_waits_can_be_interrupted_and_the_tool_runs_on(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    pid = busy(started, project, "drag", "8")
    started[0].kill()
    started[0].wait(30)
    started.append(start("resume", "last", cwd=project))
    assert started[1].stderr is not None
    waits(lambda: "waiting for" in started[1].stderr.readline())  # type: ignore[union-attr]
    started[1].send_signal(signal.SIGINT)
    assert started[1].wait(30) == 130 and is_alive(pid)
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, len(effects(project)), outcomes(project)) == (0, 1, [("done", "shim")]), done.stderr


def test_case_18_an_orphan_past_its_deadline_is_killed_with_all_it_began(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    """What should keep the deadline is stopped: only the next resume can."""
    body = 'setsid sh -c "echo \\$\\$ > grand.pid; sleep 60" & echo x >> ledger; echo $$ > drag.pid; sleep 60'
    add_tool(project, "drag", body, "# @meta effect write\n# @meta timeout 1")
    model = script(project, calls(["drag"]), finish("done"))
    started.append(start("run", "work", "x", "-m", model, cwd=project))
    pids = [int(waits((project / name).read_text)) for name in ("drag.pid", "grand.pid")]
    started[0].kill()
    started[0].wait(30)
    for pid in survivors(f"{newest(project).name}/1"):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(5)  # its second, two of grace, one of ours
    done = harness("resume", "last", cwd=project)
    assert not any(map(is_alive, pids)) and len(effects(project)) == 1
    assert done.returncode == 11, done.stderr


def test_case_33_a_hang_up_leaves_the_tool_to_its_shim(project: Path, started: list[subprocess.Popen[str]]) -> None:
    pid = busy(started, project, "slow", "3")
    started[0].send_signal(signal.SIGHUP)
    _, err = started[0].communicate(timeout=30)
    assert started[0].returncode == 130 and is_alive(pid) and "harness resume" in err
    assert events(newest(project))[-1]["kind"] == "tool.start", "it writes nothing any more"
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout, len(effects(project))) == (0, "done\n", 1), done.stderr
    assert outcomes(project) == [("done", "shim")]


def test_case_33_a_killed_keyed_tool_runs_again_under_its_id(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    busy(started, project, "slow", "2")
    started[0].send_signal(signal.SIGTERM)
    assert started[0].wait(30) == 130
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert effects(project) == [f"{newest(project).name}/1"] * 2
    assert [outcome for outcome, _ in outcomes(project)] == ["cut", "done"]


def test_case_33_a_stopped_process_that_goes_on_keeps_every_limit(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    busy(started, project, "slow", "1", "-b", "seconds=3")
    started[0].send_signal(signal.SIGSTOP)
    time.sleep(4)
    started[0].send_signal(signal.SIGCONT)
    assert started[0].wait(30) == 124
    assert outcomes(project) == [("done", None)] and len(effects(project)) == 1
    assert events(newest(project))[-1]["data"]["limit"] == "seconds"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "hapened"], "near: happened"),
        (["happened"], "waits for no outcome"),
        (["x", "happened"], "no operation's"),
        (["1", "unknown", "--output", "f"], "leave it out"),
        (["1", "happened", "--output", "nowhere"], "cannot read nowhere"),
        (["1", "happened", "--output", "/dev/zero"], "give its beginning"),
    ],
)
def test_what_says_nothing_is_refused(project: Path, words: list[str], said: str) -> None:
    harness("run", "work", "x", "-m", script(project, finish("done")), cwd=project)
    done = harness("settle", newest(project).name, *words, cwd=project)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr
