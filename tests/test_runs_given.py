"""What a run is given beside its task: a trusted project's own words, the files of `--context`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.policy.vouching import Trust
from harness.prompt import provider_body
from harness.runs import session as sessions
from harness.runs.composing import requests
from harness.runs.flags import Options
from tests.command import events, harness, newest
from tests.loop_world import Project, Ran, call, finish, reply
from tests.run_files import calls, make_project, script
from tests.run_files import finish as says
from tests.skill_files import catalog_of

OWN = Trust(own=("/",))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    project.facts = {"trust": OWN}
    project.tool("look", "echo looked")
    project.skill(tools="look")
    return project


def first_turn(ran: Ran, project: Project) -> str:
    """The first turn of the newest context of a run, composed from its files; it is what was sent."""
    found = list(requests(ran.folder, catalog_of(project.path)))
    assert found and all(request.prompt.body.startswith(request.sent) for request in found)
    return "\n".join(found[-1].prompt.turns[0].texts)  # type: ignore[union-attr]


# Case 14: the words of a project that nobody trusts.
@pytest.mark.parametrize("trusted", [True, False])
def test_only_a_trusted_projects_own_words_reach_the_model(project: Project, trusted: bool) -> None:
    project.file("AGENTS.md", "Use British English.\n")
    project.facts = {"trust": OWN if trusted else Trust()}
    ran = project.run([finish()])
    assert ("Use British English." in first_turn(ran, project)) is trusted
    kept = {"path": "AGENTS.md", "text": "Use British English.\n", "bytes": 21}
    assert ran.events[0]["data"].get("project") == (kept if trusted else None)
    ids = [part[0].split("@")[0] for part in ran.of("model.start")[0]["data"]["parts"]]
    assert ids == ["policy", "protocol", "skill", *(["project"] if trusted else []), "task", "state"]


def test_ones_own_project_speaks_for_itself(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    (folder / "AGENTS.md").write_text("Use British English.\n")
    assert harness("run", "strict", "x", "-m", script(folder, calls(["look"]), says("so")), cwd=folder).returncode == 0
    assert events(newest(folder))[0]["data"]["project"]["text"] == "Use British English.\n"


def test_what_was_sent_is_composed_again_though_the_file_has_changed(project: Project) -> None:
    path = project.file("AGENTS.md", "first\n")
    ran = project.run([reply(call("look")), reply({"ask": {"question": "go on?"}})])
    path.write_text("second\n")
    assert "\nfirst\n" in first_turn(ran, project)
    project.say(ran.folder, "answer", text="yes")
    project.script([*[{"text": "x"}] * 2, finish("so")])
    project.facts = {"trust": Trust()}
    again = project.resume(ran.folder)
    assert again.stop.name == "passed"
    assert "\nfirst\n" in first_turn(again, project) and "second" not in first_turn(again, project)


def test_long_words_of_a_project_are_cut_at_a_line_end(project: Project) -> None:
    project.file("AGENTS.md", "".join(f"rule {n} of many\n" for n in range(1000)))
    start = project.run([finish()]).events[0]["data"]["project"]
    assert 4096 - 20 < len(start["text"]) <= 4096 and start["text"].endswith("many\n") and start["bytes"] == 16_890


@pytest.mark.parametrize("raw", [b"x" * 10_000, "é".encode() * 5_000, b"\xff\xfe" + b"caf\xe9\n" * 2000])
def test_one_long_line_and_bytes_that_are_no_text_are_cut_too(project: Project, raw: bytes) -> None:
    (project.path / "AGENTS.md").write_bytes(raw)
    ran = project.run([finish()])
    kept = ran.text(ran.events[0]["data"]["project"]["text"])
    assert 2000 < len(kept) <= 4096 and ran.stop.name == "passed"
    assert f"of {len(raw)} bytes" in first_turn(ran, project)


def test_claude_md_is_read_where_there_is_no_agents_md(project: Project) -> None:
    project.file("CLAUDE.md", "from Claude\n")
    assert "in CLAUDE.md" in first_turn(project.run([finish()]), project)
    project.file("AGENTS.md", "from agents\n")
    text = first_turn(project.run([finish()]), project)
    assert "from agents" in text and "from Claude" not in text


@pytest.mark.parametrize("kind", ["link out", "folder", "blank"])
def test_what_cannot_be_a_projects_own_words_is_none(project: Project, tmp_path_factory: Any, kind: str) -> None:
    path, outside = project.path / "AGENTS.md", tmp_path_factory.mktemp("out") / "secret"
    outside.write_text("a secret\n")
    if kind == "link out":
        path.symlink_to(outside)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text(" \n\n")
    project.file("CLAUDE.md", "from Claude\n")
    text = first_turn(project.run([finish()]), project)
    assert "secret" not in text and "from Claude" in text


def test_a_skill_can_do_without_the_projects_words(project: Project) -> None:
    project.file("AGENTS.md", "Use British English.\n")
    project.skill(tools="look", **{"agents-md": "off"})
    assert "British" not in first_turn(project.run([finish()]), project)


def test_a_worker_is_given_them_as_well_unless_its_skill_says_no(project: Project) -> None:
    project.file("AGENTS.md", "Use British English.\n")
    project.skill("with", tools="look")
    project.skill("without", tools="look", **{"agents-md": "off"})
    project.skill(tools="with without")
    ran = project.run([reply(call("with", "go"), call("without", "go")), finish()],
                      **{"with": [finish("a")], "without": [finish("b")]})  # fmt: skip
    assert ran.stop.name == "passed"
    starts = (events(folder, "run.start")[0]["data"] for folder in (ran.child(), ran.child(1)))
    assert {start["skill"]: "project" in start for start in starts} == {"with": True, "without": False}


# The files of --context.
def run_with(project: Project, *names: str) -> Ran:
    model = project.script([reply({"read": "docs/a.md"}), finish()])
    options = Options((model, "-m"), context=names)
    return project._drive(sessions.start_skill(project.world(), catalog_of(project.path), "demo", "go", {}, options))


def test_context_files_are_a_line_each_and_can_be_read(project: Project) -> None:
    project.file("docs/a.md", "all of a\n")
    project.file("b.txt", "b")
    project.facts = {"page_verdict": lambda path: "stale" if path.suffix == ".md" else ""}
    ran = run_with(project, "docs/a.md", "docs/../b.txt", "b.txt")
    text = first_turn(ran, project)
    mark = ran.events[0]["data"]["model"]["mark"]
    assert f"[{mark}] context: docs/a.md, 9 bytes, stale\n[{mark}] context: b.txt, 1 bytes\n[{mark}] callable:" in text
    assert ran.events[0]["data"]["context"] == [
        {"path": "docs/a.md", "bytes": 9, "verdict": "stale"}, {"path": "b.txt", "bytes": 1}]  # fmt: skip
    assert "all of a" not in text


@pytest.mark.parametrize(
    ("name", "why"),
    [("none.md", "No such file"), ("/etc/passwd", "outside the project"), ("../x", "outside"),
     ("docs", "no regular file"), (".env", ".env is never read"), ("out", "leads out"),
     ("skills/demo/evals/e.json", "evals")],
)  # fmt: skip
def test_a_context_file_that_no_run_may_read_is_refused_before_it_begins(
    project: Project, name: str, why: str
) -> None:
    for path in ("docs/a.md", ".env", "skills/demo/evals/e.json"):
        project.file(path, "x")
    (project.path / "out").symlink_to("/etc/hostname")
    with pytest.raises(HarnessError, match=why):
        run_with(project, name)
    assert not list((project.path / ".harness/runs").glob("2*"))


def test_at_most_ten_context_files(project: Project) -> None:
    names = [str(project.file(f"f{n}", "x").relative_to(project.path)) for n in range(11)]
    with pytest.raises(HarnessError, match="names 11 files; a run takes 10"):
        run_with(project, *names)


def test_context_on_the_command_line_is_meant_from_where_the_person_is(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    (folder / "docs").mkdir()
    (folder / "docs" / "plan.md").write_text("a plan\n")
    model = f"scripted:{folder / 'script.yaml'}"
    script(folder, calls(["look"]), says("so"))
    ran = harness("run", "-C", "docs", "strict", "x", "-m", model, "--context", "plan.md", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert events(newest(folder))[0]["data"]["context"] == [{"path": "docs/plan.md", "bytes": 7}]
    bad = harness("run", "strict", "x", "-m", model, "--context", "nope.md", cwd=folder)
    assert bad.returncode == 2 and "--context nope.md: No such file" in bad.stderr


def test_a_new_context_begins_with_them_again(project: Project) -> None:
    project.file("AGENTS.md", "Use British English.\n")
    project.file("b.txt", "b")
    project.tool("show", 'seq -f "line %g of $1" 1 300', head="@meta effect read\n@arg what!")
    project.skill(tools="show")
    project.facts = {"trust": OWN, "context": 9_000}
    model = project.script([*(reply(call("show", f"w{n}")) for n in range(12)), finish()])
    options = Options((model, "-m"), context=("b.txt",))
    ran = project._drive(sessions.start_skill(project.world(), catalog_of(project.path), "demo", "go", {}, options))
    assert ran.stop.name == "passed" and ran.of("context")
    text = first_turn(ran, project)
    assert "Use British English." in text and "context: b.txt, 1 bytes" in text and "new context" in text
    later = [e["data"]["parts"] for e in ran.of("model.start") if "parts" in e["data"]]
    assert len(later) > 1 and [part[:2] for part in later[-1][:6]] == [part[:2] for part in later[0][:6]]


def test_the_bytes_of_a_run_without_either_are_as_ever(project: Project) -> None:
    plain = next(requests(project.run([finish()]).folder, catalog_of(project.path))).prompt
    assert b"<project" not in provider_body(plain) and b"context:" not in provider_body(plain)
