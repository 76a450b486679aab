"""search-logs and the report on logs alone: real processes, real files."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / "bin"
LOGS = Path(os.environ.get("HARNESS_TEST_DATA", ROOT.parent / "shared" / "data")) / "logs"
FALLBACK = ROOT.parent.parent / "shared" / "data" / "logs"
LOGS = LOGS if LOGS.is_dir() else FALLBACK
sys.path.insert(0, str(BIN))

from oncall import severity, templates


def tool(name: str, *args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(BIN / name), *args], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "HARNESS_RUN": "", **env}, check=False, timeout=60)


def search(cwd: Path, *args: str) -> dict:
    done = tool("search-logs", *args, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def triage(cwd: Path, log: Path) -> list[str]:
    done = tool("search-logs", "--logs", str(log), cwd=cwd)
    assert done.returncode == 0, done.stderr
    (cwd / "found.json").write_text(done.stdout)
    answer = tool("write-report", "--evidence", "found.json", cwd=cwd)
    assert answer.returncode == 0, answer.stderr
    checked = subprocess.run([sys.executable, str(BIN / "check-report")], input=answer.stdout, text=True, check=False,
                             capture_output=True, env={**os.environ, "HARNESS_RUN": ""})
    assert checked.returncode == 0, checked.stdout
    return answer.stdout.splitlines()


def real(name: str) -> Path:
    path = LOGS / name
    if not path.is_file():
        pytest.skip(f"the real logs are not here: {path}")
    return path


def test_an_id_is_looked_for_whole_and_a_text_anywhere(tmp_path: Path) -> None:
    held = ["req-1 failed", "id=req-1,", "/orders/req-1", "sent req-1."]
    others = ["req-12 failed", "req-1-a", "xreq-1", "a_req-1", "req-1.2 failed", "preq-1x"]
    (tmp_path / "app.log").write_text("".join(f"2026-01-02 10:00:00 ERROR {line}\n" for line in [*held, *others]))
    for option, count in (("--request-id", 4), ("--match", 10)):
        found = search(tmp_path, "--logs", "app.log", option, "req-1")
        assert sum(group["count"] for group in found["groups"]) == count


def test_hadoop_names_the_lost_resource_manager_and_the_lease(tmp_path: Path) -> None:
    lines = triage(tmp_path, real("Hadoop.log"))
    for said in ("msra-sa-41:8030", "ERROR IN CONTACTING RM", "Failed to renew lease"):
        assert said in lines[0]
    assert lines[1] == "Next: nc -vz msra-sa-41 8030"
    assert any("Hadoop.log#L923" in line for line in lines)
    assert "Retrying connect" in (tmp_path / "triage-report.md").read_text()


def test_apache_names_the_workers_in_error_state(tmp_path: Path) -> None:
    lines = triage(tmp_path, real("Apache.log"))
    assert lines[0] == "Cause: mod_jk child workerEnv in error state (539x)"


def test_openstack_has_no_outage(tmp_path: Path) -> None:
    lines = triage(tmp_path, real("OpenStack.log"))
    assert lines[0] == "Cause: nothing abnormal stands out in 2,000 log lines"
    assert any("Unknown base file" in line for line in lines)


def test_hdfs_names_the_exception(tmp_path: Path) -> None:
    assert "Got exception while serving" in triage(tmp_path, real("HDFS.log"))[0]


@pytest.mark.parametrize("name", ["Apache", "HDFS", "Hadoop", "OpenStack"])
def test_grouping_agrees_with_the_labels(name: str) -> None:
    import csv

    sys.path.insert(0, str(ROOT / "tests" / "bench"))
    from grouping import accuracy, raw

    with real(f"{name}.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    truth = [row["EventId"] for row in rows]
    assert accuracy(templates.assign([row["Content"] for row in rows]), truth) >= 0.99
    assert accuracy(templates.assign(raw(real(f"{name}.log"))), truth) >= 0.99


def test_references_point_at_the_lines(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("2026-01-01 10:00:00 INFO ok\n2026-01-01 10:00:01 ERROR disk full on /data\n")
    found = search(tmp_path, "--logs", "app.log")
    assert found["evidence"][0] == {"id": "E1", "source": "app.log#L2", "text": "disk full on /data"}
    assert len(found["summary"]) <= 40


def test_a_stack_trace_is_one_event(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "2026-01-01 10:00:00 INFO start\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\n"
        "ValueError: bad amount 12\n2026-01-01 10:00:02 INFO done\n")
    first = search(tmp_path, "--logs", "a.log")["evidence"][0]
    assert first["source"] == "a.log#L2-L5" and first["text"] == "ValueError: bad amount 12"


def test_json_lines_latin_1_crlf_and_gzip_are_read(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text('{"level":"error","msg":"db-1:5432 refused","time":"2026-01-01T00:00:00Z"}\n')
    (tmp_path / "l.log").write_bytes(b"2026-01-01 10:00:00 ERROR caf\xe9 closed\r\n")
    with gzip.open(tmp_path / "z.log.gz", "wt") as stream:
        stream.write("2026-01-01 10:00:00 ERROR packed away\n")
    found = search(tmp_path, "--logs", ".")
    texts = [item["text"] for item in found["evidence"]]
    assert {"db-1:5432 refused", "café closed", "packed away"} <= set(texts)
    assert any("Latin-1" in note for note in found["notes"])


@pytest.mark.parametrize(("name", "content", "code", "words"), [
    ("gone.log", None, 66, "no such file"), ("b.log", b"\x7fELF\0\0\1", 65, "is binary"), ("e.log", b"", 0, "")])
def test_missing_binary_and_empty(tmp_path: Path, name: str, content: bytes | None, code: int, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = tool("search-logs", "--logs", name, cwd=tmp_path)
    assert done.returncode == code and words in done.stderr and len(done.stderr.splitlines()) <= 1
    if code == 0:
        assert triage(tmp_path, tmp_path / name)[0] == "Cause: nothing to see: the logs are empty"


def test_a_gigantic_line_stays_bounded(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_text("2026-01-01 10:00:00 ERROR " + "x" * 3_000_000 + "\n")
    assert len(tool("search-logs", "--logs", "long.log", cwd=tmp_path).stdout) < 4000


def test_the_summary_counts_what_matches(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("2026-01-01 10:00:00 INFO all is well\n" * 90 + "2026-01-01 10:01:00 ERROR disk full\n" * 10)
    assert search(tmp_path, "--logs", "a.log")["summary"] == "100 lines, 10 failing"
    for match, said in (("well", "90 of 100 lines match, 0 failing"), ("nothing", "0 of 100 lines match, 0 failing")):
        assert search(tmp_path, "--logs", "a.log", "--match", match)["summary"] == said


def test_since_match_and_request_narrow(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("2026-01-01 10:00:00 ERROR old req-1\n2026-01-01 12:00:00 ERROR new req-2\n")
    assert search(tmp_path, "--logs", "a.log", "--since", "30m")["evidence"][0]["source"] == "a.log#L2"
    assert search(tmp_path, "--logs", "a.log", "--request-id", "req-1")["matching"] == 1
    assert search(tmp_path, "--logs", "a.log", "--match", "nothing such")["matching"] == 0


@pytest.mark.parametrize(("level", "message", "grade"), [
    (None, "job ended with 0 errors", 0), (None, "no errors, 0 failed, error: none", 0),
    ("info", "connection refused", 1),
    (None, "connection refused", 3), ("warn", "cache is cold", 2), ("warn", "failed to open", 3), ("error", "x", 3),
    ("fatal", "x", 4), ("info", '"GET /errors/failed HTTP/1.1" 200', 0), (None, '"GET / HTTP/1.1" 503 12', 3),
    ("info", "parity error corrected", 0), (None, "page of 500 items", 0)])
def test_severity_reads_levels_words_and_negations(level: str | None, message: str, grade: int) -> None:
    assert severity.grade(level, message) == grade


def test_words_that_say_something_else_stay_apart() -> None:
    messages = [f"worker {n} {what}" for n in range(9) for what in ("started", "stopped")]
    assert len(set(templates.assign(messages))) == 2
    assert len(set(templates.assign([f"user {name} came in" for name in "abcdefghijkl"]))) == 1
