"""Irregular skill files: each shared case has the outcome its index names, with either YAML loader."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from skill_files import LOADERS, catalog_of, codes, copy_cases, use_loader

from harness.skills.check import check_skill
from harness.skills.discovery import Catalog
from harness.skills.names import find


@pytest.fixture(params=LOADERS)
def catalog(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    project = tmp_path / "project"
    copy_cases(project)
    use_loader(monkeypatch, request.param)
    return catalog_of(project)


def outcomes(catalog: Catalog) -> dict[str, str]:
    text = (catalog.project / "skills" / "INDEX.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0]: row[2] for row in rows[2:]}


def outcome(catalog: Catalog, folder: str) -> str:
    """The outcome in the index's words."""
    path = catalog.project / "skills" / folder
    if path.is_symlink():
        about = [finding for finding in catalog.findings if finding.file == f"skills/{folder}"]
        return f"alias, warn {' '.join(codes(about))}"
    skill = next(skill for skill in catalog.skills if skill.folder == path)
    findings = check_skill(catalog, skill)
    if skill.refused:
        assert codes(findings, "refused", "error", "warning") == [skill.refused.code]
        return f"refuse {skill.refused.code}"
    assert codes(findings, "error") == []
    warned = codes(findings, "warning")
    return f"load, warn {' '.join(warned)}" if warned else "load"


def test_every_case_has_the_outcome_of_the_index(catalog: Catalog) -> None:
    wanted = outcomes(catalog)
    assert len(wanted) > 30
    assert {folder: outcome(catalog, folder) for folder in wanted} == wanted


def test_the_records_are_the_same_with_either_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    copy_cases(project)
    records = []
    for loader in LOADERS:
        use_loader(monkeypatch, loader)
        catalog = catalog_of(project)
        records.append([(skill, check_skill(catalog, skill, strict=True)) for skill in catalog.skills])
    assert records[0] == records[1]


def test_ok_plain_has_no_finding_at_all(catalog: Catalog) -> None:
    skill = find(catalog, "ok-plain")
    assert check_skill(catalog, skill, strict=True) == []
    assert skill.allowed == ("count-lines", "show-total")


def test_the_link_runs_the_skill_it_leads_to(catalog: Catalog) -> None:
    assert find(catalog, "linked-skill") is find(catalog, "ok-plain")


def test_a_colon_in_a_description_stays(catalog: Catalog) -> None:
    assert find(catalog, "unquoted-colon").description == "Tidy a shopping list. Use when: the user pastes items"


def test_foreign_metadata_is_kept_untouched(catalog: Catalog) -> None:
    assert find(catalog, "json-metadata").fields["metadata"] == {"acme": {"icon": "x", "requires": {"bins": ["wc"]}}}
    assert find(catalog, "nested-metadata").fields["metadata"] == {"acme": {"requires": {"bins": ["wc"]}}}


def test_unknown_keys_are_notes_and_stay_text(catalog: Catalog) -> None:
    skill = find(catalog, "extra-keys")
    assert codes(check_skill(catalog, skill)) == ["unknown-key"] * 4
    assert skill.fields["version"] == "1.10"
    assert codes(check_skill(catalog, find(catalog, "alias-bomb")), "note") == ["unknown-key"] * 3


def test_line_ends_are_gone(catalog: Catalog) -> None:
    skill = find(catalog, "crlf-lines")
    assert "\r" not in repr(skill)
    assert skill.body == "\nRun `count-lines`.\n"


def test_messages_name_the_line(catalog: Catalog) -> None:
    refused = {name: find(catalog, name).refused for name in ("never-closed", "latin-one", "tools-map")}
    assert refused["never-closed"] and "line 1" in refused["never-closed"].message
    assert refused["latin-one"] and refused["latin-one"].line == 3 and "line 3" in refused["latin-one"].message
    assert refused["tools-map"] and "text or a list" in refused["tools-map"].message


def test_markers_end_where_they_should(catalog: Catalog) -> None:
    assert find(catalog, "five-dashes").body == "\nRun `sort-names`.\n"
    assert find(catalog, "dashes-in-value").description == "Split a file at --- marks. Use for log files."
    assert find(catalog, "blank-line-first").lines == {"name": 4, "description": 5}


def test_names_and_descriptions(catalog: Catalog) -> None:
    other = find(catalog, "other-folder-name")
    assert find(catalog, "a-different-name") is other
    assert find(catalog, "8004") is find(catalog, "numeric-name")
    assert find(catalog, "no-description").description == "Finds one entry by number."
    assert len(find(catalog, "long-description").description) > 1024
    assert find(catalog, "duplicate-key").description == "A second description that wins silently."


def test_tools_in_other_forms(catalog: Catalog) -> None:
    comma = find(catalog, "tools-comma")
    assert (comma.allowed, comma.foreign) == (("count-lines", "show-total"), ("Bash(git log:*)",))
    assert codes(check_skill(catalog, comma)) == ["unavailable-tool"]
    assert find(catalog, "tools-list").allowed == ("count-lines", "show-total")


@pytest.mark.parametrize(
    "folder",
    ["lower-case-file", "json-metadata", "nested-metadata", "trailing-blank-marker", "dashes-in-value", "tools-list"],
)
def test_strict_says_what_other_clients_cannot_read(catalog: Catalog, folder: str) -> None:
    skill = find(catalog, folder)
    assert set(codes(check_skill(catalog, skill, strict=True), "error")) == {"not-portable"}
    assert not re.search("not-portable", str(check_skill(catalog, skill)))
