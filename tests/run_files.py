"""A project for tests of runs: small tools of every effect, skills that use them, scripts of what the model says."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.command import start, waits

HEADER = "#!/bin/sh\n# @describe {name} something\n# @option --x=1 <X>  what\n{lines}\n"
TOOLS = {
    "look": ("# @meta effect read", 'echo "looked at ${2:-1}"'),
    "keep": ("# @meta effect write", "echo kept"),
    "act": ("# @meta effect external", 'echo "${2:-1}" >> ledger; echo "acted on ${2:-1}"'),
    "pay": ("# @meta effect money", 'echo "${2:-1}" >> paid'),
    "slow": ("# @meta effect read\n# @meta timeout 60", 'echo $$ > slow.pid; sleep "${2:-1}"; echo slept'),
    "drag": ("# @meta effect external\n# @meta timeout 60", 'echo $$ > drag.pid; sleep "${2:-1}"; echo dragged'),
    "late": ("# @meta effect external\n# @meta timeout 1", "sleep 30"),
    "bare": ("", ""),
}
SKILL = "---\nname: {name}\ndescription: Does a thing. Use for tests.\nallowed-tools: {tools}\n{more}---\nDo it.\n"


def make_project(folder: Path) -> Path:
    """The project with the skills `work`, which may call everything, and `strict`, which must look and must act."""
    (folder / ".harness").mkdir(parents=True)
    for name, (meta, body) in TOOLS.items():
        add_tool(folder, name, body, meta)
    (folder / "bin" / "bare").write_text('#!/bin/sh\necho "$@" >> bare.log\n')
    add_skill(folder, "work", " ".join(TOOLS), "metadata:\n  inputs: |\n    log\n    pods\n")
    add_skill(folder, "strict", "look act", "metadata:\n  requires: look\n")
    add_skill(folder, "forced", "look act", "metadata:\n  requires: act\n")
    return folder


def add_tool(folder: Path, name: str, body: str, meta: str = "# @meta effect read", to: str = "bin") -> Path:
    path = folder / to / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER.format(name=name, lines=meta) + body + "\n")
    path.chmod(0o755)
    return path


def add_skill(folder: Path, name: str, tools: str, more: str = "") -> Path:
    path = folder / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SKILL.format(name=name, tools=tools, more=more))
    return path


def add_pipeline(folder: Path, name: str, stages: str, head: str = "") -> Path:
    path = folder / "bin" / name
    path.write_text(f"#!/usr/bin/env -S harness pipeline\n# @describe {name} in stages\n{head}stages:\n{stages}")
    path.chmod(0o755)
    return path


def script(folder: Path, *replies: dict[str, Any], name: str = "script.yaml") -> str:
    """A model that says these replies, as a value of `-m`."""
    (folder / name).write_text(yaml.safe_dump({"harness-script": 1, "replies": list(replies)}, allow_unicode=True))
    return f"scripted:{name}"


def calls(*each: list[str] | dict[str, Any], **more: Any) -> dict[str, Any]:
    """A reply of calls: a list is a tool with its arguments."""
    return {"calls": [one if isinstance(one, dict) else {"run": one} for one in each], **more}


def finish(answer: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"finish": answer}], **more}


def busy(started: list[subprocess.Popen[str]], project: Path, tool: str, seconds: str, *more: str) -> int:
    """Begin a run whose tool works for so long; the pid of its process."""
    model = script(project, calls([tool, "--x", seconds]), finish("done"))
    started.append(start("run", "work", "x", "-m", model, *more, cwd=project))
    return int(waits((project / f"{tool}.pid").read_text))
