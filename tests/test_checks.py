"""What only running tells: `tools check --exec` and the samples of verifiers. Real processes, really confined."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from caged import lacking

from harness import checks
from harness.checks import Ground, ground_of, help_findings, verifier_findings
from harness.cli.entry import run
from harness.errors import Finding
from harness.events.io import IO
from harness.executor.proc import look, pids
from harness.executor.tree import prepare
from harness.policy.vouching import Trust
from harness.skills.check import resolve
from harness.skills.discovery import read_catalog
from harness.skills.names import find
from harness.tools import Tool
from harness.tools.discovery import read_bin
from tests.command import harness

ROOT = Path(__file__).resolve().parent.parent
CONFINED = not lacking("full") or not lacking("landlock")
pytestmark = pytest.mark.skipif(not CONFINED, reason="this machine confines nothing")
LEVELS = [
    pytest.param(level, marks=pytest.mark.skipif(bool(lacking(level)), reason=lacking(level)))
    for level in ("full", "landlock")
]
READ = "# @describe Looks\n# @meta effect read\n"
SKILL = "---\nname: s\ndescription: Does it.\nallowed-tools: look\nmetadata:\n  verify: {verify}\n---\nLook.\n"


class Counting(IO):
    """Counts what is started."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def spawn(self, argv: Any, *rest: Any, **more: Any) -> Any:
        self.started.append(" ".join(argv))
        return super().spawn(argv, *rest, **more)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".harness").mkdir()
    tool(tmp_path, "look", READ)
    return tmp_path


def own(project: Path) -> Trust:
    return Trust(own=(str(project),))


@pytest.fixture
def ground(project: Path) -> Ground:
    return replace(ground_of(project, trust=own(project)), io=Counting())


def started(ground: Ground) -> list[str]:
    assert isinstance(ground.io, Counting)
    return ground.io.started


def tool(project: Path, name: str, header: str, body: str = "exit 0") -> Tool:
    path = project / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{header}{body}\n")
    path.chmod(0o755)
    return read_bin(path.parent, project)[0][name]


def skill(project: Path, verify: str = "judge", **samples: str) -> Path:
    """A skill; `accept_a="text"` is the sample `evals/accept/a.md`."""
    folder = project / "skills" / "s"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(SKILL.format(verify=verify))
    for name, text in samples.items():
        kind, _, own = name.partition("_")
        (folder / "evals" / kind).mkdir(parents=True, exist_ok=True)
        (folder / "evals" / kind / f"{own}.md").write_text(text)
    return folder


def judged(ground: Ground) -> list[Finding]:
    catalog = read_catalog(ground.project, ground.project / "nobody", [])
    return verifier_findings(ground, resolve(catalog, find(catalog, "s")))


def codes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in findings]


def test_case_10_help_that_sleeps_or_fails_and_a_script_that_would_do_its_work(project: Path) -> None:
    tool(project, "slow", READ, "sleep 3")
    tool(project, "wrong", READ, "echo no such option >&2; exit 1")
    tool(project, "plain", "", f"touch {project}/was-here; touch was-here")
    done = harness("tools", "check", "--exec", "--json", cwd=project)
    found = {(one["file"], one["severity"], one["code"]): one for one in json.loads(done.stdout)}
    assert done.returncode == 1 and not (project / "was-here").exists()
    assert set(found) == {
        ("bin/slow", "error", "help-slow"), ("bin/wrong", "error", "help-failed"),
        ("bin/plain", "note", "help-not-run"), ("bin/plain", "note", "no-header"),
    }  # fmt: skip
    assert "exited 1: no such option" in found["bin/wrong", "error", "help-failed"]["message"]


def test_case_10_without_exec_no_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"touch {project}/was-here"
    tool(project, "wrong", READ, f"{body}; exit 1")
    harness("tools", "check", cwd=project)
    harness("tools", "show", "wrong", cwd=project)
    spy = Counting()
    monkeypatch.setattr(IO, "spawn", spy.spawn)
    monkeypatch.chdir(project)
    assert run(["tools", "check", "-q"]) == 0 and spy.started == [] and not (project / "was-here").exists()


@pytest.mark.parametrize("level", LEVELS)
def test_help_is_run_where_it_can_do_no_harm(project: Path, ground: Ground, level: str) -> None:
    (project / ".env").write_text("KEY=secret")
    tried = [
        f"if touch {project}/was-here; then exit 3; fi", f"if cat {project}/.env; then exit 4; fi",
        f"cat {project}/bin/look >/dev/null || exit 5", '[ -z "$(ls -A)" ] || exit 6', "touch mine || exit 7",
        '[ -z "$KEY" ] || exit 8', '[ "$*" = --help ] || exit 9',
    ]  # fmt: skip
    made = tool(project, "tries", "# @describe Sends\n# @meta effect external\n# @env KEY\n", "\n".join(tried))
    ground = replace(ground_of(project, trust=own(project)), level=level)  # type: ignore[arg-type]
    assert help_findings(ground, made) == [] and not (project / "was-here").exists()


def test_a_script_without_a_header_is_run_only_by_its_name(project: Path, ground: Ground) -> None:
    plain = tool(project, "plain", "", "exit 1")
    assert codes(help_findings(ground, plain)) == [("note", "help-not-run")] and started(ground) == []
    assert codes(help_findings(ground, plain, named=True)) == [("error", "help-failed")]
    assert harness("tools", "check", "--exec", "plain", cwd=project).returncode == 1


def test_without_confinement_only_what_reads_is_run(project: Path, ground: Ground) -> None:
    ground = replace(ground, level=None)
    assert help_findings(ground, tool(project, "look", READ)) == [] and len(started(ground)) == 1
    for effect in ("write", "external", "money", "destructive"):
        acts = tool(project, "acts", f"# @describe Acts\n# @meta effect {effect}\n")
        assert codes(help_findings(ground, acts)) == [("note", "help-not-run")]
    assert len(started(ground)) == 1


def test_nothing_of_a_project_without_trust_is_run(project: Path, ground: Ground) -> None:
    ground = replace(ground, trust=Trust())
    tool(project, "judge", READ)
    skill(project, reject_bad="x")
    assert codes(help_findings(ground, tool(project, "look", READ))) == [("note", "help-not-run")]
    assert codes(judged(ground)) == [("note", "verifier-not-run")] and started(ground) == []


def test_what_is_broken_or_a_pipeline_is_not_run(project: Path, ground: Ground) -> None:
    broken = tool(project, "broken", "# @meta effect raed\n")
    assert codes(help_findings(ground, broken, named=True)) == [("note", "help-not-run")]
    path = project / "bin" / "chain"
    path.write_text("#!/usr/bin/env -S harness pipeline\n# @describe Both\nstages:\n  a: {run: [look]}\n")
    path.chmod(0o755)
    assert help_findings(ground, read_bin(path.parent, project)[0]["chain"]) == [] and started(ground) == []


def test_case_18_a_verifier_that_accepts_everything(project: Path) -> None:
    tool(project, "judge", READ)
    skill(project, accept_good="fine", reject_bad="x", reject_worse="y")
    done = harness("skills", "check", cwd=project)
    line = next(line for line in done.stdout.splitlines() if "verifier-accepts " in line)
    assert done.returncode == 1 and line.startswith("skills/s/SKILL.md:6: error verifier-accepts judge")
    assert "accepts everything" in line and "evals/reject/bad.md, evals/reject/worse.md" in line
    assert harness("skills", "check", "--static", cwd=project).returncode == 0


def test_a_rejected_accept_sample_is_named_with_the_reason(project: Path, ground: Ground) -> None:
    tool(project, "judge", READ, "grep -q fine || { echo not fine; exit 1; }")
    skill(project, accept_good="fine", accept_other="well", reject_bad="x")
    (found,) = judged(ground)
    assert (found.severity, found.code) == ("error", "verifier-rejects")
    assert "evals/accept/other.md" in found.message and "exited 1: not fine" in found.message


def test_an_accepted_reject_sample_is_named(project: Path, ground: Ground) -> None:
    tool(project, "judge", READ, "grep -q fine || exit 1")
    skill(project, reject_bad="x", reject_sly="not so fine")
    (found,) = judged(ground)
    assert found.code == "verifier-accepts" and "evals/reject/sly.md" in found.message
    assert "everything" not in found.message and "bad.md" not in found.message


def test_the_empty_answer_is_tried_and_a_missing_reject_sample_said(project: Path, ground: Ground) -> None:
    tool(project, "judge", READ)
    skill(project)
    assert codes(judged(ground)) == [("warning", "verifier-accepts-empty"), ("warning", "verifier-untested")]
    assert len(started(ground)) == 1
    assert harness("skills", "check", cwd=project).returncode == 0
    assert harness("skills", "check", "--strict", cwd=project).returncode == 1


@pytest.mark.parametrize("end", ["exit 10", "exit 3", "sleep 60"])
def test_a_question_and_a_broken_verifier_are_no_verdict(
    project: Path, ground: Ground, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in end:
        monkeypatch.setattr(checks, "SAMPLE_SECONDS", 0.3)
    tool(project, "judge", READ, end)
    skill(project, accept_good="fine", reject_bad="x")
    found = judged(ground)
    assert codes(found) == [("error", "verifier-rejects"), ("error", "verifier-accepts")]
    how = "took too long" if "sleep" in end else end.replace("exit", "exited")
    assert all(how in one.message for one in found)


def test_all_verifiers_must_accept_and_one_must_reject(project: Path, ground: Ground) -> None:
    tool(project, "short", f"{READ}# @option --most <INT>\n", '[ "$(wc -c)" -lt "$2" ]')
    tool(project, "fine", READ, "grep -q fine || exit 1")
    verify = "|\n    short --most=9\n    fine"
    skill(project, verify, accept_good="fine", reject_long="fine" * 9, reject_bad="x")
    assert judged(ground) == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_verifier_judges_a_copy_and_changes_nothing(project: Path, level: str, effect: str) -> None:
    """A folder is a workspace; one that only reads cannot write there, one that writes does so in a copy."""
    writes = {"read": "touch new && exit 3", "write": "touch new || exit 3"}[effect]
    tool(project, "judge", f"# @describe Judges\n# @meta effect {effect}\n", "\n".join([
        writes, f"touch {project}/skills/s/new {project}/new && exit 4", '[ "$(cat)" = "see it" ] || exit 1',
        '[ "$(cat "$HARNESS_ANSWER")" = "see it" ] || exit 5', '[ "$(cat data/rows)" = 3 ] || exit 6',
        '[ -d "$HARNESS_RUN" ] || exit 7',
    ]))  # fmt: skip
    folder = skill(project, reject_bad="x") / "evals" / "accept" / "whole"
    (folder / "data").mkdir(parents=True)
    (folder / "answer.md").write_text("see it")
    (folder / "data" / "rows").write_text("3")
    before = sorted(project.rglob("*"))
    assert judged(replace(ground_of(project, trust=own(project)), level=level)) == []  # type: ignore[arg-type]
    assert sorted(project.rglob("*")) == before


def test_a_folder_without_an_answer_is_an_error(project: Path, ground: Ground) -> None:
    tool(project, "judge", READ, "exit 1")
    (skill(project, reject_bad="x") / "evals" / "reject" / "whole").mkdir()
    (found,) = judged(ground)
    assert found.code == "unreadable" and "evals/reject/whole" in found.message and "answer.md" in found.fix


@pytest.mark.parametrize(
    ("header", "verify", "word"),
    [(f"{READ}# @env KEY!\n", "judge", "KEY"), (f"{READ}# @option --most <INT>\n", "judge --mots 3", "--mots")],
)
def test_a_verifier_that_samples_cannot_try_is_not_run(
    project: Path, ground: Ground, header: str, verify: str, word: str
) -> None:
    tool(project, "judge", header)
    skill(project, verify, reject_bad="x")
    (found,) = judged(ground)
    assert (found.severity, found.code) == ("note", "verifier-not-run") and word in found.message
    assert started(ground) == []


def test_without_confinement_no_verifier_is_run(project: Path, ground: Ground) -> None:
    tool(project, "judge", READ)
    skill(project, reject_bad="x")
    ground = replace(ground, level=None)
    assert codes(judged(ground)) == [("note", "verifier-not-run")] and started(ground) == []


def test_a_missing_or_broken_verifier_is_said_once(project: Path, ground: Ground) -> None:
    skill(project, reject_bad="x")
    assert judged(ground) == [] and "verify-missing" in harness("skills", "check", cwd=project).stdout
    tool(project, "judge", "")
    assert judged(ground) == [] and "verify-effect" in harness("skills", "check", cwd=project).stdout
    assert started(ground) == []


def test_what_is_shipped_passes() -> None:
    ground = replace(ground_of(ROOT), io=Counting())
    tools = read_bin(ROOT / "bin", ROOT)[0].values()
    assert [one for made in tools for one in help_findings(ground, made)] == []
    assert len(started(ground)) == len([made for made in tools if not made.pipeline])
    catalog = read_catalog(ROOT, ROOT / "nobody", [])
    assert verifier_findings(ground, resolve(catalog, find(catalog, "oncall-triage"))) == []


def test_nothing_is_left_behind_for_whoever_called(project: Path) -> None:
    """This process adopts what its descendants lose."""
    tool(project, "judge", READ, "exit 1")
    skill(project, reject_bad="x")
    assert prepare()
    before = dead_children()
    assert harness("skills", "check", cwd=project).returncode == 0
    assert harness("tools", "check", "--exec", cwd=project).returncode == 1
    assert dead_children() <= before


def dead_children() -> set[int]:
    found = [one for pid in pids() if (one := look(pid)) and one.parent == os.getpid()]
    return {one.pid for one in found if one.state == "Z"}
