"""Secrets: who gets which, how they are handed over, and where they must not show."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import subprocess
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.events.io import IO
from harness.policy.layer import From, SecretRule
from harness.policy.settings import Settings
from harness.secrets import Released, Secret, masker, passed, placed, released, remove, store
from harness.tools import EnvVar, Tool

VALUE = "tok-4711-and-more"


def tool(*names: str) -> Tool:
    env = tuple(EnvVar(name.strip("!<"), "!" in name, "<" in name) for name in names)
    return Tool("pay", Path("bin/pay"), env=env)


def giving(name: str, source: From = "env", to: str = "pay") -> Settings:
    return Settings(secrets={name: SecretRule((to,), source)})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    found = {"HOME": str(tmp_path)}
    store(found).mkdir(parents=True)
    return found


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir(mode=0o700)
    return tmp_path / "work"


def keep(env: dict[str, str], name: str, text: str = VALUE, mode: int = 0o600) -> Path:
    path = store(env) / name
    path.write_text(text)
    path.chmod(mode)
    return path


def values_of(found: Released) -> dict[str, str]:
    return {name: secret.reveal() for name, secret in found.values.items()}


def test_a_secret_goes_to_the_tools_that_the_user_names(env: dict[str, str]) -> None:
    env |= {"PAY_TOKEN": VALUE, "OTHER_TOKEN": VALUE}
    found = released(tool("PAY_TOKEN", "OTHER_TOKEN"), giving("PAY_TOKEN"), env)
    assert values_of(found) == {"PAY_TOKEN": VALUE}
    assert (found.ungranted, found.missing, found.problems) == (("OTHER_TOKEN",), (), ())
    other = released(tool("PAY_TOKEN"), giving("PAY_TOKEN", to="other"), env)
    assert (values_of(other), other.ungranted) == ({}, ("PAY_TOKEN",))
    assert values_of(released(tool("PAY_TOKEN", "OTHER_TOKEN"), giving("PAY_TOKEN", to="other"), env, yes=True)) == {
        "PAY_TOKEN": VALUE, "OTHER_TOKEN": VALUE,
    }  # fmt: skip
    assert released(tool(), giving("PAY_TOKEN"), env) == Released()


def test_a_required_secret_says_the_line_to_add(env: dict[str, str], tmp_path: Path) -> None:
    found = released(tool("PAY_TOKEN!"), Settings(), env)
    (problem,) = found.problems
    assert "`PAY_TOKEN: {tools: [pay], from: env}`" in problem
    assert str(tmp_path / ".config" / "harness" / "policy.yaml") in problem
    (other,) = released(tool("PAY_TOKEN!"), giving("PAY_TOKEN", "file", "refund"), env).problems
    assert "`PAY_TOKEN: {tools: [refund, pay], from: file}`" in other


def test_a_required_secret_that_nobody_gave_is_a_question_and_no_problem_where_it_has_a_value(
    env: dict[str, str]
) -> None:
    for kept in ("env", "file"):
        if kept == "file":
            keep(env, "PAY_TOKEN")
        found = released(tool("PAY_TOKEN!"), Settings(), env | ({"PAY_TOKEN": VALUE} if kept == "env" else {}))
        assert (found.ungranted, found.missing, found.problems) == (("PAY_TOKEN",), (), ())
        assert values_of(found) == {}


def test_a_secret_without_a_value_is_missing(env: dict[str, str]) -> None:
    for source, words in (("env", "set PAY_TOKEN"), ("file", f"write its value to {store(env) / 'PAY_TOKEN'}")):
        for name in ("PAY_TOKEN!", "PAY_TOKEN"):
            found = released(tool(name), giving("PAY_TOKEN", source), {**env, "PAY_TOKEN": ""})  # type: ignore[arg-type]
            assert found.missing == ("PAY_TOKEN",)
            assert words in found.problems[0] and ("take pay out" in found.problems[0]) == (name == "PAY_TOKEN")


def test_a_secret_that_nobody_gives_and_the_tool_can_do_without_is_missing_and_no_problem(env: dict[str, str]) -> None:
    for settings in (Settings(), giving("PAY_TOKEN", to="other")):
        found = released(tool("PAY_TOKEN"), settings, env)
        assert (found.missing, found.problems) == (("PAY_TOKEN",), ())


def test_a_secret_in_a_file_is_read_without_its_line_end(env: dict[str, str]) -> None:
    keep(env, "PAY_TOKEN", f"{VALUE}\n\n")
    assert values_of(released(tool("PAY_TOKEN"), giving("PAY_TOKEN", "file"), env)) == {"PAY_TOKEN": f"{VALUE}\n"}


def refused(env: dict[str, str], source: From = "file", workspace: Path | None = None) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        released(tool("PAY_TOKEN"), giving("PAY_TOKEN", source), env, workspace)
    text = "".join(traceback.format_exception(caught.value)) + caught.value.fix
    assert VALUE not in text
    return caught.value


def test_a_file_that_others_may_read_or_that_is_no_file_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    path = keep(env, "PAY_TOKEN", mode=0o640)
    assert refused(env).fix == f"run: chmod 600 {path}"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    refused(env)
    path.unlink()
    os.mkfifo(path, 0o600)
    refused(env)
    path.unlink()
    keep(env, "PAY_TOKEN", "x" * 70_000)
    refused(env)
    path.write_bytes(b"\xff" * 20)
    refused(env)
    path.parent.chmod(0o777)
    assert refused(env).fix == f"run: chmod go-w {path.parent}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(env: dict[str, str]) -> None:
    os.chown(keep(env, "PAY_TOKEN"), 12345, 12345)
    refused(env)


def test_a_store_in_the_workspace_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    keep(env, "PAY_TOKEN")
    assert "lies in the workspace" in refused(env, workspace=tmp_path).message


def test_a51_a_short_value_is_refused(env: dict[str, str]) -> None:
    error = refused({**env, "PAY_TOKEN": "hunter2"}, "env")
    assert "shorter than 8" in error.message and "hunter2" not in error.message + error.fix
    assert values_of(released(tool("PAY_TOKEN"), giving("PAY_TOKEN"), {**env, "PAY_TOKEN": "hunter22"}))


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"])
def test_model_provider_keys_go_to_no_tool(env: dict[str, str], name: str) -> None:
    env[name] = VALUE
    found = released(tool(f"{name}!"), giving(name), env, yes=True)
    assert (found.values, found.ungranted) == ({}, ())
    assert "goes to no tool" in found.problems[0] and "under secrets" not in found.problems[0]
    assert passed(tool(), Settings(env={"pay": (name,)}), env).variables == {}


def test_a_value_shows_itself_nowhere(env: dict[str, str]) -> None:
    found = released(tool("PAY_TOKEN"), giving("PAY_TOKEN"), {**env, "PAY_TOKEN": VALUE})
    secret = found.values["PAY_TOKEN"]
    for shown in (repr(found), str(secret), f"{secret}", f"{secret:>30}", "%s %r" % (secret, secret)):  # noqa: UP031
        assert VALUE not in shown
    for copying in (pickle.dumps, copy.deepcopy, asdict):
        with pytest.raises(TypeError):
            copying(found)  # type: ignore[operator]
    assert not hasattr(secret, "__dict__")


def test_a_secret_is_handed_over_as_a_variable_or_as_a_private_file(scratch: Path) -> None:
    values = {"PAY_TOKEN": Secret(VALUE), "KEY_FILE": Secret("line\nline\n")}
    with placed(tool("PAY_TOKEN", "KEY_FILE<", "NOT_GIVEN"), values, scratch, IO()) as variables:
        assert sorted(variables) == ["KEY_FILE", "PAY_TOKEN"]
        assert variables["PAY_TOKEN"] == VALUE
        path = Path(variables["KEY_FILE"])
        assert path.parent == scratch
        assert path.read_text() == "line\nline\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(scratch.iterdir()) == []


def test_a52_the_name_of_a_secrets_file_cannot_be_told_in_advance(scratch: Path) -> None:
    names = set()
    for _ in range(3):
        with placed(tool("KEY_FILE<"), {"KEY_FILE": Secret(VALUE)}, scratch, IO()) as variables:
            names.add(variables["KEY_FILE"])
    assert len(names) == 3


def test_a52_what_is_in_the_place_of_a_file_is_neither_followed_nor_overwritten(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.secrets.random.token_hex", lambda _: "known")
    trap = scratch / ".secret-KEY_FILE-known"
    trap.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessError, match="cannot hand over KEY_FILE"):
        with placed(tool("KEY_FILE<"), {"KEY_FILE": Secret(VALUE)}, scratch, IO()):
            pass
    assert not (tmp_path / "elsewhere").exists()


def test_files_go_away_when_the_call_fails_and_after_a_crash(scratch: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        with placed(tool("KEY_FILE<"), {"KEY_FILE": Secret(VALUE)}, scratch, IO()):
            raise KeyboardInterrupt
    kept, linked = scratch / "result.txt", tmp_path / "mine.txt"
    for path in (kept, linked, scratch / ".secret-OLD-0123"):
        path.write_text("x")
    (scratch / ".secret-link").symlink_to(linked)
    (scratch / ".secret-folder").mkdir()
    remove(scratch, IO())
    assert sorted(path.name for path in scratch.iterdir()) == [".secret-folder", "result.txt"]
    assert linked.exists()
    remove(tmp_path / "gone", IO())


def test_a_disk_that_is_full_leaves_no_part_of_a_secret(scratch: Path) -> None:
    class Full(IO):
        def write(self, fd: int, data: bytes) -> int:
            if len(data) < len(VALUE):
                raise OSError(28, "No space left on device")
            return super().write(fd, data[:3])

    with pytest.raises(HarnessError, match="no space left"):
        with placed(tool("KEY_FILE<"), {"KEY_FILE": Secret(VALUE)}, scratch, Full()):
            pass
    assert list(scratch.iterdir()) == []


def test_a50_a_placeholder_stays_what_it_is_and_no_value_is_in_an_argv(scratch: Path) -> None:
    code = "import os, sys; print(sys.argv[1:], open('/proc/self/cmdline').read().count(os.environ['PAY_TOKEN']))"
    argv = [sys.executable, "-I", "-c", code, "${secrets.PAY_TOKEN}", "$PAY_TOKEN"]
    with placed(tool("PAY_TOKEN"), {"PAY_TOKEN": Secret(VALUE)}, scratch, IO()) as variables:
        done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "['${secrets.PAY_TOKEN}', '$PAY_TOKEN'] 0\n"


def test_plain_variables_are_passed_by_tool_and_paths_become_readable(env: dict[str, str], tmp_path: Path) -> None:
    kube, more = tmp_path / "kube.yaml", tmp_path / "more.yaml"
    kube.write_text("")
    more.write_text("")
    env |= {"KUBECONFIG": str(kube), "LIST": f"{kube}:{more}", "PGHOST": "db.corp", "GONE": "/no/such", "REL": "a/b"}
    settings = Settings(env={"pay": ("KUBECONFIG", "LIST", "PGHOST", "GONE", "REL", "UNSET"), "other": ("HOME",)})
    found = passed(tool(), settings, env)
    assert sorted(found.variables) == ["GONE", "KUBECONFIG", "LIST", "PGHOST", "REL"]
    assert (found.readable, found.withheld) == ((kube, more), ())


def test_a50_no_variable_makes_the_store_readable(env: dict[str, str], tmp_path: Path) -> None:
    keep(env, "PAY_TOKEN")
    (tmp_path / "way").symlink_to(store(env))
    env |= {"CONFIG": str(tmp_path / ".config"), "WAY": str(tmp_path / "way"), "ROOT": "/"}
    found = passed(tool(), Settings(env={"pay": ("CONFIG", "WAY", "ROOT")}), env)
    assert found.readable == ()
    assert set(found.withheld) == {tmp_path / ".config", store(env), Path("/")}


def test_a_name_passed_as_a_plain_variable_needs_no_rule(env: dict[str, str]) -> None:
    found = released(tool("PGHOST!"), Settings(env={"pay": ("PGHOST",)}), {**env, "PGHOST": "db"})
    assert found == Released()
    assert released(tool("PGHOST!"), Settings(env={"pay": ("PGHOST",)}), env).problems


def test_a_key_that_the_settings_give_to_a_model_endpoint_goes_to_no_tool(env: dict[str, str]) -> None:
    env["MY_LLM_KEY"] = VALUE
    found = released(tool("MY_LLM_KEY!"), giving("MY_LLM_KEY"), env, keys=frozenset({"MY_LLM_KEY"}), yes=True)
    assert (found.values, found.ungranted) == ({}, ()) and "goes to no tool" in found.problems[0]


def test_every_secret_that_is_there_is_masked_whoever_gets_it(env: dict[str, str]) -> None:
    keep(env, "IN_A_FILE", "kept-in-a-file")
    keep(env, "OPEN_TO_ALL", "open-to-others", 0o644)
    env |= {"PAY_TOKEN": VALUE, "MY_LLM_KEY": "llm-key-of-mine", "ANTHROPIC_API_KEY": "sk-an-key"}
    env |= {"OTHER": "a plain one", "OPENAI_BASE_URL": "https://models.example.org"}
    made = masker(giving("PAY_TOKEN", to="other"), env, keys=["MY_LLM_KEY"])
    said = made.text(" ".join((*env.values(), "kept-in-a-file", "open-to-others")))
    names = ("PAY_TOKEN", "MY_LLM_KEY", "ANTHROPIC_API_KEY", "IN_A_FILE")
    assert [name for name in names if f"[secret:{name}]" not in said] == []
    assert "a plain one" in said and "open-to-others" in said and "https://models.example.org" in said
