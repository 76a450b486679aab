"""Whose key goes where, and what a project or a skill may not bring into play: told by what a server was sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.config import load
from harness.errors import HarnessError
from harness.models.choice import wishes_of
from harness.models.endpoints import check_name
from tests.command import harness, home_of
from tests.fake_openai import FakeOpenAI, Play, call
from tests.run_files import add_skill, make_project

KEY, OTHER = "sk-gateway-12345678", "sk-openai-87654321"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI([Play("", [call("finish", answer="found")])] * 9).serving() as running:
        yield running


def settings(project: Path, text: str) -> Path:
    """The user's own settings."""
    file = home_of(project) / ".config/harness/config.yaml"
    file.write_text(text)
    return file


def keys(fake: FakeOpenAI) -> list[str | None]:
    return [headers.get("authorization") for _, headers, _ in fake.requests]


def test_models_check_sends_the_key_of_the_endpoint(project: Path, fake: FakeOpenAI) -> None:
    settings(project, f"endpoints: {{'{fake.base}': {{key: GATEWAY_KEY}}}}\n")
    done = harness("models", "check", f"openai:m@{fake.base}", cwd=project, GATEWAY_KEY=KEY)
    assert (done.returncode, keys(fake)) == (0, [f"Bearer {KEY}"]), done.stdout


@pytest.mark.parametrize("place", ["127.0.0.1:{port}/v1", "localhost:{port}", "localhost/v1", "api.good.example/v1"])
def test_a_host_without_its_scheme_is_no_part_of_a_name_and_no_key_goes_anywhere(
    project: Path, fake: FakeOpenAI, place: str
) -> None:
    at = place.format(port=fake.port)
    done = harness("models", "check", f"openai:m@{at}", cwd=project, OPENAI_API_KEY=OTHER)
    assert done.returncode == 2 and f"write openai:m@http://{at}" in done.stderr + done.stdout and not fake.requests


@pytest.mark.parametrize("name", ["@cf/meta/llama-3.1", "claude@20250101", "m@v1.5"])
def test_a_name_may_hold_an_at_sign(name: str) -> None:
    check_name("openai", name, "-m")


@pytest.mark.parametrize("end", ["", "/"])
def test_an_endpoint_is_given_the_key_that_the_user_names_for_it(project: Path, fake: FakeOpenAI, end: str) -> None:
    settings(project, f"endpoints: {{'{fake.base}{end}': {{key: GATEWAY_KEY}}}}\n")
    env = {"GATEWAY_KEY": KEY, "OPENAI_API_KEY": OTHER}
    done = harness("run", "work", "x", "-m", f"openai:m@{fake.base}", cwd=project, **env)
    assert (done.returncode, done.stdout, keys(fake)) == (0, "found\n", [f"Bearer {KEY}"]), done.stderr
    held = [p for p in project.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert (held, KEY in done.stderr) == ([], False)


def test_the_key_may_be_in_a_file_of_its_own(project: Path, fake: FakeOpenAI) -> None:
    folder = settings(project, f"endpoints: {{'{fake.base}': {{key: GATEWAY_KEY}}}}\n").parent / "secrets"
    folder.mkdir(mode=0o700)
    (folder / "GATEWAY_KEY").write_text(f"{KEY}\n")
    (folder / "GATEWAY_KEY").chmod(0o600)
    model = ("-m", f"openai:m@{fake.base}")
    assert harness("run", "work", "x", *model, cwd=project).returncode == 0
    assert keys(fake) == [f"Bearer {KEY}"]
    (folder / "GATEWAY_KEY").chmod(0o644)
    done = harness("run", "work", "x", *model, cwd=project)
    assert (done.returncode, len(fake.requests)) == (2, 1) and "chmod 600" in done.stderr


def test_ollama_behind_a_gateway_is_given_its_key(project: Path) -> None:
    with FakeOpenAI([Play("fine")], kind="ollama").serving() as fake:
        settings(project, f"endpoints: {{'http://127.0.0.1:{fake.port}': {{key: GATEWAY_KEY}}}}\n")
        done = harness("run", "work", "x", "-m", f"ollama:m@{fake.base}", cwd=project, GATEWAY_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert [h["authorization"] for path, h, _ in fake.requests if "chat" in path] == [f"Bearer {KEY}"]


def test_case_7_a_key_that_is_not_there_is_named_and_nothing_is_sent(project: Path, fake: FakeOpenAI) -> None:
    settings(project, f"endpoints: {{'{fake.base}': {{key: GATEWAY_KEY}}}}\n")
    done = harness("run", "work", "x", "-m", f"openai:m@{fake.base}", cwd=project, OPENAI_API_KEY=OTHER)
    assert (done.returncode, fake.requests) == (4, []) and "GATEWAY_KEY" in done.stderr


def test_case_2_no_other_endpoint_is_given_openais_key(project: Path, fake: FakeOpenAI) -> None:
    done = harness("run", "work", "x", "-m", f"openai:m@{fake.base}", cwd=project, OPENAI_API_KEY=OTHER)
    assert (done.returncode, keys(fake)) == (0, [None]), done.stderr


@pytest.mark.parametrize("word", ["exec:touch started", "openai:m@http://model.example/v1", "openai:gpt",
                                  "ollama:m@http://model.example", "anthropic:claude-fable-5-2"])  # fmt: skip
@pytest.mark.parametrize("by", ["project", "skill"])
def test_case_2_what_a_project_or_a_skill_names_is_neither_asked_nor_started(
    project: Path, fake: FakeOpenAI, word: str, by: str
) -> None:
    """Off this machine every request would go through the proxy, which is watched."""
    if by == "project":
        (project / ".harness/config.yaml").write_text(f"models: {{strong: '{word}'}}\n")
    else:
        add_skill(project, "work", "look", f"metadata:\n  model: '{word}'\n")
    env = {name: fake.base.removesuffix("/v1") for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    done = harness("run", "work", "x", cwd=project, OPENAI_API_KEY=OTHER, ANTHROPIC_API_KEY=OTHER, **env)
    assert (done.returncode, fake.requests) == (2, []), done.stderr
    assert str(home_of(project) / ".config/harness/config.yaml") in done.stderr and f"'{word}'" in done.stderr
    assert not (project / "started").exists() and not list((project / ".harness").glob("runs/2*"))


def test_case_2_a_project_may_name_what_answers_on_this_machine(project: Path, fake: FakeOpenAI) -> None:
    (project / ".harness/config.yaml").write_text(f"models: {{strong: 'openai:m@{fake.base}'}}\n")
    done = harness("run", "work", "x", cwd=project)
    assert (done.returncode, len(fake.requests)) == (0, 1), done.stderr
    settings(project, "models: {cheap: 'exec:sh -c \"cat >/dev/null; exit 77\"'}\n")
    (project / ".harness/config.yaml").write_text("models: {strong: 'exec:sh -c \"cat >/dev/null; exit 77\"'}\n")
    assert harness("run", "work", "x", "-b", "usd=none", cwd=project).returncode == 4  # the program's own word


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("endpoints: [x]", "wants `URL: {key: NAME}` lines"), ("endpoints: {ftp://x: {key: K}}", "wants `URL:"),
        ("endpoints: {'http://x/v1': K}", "wants `URL:"), ("endpoints: {'http://x/v1': {key: ../K}}", "wants `URL:"),
        ("endpoints: {'http://x/v1': {key: K, more: 1}}", "wants `URL:"),
        ("endpoints: {'http://x/v1': {key: OPENAI_API_KEY}}", "another name than OPENAI_API_KEY"),
        ("endpoints: {'https://api.openai.com.x.org/v1': {key: OPENAI_API_KEY}}", "another name than OPENAI_API_KEY"),
        ("endpoints: {'http://x/v1': {key: ANTHROPIC_API_KEY}}", "another name than ANTHROPIC_API_KEY"),
    ],
)  # fmt: skip
def test_keys_of_endpoints_of_another_form_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / ".config/harness/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{text}\n")
    with pytest.raises(HarnessError, match="endpoints wants") as caught:
        load(None, env={"HOME": str(tmp_path)})
    assert words in caught.value.message and caught.value.where == f"{file}:1"


def test_a_project_names_no_keys(tmp_path: Path) -> None:
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness/config.yaml").write_text("endpoints: {'http://x/v1': {key: K}}\n")
    with pytest.raises(HarnessError, match="a project may not set endpoints") as caught:
        load(tmp_path, env={"HOME": str(tmp_path)})
    assert caught.value.exit_code == 2


def test_the_keys_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / ".config/harness/config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("endpoints:\n  https://gw.example/v1/: {key: GATEWAY_KEY}\n")
    config = load(None, env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": ""})
    assert wishes_of(config).keys == {"https://gw.example/v1": "GATEWAY_KEY"}
