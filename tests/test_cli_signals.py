"""Signals to a run, as a person or a system sends them; afterwards `resume` goes on and nothing of it is left alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import AtTerminal, clean_env, events, harness, home_of, is_alive, newest, start, waits
from tests.run_files import add_pipeline, busy, calls, finish, make_project, script

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=30)
    assert "Traceback" not in err and "bug in harness" not in err
    return process.returncode, err


def heard(process: subprocess.Popen[str]) -> None:
    """Wait until a signal was answered: two at once would be one."""
    assert process.stderr is not None
    waits(lambda: "stopping after" in process.stderr.readline())  # type: ignore[union-attr]


def outcome(project: Path) -> str:
    return str(events(newest(project), "tool.end")[-1]["data"]["outcome"])


def test_case_15_the_first_ctrl_c_lets_a_tool_end_then_130_with_the_resume_line(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    busy(started, project, "slow", "1")
    started[0].send_signal(INT)
    code, err = ended(started[0])
    assert code == 130 and "stopping after slow" in err
    assert f"next: harness resume {newest(project).name[-8:][:4]}" in err
    assert outcome(project) == "done" and events(newest(project))[-1]["data"]["stop"] == "interrupted"
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout) == (0, "done\n") and len(events(newest(project), "tool.start")) == 1


@pytest.mark.parametrize("numbers", [(INT, INT), (TERM,)], ids=["twice", "SIGTERM"])
def test_case_15_the_second_ctrl_c_and_sigterm_kill_the_tree(
    project: Path, started: list[subprocess.Popen[str]], numbers: tuple[signal.Signals, ...]
) -> None:
    pid = busy(started, project, "slow", "0.5")
    children = [pid, *(int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    started[0].send_signal(numbers[0])
    if len(numbers) == 2:
        heard(started[0])
        started[0].send_signal(numbers[1])
    code, err = ended(started[0])
    assert code == 130 and "resume" in err
    assert not any(map(is_alive, children)), "a process of the tool was left"
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_case_15_an_outcome_that_nobody_knows_is_named_and_never_repeated(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    pid = busy(started, project, "drag", "30", "--allow", "drag")
    started[0].send_signal(TERM)
    code, err = ended(started[0])
    assert code == 130 and "drag #1" in err and "killing what still runs" in err and not is_alive(pid)
    assert outcome(project) == "cut"
    done = harness("resume", "last", cwd=project)
    assert done.returncode == 11 and "operation 1 (drag) may have had its effect" in done.stderr
    assert len(events(newest(project), "tool.start")) == 1, "it was done again without knowing"


def test_case_15_the_third_ctrl_c_leaves_at_once(project: Path, started: list[subprocess.Popen[str]]) -> None:
    pid = busy(started, project, "slow", "30")
    run = newest(project)
    os.kill(pid, signal.SIGSTOP)  # a tool that does not end by itself
    started[0].send_signal(INT)
    heard(started[0])
    started[0].send_signal(INT)
    if started[0].poll() is None:
        started[0].send_signal(INT)
    assert ended(started[0])[0] == 130
    done = harness("resume", run.name, "-b", "seconds=1", cwd=project)
    assert done.returncode in (0, 124) and not is_alive(pid), "what the old process left must not live beside the new"


def test_sighup_is_130_and_resumable_and_ignored_under_nohup(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    busy(started, project, "slow", "0.5")
    started[0].send_signal(HUP)
    assert ended(started[0])[0] == 130
    assert harness("resume", "last", cwd=project).stdout == "done\n"
    (project / "slow.pid").unlink()
    line = f'trap "" HUP; exec "{sys.executable}" -m harness run work x -m scripted:script.yaml'
    started.append(
        subprocess.Popen(
            ["sh", "-c", line], cwd=project, env=clean_env(home_of(project)), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
    )  # fmt: skip
    waits((project / "slow.pid").read_text)
    started[1].send_signal(HUP)
    assert ended(started[1])[0] == 0


def test_ctrl_c_drops_a_model_request_at_once(project: Path, started: list[subprocess.Popen[str]]) -> None:
    model = script(project, finish("late", delay=60))
    started.append(start("run", "work", "x", "-m", model, cwd=project))
    waits(lambda: events(newest(project), "model.start"))
    started[0].send_signal(INT)
    assert ended(started[0])[0] == 130
    assert events(newest(project))[-1]["data"]["stop"] == "interrupted"


def test_a_stop_reaches_the_stages_of_a_pipeline_and_is_its_parents(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    add_pipeline(project, "steps", "  a: {run: [slow, --x, '1']}\n  b: {run: [look], needs: [a]}\n")
    started.append(start("pipeline", "bin/steps", cwd=project))
    pid = int(waits((project / "slow.pid").read_text))
    started[0].send_signal(TERM)
    assert ended(started[0])[0] == 130 and not is_alive(pid)
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout) == (0, "looked at 1\n"), done.stderr


def test_a_killed_process_is_shown_as_stopped_and_goes_on(project: Path, started: list[subprocess.Popen[str]]) -> None:
    pid = busy(started, project, "slow", "0.5")
    started[0].kill()
    started[0].wait(30)
    assert '"stop": "stopped"' in harness("runs", "--json", "--status", "stopped", cwd=project).stdout
    shown = harness("show", cwd=project)
    assert shown.returncode == 0 and "stopped in" in shown.stdout and "next: harness resume" in shown.stdout
    done = harness("resume", "last", cwd=project)
    assert (done.returncode, done.stdout) == (0, "done\n") and not is_alive(pid)


def test_a_live_run_is_75_and_names_its_process(project: Path, started: list[subprocess.Popen[str]]) -> None:
    busy(started, project, "slow", "20")
    run = newest(project)
    before = (run / "events.jsonl").read_bytes()
    done = harness("resume", "last", "--json", cwd=project)
    assert done.returncode == 75 and str(started[0].pid) in done.stderr and '"resumable": true' in done.stdout
    assert (run / "events.jsonl").read_bytes() == before
    assert '"stop": "open"' in harness("runs", "--json", cwd=project).stdout
    started[0].terminate()
    assert ended(started[0])[0] == 130


def test_following_a_run_takes_its_code_and_ctrl_c_leaves_it_alone(
    project: Path, started: list[subprocess.Popen[str]]
) -> None:
    busy(started, project, "slow", "2")
    left = start("show", "-F", cwd=project)
    assert left.stdout is not None
    assert left.stdout.readline().startswith("work ") and "model.reply" in left.stdout.readline()
    left.send_signal(INT)
    left.communicate(timeout=30)
    assert left.returncode == 0 and started[0].poll() is None
    followed = start("show", "--follow", cwd=project)
    out, _ = followed.communicate(timeout=30)
    assert followed.returncode == 0 and "tool.end slow #1 ok" in out and "passed in" in out
    assert ended(started[0])[0] == 0


def test_a_lost_terminal_at_a_prompt_parks(project: Path) -> None:
    model = script(project, calls(["act"]), finish("x"))
    asked = AtTerminal(sys.executable, "-m", "harness", "run", "work", "x", "-m", model, cwd=project)
    asked.until("[n] no")
    asked.hang_up()
    assert asked.process.wait(30) == 5
    last = events(newest(project))[-1]
    assert (last["kind"], last["data"]["stop"]) == ("park", "needs-approval")
    assert harness("resume", "last", cwd=project).returncode == 5
