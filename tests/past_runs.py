"""Runs as earlier processes left them, written by the real `Log`, and an IO that is killed at one of its actions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.events.io import IO
from harness.events.line import at_text
from harness.events.log import create
from tests.journal_lines import RUN, START, Hands, NoSync

DAY = 86_400.0
ENDED = {"stop": "passed", "exit": 0, "answer": "a", "unmet": [], "spent": {}}
PARKED = {"stop": "needs-approval", "exit": 5, "ops": [1], "hint": "h"}
CHANGES = ("open", "write", "truncate", "sync", "sync_dir", "rename", "mkdir", "unlink", "rmdir", "chmod", "touch")


def past_run(
    runs: Path, number: int, last: dict[str, Any] | None = None, kind: str = "run.end", age: float = 0.0, **start: Any
) -> Path:
    """A run that stopped so, `age` seconds ago; its lock is free."""
    at = START - age
    stamp = at_text(at)[:19].replace("-", "").replace(":", "")
    letters = "".join("abcdefghijklmnopqrstuvwxyz234567"[number >> 5 * place & 31] for place in range(8))
    folder = runs / f"{stamp}-{start.get('skill', 'look')}-{letters}"
    runs.mkdir(parents=True, exist_ok=True)
    log = create(folder, NoSync(), Hands(at))
    log.append("run.start", {**RUN, "run": folder.name, **start})
    if last is not None:
        log.append(kind, last)
    log.close()
    return folder


class Killed(BaseException):
    """The process is gone: nothing that catches exceptions may go on."""


def killed_at(number: int) -> IO:
    """The real thing, whose process dies before its action of that number (from 0)."""
    done = 0

    def counted(name: str) -> Callable[..., Any]:
        def act(self: IO, *given: Any, **more: Any) -> Any:
            nonlocal done
            if done == number:
                raise Killed
            done += 1
            return getattr(IO, name)(self, *given, **more)

        return act

    return type("KilledIO", (IO,), {name: counted(name) for name in CHANGES})()
