"""What a command loads: nothing that draws, asks a network or keeps a database where it does none of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.app import TABLE
from tests.command import clean_env, harness, home_of
from tests.run_files import add_pipeline, calls, finish, make_project, script

HEAVY = {"rich", "anthropic", "git", "httpx2", "httpx", "http.client", "ssl", "asyncio", "sqlite3", "pydantic"}
ENTRY = "import sys; from harness.cli.main import main; code = main(); print(code, *sys.modules, file=sys.stderr)"
DRIVES = {"harness.loop", "harness.models", "harness.executor", "harness.prompt", "harness.pipeline", "_decimal"}
COMMANDS = {
    "run": ("run work x -m scripted:ok.yaml", 0), "resume": ("resume last -b turns=x", 2),
    "pipeline": ("pipeline bin/p", 0), "prompt": ("prompt why -m scripted:ok.yaml", 0),
    "approve": ("approve RUN 1 --digest 00000000", 5), "deny": ("deny RUN 1", 0), "answer": ("answer RUN x", 2),
    "step": ("step RUN look", 2), "read": ("read RUN x", 2), "finish": ("finish RUN x", 2),
    "settle": ("settle RUN happened", 2), "fork": ("fork RUN", 0), "amend": ("amend RUN --stale x --why y", 2),
    "runs list": ("runs", 0), "show": ("show", 0), "skills list": ("skills", 0), "skills show": ("skills show work", 0),
    "skills check": ("skills check work", 0), "skills new": ("skills new fresh", 0),
    "skills export": ("skills export claude work", 0), "tools list": ("tools", 0),
    "tools show": ("tools show look", 0), "tools check": ("tools check look", 0), "tools run": ("tools run look", 0),
    "policy explain": ("policy explain look", 0), "policy check": ("policy check", 0),
    "policy grants": ("policy grants", 0),
    "tools new": ("tools new fresh-tool", 0), "stop": ("stop RUN", 0), "runs wake": ("runs wake", 0),
    "models list": ("models", 0), "models check": ("models check scripted:ok.yaml", 0),
    "models add": ("models add nope", 2),
    "eval run": ("eval work", 2), "eval mine": ("eval mine", 0), "skills stats": ("skills stats", 0),
    "skills promote": ("skills promote work --rollback", 2),
    "trust": ("trust --list", 0), "runs prune": ("runs prune -n", 0), "runs redact": ("runs redact RUN --text x", 2),
}  # fmt: skip
ASKS_INDEX = {
    "run", "resume", "pipeline", "prompt", "tools run", "stop", "runs list", "runs wake", "runs prune", "runs redact",
    "eval mine", "skills stats",
}  # fmt: skip
LIGHT = ("approve", "deny", "answer", "settle", "runs list", "show", "skills list", "tools list", "tools show")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_project(tmp_path_factory.mktemp("loaded") / "p")
    script(folder, finish("x"), name="ok.yaml")
    add_pipeline(folder, "p", "  a: {run: [look]}\n")
    harness("run", "work", "x", "-m", script(folder, calls(["act"])), cwd=folder)
    return folder


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == {name for name, row in TABLE.items() if row.target}


@pytest.mark.parametrize("name", COMMANDS)
def test_case_1_no_command_loads_what_it_does_not_use(project: Path, name: str) -> None:
    words, code = COMMANDS[name]
    arguments = [parked(project) if word == "RUN" else word for word in words.split()]
    command = [sys.executable, "-c", ENTRY, *arguments]
    done = subprocess.run(command, cwd=project, env=clean_env(home_of(project)), capture_output=True, text=True)
    said, *loaded = done.stderr.splitlines()[-1].split()
    assert int(said) == code, done.stderr[-2000:]
    uses = {"sqlite3"} if name in ASKS_INDEX else {"http.client", "ssl"} if name == "models list" else set()
    assert not set(loaded) & (HEAVY - uses)
    if name in LIGHT:
        assert not set(loaded) & DRIVES


def parked(project: Path) -> str:
    """The run that waits for a person."""
    runs = (project / ".harness/runs").glob("2*")
    return next(run.name for run in runs if '"verdict":"ask"' in (run / "events.jsonl").read_text())
