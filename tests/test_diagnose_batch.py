"""S1: why a batch failed, step by step, against the last one that went well, with a model or without one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import ROOT, clean_env, harness
from tests.skill_files import shared_cases

BIN = ROOT / "bin"
MAKER = ROOT / "skills" / "diagnose-batch" / "scripts" / "make-batch-logs"
TASK = "attempt_1445144423722_0020_m_000002_0"
BLOCK = "blk_-2918118818249673980"


def tool(name: str, *words: str, code: int = 0) -> Any:
    done = subprocess.run([BIN / name, *words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


@pytest.fixture
def logs() -> Path:
    """The real logs, or a visible skip."""
    return shared_cases().parent.parent / "data" / "logs"


@pytest.fixture
def made(tmp_path: Path) -> str:
    subprocess.run([MAKER, "--out", tmp_path / "logs", "--kind", "network"], check=True, capture_output=True)
    return str(tmp_path / "logs")


def test_a_batch_is_what_names_it_and_the_failures_meanwhile_that_name_no_other(logs: Path) -> None:
    found = tool("fetch-lines", "--logs", str(logs / "Hadoop.log"), "--batch", TASK)
    assert (found["lines"], found["failures"]) == (152, 81) and found["left_out"] == 152 - len(found["evidence"])
    texts = [item["text"] for item in found["evidence"]]
    assert any("NoRouteToHostException" in text for text in texts)
    assert not any("attempt_1445144423722_0020_m_000005_0" in text for text in texts)


def test_what_names_a_part_speaks_of_the_whole(logs: Path) -> None:
    task = tool("fetch-lines", "--logs", str(logs / "Hadoop.log"), "--batch", "task_1445144423722_0020_m_000001")
    part = tool("fetch-lines", "--logs", str(logs / "Hadoop.log"), "--batch", "attempt_1445144423722_0020_m_000001_0")
    job = tool("fetch-lines", "--logs", str(logs / "Hadoop.log"), "--batch", "job_1445144423722_0020")
    assert part["failures"] <= task["failures"] <= job["failures"] and task["lines"] > part["lines"] > 100
    short = tool("fetch-lines", "--logs", str(logs / "Hadoop.log"), "--batch", "attempt_1", code=66)
    assert "no line names the batch attempt_1" in short


@pytest.mark.parametrize(
    ("log", "batch", "kind"),
    [("Hadoop.log", "all", "network"), ("Hadoop.log", TASK, "network"), ("HDFS.log", "all", "exception"),
     ("Hadoop.log", "task_1445144423722_0020_m_000001", "network"),
     ("HDFS.log", BLOCK, "exception"), ("HDFS.log", "blk_38865049064139660", "none")],
)  # fmt: skip
def test_the_kind_of_failure_of_real_logs(logs: Path, log: str, batch: str, kind: str) -> None:
    found = tool("classify-failure", "--logs", str(logs / log), "--batch", batch)
    assert found["class"] == kind and bool(found["evidence"]) == (kind != "none")


def test_what_a_real_task_says_that_the_last_good_one_did_not(logs: Path) -> None:
    found = tool("compare-batches", "--logs", str(logs / "Hadoop.log"), "--batch", TASK)
    assert found["good"] == "attempt_1445144423722_0020_m_000003_0"  # one that says it succeeded, not one that hangs
    assert any("NoRouteToHostException" in item["text"] for item in found["evidence"])
    block = tool("compare-batches", "--logs", str(logs / "HDFS.log"), "--batch", BLOCK)
    assert [item["text"].split(":")[2][:13] for item in block["evidence"][:1]] == ["Got exception"]


def test_a_batch_that_no_line_names_is_refused_with_those_that_are_there(made: str) -> None:
    said = tool("fetch-lines", "--logs", made, "--batch", "job_0042", code=66)
    assert "no line names the batch job_0042" in said and "job_0001, job_0002" in said and said.count("\n") == 1


def test_a_good_batch_may_be_named_or_lie_in_a_log_of_its_own(made: str, tmp_path: Path) -> None:
    assert tool("compare-batches", "--logs", made, "--batch", "job_0006")["good"] == "job_0005"
    named = tool("compare-batches", "--logs", made, "--batch", "job_0006", "--good", "job_0002")
    assert named["good"] == "job_0002" and any("warehouse-3:5432" in item["text"] for item in named["evidence"])
    good = tmp_path / "good.log"
    lines = Path(made, "loader.log").read_text().splitlines(keepends=True)
    good.write_text("".join(line for line in lines if "job_0006" not in line))
    beside = tool("compare-batches", "--logs", made, "--good", str(good))
    assert beside["good"] == str(good) and any("No route to host" in item["text"] for item in beside["evidence"])
    alone = tool("compare-batches", "--logs", made)
    assert alone["looked"] is False and alone["evidence"] == []


@pytest.mark.parametrize("name", ["classify-failure", "fetch-lines", "summarise-templates", "compare-batches"])
def test_a_step_by_hand_says_what_it_lacks(tmp_path: Path, name: str) -> None:
    assert "no such file" in tool(name, "--logs", str(tmp_path / "gone.log"), code=66)
    assert subprocess.run([BIN / name], capture_output=True).returncode == 2
    assert "examples:" in subprocess.run([BIN / name, "--help"], capture_output=True, text=True).stdout
    (tmp_path / "binary.log").write_bytes(b"\0\1\2" * 100)
    assert "binary" in tool(name, "--logs", str(tmp_path / "binary.log"), code=65)
    (tmp_path / "empty.log").write_text("")
    assert tool(name, "--logs", str(tmp_path / "empty.log"))["tool"] == name


def test_without_a_model_its_steps_are_skipped_and_the_report_says_so(made: str, tmp_path: Path) -> None:
    inputs = ("-i", "logs=logs", "-i", "batch=job_0006")
    done = harness("run", "diagnose-batch", "why", *inputs, "-m", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("Cause: no contact with warehouse-3:5432") and second == "Next: nc -vz warehouse-3 5432"
    assert "steps of a model were skipped" in " ".join(done.stdout.split())
    assert "New against job_0005" in done.stdout and "- network [classify-failure.E1]" in done.stdout
    assert "# Triage report" in (tmp_path / "diagnosis.md").read_text()


WORDS = {
    "harness-script": 1, "replies": [{"text": "not asked"}],
    "skills": {"prompt": {"mode": "match", "replies": [
        {"expect": {"contains": "Which kind"}, "text": "network", "repeat": "forever"},
        {"expect": {"contains": "What is the cause"}, "text": "The route to warehouse-3 is gone.", "repeat": "forever"},
    ]}},
}  # fmt: skip


def test_a_model_proposes_the_cause_in_words_that_are_told_as_its_own(made: str, tmp_path: Path) -> None:
    (tmp_path / "words.yaml").write_text(json.dumps(WORDS))
    words = ("--logs", "logs", "--batch", "job_0006")
    done = harness("pipeline", "-m", "scripted:words.yaml", str(BIN / "diagnose-batch"), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Cause: The route to warehouse-3 is gone.\nNext: nc -vz warehouse-3 5432\n")
    assert "the words of a model, which calls the kind network" in " ".join(done.stdout.split())
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("model", ["none", "scripted"])
def test_its_suite_passes_with_a_script_and_without_a_model(tmp_path: Path, model: str) -> None:
    done = harness("eval", "diagnose-batch", "-m", model, "--trials", "1", "-j", "3", "--json", cwd=tmp_path)
    said = json.loads(done.stdout)
    wrong = {trial["case"]: trial["checks"] for trial in said["trials"] if not trial["passed"]}
    assert done.returncode == 0 and not wrong and said["tables"]["skill"]["trials"] == 10


def test_without_the_order_a_hasty_report_is_believed(tmp_path: Path) -> None:
    arms = ("--arm", "skill", "--arm", "open")
    words = ("-m", "scripted", "--case", "hasty", "--trials", "1", "--json")
    done = harness("eval", "diagnose-batch", *words, *arms, cwd=tmp_path)
    said = json.loads(done.stdout)
    assert {trial["arm"]: trial["passed"] for trial in said["trials"]} == {"skill": True, "open": False}


def test_its_logs_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        seed = ["--seed", "9"] if name == "c" else []
        done = subprocess.run([MAKER, "--out", tmp_path / name, *seed], capture_output=True, env=clean_env(tmp_path))
        assert done.returncode == 0
    a, b, c = (Path(tmp_path, name, "loader.log").read_text() for name in ("a", "b", "c"))
    assert a == b != c and os.access(MAKER, os.X_OK)
