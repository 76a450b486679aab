"""What a decision says of remembered approvals: which one decided, and which one a person gave. Pure, like the fold."""

from __future__ import annotations

from typing import Any

from harness.events.state import Operation, State

ASKED = ("remember", "days", "hosts", "void", "sources", "network", "secrets")
"""What the event of a question holds beside the call itself, so that it can be put elsewhere and later, too."""


def note_grant(state: State, op: Operation, data: dict[str, Any]) -> None:
    """Keep what the decision on `op` says of grants. A yes for the whole run holds from here on."""
    kind, _, name = str(data.get("by", "")).partition(":")
    op.granted = name if kind == "grant" else ""
    op.decided_at = state.at
    if data["verdict"] == "ask":
        op.asked = {key: data[key] for key in ASKED if key in data}
    if data.get("via") and data.get("grant") == "run":
        state.grants[op.n] = (str(data.get("level", op.level)), str(data.get("file", "")))
