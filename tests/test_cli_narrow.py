"""A terminal of 45 columns: help, errors and last lines break between words, commands as a shell goes on reading."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness.cli.app import TABLE, load
from tests.command import COMMAND, AtTerminal, confined, harness, newest
from tests.run_files import calls, finish, make_project, script

COLUMNS = 45
COMMANDS = [name for name, row in TABLE.items() if row.target]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("narrow") / "p")


def too_long(text: str) -> list[str]:
    """The lines that a terminal would break, but for those of one word, such as a path."""
    return [line for line in text.splitlines() if len(line) > COLUMNS and len(line.split()) > 1]


def commands(text: str, label: str) -> list[list[str]]:
    """The words of each command behind a label, as a shell reads the lines."""
    whole = text.replace("\r", "").replace("\\\n", "")
    return [shlex.split(line) for line in re.findall(rf"{label}(harness .*)", whole)]


@pytest.mark.parametrize("name", ["", "runs", *COMMANDS])
def test_a_page_of_help_fits(tmp_path: Path, name: str) -> None:
    done = harness(*name.split(), "-h", cwd=tmp_path, COLUMNS=str(COLUMNS))
    assert done.returncode == 0 and not too_long(done.stdout)
    wide = harness(*name.split(), "-h", cwd=tmp_path, COLUMNS="100").stdout
    assert set(re.findall(r"[A-Za-z-]{5,}", wide)) <= set(re.findall(r"[A-Za-z-]{5,}", done.stdout))
    if name in COMMANDS:
        page = done.stdout.split("Examples:")[1].split("Exit codes:")[0]
        assert commands(page, "  ") == [shlex.split(line) for line in load(name, TABLE[name]).manual.examples]


@pytest.mark.parametrize(
    "words", ["run nosuch-skill-of-that-name go", "runs --status nosuch", "show --graph -F", "resume k3v9 --set", "rnu"]
)
def test_an_error_fits(project: Path, words: str) -> None:
    terminal = AtTerminal(*COMMAND, *words.split(), cwd=project, columns=COLUMNS)
    code, seen = terminal.end()
    assert code == 2 and "error: " in seen and "fix: " in seen and not too_long(seen)


def test_the_printed_commands_of_a_parked_run_work_as_they_are_printed(project: Path) -> None:
    confined(project)
    model = script(project, calls(["act", "--x", "a long word for the ledger"]), finish("done"))
    assert harness("run", "work", "go", "-m", model, cwd=project).returncode == 5
    code, seen = AtTerminal(*COMMAND, "show", cwd=project, columns=COLUMNS).end()
    assert code == 0 and not too_long(seen.partition("folder: ")[0])
    [approve] = commands(seen, "next: ")
    assert harness(*approve[1:], cwd=project).returncode == 0
    assert harness("resume", newest(project).name, cwd=project).stdout == "done\n"


def test_a_table_says_which_columns_it_leaves_out(project: Path) -> None:
    assert harness("run", "work", "look", "-m", script(project, finish("so")), cwd=project).returncode == 0
    terminal = AtTerminal(*COMMAND, "runs", cwd=project, columns=COLUMNS)
    seen = terminal.end()[1].replace("\r", "")
    assert "too narrow for GOAL: a pipe or" in seen and not too_long(seen)
    assert "too narrow" not in harness("runs", cwd=project).stderr
