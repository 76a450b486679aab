"""What a run is bound to, by its journal alone: light enough for a command that only looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def pinned(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run is bound to: the digests and the model it began with, and each change that was accepted since."""
    found: dict[str, Any] = {"skill": "", "tools": {}, "model": "", "policy": ""}
    for event in events:
        data = event["data"]
        if event["kind"] == "run.start":
            digests = data.get("digests") or {}
            found = {"skill": digests.get("skill", ""), "tools": dict(digests.get("tools") or {})}
            found["policy"] = digests.get("policy", "")
            found["model"] = (data.get("model") or {}).get("ref", "")
        if event["kind"] == "context":
            found["model"] = data.get("model") or found["model"]
        for change in data.get("changes") or () if event["kind"] == "resume" else ():
            _accept(found, str(change["what"]), str(change["to"]))
    return found


def _accept(found: dict[str, Any], what: str, now: str) -> None:
    kind, _, name = what.partition(" ")
    if not name:
        found[kind] = now
    elif now:
        found["tools"][name] = now
    else:
        found["tools"].pop(name, None)
