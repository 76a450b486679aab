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


def said_in(events: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The words of `--allow` and `--deny` that hold for the whole run: each that began it, or went on with it.

    A fork takes over what narrows, and no yes.
    """
    found, copied = dict[str, list[str]](), 0
    for event in events:
        data = event["data"]
        if event["kind"] == "run.start":
            copied = (data.get("fork") or {}).get("seq", 0)
        for name, words in (data.get("flags") or {}).items() if event["kind"] in ("run.start", "resume") else ():
            if name == "deny" or event["seq"] > copied or event["kind"] == "run.start":
                held = found.setdefault(name, [])
                held += [word for word in words if word not in held]
    return found


def _accept(found: dict[str, Any], what: str, now: str) -> None:
    kind, _, name = what.partition(" ")
    if not name:
        found[kind] = now
    elif now:
        found["tools"][name] = now
    else:
        found["tools"].pop(name, None)
