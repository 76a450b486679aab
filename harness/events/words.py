"""Whose words a run has heard: the user's own are kept, that somebody else spoke is noted. Pure, like the fold."""

from __future__ import annotations

from typing import Any

from harness.events.state import State

AGENT = "agent"
"""The model of a run that another agent drives: whoever speaks in it may be that agent."""


def hear_start(state: State) -> None:
    """The goal and the typed inputs are the user's words, unless a model or another agent wrote them."""
    start = state.start
    state.foreign = bool(start.get("parent")) or start.get("by", "user") != "user"
    if start.get("parent") or state.model == AGENT:
        return
    if not state.foreign:
        state.said.append(start.get("goal", ""))
    for value in state.inputs.values():
        state.said += [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def hear(state: State, data: dict[str, Any]) -> None:
    """A message, or the answer to a question."""
    if data.get("by") == "user" and state.model != AGENT:
        state.said.append(data["text"])
    else:
        state.foreign = True
