"""The shipped skill, its calls proposed in shuffled orders: what runs is always allowed, and the report is the same."""

from __future__ import annotations

import random
import shutil

import pytest

from harness.graph import Graph
from harness.skills import Skill
from tests.command import ROOT
from tests.loop_world import Project, call, finish, reply
from tests.skill_files import catalog_of

SOURCE = ("--source", "skills/oncall-triage/assets/incident")
CALLS = {
    "lookup-runbook": SOURCE, "check-pods": SOURCE, "check-lag": SOURCE, "recent-deploys": SOURCE,
    "search-logs": SOURCE, "write-report": (),
}  # fmt: skip
ANSWER = (ROOT / "skills/oncall-triage/script.yaml").read_text().split("finish: |\n")[1]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("triage"))
    for name in ("bin", "skills"):
        shutil.copytree(ROOT / name, made.path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return made


@pytest.fixture(scope="module")
def skill(project: Project) -> Skill:
    return next(skill for skill in catalog_of(project.path).skills if skill.name == "oncall-triage")


@pytest.fixture(scope="module")
def reference(project: Project) -> bytes:
    """The report of the calls in the order that the skill asks for."""
    replies = [reply(*(call(name, *CALLS[name]) for name in list(CALLS)[:4])), reply(call("search-logs", *SOURCE)),
               reply(call("write-report")), finish(ANSWER)]  # fmt: skip
    assert project.run(replies, name="oncall-triage").stop.name == "passed"
    return (project.path / "triage-report.md").read_bytes()


def proposals(graph: Graph, seed: int) -> tuple[list[str], int]:
    """Every call in a shuffled order, the refused ones again in another, until all ran; and how many are refused."""
    chance, done, said = random.Random(seed), list[str](), list[str]()
    while len(done) < len(CALLS):
        left = [name for name in CALLS if name not in done]
        for name in chance.sample(left, len(left)):
            said.append(name)
            if all(need.name in done for need in graph.needs(name)):
                done.append(name)
    return said, len(said) - len(done)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_proposals_gives_the_same_report(
    project: Project, skill: Skill, reference: bytes, seed: int
) -> None:
    said, refused = proposals(skill.graph, seed)
    replies = [reply(call(name, *CALLS[name])) for name in said]
    ran = project.run([*replies, finish(ANSWER)], name="oncall-triage", budget="turns=100 calls=100")
    assert ran.stop.name == "passed", ran.end.get("error")
    assert ran.codes().count("NOT_RELEASED") == refused
    order = [e["data"]["tool"] for e in ran.of("tool.start") if e["data"].get("role") != "verify"]
    assert sorted(order) == sorted(CALLS)
    for name in order:
        assert all(order.index(need.name) < order.index(name) for need in skill.graph.needs(name))
    assert (project.path / "triage-report.md").read_bytes() == reference
