"""The entry: help, version, typing errors, bugs, closed pipes, and what is loaded for them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.app import TABLE
from harness.cli.options import exit_codes
from tests.command import ROOT, clean_env, harness

SCRIPT = "import sys; from harness.cli.main import main; main(); print(*sys.modules, file=sys.stderr)"
COMMANDS = [name.split() for name, row in TABLE.items() if row.target]


def modules_of(*arguments: str, cwd: Path) -> set[str]:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(command, cwd=cwd, env=clean_env(cwd), capture_output=True, text=True)
    return set(done.stderr.split())


def test_case_1_version_loads_no_library(tmp_path: Path) -> None:
    loaded = modules_of("--version", cwd=tmp_path)
    assert "harness.cli.main" in loaded
    assert not loaded & {"typer", "click", "rich", "yaml", "pydantic", "harness.cli.app"}
    done = harness("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "harness 0.1.0\n")


@pytest.mark.parametrize("arguments", [["--help"], [], ["skills", "-h"], ["--plain"]])
def test_case_1_help_needs_no_commands_module(tmp_path: Path, arguments: list[str]) -> None:
    loaded = modules_of(*arguments, cwd=tmp_path)
    assert "typer" in loaded
    assert not loaded & {"rich", "yaml", "pydantic", "anthropic", "git", "harness.cli.skills", "harness.cli.tools"}
    done = harness(*arguments, cwd=tmp_path)
    assert done.returncode == 0 and "Usage: harness" in done.stdout and not done.stderr


LOOKS = [["skills"], ["tools"], ["runs"], ["show"], ["skills", "show", "x"], ["tools", "show", "search-logs"]]


@pytest.mark.parametrize("command", LOOKS, ids=" ".join)
def test_case_1_looking_loads_no_library_it_does_not_need(tmp_path: Path, command: list[str]) -> None:
    loaded = modules_of(*command, cwd=tmp_path)
    assert not loaded & {"rich", "anthropic", "git", "http.client", "ssl", "asyncio", "sqlite3", "pydantic"}
    own = {name.split(".")[2] for name in loaded if name.startswith("harness.cli.")}
    others = {row.target.split(":")[0] for row in TABLE.values() if row.target} - {command[0]}
    assert command[0] in own and not own & others


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_a_page_with_examples_and_exit_codes(tmp_path: Path, command: list[str]) -> None:
    done = harness(*command, "--help", cwd=tmp_path)
    assert done.returncode == 0 and not done.stderr
    assert f"Usage: harness {' '.join(command)}" in done.stdout
    assert "Examples:" in done.stdout and "Exit codes:" in done.stdout and "--json" in done.stdout
    assert f"  0    {exit_codes()[0]}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["skils"], "near: skills"),
        (["skills", "lst"], "near: list"),
        (["tools", "chekc"], "near: check"),
        (["--jsn", "skills"], "near: --json"),
        (["skills", "--no-json"], "no option --no-json"),
        (["skills", "--shadwed"], "near: --shadowed"),
        (["skills", "--output", "jsno"], "near: json"),
        (["skills", "--output", "stream-json"], "prints no events"),
        (["skills", "-C"], "requires an argument"),
        (["show", ""], "the run's name is empty"),
        (["settle", "", "4", "happened"], "the run's name is empty"),
        (["tools", "show"], "missing argument"),
        (["tools", "list", "x"], "unexpected extra argument"),
        (["-C", "nowhere", "skills"], "cannot work in nowhere"),
        (["runs", "--last", "many"], "'--last': many is no whole number"),
        (["rnu"], "near: run"),
        (["run", "oncall-triag", "x"], "near: oncall-triage"),
        (["run", "oncall-triage", "--modle", "m"], "near: --model"),
        (["run", "oncall-triage", "--yes"], "no --yes"),
    ],
)
def test_case_2_a_typing_error_is_2_and_names_what_was_near(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = harness(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: ") and words in first
    assert rest[-1].startswith("  fix: ") and "Traceback" not in done.stderr and len(rest) <= 2


def test_an_option_without_its_value_is_shown_with_one(tmp_path: Path) -> None:
    done = harness("resume", "k3v9", "--set", cwd=tmp_path)
    assert done.returncode == 2 and "fix: write --set STAGE.PARAM=V; harness resume -h" in done.stderr


def test_a_noun_with_a_name_says_which_verb_it_needs(tmp_path: Path) -> None:
    assert "fix: harness tools show search-logs" in harness("tools", "search-logs", cwd=tmp_path).stderr
    assert "fix: harness show k3v9" in harness("runs", "k3v9", cwd=tmp_path).stderr


def test_case_2_global_options_mean_the_same_before_and_after_the_command(tmp_path: Path) -> None:
    (tmp_path / "d" / "bin").mkdir(parents=True)
    tool = tmp_path / "d" / "bin" / "here"
    tool.write_text("#!/bin/sh\n# @describe Say it\n# @meta effect read\n")
    tool.chmod(0o755)
    before = harness("-C", "d", "--json", "tools", cwd=tmp_path)
    after = harness("tools", "list", "-C", "d", "--json", cwd=tmp_path)
    assert before.stdout == after.stdout and before.returncode == after.returncode == 0
    assert any(row["name"] == "here" for row in json.loads(before.stdout)["tools"])
    later_wins = harness("--json", "-C", "nowhere", "tools", "-C", "d", "--output", "text", cwd=tmp_path)
    assert later_wins.returncode == 0 and "\nhere  " in later_wins.stdout


def test_an_error_is_an_object_too_where_json_was_asked_for(tmp_path: Path) -> None:
    done = harness("tools", "show", "nothing-here", "--json", cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["code"] == 2 and error["fix"] and "nothing-here" in error["message"]


def test_case_12_a_bug_is_3_with_a_report_that_holds_no_values(tmp_path: Path) -> None:
    script = (
        "import sys, harness.cli.app as app\n"
        "def broken(name):\n    secret = 'hunter' + '2'\n    raise KeyError('x')\n"
        "app.children = broken\nfrom harness.cli.main import main\nsys.argv[1:] = ['tools']\nsys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=clean_env(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 3 and not done.stdout and "Traceback" not in done.stderr
    first, where, _ = done.stderr.splitlines()
    assert first == "error: bug in harness: KeyError: 'x'"
    report = Path(where.strip())
    assert report.parent == tmp_path / ".local/state/harness/log" and report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "KeyError" in text and "arguments: ['tools']" in text and "hunter2" not in text + done.stderr


def test_case_12_a_closed_stdout_ends_a_list_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for number in range(300):
        tool = tmp_path / "bin" / f"tool-{number}"
        tool.write_text(f"#!/bin/sh\n# @describe {'long ' * 60}\n")
        tool.chmod(0o755)
    line = f"{sys.executable} -m harness tools | head -1"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=clean_env(tmp_path), capture_output=True, text=True)
    assert done.stdout.count("\n") == 1 and not done.stderr


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    line = f"{sys.executable} -m harness tools > /dev/full"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=clean_env(tmp_path), capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "error: the output cannot be written: no space left on device"
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_skills_name_typed_as_command_says_how_to_run_it(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "late-batch"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: late-batch\ndescription: Looks at a late batch.\n---\nLook.\n")
    done = harness("late-batch", "x", cwd=tmp_path)
    assert done.returncode == 2 and "fix: harness run late-batch" in done.stderr


def test_the_module_and_the_console_script_are_the_same() -> None:
    assert "harness.cli.main:main" in (ROOT / "pyproject.toml").read_text()


NAMED = re.compile(r"(?:^|`|: |, | or )harness ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
OF_ITSELF = {"has", "is"}
"""What follows where a sentence speaks of harness itself."""


def messages() -> Iterator[tuple[str, str]]:
    """Each text of the package that may be printed, with its place; `{}` stands for what is filled in."""
    for path in sorted((ROOT / "harness").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        said = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield f"{path}:{node.lineno}", "".join(str(p.value) if isinstance(p, ast.Constant) else "{}"
                                                      for p in node.values)  # fmt: skip
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts | said:
                yield f"{path}:{node.lineno}", node.value


def test_every_command_that_a_message_names_is_one() -> None:
    """`eval` takes a skill where others take a verb, and "harness runs lists them" is a sentence."""
    groups = {name for name, row in TABLE.items() if not row.target} - {"eval"}
    found = [(where, match) for where, text in messages() for match in NAMED.finditer(text)]
    named = [(where, match[1], match[2]) for where, match in found if match[1] not in OF_ITSELF]
    assert len(named) > 150
    assert [one for one in named if one[1] not in TABLE] == []
    verbs = [(where, f"{noun} {verb}") for where, noun, verb in named if noun in groups and verb not in (None, "lists")]
    assert [one for one in verbs if one[1] not in TABLE] == []
