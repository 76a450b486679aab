"""`harness stop`: a live owner heeds it whatever it waits for; a run that nobody owns gets its end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from tests.command import COMMAND, AtTerminal, confined, events, harness, is_alive, newest, start, waits
from tests.run_files import add_pipeline, add_skill, calls, finish, make_project, script

Live = tuple[Popen[str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


@pytest.fixture
def processes() -> Iterator[list[Popen[str]]]:
    begun: list[Popen[str]] = []
    yield begun
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def running(processes: list[Popen[str]], project: Path, *replies: object, skill: str = "work", at: str = "") -> Path:
    """A run under way, once its journal (or that of its child) holds an event of the kind `at`."""
    model = script(project, *replies)  # type: ignore[arg-type]
    allowed = ("--allow", "drag") if skill == "work" else ()
    processes.append(start("run", skill, "x", "-m", model, *allowed, cwd=project))
    return Path(waits(lambda: newest(project) if events(newest(project), at or "tool.start") else None))


def stop(project: Path, run: Path, *words: str) -> tuple[int, str]:
    done = harness("stop", run.name, *words, cwd=project)
    return done.returncode, done.stderr


def last(run: Path) -> tuple[str, str]:
    event = events(run)[-1]
    return event["kind"], event["data"]["stop"]


def test_the_first_word_lets_what_runs_end(project: Path, processes: list[Popen[str]]) -> None:
    run = running(processes, project, calls(["slow", "--x", "3"]), finish("x"))
    code, said = stop(project, run)
    assert code == 0 and "stopped: interrupted" in said and last(run) == ("run.end", "interrupted")
    assert events(run, "tool.end")[0]["data"]["outcome"] == "done"
    _, told = processes[0].communicate()
    assert processes[0].returncode == 130 and not list((run / "inbox").iterdir())
    assert f"stopping once what runs has ended · sooner: harness stop {run.name[-8:]} --now" in told
    assert "again" not in told, "nobody pressed a key here"


def test_now_kills_what_runs(project: Path, processes: list[Popen[str]]) -> None:
    run = running(processes, project, calls(["slow", "--x", "100"]), finish("x"))
    pid = int(waits((project / "slow.pid").read_text))
    code, _ = stop(project, run, "--now")
    assert code == 0 and not is_alive(pid) and events(run, "tool.end")[0]["data"]["outcome"] == "cut"
    assert last(run) == ("run.end", "interrupted")


def test_a_model_request_is_dropped(project: Path, processes: list[Popen[str]]) -> None:
    run = running(processes, project, finish("x", delay=100), at="model.start")
    assert stop(project, run)[0] == 0 and last(run) == ("run.end", "interrupted")
    assert events(run, "model.fail")[0]["data"]["reason"] == "cancelled"


def test_a_child_stops_with_its_top_run(project: Path, processes: list[Popen[str]]) -> None:
    add_pipeline(project, "both", "  a: {run: [slow, --x, '100']}\n")
    add_skill(project, "joint", "both")
    run = running(processes, project, calls(["both"]), finish("x"), skill="joint")
    child = run.parent / events(run, "tool.start")[0]["data"]["child"]
    waits(lambda: events(child, "tool.start"))
    pid = int(waits((project / "slow.pid").read_text))
    assert stop(project, child, "--now")[0] == 0 and not is_alive(pid)
    assert last(run) == last(child) == ("run.end", "interrupted")


def test_a_verifier_and_a_stage_heed_it_too(project: Path, processes: list[Popen[str]]) -> None:
    add_skill(project, "checked", "look", "metadata:\n  verify: slow --x 100\n")
    run = running(processes, project, finish("x"), skill="checked")
    assert stop(project, run, "--now")[0] == 0 and last(run) == ("run.end", "interrupted")


@pytest.mark.parametrize("reply", [calls(["act"]), calls({"ask": "which one"})])
def test_a_question_at_a_terminal_closes(project: Path, reply: dict[str, object]) -> None:
    model = script(project, reply, finish("x"))
    terminal = AtTerminal(*COMMAND, "run", "work", "x", "-m", model, cwd=project)
    terminal.until("wants to act" if "run" in str(reply) else "which one")
    run = newest(project)
    assert stop(project, run)[0] == 0 and last(run) == ("run.end", "interrupted")
    code, _ = terminal.end()
    assert code == 130


@pytest.mark.parametrize("word", [(), ("--now",)])
def test_a_parked_run_gets_its_end_and_can_be_gone_on_with(project: Path, word: tuple[str, ...]) -> None:
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("done")), cwd=project)
    run = newest(project)
    assert stop(project, run, *word)[0] == 0 and last(run) == ("run.end", "interrupted")
    assert [event["kind"] for event in events(run)[-3:]] == ["park", "resume", "run.end"]
    assert events(run)[-1]["data"]["unmet"] == [{"op": 1, "name": "act", "why": "ask"}]
    size = (run / "events.jsonl").stat().st_size
    code, said = stop(project, run)
    assert code == 0 and "has ended already: interrupted" in said
    assert (run / "events.jsonl").stat().st_size == size and not (project / "ledger").exists()
    assert harness("resume", run.name, cwd=project).returncode == 5


def test_a_run_whose_owner_was_killed_gets_its_end_and_now_kills_its_tool(
    project: Path, processes: list[Popen[str]]
) -> None:
    run = running(processes, project, calls(["drag", "--x", "100"]), finish("x"))
    pid = int(waits((project / "drag.pid").read_text))
    os.kill(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    assert stop(project, run)[0] == 0 and is_alive(pid) and last(run) == ("run.end", "interrupted")
    assert harness("resume", run.name, "-b", "seconds=0.1", cwd=project).returncode in (11, 124)
    stop(project, run, "--now")
    assert last(run)[1] in ("interrupted", "budget")


def test_a_wish_of_before_does_not_stop_who_goes_on(project: Path) -> None:
    confined(project)
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("done")), cwd=project)
    run = newest(project)
    (run / "inbox/cancel-1.json").write_text('{"kind": "cancel", "now": true, "by": "user:x"}')
    assert harness("approve", run.name, "--digest", events(run, "decide")[0]["data"]["digest"], "--resume",
                   cwd=project).returncode == 0  # fmt: skip
    assert last(run) == ("run.end", "passed") and not list((run / "inbox").iterdir())


def test_an_owner_that_does_not_answer_is_said_so(project: Path, processes: list[Popen[str]]) -> None:
    run = running(processes, project, calls(["slow", "--x", "100"]), finish("x"))
    os.killpg(processes[0].pid, signal.SIGSTOP)
    try:
        code, said = stop(project, run)
        assert code == 1 and "still runs" in said and "--now" in said
    finally:
        os.killpg(processes[0].pid, signal.SIGCONT)


def test_json_and_bad_names(project: Path) -> None:
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("done")), cwd=project)
    run = newest(project)
    body = json.loads(harness("stop", "last", "--json", cwd=project).stdout)
    assert body == {"run": run.name, "stop": "interrupted", "code": 130}
    done = harness("stop", "nowhere", cwd=project)
    assert done.returncode == 2 and "no run 'nowhere'" in done.stderr
    (run.parent / "20200101T000000-none-aaaaaaaa").mkdir()
    assert harness("stop", "aaaaaaaa", cwd=project).returncode == 3
