"""The README is run: every console block in order in a fresh project, and the two commands in the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.options import exit_codes
from tests.command import AtTerminal

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECONDS = 120


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block with the lines it should print; `> KEY` among these answers a question."""
    command, wanted = "", list[str]()
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, wanted
            command, wanted = line[2:], []
        elif (line.startswith("> ") or line == ">") and not wanted:
            command += "\n" + line[2:]
        else:
            wanted.append(line)
    yield command, wanted


def pattern(wanted: list[str]) -> re.Pattern[str]:
    """Lines as a pattern: `…` matches anything within a line, alone on one any number of lines."""
    made = ""
    for line in wanted:
        if line == "…":
            made += r"(?:.*\n)*?"
        else:
            words = re.split(r"\s*…\s*", line)
            made += r".*".join(re.escape(word) for word in words) + r"\n"
    return re.compile(made)


def run(command: str, cwd: Path, bin_dir: Path) -> str:
    """stdout, then stderr, then the exit code if it is not 0: as a reader sees it who runs the commands one by one."""
    env = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}", "HOME": str(cwd), "LANG": "C.UTF-8", "TERM": "dumb"}
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "HARNESS_MODEL"):
        env.pop(name, None)
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS, start_new_session=True,
    )  # fmt: skip
    return done.stdout + done.stderr + (f"[exit {done.returncode}]\n" if done.returncode else "")


def answered(command: str, keys: list[str], cwd: Path, bin_dir: Path) -> str:
    """What a command prints at a terminal where these keys answer its questions."""
    path = f"{bin_dir}:{os.environ['PATH']}"
    found = AtTerminal("bash", "-c", command, cwd=cwd, columns=300, HOME=str(cwd), PATH=path, LANG="C.UTF-8")
    for count, key in enumerate(keys, 1):
        found.until("> ", count)
        found.keys(key)
    return found.end()[1].replace("\r\n", "\n")


@pytest.fixture
def command_dir(tmp_path: Path) -> Path:
    """A folder with a `harness` that is this code."""
    folder = tmp_path / "command"
    folder.mkdir()
    script = folder / "harness"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m harness "$@"\n')
    script.chmod(0o755)
    return folder


def test_every_console_block_prints_what_it_shows(tmp_path: Path, command_dir: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    count = 0
    for block in blocks("console"):
        for command, wanted in steps(block):
            keys = [line[2:] for line in wanted if line.startswith("> ")]
            printed = answered(command, keys, project, command_dir) if keys else run(command, project, command_dir)
            shown = "\n".join(wanted)
            assert as_shown(wanted, printed), f"$ {command}\n--- shown\n{shown}\n--- printed\n{printed}"
            count += 1
    assert count > 15


def as_shown(wanted: list[str], printed: str) -> bool:
    """The lines as shown; where stdout and stderr are shown mixed, each of the two in its own order."""
    if pattern(wanted).fullmatch(printed):
        return True
    rest = printed.splitlines()
    for line in wanted:
        if line == "…":
            continue
        found = next((one for one in rest if pattern([line]).fullmatch(one + "\n")), None)
        if found is None:
            return False
        rest.remove(found)
    return "…" in wanted or not rest


def test_the_two_commands_are_there() -> None:
    (block,) = blocks("sh")
    targets = [line.split()[1] for line in block.splitlines()]
    assert targets == ["demo", "test"]
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not (ROOT / ".venv" / ".made").exists(), reason="no environment: make test makes it first")
def test_the_demo_prints_the_report_and_the_folder() -> None:
    done = subprocess.run(
        ["make", "demo"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "Cause: payments-worker OOMKilled after deploy 4be2d1f" in done.stdout
    folder = re.search(r"^folder: (\S+)", done.stdout, re.MULTILINE)
    assert folder and (ROOT / folder[1] / "events.jsonl").is_file()


def test_the_exit_codes_are_those_of_the_code() -> None:
    shown = {int(code): words for code, words in re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)}
    assert shown == exit_codes()
