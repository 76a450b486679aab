"""Where skills are found, which of several holds, and which one a name means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from skill_files import catalog_of, codes, make_skill

from harness.errors import HarnessError
from harness.skills.discovery import Catalog, find_project, package_folder, read_catalog
from harness.skills.names import find


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def said(catalog: Catalog) -> list[tuple[str, str]]:
    return [(finding.code, finding.file) for finding in catalog.findings]


def names(catalog: Catalog) -> list[str]:
    return [skill.name for skill in catalog.skills]


def test_the_project_is_marked_by_harness_then_by_git(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_project(deep) == deep
    (tmp_path / "a" / "b" / ".git").write_text("gitdir: x")
    assert find_project(deep) == tmp_path / "a" / "b"
    (tmp_path / "a" / ".harness").mkdir()
    assert find_project(deep) == tmp_path / "a"


def test_places_come_in_order_and_the_first_wins(tmp_path: Path, project: Path) -> None:
    home, other, package = tmp_path / "home", tmp_path / "other", tmp_path / "package"
    places = [(project, p) for p in ("skills", ".harness/skills", ".agents/skills", ".claude/skills")]
    places += [(other, "skills"), (home, ".agents/skills"), (home, ".claude/skills"), (package, "skills")]
    files = [make_skill(folder, "same", place=place) for folder, place in places]
    catalog = read_catalog(project, home, [other], package)
    assert [skill.file for skill in [*catalog.skills, *catalog.shadowed]] == files
    assert [root.origin for root in catalog.roots] == ["project"] * 4 + ["config", "user", "user", "package"]
    assert [root.bin is not None for root in catalog.roots] == [True, True, False, False, True, False, False, True]
    assert codes(catalog.findings) == ["shadowed"] * 7
    assert ".claude/skills/same/SKILL.md" in catalog.findings[1].file
    assert "skills/same/SKILL.md" in catalog.findings[0].message


def test_a_refused_skill_still_shadows(tmp_path: Path, project: Path) -> None:
    (project / "skills" / "s").mkdir(parents=True)
    (project / "skills" / "s" / "SKILL.md").write_text("no front matter")
    make_skill(tmp_path / "package", "s")
    catalog = read_catalog(project, tmp_path / "home", (), tmp_path / "package")
    assert find(catalog, "s").refused and codes(catalog.findings) == ["shadowed"]


def test_exported_skills_are_skipped_in_silence(project: Path) -> None:
    make_skill(project, "s", place=".claude/skills", front="metadata:\n  harness-export: abc")
    catalog = catalog_of(project)
    assert names(catalog) == [] and catalog.findings == []


def test_folders_that_are_not_entered(project: Path) -> None:
    for folder in ("a", "team/b", "a/inner", "1/2/3/4/5/six", ".hidden/c", "node_modules/d", "venv/e", "build/f"):
        make_skill(project, folder)
    for folder in ("a/scripts/g", "a/evals/h", "1/2/3/4/5/6/seven"):
        make_skill(project, folder)
    make_skill(project, "scripts/kept")
    assert sorted(names(catalog_of(project))) == ["a", "b", "inner", "kept", "six"]


def test_too_many_folders(project: Path) -> None:
    for number in range(2001):
        (project / "skills" / f"f{number:04}").mkdir(parents=True)
    make_skill(project, "f1999")
    make_skill(project, "f2000")
    catalog = catalog_of(project)
    assert names(catalog) == ["f1999"] and said(catalog) == [("too-many-folders", "skills")]


def test_a_skill_beside_the_folders(project: Path) -> None:
    (project / "skills").mkdir()
    for name in ("SKILL.md", "flat.md"):
        (project / "skills" / name).write_text("---\nname: x\n---\n")
    (project / "skills" / "README.md").write_text("# Skills\n")
    assert said(catalog_of(project)) == [("skill-at-root", "skills/SKILL.md"), ("skill-at-root", "skills/flat.md")]


def test_another_spelling_of_the_file(project: Path) -> None:
    path = make_skill(project, "s")
    path.rename(path.with_name("Skill.MD"))
    assert codes(find(catalog_of(project), "s").findings) == ["file-case"]
    path.with_name("skill.md").write_text("---\nname: s\ndescription: D\n---\nbody\n")
    assert find(catalog_of(project), "s").findings == ()


def test_links_between_places_are_other_names(project: Path) -> None:
    make_skill(project, "real", place=".claude/skills")
    (project / "skills").mkdir()
    (project / "skills" / "alias").symlink_to("../.claude/skills/real")
    (project / ".agents").mkdir()
    (project / ".agents" / "skills").symlink_to("../.claude/skills")
    catalog = catalog_of(project)
    assert names(catalog) == ["real"] and catalog.skills[0].aliases == ("alias",)
    assert said(catalog) == [("linked-duplicate", "skills/alias")]


def test_a_link_to_a_folder_elsewhere_in_the_project_is_a_skill_of_its_name(project: Path) -> None:
    make_skill(project, "lib", place="else")
    (project / "skills").mkdir()
    for name in ("one", "two"):
        (project / "skills" / name).symlink_to("../else/lib")
    (project / "skills" / "loop").symlink_to("..")
    (project / "skills" / "gone").symlink_to("nowhere")
    catalog = catalog_of(project)
    assert names(catalog) == ["one"] and find(catalog, "two").name == "one"
    assert said(catalog) == [("broken-link", "skills/gone"), ("linked-duplicate", "skills/two")]


def test_links_out_of_the_project_are_refused_and_home_may_have_them(tmp_path: Path, project: Path) -> None:
    make_skill(tmp_path, "out", place="elsewhere")
    home = tmp_path / "home"
    for folder in (project / "skills", home / ".claude" / "skills"):
        folder.mkdir(parents=True)
    (home / ".claude" / "skills" / "mine").symlink_to(tmp_path / "elsewhere" / "out")
    catalog = read_catalog(project, home, (), tmp_path / "package")
    assert names(catalog) == ["mine"] and not catalog.skills[0].refused
    (project / "skills" / "bad").symlink_to(tmp_path / "elsewhere" / "out")
    refused = find(read_catalog(project, home, (), tmp_path / "package"), "bad").refused
    assert refused and refused.code == "link-outside"


@pytest.mark.parametrize("target", ["/etc/hosts", "../../secret.txt", "../other"])
def test_a_link_that_leads_out_of_a_skill_refuses_it(project: Path, target: str) -> None:
    folder = make_skill(project, "s").parent / "references"
    folder.mkdir()
    (folder / "link").symlink_to(target)
    skill = find(catalog_of(project), "s")
    if target == "../other":
        assert skill.refused is None
    else:
        assert skill.refused and skill.refused.code == "link-outside"


def test_files_that_cannot_be_read_are_findings(project: Path) -> None:
    folder = project / "skills" / "pipe"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "SKILL.md")
    other = project / "skills" / "link"
    other.mkdir()
    (other / "SKILL.md").symlink_to("nothing")
    (project / "skills" / "folder" / "SKILL.md").mkdir(parents=True)
    catalog = catalog_of(project)
    assert {skill.name: skill.refused and skill.refused.code for skill in catalog.skills} == {
        "pipe": "unreadable",
        "link": "unreadable",
    }


def test_odd_folder_names_stay_on_one_line(project: Path) -> None:
    make_skill(project, "a\nb\x1b[31m")
    skill = catalog_of(project).skills[0]
    assert skill.shown == r"skills/a\nb\x1b[31m/SKILL.md" and "\n" not in skill.name
    if os.name == "posix":
        folder = os.path.join(os.fsencode(project), b"skills", b"\xff")
        os.mkdir(folder)  # noqa: PTH102
        Path(os.fsdecode(folder), "SKILL.md").write_text("---\ndescription: D\n---\nbody\n")
        [found.shown.encode() for found in catalog_of(project).skills]


def test_names_step_by_step(project: Path) -> None:
    make_skill(project, "one", "name: Two Words")
    make_skill(project, "two", "name: one")
    make_skill(project, "a/same", "name: same")
    make_skill(project, "b/same", "name: same")
    make_skill(project, "x1", "name: shared")
    make_skill(project, "x2", "name: shared")
    catalog = catalog_of(project)
    assert find(catalog, "one").folder.name == "one"
    assert find(catalog, "Two Words") is find(catalog, "two-words") is find(catalog, "one")
    assert find(catalog, "skills/a/same", project).folder == project / "skills" / "a" / "same"
    for name in ("same", "shared"):
        with pytest.raises(HarnessError) as raised:
            find(catalog, name)
        assert raised.value.exit_code == 2 and raised.value.message.count("SKILL.md") == 2


def test_an_unknown_name_names_the_nearest(project: Path) -> None:
    make_skill(project, "oncall-triage")
    with pytest.raises(HarnessError) as raised:
        find(catalog_of(project), "oncall-tirage")
    assert raised.value.exit_code == 2 and "oncall-triage" in raised.value.message
    assert raised.value.fix == "harness run oncall-triage" and raised.value.where == "looked in skills"


def test_paths(tmp_path: Path, project: Path) -> None:
    path = make_skill(tmp_path, "far", place="else/skills")
    make_skill(project, "draft", place=".harness/drafts")
    catalog = catalog_of(project)
    for name in (str(path), str(path.parent), "../else/skills/far"):
        skill = find(catalog, name, project)
        assert skill.file == path and skill.root.bin == tmp_path / "else" / "bin" and skill.root.origin == "path"
    for name in (".harness/drafts/draft", "./nothing"):
        with pytest.raises(HarnessError):
            find(catalog, name, project)
    with pytest.raises(HarnessError):
        find(catalog, "draft")


def test_more_skills_change_nothing_for_one(project: Path) -> None:
    make_skill(project, "s")
    before = find(catalog_of(project), "s")
    for number in range(1000):
        make_skill(project, f"more-{number}")
    catalog = catalog_of(project)
    assert find(catalog, "s") == before and len(catalog.skills) == 1001


def test_the_package_brings_its_own_pair() -> None:
    folder = package_folder()
    assert (folder / "harness").is_dir() or folder.name == "shipped"
