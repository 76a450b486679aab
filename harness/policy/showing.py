"""What an approval prompt is rendered from: the call as it was decided, what its event says, the model's words last.

The same for a prompt in the run and for `harness approve`, which has the journal alone. It decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.events.receipt import argv_in
from harness.events.state import Operation, State
from harness.events.texts import texts_of
from harness.policy.ledger import Ledger
from harness.policy.pins import difference

Words = Callable[[Any], str]
"""Reads a text as an event holds it."""


def approval(
    state: State, op: Operation, events: Iterable[Mapping[str, Any]], text: Words, run: str, path: str, cwd: str
) -> dict[str, Any]:  # fmt: skip
    """The request of a prompt. `path` is the tool's file, `events` are those of the run, `text` reads its texts."""
    at, short = Path(path), path
    if at.is_absolute() and at.is_relative_to(cwd):
        short = str(at.relative_to(cwd))
    return {
        "run": run, "op": op.n, "skill": state.start.get("skill", ""), "tool": op.tool, "effect": op.effect,
        "path": short, "argv": list(argv_in(op, text)), "cwd": cwd, "digest": op.digest or "",
        "level": op.level or "none", "reasons": list(op.reasons), "turn": op.turn,
        "spent": _spent(state), "text": _said(op, events, text), **op.asked,
    }  # fmt: skip


def changed(
    ledger: Ledger | None, void: str, tool: str, events: Iterable[Mapping[str, Any]], text: Words
) -> dict[str, Any]:
    """What a prompt says of a grant that is void because the tool changed, and how it changed.

    A yes for the run (`#9`) has its copy in the journal, one for days in the ledger.
    """
    if not void:
        return {}
    lines = [f"grant {void} is void: the tool changed since it was given"]
    if void.startswith("#"):
        said = (event["data"] for event in events if event["kind"] == "decide" and f"#{event.get('op')}" == void)
        before = next((text(data["copy"]).encode() for data in said if "copy" in data), None)
    else:
        old = next((one for one in ledger.grants() if one.id == void), None) if ledger is not None else None
        before = ledger.copy(old) if ledger is not None and old is not None else None
    return {"diff": [*lines, *difference(before, Path(tool))]}


def _spent(state: State) -> str:
    bound = state.budget.get("usd")
    of = f" of ${float(bound):.2f}" if bound not in (None, "none") else ""
    return f"${state.spent.nanos / 1e9:.2f}{of}"


def _said(op: Operation, events: Iterable[Mapping[str, Any]], text: Words) -> str:
    """What the model said with the call, without the calls themselves."""
    replies = (event["data"] for event in events if event["kind"] == "model.reply")
    content = next((data["content"] for data in replies if data["turn"] == op.turn), None) if op.turn else None
    if isinstance(content, Mapping) and "blob" in content:
        content = json.loads(text(content))
    return "\n".join(part for part in texts_of(content) if part.strip()) if content else ""
