"""Runs that did not pass, grouped by what stopped them, and a case drafted from one of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events.io import IO
from harness.events.scan import blob_text
from harness.events.state import State
from harness.loop.paths import hidden_reason, open_beneath
from harness.runs.peek import read_state

CANDIDATES = "candidates"
MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class Cause:
    """Why runs stopped, and which did."""

    why: str
    runs: tuple[str, ...]


def causes(folders: Iterable[Path]) -> list[Cause]:
    """The runs by what stopped them, the most frequent first."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        state = read_state(folder)
        if state is not None:
            found.setdefault(cause_of(state), []).append(folder.name)
    return sorted((Cause(why, tuple(runs)) for why, runs in found.items()), key=lambda one: (-len(one.runs), one.why))


def cause_of(state: State) -> str:
    """What stopped a run, in words that are the same for runs that failed alike: no value of one run is in them."""
    last = state.end or state.park or {}
    stop = str(last.get("stop", "stopped"))
    if stop == "budget":
        return f"budget: {last.get('limit', 'unknown')}"
    if stop == "declined" and state.verdict:
        return f"declined: never ran {', '.join(one['name'] for one in state.verdict.get('missing') or ())}"
    refusing = [one["name"] for one in (state.verdict or {}).get("checks") or () if one.get("exit") != 0]
    if stop == "failed" and refusing:
        return f"failed: refused by {', '.join(refusing)}"
    trouble = _newest_trouble(state)
    return f"{stop}: {trouble}" if trouble else stop


def _newest_trouble(state: State) -> str:
    """The newest call that did not do well, as its tool and class."""
    for op in reversed(state.ops.values()):
        code = op.code or (op.result or {}).get("class")
        if code and code != "OK" and op.role != "verify":
            return f"{op.tool or op.verb} {code}"
    return ""


def draft(
    folder: Path, evals: Path, project: Path, paths: Collection[str], hide: Callable[[str], str]
) -> Path:
    """Write a case from a run, with its secrets masked and its input files beside it; never over another one.

    `paths` are the inputs that name files; one outside the project, or that no run reads, is left where it is. The case
    is put where no evaluation finds it: a person looks at it and moves it. Raises OSError, FileExistsError.
    """
    state = read_state(folder)
    assert state is not None
    start, name = state.start, folder.name.rsplit("-", 1)[-1]
    files = _files({name: value for name, value in state.inputs.items() if name in paths}, project, hide)
    case: dict[str, Any] = {"goal": hide(blob_text(folder, start.get("goal")))}
    inputs = {key: hide(str(value)) for key, value in state.inputs.items() if isinstance(value, str)}
    case |= {"inputs": {key: f"given/{Path(value).name}" if key in files else value for key, value in inputs.items()}}
    path = evals / CANDIDATES / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    if files:
        case["fixture"] = f"mined-{name}"
        for key, text in files.items():
            to = evals / "fixtures" / f"mined-{name}" / "given" / Path(inputs[key]).name
            to.parent.mkdir(parents=True, exist_ok=True)
            IO().put(to, text.encode("utf-8", "surrogateescape"), 0o644)
    head = f"# run {folder.name} stopped by {cause_of(state)}\n# say what is expected, then move this to cases/\n"
    with path.open("x", encoding="utf-8") as file:
        file.write(head + _yaml(case))
    return path


def _files(inputs: Mapping[str, Any], project: Path, hide: Callable[[str], str]) -> dict[str, str]:
    """The text of each input that is a small file of the project, by the input's name, masked."""
    found = {}
    for key, value in inputs.items():
        if not isinstance(value, str) or Path(value).is_absolute() or hidden_reason(Path(value).parts, ""):
            continue
        try:
            with os.fdopen(open_beneath(project, value), "rb") as file:
                raw = file.read(MAX_FILE + 1)
        except (OSError, ValueError):
            continue
        if len(raw) <= MAX_FILE:
            found[key] = hide(raw.decode("utf-8", "surrogateescape"))
    return found


def _yaml(case: Mapping[str, Any]) -> str:
    """The case as YAML whose scalars are JSON: no text of a run can be read as anything else."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in case.items()]
    return "\n".join([*lines, "suite: regression", "split: dev", "expect:", "  stop: passed", ""])
