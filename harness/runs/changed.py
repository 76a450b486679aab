"""What has changed under the workers that a run waits for: they are bound to what they began with, as the run is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.log import follow
from harness.events.state import State
from harness.runs.begin import changed_pins, pins
from harness.runs.kit import skill_kit, tool_pins
from harness.runs.peek import read_state
from harness.runs.pins import pinned
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file


def changed_below(catalog: Catalog, folder: Path, state: State) -> list[dict[str, str]]:
    """What differs from the pins of the workers below that go on: [{"what", "from", "to"}]."""
    found = []
    for below, known in _open_below(folder, state):
        changes = changed_pins(pinned(follow(below)), _pins_now(catalog, Path(known.start["path"])))
        found += [{**change, "what": f"{change['what']} of the worker {known.start['skill']}"} for change in changes]
    return found


def _pins_now(catalog: Catalog, path: Path) -> dict[str, Any]:
    try:
        resolved = resolve(catalog, find(catalog, str(path.parent)))
    except HarnessError:  # it is no more
        return {}
    return pins(tool_pins(skill_kit(resolved).tools), resolved)


def _open_below(folder: Path, state: State) -> Iterator[tuple[Path, State]]:
    """The workers that are not at their end, at any depth, and their states."""
    for op in state.open_ops.values():
        below = folder.parent / str(op.child)
        known = read_state(below) if op.child and op.attempt_open else None
        if known is not None:
            if is_skill_file(Path(str(known.start.get("path") or ""))):
                yield below, known
            yield from _open_below(below, known)
