"""Attempts that a damaged journal tells nothing of, and what a person has said of them: none is repeated blindly."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.state import State
from harness.executor import has_acted
from harness.executor.files import request
from harness.loop.inbox import SETTLED, waiting_files


def begun_attempts(folder: Path) -> list[Path]:
    """The attempt folders of a run in which something ran that may have had an effect; one that only reads has none."""
    attempts = sorted((folder / "ops").glob("*/*"))
    return [path for path in attempts if path.parent.name.isdigit() and path.name.isdigit() and has_acted(path)]


def unaccounted(attempts: Collection[Path], state: State) -> list[Path]:
    """Those of which a state knows nothing."""
    found = []
    for attempt in attempts:
        op = state.ops.get(int(attempt.parent.name))
        if op is None or int(attempt.name) > op.attempt:
            found.append(attempt)
    return found


def settled(folder: Path, attempts: Collection[Path]) -> list[dict[str, Any]]:
    """What a person said of these attempts: [{"op", "word", "argv"}]. Raises HarnessError (exit 11) for one left over.

    The words lie in the inbox: a damaged run has no owner that could turn them into events.
    """
    words = _words(folder)
    left = [attempt for attempt in attempts if int(attempt.parent.name) not in words]
    if left:
        named = "\n  ".join(str(attempt) for attempt in left)
        what = f"the lost part of the journal held attempts that may have had an effect:\n  {named}"
        fix = f"look there, then: harness settle {folder.name} {left[0].parent.name} VERDICT"
        raise HarnessError(what, fix, code=11)
    return [{"op": int(a.parent.name), "word": words[int(a.parent.name)], "argv": _argv(a)} for a in attempts]


def _words(folder: Path) -> dict[int, str]:
    """Operation → the newest verdict on it."""
    found: dict[int, str] = {}
    for path in waiting_files(folder):
        try:
            message = json.loads(path.read_bytes())
            if message["kind"] == "settle" and message["word"] in SETTLED:
                found[int(message["op"])] = message["word"]
        except (ValueError, KeyError, TypeError, OSError, OverflowError, RecursionError):
            continue
    return found


def _argv(attempt: Path) -> list[str]:
    """The call, its tool by name."""
    argv = [str(word) for word in request(attempt).get("argv") or ()]
    return [Path(argv[0]).name, *argv[1:]] if argv else []
