"""The wheel as a stranger gets it: installed apart from this repository, used in an empty repository elsewhere."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.command import ROOT, clean_env


def done(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> str:
    """The stdout of a command that must succeed."""
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script of a fresh environment that has the wheel, and this environment's libraries behind it."""
    base = tmp_path_factory.mktemp("wheel")
    done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", base], ROOT)
    wheel = next(base.glob("harness-*.whl"))
    venv = base / "venv"
    done([sys.executable, "-m", "venv", "--without-pip", venv], base)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "--disable-pip-version-check"]
    done([*pip, "install", "--no-deps", "--no-index", wheel], base)
    libraries = next(venv.glob("lib/python3*/site-packages"))
    (libraries / "libraries.pth").write_text("\n".join(site.getsitepackages()))
    return venv / "bin" / "harness"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """An empty repository far from ours."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done(["git", "init", "-q"], folder)
    return folder


def env_of(folder: Path) -> dict[str, str]:
    env = clean_env(folder.parent)
    del env["PYTHONPATH"]
    return env


def test_the_wheel_brings_skills_and_executable_tools(installed: Path, foreign: Path) -> None:
    env = env_of(foreign)
    skills = json.loads(done([installed, "skills", "--json"], foreign, env))["skills"]
    assert {"ask-tables", "ask-shop", "oncall-triage"} <= {skill["name"] for skill in skills}
    assert all(skill["state"] == "ok" and str(ROOT) not in skill["path"] for skill in skills)
    tools = json.loads(done([installed, "tools", "--json"], foreign, env))["tools"]
    assert {"lookup-runbook", "search-logs", "write-report"} <= {tool["name"] for tool in tools}
    assert all(os.access(tool["path"], os.X_OK) and tool["state"] == "ok" for tool in tools)
    assert "At the start" in done([installed, "skills", "show", "oncall-triage"], foreign, env)
    assert not [entry for entry in foreign.iterdir() if entry.name != ".git"], "looking wrote something"


def test_the_wheel_runs_its_skill_in_a_foreign_repository(installed: Path, foreign: Path) -> None:
    (foreign / "app.log").write_text("2026-01-02 03:04:05 ERROR db: connection to 10.0.0.7:5432 refused\n" * 20)
    goal = ["what", "is", "going", "wrong", "-i", "logs=app.log", "-m", "none"]
    answer = done([installed, "run", "oncall-triage", *goal], foreign, env_of(foreign))
    assert "refused" in answer and "app.log" in answer
    assert len(list((foreign / ".harness" / "runs").glob("2*"))) == 2
    status = done(["git", "status", "--porcelain", "--untracked-files=all", ".harness"], foreign)
    assert ".harness/runs" not in status
