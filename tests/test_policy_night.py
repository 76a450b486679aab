"""A person with one hand on the terminal: how often a whole triage asks under a sensible policy, counted."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.loop.run import Said
from tests.cage_world import Caged, make, needs_full
from tests.command import ROOT
from tests.loop_world import Person, Ran, call, finish, reply
from tests.net_servers import page, server

SOURCE = ("--source", "incident")
METRICS = """
import os, sys, urllib.request
print(urllib.request.urlopen(os.environ["METRICS_URL"] + sys.argv[2], timeout=20).status)
"""
HEAD = "@env METRICS_URL\n@option --query! <TEXT>  what\n@meta effect read\n@meta net METRICS_URL"
SENSIBLE = "env: {{query-metrics: [METRICS_URL]}}\nnetwork: {{hosts: {{query-metrics: ['127.0.0.1:{port}']}}}}"
ANSWER = (ROOT / "skills/oncall-triage/script.yaml").read_text().split("finish: |\n")[1]
LOOKS = [
    reply(*(call(name, *SOURCE) for name in ("lookup-runbook", "check-pods", "check-lag", "recent-deploys"))),
    reply(call("search-logs", *SOURCE)),
]
WRITES = [reply(call("write-report")), finish(ANSWER)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    """What ships, and one tool more that asks a server for metrics."""
    made = make(tmp_path, monkeypatch)
    for name in ("bin", "skills"):
        shutil.copytree(ROOT / name, made.path / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copytree(ROOT / "skills/oncall-triage/assets/incident", made.path / "incident")
    made.python("query-metrics", METRICS, HEAD)
    skill = made.path / "skills/oncall-triage/SKILL.md"
    skill.write_text(skill.read_text().replace(" replay-request write", " query-metrics replay-request write"))
    made.person = Person([Said("allow")] * 9)
    return made


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of the metrics server, which the person's environment names."""
    with server(page) as port:
        monkeypatch.setenv("METRICS_URL", f"http://127.0.0.1:{port}/")
        yield port


def asked(project: Caged) -> list[str]:
    assert project.person is not None
    return [shown["tool"] for shown in project.person.shown]


def request_id(project: Caged) -> str:
    """One that the logs of the incident name."""
    found = re.search(r"req-[0-9a-f]{8}", (project.path / "incident/logs/payments-worker.log").read_text())
    assert found is not None
    return found[0]


def triage(project: Caged, *between: dict[str, object], goal: str = "what is going wrong") -> Ran:
    looks = [call("query-metrics", "--query", f"lag{n}") for n in range(3)]
    return project.run([*LOOKS, reply(*looks), *between, *WRITES], name="oncall-triage", goal=goal)


@needs_full
def test_reads_of_listed_hosts_ask_nobody(project: Caged, port: int) -> None:
    project.policy(SENSIBLE.format(port=port))
    ran = triage(project)
    assert (ran.stop.name, asked(project)) == ("passed", [])
    assert ran.ends().count(("query-metrics", "OK")) == 3


@needs_full
def test_a_host_that_is_not_listed_asks(project: Caged, port: int) -> None:
    ran = triage(project)
    assert (ran.stop.name, asked(project)) == ("passed", ["query-metrics"] * 3)


@needs_full
def test_a_replay_asks_once_and_says_where_its_id_is_from(project: Caged, port: int) -> None:
    project.policy(SENSIBLE.format(port=port))
    name = request_id(project)
    found = reply(call("search-logs", *SOURCE, "--request-id", name))
    again = reply(call("replay-request", "--request-id", name, *SOURCE))
    ran = triage(project, found, again, goal=f"{name} failed: why?")
    assert (ran.stop.name, asked(project)) == ("passed", ["replay-request"])
    [shown] = project.person.shown if project.person is not None else []
    assert shown["sources"]["--request-id"] == [[name, ["your words"]]]
    [line] = (project.path / "incident/replays.jsonl").read_text().splitlines()
    assert json.loads(line)["request_id"] == name
