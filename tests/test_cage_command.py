"""Confinement as the command shows it: first lines, exit codes, what a terminal gets, what is kept beside a project."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cage_world import needs_both, needs_full, needs_landlock
from tests.command import COMMAND, AtTerminal, clean_env, events, harness, newest, owning
from tests.loop_world import Project, call, finish, reply

BWRAP = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin") or ""
SEND = "@meta effect external\n@arg words*  what"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "home").mkdir()
    made = Project(tmp_path / "project")
    made.tool("look", "echo seen")
    made.tool("send", "echo sent", SEND)
    return made


def home(project: Project) -> Path:
    """Outside the project, because settings inside it are refused; the project is the person's own."""
    return owning(project.path.parent / "home", project.path)


def policy(project: Project, text: str) -> None:
    path = home(project) / ".config" / "harness" / "policy.yaml"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(f"version: 1\n{text}\n")
    path.chmod(0o600)


def run(project: Project, *calls: object, flags: tuple[str, ...] = (), requires: str = "") -> tuple[str, ...]:
    """The words of a run of all tools with these calls."""
    project.skill(tools="look send", requires=requires)
    model = project.script([reply(*calls), finish()])  # type: ignore[arg-type]
    return ("run", "demo", "go", "-m", model, *flags)


def without_bubblewrap(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a mount namespace where bubblewrap is no program."""
    script = f'mount --bind /dev/null {BWRAP} && exec "$@"'
    return subprocess.run(
        ["unshare", "-rm" if os.getuid() else "-m", "sh", "-c", script, "sh", *COMMAND, *words],
        cwd=project.path, env=clean_env(home(project)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, start_new_session=True,
    )  # fmt: skip


def can_hide() -> bool:
    if not BWRAP or not shutil.which("unshare"):
        return False
    words = ["unshare", "-rm" if os.getuid() else "-m", "mount", "--bind", "/dev/null", BWRAP]
    return subprocess.run(words, capture_output=True).returncode == 0


needs_hiding = pytest.mark.skipif(not can_hide(), reason="bubblewrap cannot be hidden here")


@needs_both
def test_the_first_lines_say_what_calls_get(project: Project) -> None:
    done = harness(*run(project, call("look")), cwd=project.path, HOME=str(home(project)))
    assert done.returncode == 0, done.stderr
    assert "confinement: full; plain reads: landlock" in done.stderr.splitlines()
    assert events(newest(project.path), "run.start")[0]["data"]["confine"]["level"] == "full"


@needs_landlock
@needs_hiding
def test_A41_without_bubblewrap_it_says_so_and_what_stays_open(project: Project) -> None:
    done = without_bubblewrap(project, *run(project, call("look")))
    assert done.returncode == 0, done.stderr
    assert "confinement: landlock; full: bubblewrap is not installed" in done.stderr
    assert "open: at landlock protected names are put back after a call, not blocked" in done.stderr


@needs_hiding
@pytest.mark.parametrize("how", ["policy", "flag"])
def test_A41_what_is_required_and_lacks_ends_with_7(project: Project, how: str) -> None:
    policy(project, "sandbox:\n  require: full" if how == "policy" else "")
    done = without_bubblewrap(project, *run(project, call("look"), flags=("--sandbox", "full") * (how == "flag")))
    assert done.returncode == 7
    assert "does not give the confinement full (bubblewrap is not installed)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(project.path.glob(".harness/runs/*"))


def test_A41_none_is_said(project: Project) -> None:
    policy(project, "sandbox:\n  require: none")
    done = harness(*run(project, call("look")), cwd=project.path, HOME=str(home(project)))
    assert "confinement: none, as `sandbox.require` says" in done.stderr
    whose = "of this machine" if os.geteuid() == 0 else "of yours"
    assert f"open: everything; a tool can end every process {whose}, this one too" in done.stderr
    assert "confinement none" in done.stderr, "and again where the run is summed up"


@pytest.mark.parametrize("word", ["none", "limits", "ful"])
def test_the_flag_only_raises(project: Project, word: str) -> None:
    done = harness(*run(project, call("look"), flags=("--sandbox", word)), cwd=project.path, HOME=str(home(project)))
    assert done.returncode == 2 and "--sandbox" in done.stderr


@needs_landlock
def test_A20_a_call_whose_work_was_undone_ends_with_7(project: Project) -> None:
    policy(project, "sandbox:\n  require: landlock")
    project.tool("plant", "echo evil >> bin/look; exit 0", "@meta effect write")
    before = (project.path / "bin" / "look").read_text()
    done = harness("tools", "run", "plant", cwd=project.path, HOME=str(home(project)))
    assert done.returncode == 7, done.stderr
    assert "bin/look" in done.stderr
    assert (project.path / "bin" / "look").read_text() == before


LEVELS = [pytest.param("landlock", marks=needs_landlock), pytest.param("full", marks=needs_full)]


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_link_of_a_tool_ends_at_is_protected_like_the_tool(project: Project, level: str) -> None:
    policy(project, f"sandbox:\n  require: {level}")
    project.tool("made", "echo made", "@meta effect read", place="build")
    (project.path / "bin" / "made").symlink_to("../build/made")
    before = (project.path / "build" / "made").read_text()
    project.tool("plant", "echo echo evil >> build/made; mv build/made build/m; exit 0", "@meta effect write")
    done = harness("tools", "run", "plant", cwd=project.path, HOME=str(home(project)))
    assert (project.path / "build" / "made").read_text() == before, done.stderr
    assert harness("tools", "run", "made", cwd=project.path, HOME=str(home(project))).stdout == "made\n"


READ = """
import os, sys
try:
    open(f"/proc/{os.environ['HARNESS']}/environ", "rb").read()
    print("read")
except OSError as error:
    print("blocked")
"""


@pytest.mark.parametrize("level", ["none", "limits", "landlock", "full"])
def test_A42_the_environment_of_the_harness_cannot_be_read(project: Project, level: str) -> None:
    if level == "none" and os.getuid() == 0:
        pytest.skip("root without confinement may read every process")
    policy(project, f"sandbox:\n  require: {level}\nenv:\n  spy: [HARNESS]")
    body = f"#!/usr/bin/env python3\n# @describe spy\n# @meta effect read\n{READ}"
    project.file("bin/spy", body, executable=True)
    script = 'HARNESS=$$; export HARNESS; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "tools", "run", "spy"], cwd=project.path,
        env=clean_env(home(project)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "blocked\n"), done.stderr


EVIL = [
    "\x1b[2J\x1b[1;1Hfine", "a\rb", "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07", "\x9b31m", "\u202egnp.exe", "\x01",
]  # fmt: skip


def test_A33_no_escape_of_a_proposal_reaches_the_terminal(project: Project) -> None:
    words = run(project, call("send", "--", *EVIL))
    shown = AtTerminal(*COMMAND, *words, cwd=project.path, HOME=str(home(project)))
    shown.until("[n] no")
    shown.keys("n")
    shown.keys("\r")
    code, text = shown.end()
    assert code in (0, 7, 9), text
    for raw in ("\x1b[2J", "\x1b[1;1H", "\x1b]8", "\x1b]52", "\x07", "\x9b", "\u202e", "\x01", "a\rb"):
        assert raw not in text, repr(raw)
    assert "\\x1b[2J" in text and "\\x1b]52" in text and "\\u202e" in text and "a\\x0db" in text


@pytest.mark.parametrize("stop", ["park", "end"])
def test_A57_a_run_that_was_rewritten_is_not_opened(project: Project, stop: str) -> None:
    from harness.events import line as lines

    flags = ("--allow", "send") if stop == "end" else ()
    done = harness(*run(project, call("send", "x"), flags=flags), cwd=project.path, HOME=str(home(project)))
    assert done.returncode == (0 if stop == "end" else 5), done.stderr
    folder = newest(project.path)
    seal = home(project) / ".local" / "state" / "harness" / "logs" / f"{folder.name}.sha256"
    assert stat.S_IMODE(seal.stat().st_mode) == 0o600 and stat.S_IMODE(seal.parent.stat().st_mode) == 0o700
    path = folder / "events.jsonl"
    found = [json.loads(text) for text in path.read_text().replace('"goal":"go"', '"goal":"no"').splitlines()]
    path.write_bytes(b"".join(
        lines.frame(e["seq"], e["epoch"], e["at"], e["kind"], e["data"], e.get("op")) for e in found
    ))  # fmt: skip
    again = harness("resume", folder.name, "go on", cwd=project.path, HOME=str(home(project)))
    assert again.returncode == 3, again.stderr
    assert seal.read_text()[:16] in again.stderr and "Traceback" not in again.stderr


def test_a_state_directory_that_cannot_be_made_is_said(project: Project) -> None:
    (home(project) / ".local/state/harness/logs").write_text("in the way")
    done = harness(*run(project, call("look")), cwd=project.path, HOME=str(home(project)))
    assert done.returncode == 0, done.stderr
    assert "changes to the journal will not be noticed" in done.stderr
