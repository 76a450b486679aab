"""Settings: which layer wins, and what a file may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config import load
from harness.errors import HarnessError
from tests.odd_files import ODD, odd_file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".harness").mkdir(parents=True)
    (tmp_path / "home" / "harness").mkdir(parents=True)
    return tmp_path


def env_of(place: Path, **more: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(place / "home"), "HOME": str(place), **more}


def write(place: Path, project: str = "", user: str = "") -> None:
    (place / "project" / ".harness" / "config.yaml").write_text(project)
    (place / "home" / "harness" / "config.yaml").write_text(user)


def refused(place: Path) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        load(place / "project", env=env_of(place))
    assert caught.value.exit_code == 2 and caught.value.fix
    return caught.value


def test_case_27_each_layer_wins_over_the_next_and_is_named(place: Path) -> None:
    write(place, "# ours\nmodels:\n  strong: exec:b\n", "models: {strong: exec:c}\n")
    project, user = place / "project", place / "home" / "harness" / "config.yaml"
    env = env_of(place, HARNESS_MODEL="exec:a")
    by_flag = load(project, {"models.strong": ("none", "-m")}, env)
    assert (by_flag.value("models.strong"), by_flag.origin("models.strong")) == ("none", "flag -m")
    by_env = load(project, env=env)
    assert (by_env.value("models.strong"), by_env.origin("models.strong")) == ("exec:a", "env HARNESS_MODEL")
    by_project = load(project, env=env_of(place, HARNESS_MODEL=""))
    assert by_project.value("models.strong") == "exec:b"
    assert by_project.origin("models.strong") == f"{project}/.harness/config.yaml:3"
    (project / ".harness" / "config.yaml").unlink()
    by_user = load(project, env=env_of(place))
    assert (by_user.value("models.strong"), by_user.origin("models.strong")) == ("exec:c", f"{user}:1")
    user.unlink()
    by_default = load(project, env=env_of(place))
    assert (by_default.value("models.strong"), by_default.origin("models.strong")) == (None, "default")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("output: json\nmodles: {strong: x}\n", 2, "unknown key modles"),
        ("models:\n  strnog: x\n", 2, "near: models.strong"),
        ("output: jsn\n", 1, "near: json"),
        ("parallel: many\n", 1, "whole number"),
        ("tool_timeout: 2 hours\n", 1, "duration"),
        ("output: json\noutput: text\n", 2, "twice"),
        ("output: [\n", 2, "no YAML"),
        ("- output\n", 1, "key: value"),
        ("skills: &a {paths: [x]}\nmodels: *a\n", 1, "anchors"),
        ("skills:\n  paths: [../elsewhere]\n", 2, "outside the project"),
        ("version: 2\n", 1, "version"),
        ("output: text\nview: plain\n", 2, "a project may not set view"),
        ("runs:\n  dir: /x\n", 2, "a project may not set runs.dir"),
        ("notify: off\n", 1, "unknown key notify"),
        ("endpoints: {}\n", 1, "a project may not set endpoints"),
    ],
)
def test_a_bad_project_file_is_refused_with_its_line(place: Path, text: str, line: int, words: str) -> None:
    write(place, text)
    error = refused(place)
    assert words in error.message
    assert (error.where or "").endswith(f"project/.harness/config.yaml:{line}")


def test_a_project_may_lower_parallel_and_not_raise_it(place: Path) -> None:
    write(place, "parallel: 2\n", "parallel: 4\n")
    assert load(place / "project", env=env_of(place)).value("parallel") == 2
    write(place, "parallel: 8\n", "parallel: 4\n")
    assert load(place / "project", env=env_of(place)).value("parallel") == 4


def test_a_users_file_sets_view_and_absolute_folders_only(place: Path) -> None:
    write(place, user="view: plain\nskills: {paths: [~/more]}\ntools:\n  path: [/opt/x/bin]\n")
    config = load(place / "project", env=env_of(place))
    assert config.value("view") == "plain"
    assert config.value("skills.paths") == (str(Path("~/more").expanduser()),)
    assert config.value("tools.path") == ("/opt/x/bin",)
    write(place, user="tools: {path: [bin]}\n")
    assert "no absolute path" in refused(place).message


def test_binary_and_unreadable_files_are_refused_in_one_line(place: Path) -> None:
    (place / "project" / ".harness" / "config.yaml").write_bytes(b"output: text\n\xff\xfe\0")
    assert (refused(place).where or "").endswith(":2")


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_a_usual_size_is_refused_at_once(place: Path, kind: str) -> None:
    path = odd_file(place / "project" / ".harness" / "config.yaml", kind)
    assert refused(place).where == str(path)


def test_an_unknown_variable_is_a_warning_with_the_nearest_name(place: Path) -> None:
    config = load(place / "project", env=env_of(place, HARNESS_MODLE="x", HARNESS_RUN="/r", HARNESS_PLAIN="1"))
    assert config.warnings == ("HARNESS_MODLE is set and means nothing here; near: HARNESS_MODEL",)
    assert config.origin("view") == "env HARNESS_PLAIN"
