"""The sample incident, the report over everything, the verifier and the replay: real processes, real files."""

from __future__ import annotations

import filecmp
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import harness

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / "bin"
SKILL = ROOT / "skills" / "oncall-triage"
INCIDENT = SKILL / "assets" / "incident"
LOOKS = ("lookup-runbook", "check-pods", "check-lag", "recent-deploys", "search-logs")


def tool(name: str, *args: str, cwd: Path, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HARNESS_")}
    return subprocess.run([sys.executable, str(BIN / name), *args], cwd=cwd, capture_output=True, text=True, input=text,
                          env=clean | env, check=False, timeout=60)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cwd = tmp_path_factory.mktemp("looks")
    found = {}
    for name in LOOKS:
        done = tool(name, "--source", str(INCIDENT), cwd=cwd)
        assert done.returncode == 0, done.stderr
        found[name] = done.stdout
    return found


def journal(folder: Path, outputs: dict[str, str], order: list[str]) -> Path:
    """A run folder as the harness writes it, in which the tools ran in this order."""
    run = folder / "run"
    (run / "blobs").mkdir(parents=True)
    lines = []
    for op, name in enumerate(order, 1):
        out: object = outputs[name]
        if len(outputs[name]) > 4096:
            (run / "blobs" / f"{op:064x}").write_text(outputs[name])
            out = {"blob": f"{op:064x}", "bytes": len(outputs[name])}
        lines += [("decide", op, {"verdict": "allow", "argv": ["--source", str(INCIDENT)], "effect": "read"}),
                  ("tool.start", op, {"tool": name, "role": "call"}),
                  ("tool.end", op, {"outcome": "done", "exit": 0, "class": "OK", "out": out})]
    text = "".join(json.dumps({"v": 1, "kind": kind, "op": op, "data": data}) + "\n" for kind, op, data in lines)
    (run / "events.jsonl").write_text(text)
    return run


def test_the_incident_is_what_its_generator_writes(tmp_path: Path) -> None:
    script = SKILL / "scripts" / "make-incident"
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path)], check=True, capture_output=True)
    names = sorted(str(path.relative_to(INCIDENT)) for path in INCIDENT.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert filecmp.cmpfiles(INCIDENT, tmp_path, names, shallow=False)[0] == names


def test_the_report_names_the_cause(tmp_path: Path, outputs: dict[str, str]) -> None:
    run = journal(tmp_path, outputs, list(LOOKS))
    lines = tool("write-report", cwd=tmp_path, HARNESS_RUN=str(run)).stdout.splitlines()
    assert lines[0] == "Cause: payments-worker OOMKilled after deploy 4be2d1f: halve the memory limit to 256Mi"
    assert lines[1] == "Next: kubectl rollout undo deployment/payments-worker -n payments"
    for name in LOOKS:
        assert f"[{name}.E" in "\n".join(lines)
    assert all(len(line) <= 45 or line.split()[-1].count("/") for line in lines[2:] if len(line.split()) > 2)


def test_another_seed_has_the_same_cause(tmp_path: Path) -> None:
    script = SKILL / "scripts" / "make-incident"
    subprocess.run([sys.executable, str(script), "--out", "other", "--seed", "99"], check=True, cwd=tmp_path)
    files = []
    for name in LOOKS:
        (tmp_path / f"{name}.json").write_text(tool(name, "--source", "other", cwd=tmp_path).stdout)
        files += ["--evidence", f"{name}.json"]
    first = tool("write-report", *files, cwd=tmp_path).stdout.splitlines()[0]
    assert first.startswith("Cause: payments-worker OOMKilled after deploy 4be2d1f")


def test_twenty_orders_give_the_same_report(tmp_path: Path, outputs: dict[str, str]) -> None:
    seen = set()
    for seed in range(20):
        order = list(LOOKS)
        random.Random(seed).shuffle(order)
        folder = tmp_path / str(seed)
        run = journal(folder, outputs, order)
        done = tool("write-report", cwd=folder, HARNESS_RUN=str(run))
        seen.add((done.stdout, (folder / "triage-report.md").read_bytes()))
    assert len(seen) == 1


def test_a_models_words_come_first(tmp_path: Path, outputs: dict[str, str]) -> None:
    run = journal(tmp_path, outputs, list(LOOKS))
    done = tool("write-report", "--cause", "memory limit too low", "--next", "kubectl get pods", cwd=tmp_path,
                HARNESS_RUN=str(run))
    assert done.stdout.startswith("Cause: memory limit too low\nNext: kubectl get pods\n")


def test_the_verifier_accepts_what_the_run_holds_and_nothing_else(tmp_path: Path, outputs: dict[str, str]) -> None:
    run = str(journal(tmp_path, outputs, list(LOOKS)))
    answer = tool("write-report", cwd=tmp_path, HARNESS_RUN=run).stdout
    assert tool("check-report", cwd=tmp_path, text=answer, HARNESS_RUN=run).returncode == 0
    for wrong in ("search-logs.E99", "payments-worker.log#L9999", "9.E1"):
        done = tool("check-report", cwd=tmp_path, text=f"{answer}\nsee [{wrong}]\n", HARNESS_RUN=run)
        assert done.returncode == 1 and wrong in done.stdout


def test_evidence_of_a_child_run_counts(tmp_path: Path, outputs: dict[str, str]) -> None:
    journal(tmp_path, outputs, list(LOOKS))
    (tmp_path / "run").rename(tmp_path / "child")
    parent = tmp_path / "parent"
    parent.mkdir()
    start = {"kind": "tool.start", "op": 1, "data": {"tool": "triage", "role": "call", "child": "child"}}
    (parent / "events.jsonl").write_text(json.dumps(start) + "\n")
    text = "Cause: worker OOMKilled\nNext: kubectl get pods\n[check-pods.E1]\n"
    assert tool("check-report", cwd=tmp_path, text=text, HARNESS_RUN=str(parent)).returncode == 0


@pytest.mark.parametrize("sample", sorted((SKILL / "evals").glob("*/*")), ids=lambda path: path.name)
def test_the_samples_are_judged_as_they_should(sample: Path, tmp_path: Path) -> None:
    done = tool("check-report", cwd=tmp_path, text=sample.read_text())
    assert done.returncode == (0 if sample.parent.name == "accept" else 1), done.stdout


@pytest.mark.parametrize("name", ["check-pods", "check-lag", "recent-deploys", "lookup-runbook"])
def test_without_a_source_a_look_says_so(name: str, tmp_path: Path) -> None:
    done = tool(name, cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["looked"] is False
    assert tool(name, "--source", "gone", cwd=tmp_path).returncode == 66


@pytest.mark.parametrize(("name", "file"), [("check-pods", "pods.json"), ("check-lag", "lag.json"),
                                            ("recent-deploys", "deploys.txt")])
def test_garbage_is_one_clear_line(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("[1, 2")
    done = tool(name, "--source", ".", cwd=tmp_path)
    assert done.returncode == 65 and file in done.stderr and len(done.stderr.splitlines()) == 1


def test_deploys_come_from_git_too(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "shop: raise the timeout"], check=True)
    found = json.loads(tool("recent-deploys", "--repo", ".", cwd=tmp_path).stdout)
    assert found["deploys"][0]["service"] == "shop" and found["deploys"][0]["change"] == "raise the timeout"


def test_the_services_are_listed(tmp_path: Path) -> None:
    found = json.loads(tool("list-services", "--source", str(INCIDENT), cwd=tmp_path).stdout)
    assert [one["name"] for one in found["services"]] == ["ledger", "payments-api", "payments-worker"]


def test_a_replay_happens_once_for_each_operation(tmp_path: Path) -> None:
    for op, again in (("r/1", False), ("r/1", True), ("r/2", False)):
        done = tool("replay-request", "--request-id", "req-1", "--source", ".", cwd=tmp_path, HARNESS_OP_ID=op)
        assert json.loads(done.stdout)["again"] is again
    assert len((tmp_path / "replays.jsonl").read_text().splitlines()) == 2
    refused = tool("replay-request", "--request-id", "x", "--queue", "http://127.0.0.1:9/q", cwd=tmp_path)
    assert refused.returncode == 69 and len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [*LOOKS, "list-services", "replay-request", "write-report", "check-report"])
def test_every_tool_explains_itself(name: str, tmp_path: Path) -> None:
    done = tool(name, "--help", cwd=tmp_path)
    assert done.returncode == 0 and "example" in done.stdout and os.access(BIN / name, os.X_OK)


def test_a_triage_that_looked_at_nothing_does_not_pass(tmp_path: Path) -> None:
    done = harness("run", "oncall-triage", "why late", "-m", "none", cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "nothing was looked at: give -i logs=PATH or -i source=DIR" in done.stderr


SEARCHER = """---
name: searcher
description: Searches logs. Use for tests.
allowed-tools: search-logs
metadata:
  verify: check-report
---
Search.
"""


@pytest.mark.parametrize(("cited", "code"), [("search-logs.E1", 1), ("1.E1", 0), ("2.E1", 0), ("3.E1", 1)])
def test_evidence_that_two_calls_gave_is_cited_by_the_call(tmp_path: Path, cited: str, code: int) -> None:
    lines = ("10:00:00 ERROR disk full", "10:00:01 ERROR no route to host db-1:5432")
    (tmp_path / "app.log").write_text("".join(f"2026-12-01 {line}\n" for line in lines))
    (tmp_path / "skills" / "searcher").mkdir(parents=True)
    (tmp_path / "skills" / "searcher" / "SKILL.md").write_text(SEARCHER)
    (tmp_path / "bin").mkdir()
    for name in ("search-logs", "check-report", "oncall"):
        (tmp_path / "bin" / name).symlink_to(BIN / name)
    search = [{"run": ["search-logs", "--logs", "app.log", "--match", word]} for word in ("disk", "route")]
    finish = {"finish": f"Cause: the disk is full [{cited}]\nNext: df -h /\n"}
    replies = [{"calls": search}, {"calls": [finish]}]
    (tmp_path / "s.yaml").write_text(json.dumps({"harness-script": 1, "replies": replies}))
    done = harness("run", "searcher", "why", "-m", "scripted:s.yaml", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert ("search-logs.E1 may be of 2 calls" in done.stderr) == (cited == "search-logs.E1")
