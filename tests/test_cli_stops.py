"""Every stop of a run, as a command tells it: stdout, the object, the file of `-o`, the exit code."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.command import events, harness, home_of, newest, start, waits
from tests.run_files import add_skill, calls, finish, make_project, script

KEYS = {
    "run", "skill", "status", "stop", "code", "resumable", "cause", "answer", "unaccepted", "artifacts", "verdicts",
    "spent", "limits", "timing", "waiting", "error",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("stops") / "p")


ACT = (calls(["act", "--x", "a"]), finish("acted"))
LOOK = (calls(["look"]), finish("the answer"))
STOPS: dict[str, tuple[int, str, tuple[dict[str, Any], ...], tuple[str, ...]]] = {
    "passed": (0, "work", LOOK, ()),
    "failed": (1, "work", (finish("x", expect={"turn": 2}),), ()),
    "refused": (1, "work", ({"stop": "refusal"},), ()),
    "error 2": (2, "work", ({"fail": {"reason": "unknown_model"}},), ()),
    "error 3": (3, "work", ({"fail": {"reason": "bad_request"}},), ()),
    "error 4": (4, "work", ({"fail": {"reason": "auth"}},), ()),
    "needs-approval": (5, "work", ACT, ()),
    "budget turns": (6, "work", LOOK, ("-b", "turns=1")),
    "budget calls": (6, "work", (calls(["look"], ["look", "--x", "2"]), finish("x")), ("-b", "calls=1")),
    "denied": (7, "forced", (calls(["act"]), finish("x")), ("--deny", "act")),
    "no-progress": (8, "work", (calls(["look"], repeat="forever"),), ()),
    "declined": (9, "strict", (finish("x", repeat="forever"),), ()),
    "needs-answer": (10, "work", (calls({"ask": "which cluster"}), finish("x")), ()),
    "unknown-outcome": (11, "work", (calls(["late"]), finish("x")), ("--allow", "late")),
    "waiting": (75, "work", ({"fail": {"reason": "unavailable"}, "repeat": "forever"},), ()),
    "budget seconds": (124, "work", (calls(["slow", "--x", "1"]), finish("x")), ("-b", "seconds=0.5")),
}


@pytest.mark.parametrize("name", STOPS)
def test_case_5_one_object_for_each_stop_with_the_exit_code(project: Path, name: str) -> None:
    code, skill, replies, options = STOPS[name]
    model = script(project, *replies, name=f"{name.replace(' ', '-')}.yaml")
    done = harness("run", skill, "do it", "-m", model, *options, "--output", "json", cwd=project)
    [line] = done.stdout.splitlines()
    body = json.loads(line)
    assert done.returncode == body["code"] == code, done.stderr
    assert set(body) == KEYS and body["resumable"] == (code != 0)
    last = events(project / ".harness/runs" / body["run"])[-1]
    assert (last["kind"], last["data"]["stop"]) == ("park" if code in (5, 10, 11, 75) else "run.end", body["stop"])
    assert body["stop"] == {"refused": "failed"}.get(name, name.split()[0])
    assert (body["answer"] is not None) == (code == 0)
    assert bool(body["error"]) == name.startswith("error") and "Traceback" not in done.stderr
    if body["error"]:
        assert body["error"]["code"] == code and body["error"]["message"] and body["error"]["fix"]


def test_case_5_interrupted_is_130_and_an_object(project: Path) -> None:
    (project / "slow.pid").unlink(missing_ok=True)
    model = script(project, calls(["slow", "--x", "30"]), finish("x"), name="int.yaml")
    process = start("run", "work", "x", "-m", model, "--json", cwd=project)
    waits((project / "slow.pid").read_text)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    body = json.loads(out)
    assert process.returncode == body["code"] == 130 and body["stop"] == "interrupted" and body["resumable"], err


def test_case_5_what_fails_before_a_run_is_an_object_with_every_key(project: Path) -> None:
    before = len(list((project / ".harness/runs").glob("2*"))) if (project / ".harness/runs").is_dir() else 0
    for arguments, code in ((["nowork", "x"], 2), (["work", "x"], 4), (["work", "x", "-m", "scripted:none"], 2)):
        done = harness("run", *arguments, "--json", cwd=project)
        body = json.loads(done.stdout)
        assert done.returncode == body["code"] == body["error"]["code"] == code
        assert set(body["error"]) == {"code", "message", "where", "fix"} and body["error"]["fix"]
        assert set(body) == KEYS and body["resumable"] is False and body["run"] is None
    after = len(list((project / ".harness/runs").glob("2*"))) if (project / ".harness/runs").is_dir() else 0
    assert before == after


def test_case_5_stream_json_is_the_journal_byte_for_byte(project: Path) -> None:
    for replies in (LOOK, ACT):
        model = script(project, *replies, name="stream.yaml")
        done = harness("run", "work", "x", "-m", model, "--output", "stream-json", cwd=project)
        assert done.stdout == (newest(project) / "events.jsonl").read_text() and done.stdout.endswith("\n")
        seen = done.stdout
    done = harness("resume", newest(project).name, "--output", "stream-json", cwd=project)
    assert seen + done.stdout == (newest(project) / "events.jsonl").read_text() and done.returncode == 5


def test_case_4_stdout_carries_the_answer_alone_and_stderr_begins_with_the_run(project: Path) -> None:
    model = script(project, *LOOK, name="plain.yaml")
    done = harness("run", "work", "do", "it", "-m", model, cwd=project)
    assert (done.returncode, done.stdout) == (0, "the answer\n")
    first, second, *rest = done.stderr.splitlines()
    assert first.startswith(f"work {newest(project).name[-8:][:4]}") and "$1.00" in first and "none" in first
    assert second == f"model: {model} (-m)"
    assert rest[0].startswith("confinement: none") and rest[1].startswith("open: everything")
    assert "tool.end look #1 ok" in rest[3] and "\x1b" not in done.stderr
    quiet = harness("run", "work", "x", "-m", model, "-q", cwd=project)
    assert (quiet.stdout, quiet.stderr) == ("the answer\n", "")


def test_case_4_the_first_line_is_there_before_the_work_begins(project: Path) -> None:
    (project / "slow.pid").unlink(missing_ok=True)
    model = script(project, calls(["slow", "--x", "30"]), finish("x"), name="first.yaml")
    process = start("run", "work", "x", "-m", model, cwd=project)
    assert process.stderr is not None and process.stderr.readline().startswith("work ")
    waits((project / "slow.pid").read_text)
    process.terminate()
    assert process.wait(30) == 130
    process.communicate()


def test_case_4_the_file_of_o_is_replaced_by_an_accepted_answer_only(project: Path) -> None:
    file = project / "out.txt"
    file.write_text("old\n")
    inode = file.stat().st_ino
    parked = harness("run", "work", "x", "-m", script(project, *ACT), "-o", "out.txt", cwd=project)
    assert (parked.returncode, parked.stdout, file.read_text()) == (5, "", "old\n")
    model = script(project, *LOOK)
    spent = harness("run", "work", "x", "-m", model, "-o", "out.txt", "-b", "turns=1", cwd=project)
    assert (spent.returncode, file.read_text()) == (6, "old\n") and file.stat().st_ino == inode
    assert spent.stdout.splitlines() == ["not accepted: budget turns", "op:1  look --x 1  fresh"]
    passed = harness("run", "work", "x", "-m", model, "-o", "out.txt", cwd=project)
    assert (passed.returncode, passed.stdout, file.read_text()) == (0, "", "the answer\n")
    assert file.stat().st_ino != inode and not list(project.glob(".out*"))
    as_object = harness("run", "work", "x", "-m", model, "-o", "out.txt", "--json", cwd=project)
    assert as_object.stdout == "" and json.loads(file.read_text())["answer"] == "the answer"


def test_a_link_named_by_o_stays_a_link(project: Path) -> None:
    (project / "link.txt").symlink_to("behind.txt")
    harness("run", "work", "x", "-m", script(project, *LOOK), "-o", "link.txt", cwd=project)
    assert (project / "link.txt").is_symlink() and (project / "behind.txt").read_text() == "the answer\n"


@pytest.mark.parametrize("name", ["no/such/folder/f", "bin", "/dev/null", "pipe"])
def test_a_file_that_o_cannot_replace_is_refused_before_anything_runs(project: Path, name: str) -> None:
    if name == "pipe" and not (project / "pipe").exists():
        os.mkfifo(project / "pipe")
    before = sorted((project / ".harness").rglob("*"))
    done = harness("run", "work", "x", "-m", script(project, *LOOK), "-o", name, cwd=project)
    assert done.returncode == 2 and done.stderr.startswith(f"error: -o {name}") and "fix: " in done.stderr
    assert sorted((project / ".harness").rglob("*")) == before


def test_quiet_says_nothing_of_a_good_run_but_what_waits_and_what_failed(project: Path) -> None:
    parked = harness("run", "work", "x", "-m", script(project, *ACT), "-q", cwd=project)
    assert parked.returncode == 5 and f"next: harness approve {newest(project).name[-8:][:4]} 1\n" in parked.stderr
    failed = harness("run", "work", "x", "-m", script(project, STOPS["error 4"][2][0]), "-q", cwd=project)
    assert failed.returncode == 4 and failed.stderr.startswith("error in ")


def test_limits_given_one_by_one_all_hold_and_none_twice(project: Path) -> None:
    both = harness("run", "work", "x", "-m", script(project, *LOOK), "-b", "turns=1", "-b", "calls=9", cwd=project)
    assert both.returncode == 6 and events(newest(project))[0]["data"]["budget"]["calls"] == 9
    words = ("-b", "usd=0.1", "-b", "usd=5")
    twice = harness("run", "work", "x", "-m", script(project, *LOOK), *words, cwd=project)
    assert twice.returncode == 2 and "usd is given twice" in twice.stderr


def test_case_14_a_new_total_goes_on_after_a_budget_stop(project: Path) -> None:
    model = script(project, *LOOK, name="more.yaml")
    assert harness("run", "work", "x", "-m", model, "-b", "turns=1 calls=9", cwd=project).returncode == 6
    run = newest(project)
    again = harness("resume", run.name, cwd=project)
    assert again.returncode == 6, "without a new limit nothing has changed"
    before = (run / "events.jsonl").read_bytes()
    for wrong in ("turns=many", "turn=5", "turns=0", "turns=3,turns=4"):
        refused = harness("resume", run.name, "-b", wrong, cwd=project)
        assert refused.returncode == 2 and refused.stderr.startswith("error: ") and "budget" in refused.stderr
    assert (run / "events.jsonl").read_bytes() == before, "a typing error left its mark"
    done = harness("resume", run.name, "-b", "turns=5", "--json", cwd=project)
    body = json.loads(done.stdout)
    assert done.returncode == 0 and (body["limits"]["turns"], body["limits"]["calls"]) == (5, 9)
    assert body["spent"]["turns"] == 2, "the reply that was there was asked for again"


def test_b_takes_the_keys_of_a_budget_and_names_the_nearest(project: Path) -> None:
    model = script(project, *LOOK)
    for given, words in (("trns=3", "near: turns"), ("usd", "usd"), ("turns=-1", "positive"), ("usd=x", "amount")):
        done = harness("run", "work", "x", "-m", model, "-b", given, cwd=project)
        assert done.returncode == 2 and words in done.stderr.splitlines()[0]
    body = json.loads(harness("run", "work", "x", "-m", model, "-b", "usd=0.2 turns=10", "--json", cwd=project).stdout)
    assert (body["limits"]["usd"], body["limits"]["turns"]) == ("0.2", 10)


def test_case_12_no_model_is_4_and_nothing_is_written(tmp_path: Path) -> None:
    project = tmp_path / "fresh"
    add_skill(project, "plain", "look")
    home_of(project)
    before = sorted(project.rglob("*"))
    done = harness("run", "plain", "x", cwd=project)
    assert done.returncode == 4 and done.stderr.startswith("error: no model to use") and "-m " in done.stderr
    assert sorted(project.rglob("*")) == before
