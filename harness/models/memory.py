"""Which form of request a server takes, remembered for a week in the state folder. Losing the file costs requests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events.io import IO, make_private
from harness.models.chat import MODES, Mode
from harness.policy.files import state_folder

DAYS_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Form:
    """How a server is asked: the mode, and whether it is told to count a stream's tokens."""

    mode: Mode = "tools"
    counted: bool = True


def memory_file(env: Mapping[str, str]) -> Path:
    """Where forms are remembered."""
    return state_folder(env) / "models.json"


def recall(file: Path, base: str, model: str) -> Form | None:
    """The form that this server took for this model within the last seven days."""
    entry = _read(file).get(base, {}).get(model)
    if not isinstance(entry, dict) or entry.get("mode") not in MODES:
        return None
    at = entry.get("at")
    fresh = isinstance(at, int | float) and 0 <= time.time() - at < DAYS_S
    return Form(entry["mode"], entry.get("counted") is not False) if fresh else None


def remember(file: Path, base: str, model: str, form: Form | None) -> None:
    """Keep a form, or with None forget the one there is. Where nothing can be written nothing is remembered."""
    held = _read(file)
    held[base] = {name: entry for name, entry in held.get(base, {}).items() if name != model}
    if form is not None:
        held[base][model] = {"mode": form.mode, "counted": form.counted, "at": int(time.time())}
    with suppress(OSError):
        make_private(file.parent)
        IO().put(file, (json.dumps(held, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode())


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}

