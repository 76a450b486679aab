"""Attempts through the shim, for the tests of the executor: a script becomes a tool, with a folder beside it."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

from harness.events.io import IO
from harness.executor import Cancel, Job, Outcome, environment, prepare, run_shim
from harness.sandbox import Limits

ROOT = Path(__file__).resolve().parents[1]
OP = f"shim-{os.getpid()}/1"


def script(folder: Path, text: str, name: str = "tool", mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip(), newline="")
    path.chmod(mode)
    return path


def folder_of(path: Path) -> Path:
    """The attempt's folder, beside the tool."""
    folder = path.parent / f"attempt-{path.name}"
    (folder / "work").mkdir(parents=True, exist_ok=True)
    return folder


def job(
    path: Path, *args: str, timeout: float = 20, stdin: bytes = b"", limits: Limits | None = None, op_id: str = OP
) -> Job:
    work = folder_of(path) / "work"
    env = environment(op_id=op_id, run=path.parent, out=work, depth=0, passed={}, skill=None)
    return Job((str(path), *args), path.parent, env, timeout, op_id, stdin, limits or Limits(), "d1")


def attempt(path: Path, *args: str, **more: Any) -> Outcome:
    made = job(path, *args, **more)
    return run_shim(made, prepare(folder_of(path), made, IO()), IO(), Cancel())


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
