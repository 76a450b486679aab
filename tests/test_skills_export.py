"""A skill for another agent: written from ours, never found as one, refreshed only by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.skills.check import check_skill
from harness.skills.export import export_skill
from tests.skill_files import catalog_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "late-batch"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        '---\nname: late-batch\ndescription: "Finds: why \\"late\\". Use it then."\nallowed-tools: look\n---\nDo.\n'
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "look").write_text("#!/bin/sh\n# @describe Look\n# @meta effect read\necho ok\n")
    (tmp_path / "bin" / "look").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("client", "place"), [("claude", ".claude"), ("codex", ".agents")])
def test_an_export_names_the_commands_and_is_no_skill_of_ours(project: Path, client: str, place: str) -> None:
    (skill,) = catalog_of(project).named("late-batch")
    path = export_skill(project, client, skill)
    assert path == project / place / "skills" / "late-batch" / "SKILL.md"
    text = path.read_text()
    assert len(text.splitlines()) < 30
    for part in ("name: late-batch", 'harness run late-batch "GOAL" --agent', "harness step ID", "harness finish ID"):
        assert part in text
    found = catalog_of(project)
    assert [one.folder for one in found.named("late-batch")] == [project / "skills" / "late-batch"]
    assert not found.shadowed


def test_an_export_names_the_inputs(project: Path) -> None:
    file = project / "skills" / "late-batch" / "SKILL.md"
    inputs = "metadata:\n  inputs: |\n    logs! <PATH> the logs\n    service the service\n"
    file.write_text(file.read_text().replace("allowed-tools", f"{inputs}allowed-tools"))
    (skill,) = catalog_of(project).named("late-batch")
    text = export_skill(project, "claude", skill).read_text()
    assert "Inputs:\n   `-i logs=PATH` (required), `-i service=VALUE`.\n" in text and len(text.splitlines()) < 30


def test_an_export_is_written_again_and_a_stale_one_is_told(project: Path) -> None:
    (skill,) = catalog_of(project).named("late-batch")
    path = export_skill(project, "claude", skill)
    assert "stale-export" not in [f.code for f in check_skill(catalog_of(project), skill)]
    with skill.file.open("a") as file:
        file.write("And more.\n")
    (skill,) = catalog_of(project).named("late-batch")
    (stale,) = [f for f in check_skill(catalog_of(project), skill) if f.code == "stale-export"]
    assert stale.file == ".claude/skills/late-batch/SKILL.md" and stale.fix == "harness skills export claude late-batch"
    before = path.read_text()
    export_skill(project, "claude", skill)
    assert path.read_text() != before
    assert "stale-export" not in [f.code for f in check_skill(catalog_of(project), skill)]


@pytest.mark.parametrize("is_old", [False, True])
def test_an_export_that_was_changed_by_hand_is_replaced_by_force_only(project: Path, is_old: bool) -> None:
    (skill,) = catalog_of(project).named("late-batch")
    path = export_skill(project, "claude", skill)
    written = path.read_text()
    assert export_skill(project, "claude", skill).read_text() == written
    mine = written.replace("Work through", "Ask me first. Work through")
    if is_old:  # from before an export kept a digest of its own text
        mine = "".join(line for line in mine.splitlines(keepends=True) if "export-text" not in line)
    path.write_text(mine)
    with pytest.raises(HarnessError, match="was changed by hand") as error:
        export_skill(project, "claude", skill)
    assert "--force" in error.value.fix and path.read_text() == mine
    assert export_skill(project, "claude", skill, force=True).read_text() == written


def test_a_file_that_is_no_export_stays(project: Path) -> None:
    (skill,) = catalog_of(project).named("late-batch")
    path = project / ".claude" / "skills" / "late-batch" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: late-batch\ndescription: mine\n---\nMine.\n")
    with pytest.raises(HarnessError, match="was not written by export"):
        export_skill(project, "claude", skill)
    assert "Mine." in path.read_text()
    with pytest.raises(HarnessError, match="near: claude"):
        export_skill(project, "claud", skill)
