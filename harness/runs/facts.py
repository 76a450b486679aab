"""What a run's first line says of the machine and the work tree. Our own git calls run nothing of the repository's."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GIT = (
    "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "diff.external=",
    "--no-optional-locks",
)  # fmt: skip
GIT_SECONDS = 5.0
OWN = ("system", "global")
"""Where settings of git lie that are the person's own, and no repository's."""


def machine() -> dict[str, Any]:
    """Host, boot id and pid of this process."""
    return {"host": socket.gethostname(), "boot": _boot(), "pid": os.getpid()}


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def git_state(project: Path) -> dict[str, Any] | None:
    """{"head", "dirty"} of the project's repository, or None where it has none or git does not answer."""
    if not (project / ".git").exists():
        return None
    head = _git(project, "rev-parse", "HEAD")
    if head is None:
        return None
    return {"head": head.strip(), "dirty": _is_dirty(project)}


def _is_dirty(project: Path) -> bool:
    """Whether tracked files differ. To compare them git runs the filters that the repository names: none is."""
    names = _git(project, "config", "--list", "--name-only", "--show-scope", "-z")
    if names is None:
        return False
    words = names.split("\0")
    theirs = {key.rpartition(".")[0] for scope, key in zip(words[::2], words[1::2], strict=False) if scope not in OWN}
    off = {f"{name}.{part}": "" for name in theirs if name.startswith("filter.") for part in ("clean", "process")}
    off |= {f"{name}.required": "false" for name in theirs if name.startswith("filter.")}
    look = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")  # each has filters of its own
    return bool(_git(project, *look, config=off))


def moved_head(before: dict[str, Any] | None, now: dict[str, Any] | None) -> list[str]:
    """What to say where the repository is at another commit than when the run was last open."""
    old, new = (str((state or {}).get("head", ""))[:12] for state in (before, now))
    said = f"git was at {old or 'no commit'} when this run was last open, now at {new or 'no commit'}"
    return [said] if old != new else []


def _git(project: Path, *words: str, config: Mapping[str, str] | None = None) -> str | None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {"LC_ALL": "C"}
    env |= {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}  # a partial clone names a command that fetches
    env |= {"GIT_CONFIG_COUNT": str(len(config or {}))}  # not as words: the name of a filter may hold any sign
    for number, (key, value) in enumerate((config or {}).items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    try:
        done = subprocess.run(
            [*GIT, *words], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
