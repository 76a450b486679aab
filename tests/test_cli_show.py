"""`harness show` and `harness runs` on a real run: the shipped skill on the shipped incident, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import ROOT, harness

INCIDENT = ROOT / "skills" / "oncall-triage" / "assets" / "incident"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one run in it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".harness").mkdir()
    done = harness("run", "oncall-triage", "what", "is", "wrong", "-i", f"source={INCIDENT}", "-m", "none", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def run_folder(project: Path) -> Path:
    return next(path for path in (project / ".harness" / "runs").glob("2*") if "-oncall-triage-" in path.name)


def test_a_run_is_shown_with_its_steps_its_answer_and_its_folder(project: Path) -> None:
    done = harness("show", cwd=project)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("oncall-triage ") and "\x1b" not in done.stdout
    for words in ("report", "check-report", "answer:\nCause: ", "passed in ", f"folder: {run_folder(project)}"):
        assert words in done.stdout
    by_id = harness("show", run_folder(project).name[-8:], cwd=project)
    assert by_id.stdout == done.stdout


def test_the_object_of_a_run_says_what_the_text_says(project: Path) -> None:
    shown = json.loads(harness("show", "last", "--json", cwd=project).stdout)
    assert (shown["stop"], shown["code"], shown["waiting"]) == ("passed", 0, [])
    assert shown["answer"].startswith("Cause: ") and shown["unaccepted"] is None
    assert {step["state"] for step in shown["steps"]} == {"ok"}


def test_the_graph_shows_the_states_of_the_pipelines_stages_too(project: Path) -> None:
    text = harness("show", "--graph", cwd=project).stdout
    assert "#1 triage" in text and "report ok" in text and "skipped" in text
    assert "write-report ok" in text.split("#1 triage")[0], "the skill's own tool, which a stage called"
    assert harness("show", "--mermaid", cwd=project).stdout.startswith("flowchart")


def test_events_are_shown_one_at_a_time_and_verbatim(project: Path) -> None:
    log = (run_folder(project) / "events.jsonl").read_text()
    assert harness("show", "--output", "stream-json", cwd=project).stdout == log
    assert json.loads(harness("show", "--event", "1", cwd=project).stdout)["kind"] == "run.start"
    done = harness("show", "--event", "9999", cwd=project)
    assert done.returncode == 2 and "fix: give a number from 1 to" in done.stderr


def test_following_a_run_that_has_ended_ends_with_its_code(project: Path) -> None:
    done = harness("show", "-F", cwd=project)
    assert done.returncode == 0 and "tool.end triage" in done.stdout and "passed in" in done.stdout


def test_the_list_of_runs_leaves_out_what_worked_for_others(project: Path) -> None:
    runs = json.loads(harness("runs", "--json", cwd=project).stdout)["runs"]
    assert len(runs) == 1 and len(list((project / ".harness" / "runs").glob("2*"))) == 2
    assert len(harness("runs", cwd=project).stdout.splitlines()) == 2
    assert harness("runs", "--waiting", cwd=project).stdout == ""


@pytest.mark.parametrize("arguments", [["show", "zzzz"], ["show", "--graph", "-F"], ["runs", "--last", "0"]])
def test_what_cannot_be_shown_is_2_with_a_fix(project: Path, arguments: list[str]) -> None:
    done = harness(*arguments, cwd=project)
    assert done.returncode == 2 and "fix: " in done.stderr and not done.stdout


def test_a_damaged_journal_is_3_and_names_its_folder(project: Path, tmp_path: Path) -> None:
    runs = tmp_path / ".harness" / "runs"
    broken = runs / run_folder(project).name
    broken.mkdir(parents=True)
    (broken / "events.jsonl").write_bytes(b"\0garbage\n")
    done = harness("show", cwd=tmp_path)
    assert done.returncode == 3 and str(broken) in done.stderr and "bug" not in done.stderr


def test_without_runs_a_sentence_says_how_to_make_one(tmp_path: Path) -> None:
    done = harness("runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "") and "harness run" in done.stderr
    assert not [path for path in tmp_path.iterdir() if path.name != ".home"]
