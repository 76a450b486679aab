"""A project with a skill that has eval cases, scripts for a model and fixtures, for tests of evaluations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.command import harness
from tests.run_files import add_skill, add_tool, calls, finish, make_project

LOOKS = 'test -f "$2" || exit 66; cat "$2"'
ORDERED = "metadata:\n  tool-dependencies: |\n    act: look\n  requires: look\n"


def make_site(folder: Path) -> Path:
    """A project whose skill `sound` reads a file, then acts; one case, one script that does so."""
    make_project(folder)
    add_tool(folder, "look", LOOKS)
    add_tool(folder, "act", 'echo acted > made.txt; echo "acted on ${2:-1}"', "# @meta effect write")
    add_skill(folder, "sound", "look act", ORDERED)
    (evals(folder) / "fixtures" / "batch").mkdir(parents=True)
    (evals(folder) / "fixtures" / "batch" / "a.log").write_text("disk 97 full\n")
    add_script(folder, "good", calls(["look", "--x", "a.log"]), calls(["act"]), finish("The disk is 97 full."))
    add_case(folder, "disk", **DISK)
    return folder


DISK: dict[str, Any] = {
    "goal": "why did it fail", "fixture": "batch", "script": "good.yaml",
    "expect": {"tools": {"order": ["look", "act"]}, "answer": {"contains": "disk"}, "files": {"made.txt": "present"}},
}


def evals(project: Path, skill: str = "sound") -> Path:
    return project / "skills" / skill / "evals"


def add_case(project: Path, name: str, skill: str = "sound", **case: Any) -> Path:
    path = evals(project, skill) / "cases" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(case))
    return path


def add_script(project: Path, name: str, *replies: dict[str, Any], skill: str = "sound", **more: Any) -> Path:
    path = evals(project, skill) / "scripts" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"harness-script": 1, "replies": list(replies), **more}))
    return path


def evaluated(
    project: Path, *words: str, model: str = "scripted", **env: str
) -> subprocess.CompletedProcess[str]:
    return harness("eval", "sound", "-m", model, *words, cwd=project, **env)


def found(done: subprocess.CompletedProcess[str]) -> Any:
    """What `--json` printed."""
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
