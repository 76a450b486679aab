"""The record of what a person trusts: whose folder it is about, what has changed, what it must not be."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.events.io import IO
from harness.policy.pins import COPIED, copy_of, pin, skill_files
from harness.policy.trust import (
    Book,
    Entry,
    copies,
    fresh,
    read_book,
    record,
    standing,
    update,
    with_files,
    with_run,
)
from harness.policy.vouching import Scope, Trust, scope_of, shipped


class Person:
    """A state directory, and a folder to trust."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "home" / "shop"
        self.state = self.home / ".local" / "state" / "harness"
        (self.project / "bin").mkdir(parents=True)
        self.tool = self.project / "bin" / "look"
        self.tool.write_text("#!/bin/sh\necho looked\n")
        self.tool.chmod(0o755)

    @property
    def book(self) -> Book:
        return read_book(self.state, self.home)

    def keep(self, entry: Entry, seen: Mapping[Path, str] | None = None) -> None:
        update(self.state, self.home, IO(), lambda book: book.put(entry), seen or {})

    def trusts(self, key: str = "bin/look") -> dict[str, str]:
        files = {"bin/look": pin(self.tool)}
        entry = self.book.of(self.project) or fresh(self.project)
        self.keep(with_files(entry, key, files), {self.tool: files["bin/look"]})
        return files

    def refused(self) -> HarnessError:
        with pytest.raises(HarnessError) as caught:
            _ = self.book
        assert caught.value.exit_code == 2 and caught.value.fix and caught.value.where
        return caught.value


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_nothing_is_trusted_before_somebody_says_so(person: Person) -> None:
    assert person.book == Book() and not person.state.exists()
    assert standing(person.book.of(person.project), "bin/look", {"bin/look": pin(person.tool)}).word == "unknown"


def test_what_was_trusted_is_as_long_as_it_is_the_same(person: Person) -> None:
    files = person.trusts()
    entry = person.book.of(person.project)
    assert standing(entry, "bin/look", files).word == "trusted"
    person.tool.write_text("#!/bin/sh\necho other\n")
    found = standing(entry, "bin/look", {"bin/look": pin(person.tool)})
    assert (found.word, found.changed) == ("changed", ("bin/look",))


def test_a_file_that_came_or_went_is_a_change(person: Person) -> None:
    files = person.trusts()
    entry = person.book.of(person.project)
    assert standing(entry, "bin/look", {**files, "bin/new": "file 0"}).added == ("bin/new",)
    assert standing(entry, "bin/look", {}).removed == ("bin/look",)


def test_another_skill_over_the_same_tools_is_asked_about_as_new(person: Person) -> None:
    files = person.trusts()
    found = standing(person.book.of(person.project), "skills/x/SKILL.md", {**files, "skills/x/SKILL.md": "file 1"})
    assert found.word == "unknown"


def test_a_file_that_one_question_took_back_in_is_trusted_for_all(person: Person) -> None:
    person.trusts("skills/a/SKILL.md")
    person.trusts("skills/b/SKILL.md")
    person.tool.write_text("changed")
    files = person.trusts("skills/a/SKILL.md")
    assert standing(person.book.of(person.project), "skills/b/SKILL.md", files).word == "trusted"


def test_what_no_use_names_any_more_is_forgotten(person: Person) -> None:
    entry = with_files(fresh(person.project), "a", {"x": "file 1", "both": "file 2"})
    entry = with_files(with_files(entry, "b", {"both": "file 2"}), "a", {"y": "file 3"})
    assert dict(entry.files) == {"both": "file 2", "y": "file 3"}


def test_of_ones_own_work_nothing_is_pinned(person: Person) -> None:
    person.keep(replace(fresh(person.project), own=True))
    assert standing(person.book.of(person.project), "anything", {"bin/look": "program 1"}).word == "own"


def test_what_one_run_may_use_is_nothing_for_another(person: Person) -> None:
    files, runs = {"bin/look": pin(person.tool)}, person.project / ".harness" / "runs"
    (runs / "one").mkdir(parents=True)
    person.keep(with_run(fresh(person.project), "one", files, runs))
    entry = person.book.of(person.project)
    words = [standing(entry, "bin/look", files, run).word for run in ("one", "two", "")]
    assert words == ["once", "unknown", "unknown"]
    assert standing(entry, "bin/look", {"bin/look": "program 1"}, "one").word == "unknown"


@pytest.mark.parametrize("how", ["copied", "moved", "replaced"])
def test_trust_belongs_to_one_folder(person: Person, tmp_path: Path, how: str) -> None:
    person.trusts()
    other = tmp_path / "other"
    if how == "copied":
        shutil.copytree(person.project, other)
        assert person.book.of(other) is None and person.book.of(person.project) is not None
        return
    person.project.rename(other)
    if how == "replaced":
        shutil.copytree(other, person.project)
        assert person.book.of(person.project) is None
    assert person.book.of(other) is None


def test_a_link_to_a_trusted_folder_means_that_folder(person: Person, tmp_path: Path) -> None:
    person.trusts()
    (tmp_path / "link").symlink_to(person.project)
    assert person.book.of(tmp_path / "link") is not None


def test_the_record_is_the_persons_alone(person: Person) -> None:
    person.trusts()
    modes = [path.stat().st_mode & 0o777 for path in (person.state, record(person.state), copies(person.state))]
    assert modes == [0o700, 0o600, 0o700]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in copies(person.state).iterdir())


BROKEN = [
    "", "{", "[]", "null", '{"version": 2, "projects": []}', '{"version": 1}', '{"version": 1, "projects": [1]}',
    '{"version": 1, "projects": {}}x', '{"version": 1, "projects": [{"path": "/x"}]}', "\x00", "[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_damaged_record_trusts_nobody_and_says_so(person: Person, text: str) -> None:
    person.trusts()
    record(person.state).write_text(text)
    error = person.refused()
    assert "what is trusted cannot be read" in error.message and f"rm {record(person.state)}" in error.fix
    with pytest.raises(HarnessError):
        person.trusts()
    assert record(person.state).read_text() == text, "and nothing is written over it"


WRONG: list[tuple[str, object]] = [
    ("own", 1), ("own", "no"), ("inode", True), ("files", []), ("files", {"a": 1}), ("uses", []), ("uses", {"a": "b"}),
    ("path", None), ("runs", {"r": 1}), ("since", []),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_value_of_the_wrong_kind_is_damage(person: Person, key: str, value: object) -> None:
    person.trusts()
    whole = json.loads(record(person.state).read_bytes())
    whole["projects"][0][key] = value
    record(person.state).write_text(json.dumps(whole))
    person.refused()


@pytest.mark.parametrize("which", ["record", "state"])
def test_a_record_that_others_can_change_is_refused(person: Person, which: str) -> None:
    person.trusts()
    path = record(person.state) if which == "record" else person.state
    path.chmod(0o777)
    error = person.refused()
    assert error.where == str(path) and "by other users" in error.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_record_of_somebody_else_is_refused(person: Person) -> None:
    person.trusts()
    os.chown(record(person.state), 65534, 65534)
    assert "belongs to user 65534" in person.refused().message


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to nothing"])
def test_what_is_no_file_is_no_record(person: Person, kind: str) -> None:
    person.state.mkdir(parents=True, mode=0o700)
    path = record(person.state)
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir(mode=0o700)
    else:
        path.symlink_to("nothing")
    person.refused()


def test_a_state_directory_open_to_others_is_refused_with_the_command_that_closes_it(person: Person) -> None:
    person.trusts()
    person.state.chmod(0o755)
    assert person.refused().fix == f"run: chmod 700 {person.state}"


def test_changes_made_at_once_are_all_kept(person: Person, tmp_path: Path) -> None:
    folders = [tmp_path / f"p{n}" for n in range(8)]
    for folder in folders:
        folder.mkdir()
    threads = [threading.Thread(target=person.keep, args=(replace(fresh(folder), own=True),)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(person.book.of(folder) for folder in folders)


def test_copies_are_kept_of_what_is_pinned_and_forgotten_with_it(person: Person) -> None:
    files = person.trusts()
    assert copy_of(copies(person.state), files["bin/look"]) == person.tool.read_bytes()
    update(person.state, person.home, IO(), lambda book: book.without(str(person.project)))
    assert list(copies(person.state).iterdir()) == []


def test_a_copy_that_was_changed_is_none(person: Person) -> None:
    files = person.trusts()
    next(copies(person.state).iterdir()).write_text("other")
    assert copy_of(copies(person.state), files["bin/look"]) is None


def test_a_large_file_is_pinned_and_not_copied(person: Person) -> None:
    person.tool.write_bytes(b"x" * (COPIED + 1))
    assert copy_of(copies(person.state), person.trusts()["bin/look"]) is None


def test_a_pin_is_over_bytes_mode_and_the_text_of_a_link(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_text("same")
    seen = [pin(first)]
    first.chmod(0o755)
    seen.append(pin(first))
    link = tmp_path / "link"
    for target in ("first", "second", "nothing", "."):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        seen.append(pin(link))
    second.write_text("other")
    link.unlink()
    link.symlink_to("second")
    seen.append(pin(link))
    assert len(set(seen)) == len(seen)
    assert [word.split()[0] for word in seen[:3]] == ["file", "program", "link-to-program"]


def test_a_pipe_among_a_skills_files_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert pin(tmp_path / "pipe").startswith("special ")


def test_a_skills_files_are_all_but_what_git_and_the_harness_keep(tmp_path: Path) -> None:
    for name in ("SKILL.md", "scripts/a", "evals/accept/x.md", ".hidden/x", ".git/index", ".harness/runs/r/events"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "link").symlink_to("scripts")
    names = sorted(str(path.relative_to(tmp_path)) for path in skill_files(tmp_path))
    assert names == [".hidden/x", "SKILL.md", "evals/accept/x.md", "link", "scripts/a"]


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_cannot_be_trusted(person: Person) -> None:
    person.tool.chmod(0)
    with pytest.raises(HarnessError, match="cannot be read"):
        pin(person.tool)


def test_whose_a_file_is(tmp_path: Path) -> None:
    home, project, other, team = (tmp_path / name for name in ("home", "shop", "other", "team"))
    for folder in (project / ".git", other / ".git", other / "skills" / "x", team):
        folder.mkdir(parents=True)
    scope = scope_of(project, home, [str(team), str(project / "inside")])
    assert scope.owner(project / "bin" / "look") == project
    assert scope.owner(project / "inside" / "bin" / "look") == project
    assert scope.owner(other / "skills" / "x" / "SKILL.md") == other
    for spared in (home / ".claude/skills/x/SKILL.md", home / ".agents/skills/x/SKILL.md", team / "bin/look",
                   Path(shipped()[1]) / "triage"):  # fmt: skip
        assert scope.owner(spared) is None
    assert scope.owner(home / ".claude" / "skills" / ".." / ".." / "bin" / "x") is not None


def test_a_link_among_what_ships_to_something_else_is_no_part_of_it(tmp_path: Path) -> None:
    folder = Path(shipped()[1])
    (tmp_path / "bin").symlink_to(folder)
    assert Scope(tmp_path, shipped()).owner(tmp_path / "bin" / "triage") == tmp_path


def test_only_what_somebody_answered_for_may_act(tmp_path: Path) -> None:
    trust = Trust({str(tmp_path / "a"): "trusted", str(tmp_path / "b"): "once"}, own=(str(tmp_path / "mine"),))
    found = [trust.of(tmp_path / name) for name in ("a", "b", "c", "mine/x", "mine-too/x", "mine/../c")]
    assert found == ["trusted", "once", "untrusted", "trusted", "untrusted", "untrusted"]
    assert trust.of(Path(shipped()[1]) / "triage") == "trusted"
    assert Trust().of(tmp_path / "a") == "untrusted"
