"""The person's own roots and names hold in a cage, too: what is read, written, protected, hidden and let loose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cage_world import NO_BWRAP, Caged, last, level, make, needs_full, needs_landlock, printed
from tests.loop_world import call

TRY = """
import json, sys
def tried(path, mode):
    try:
        with open(path, mode) as file:
            return file.read() if mode == "r" else str(file.write("new"))
    except OSError as error:
        return type(error).__name__
print(json.dumps([tried(word.removeprefix("at:"), sys.argv[1]) for word in sys.argv[2:]]))
"""
HEAD = "@arg mode!  r or a\n@arg words+  at:PATH, which nobody takes for a path\n@meta effect {effect}"
BOTH = [pytest.param("landlock", marks=needs_landlock), pytest.param("full", marks=needs_full)]


@pytest.fixture(params=BOTH)
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    made = make(tmp_path, monkeypatch)
    if request.param == "landlock":
        made.machine = NO_BWRAP
    made.sandbox = request.param
    for name in ("src/in.txt", "out/in.txt", "top.txt", "infra/in.txt", "a/key.pem"):
        made.file(name, name)
    made.python("peek", TRY, HEAD.format(effect="read"))
    made.python("poke", TRY, HEAD.format(effect="write"))
    return made


def tried(project: Caged, tool: str, *paths: object) -> list[str]:
    ran = project.one(tool, "r" if tool == "peek" else "a", *(f"at:{path}" for path in paths))
    assert level(ran) == project.sandbox
    found: list[str] = json.loads(printed(ran))
    return found


def test_more_roots_can_be_read_and_written(project: Caged) -> None:
    data, away = project.home / "data" / "in.txt", project.home / "away"
    data.parent.mkdir()
    away.mkdir()
    data.write_text("data")
    assert tried(project, "peek", data)[0] in ("PermissionError", "FileNotFoundError")
    project.policy("paths: {read: [., ~/data], write: [., ~/away]}")
    assert tried(project, "peek", data, "top.txt") == ["data", "top.txt"]
    assert tried(project, "poke", away / "new", "top.txt") == ["3", "3"]


def test_fewer_roots_are_all_there_is(project: Caged) -> None:
    project.policy("paths: {read: [src, out], write: [out]}")
    found = tried(project, "peek", "src/in.txt", "top.txt", "infra/in.txt")
    assert found[0] == "src/in.txt" and set(found[1:]) <= {"PermissionError", "FileNotFoundError"}
    found = tried(project, "poke", "out/in.txt", "top.txt", "src/in.txt")
    assert found[0] == "3" and set(found[1:]) <= {"PermissionError", "OSError", "FileNotFoundError"}
    assert (project.path / "top.txt").read_text() == "top.txt"


def test_the_persons_own_names_are_protected_and_hidden(project: Caged) -> None:
    project.policy("paths: {protect: [infra, src/in.txt], hide: ['*.pem', out]}")
    found = tried(project, "peek", "a/key.pem", "out/in.txt", "top.txt")
    assert found[2] == "top.txt" and set(found[:2]) <= {"PermissionError", "FileNotFoundError", "OSError"}
    ran = project.one("poke", "a", "at:infra/in.txt", "at:src/in.txt", "at:infra/new", "at:top.txt")
    assert (project.path / "infra" / "in.txt").read_text() == "infra/in.txt"
    assert (project.path / "src" / "in.txt").read_text() == "src/in.txt"
    assert not (project.path / "infra" / "new").exists()
    assert (project.path / "top.txt").read_text() == "top.txtnew"
    if project.sandbox == "landlock":
        assert last(ran)["class"] == "DENIED"
        assert sorted(last(ran)["undone"]) == ["infra/in.txt", "infra/new", "src/in.txt"]


def test_a_tool_that_may_write_git_does_and_another_does_not(project: Caged) -> None:
    (project.path / ".git" / "hooks").mkdir(parents=True)
    body = "import sys; open('.git/hooks/' + sys.argv[1].removeprefix('x'), 'w').write('x')"
    for name in ("stage", "other"):
        project.python(name, body, "@arg name  which\n@meta effect write\n@meta writes .git")
    project.python("sly", body, "@arg name  which\n@meta effect write")
    project.policy("paths: {unprotect: {stage: [.git], sly: [.git]}}")
    ran = project.calls(call("stage", "xone"))
    assert (last(ran)["class"], (project.path / ".git" / "hooks" / "one").exists()) == ("OK", True)
    assert project.calls(call("other", "xtwo")).codes() == ["DENIED"]
    ran = project.calls(call("sly", "xthree"))
    assert last(ran)["class"] in ("FAILED", "DENIED")
    assert [path.name for path in (project.path / ".git" / "hooks").iterdir()] == ["one"]


def test_drafts_are_the_one_place_below_a_protected_name(project: Caged) -> None:
    (project.path / ".harness" / "drafts" / "s").mkdir(parents=True)
    assert tried(project, "poke", ".harness/drafts/s/SKILL.md") == ["3"]
    project.one("poke", "a", "at:.harness/policy.yaml", "at:.harness/drafts/.git")
    assert not (project.path / ".harness" / "policy.yaml").exists()
