"""Runs `python -m harness …` as a person would, in a folder of its own, with nothing of this machine's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """An environment with a home of its own, without CI, colours or HARNESS_ variables."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "dumb", **more}


def harness(*arguments: str, cwd: Path, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """One command to its end. Standard input is an open, silent pipe unless given."""
    home = cwd / ".home"
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "harness", *arguments]
    read, write = os.pipe()
    try:
        given: dict[str, Any] = {"stdin": read} if stdin is None else {"input": stdin}
        environment = clean_env(home, **env)
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, **given)
    finally:
        os.close(read)
        os.close(write)
