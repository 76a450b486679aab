"""Whose words a run has heard: the user's own, and what somebody else gave in their place. Pure, like the fold."""

from __future__ import annotations

from typing import Any

from harness.events.state import State

AGENT = "agent"
"""The model of a run that another agent drives: whoever speaks in it may be that agent."""


def is_users(by: str) -> bool:
    """Whether words are a person's own: `user`, `user:NAME`, or `channel:NAME` for a person whom the policy lists."""
    return by.partition(":")[0] in ("user", "channel")


def hear_start(state: State) -> None:
    """The goal and the typed inputs are the user's words; not what a file or an agent said, nor a model's at all."""
    start, source = state.start, state.start.get("by", "user")
    state.foreign = bool(start.get("parent") or start.get("foreign")) or source != "user"
    if start.get("parent"):
        return
    theirs = state.given if state.model == AGENT else state.said
    (state.given if source != "user" else theirs).append(start.get("goal", ""))
    for name, value in state.inputs.items():
        heard = state.given if name in (*start.get("foreign", ()), *start.get("defaults", ())) else theirs
        heard += _texts(value)


def hear(state: State, data: dict[str, Any]) -> None:
    """A message, or the answer to a question. An option that was taken holds nobody's words but the model's."""
    if data.get("option"):
        return
    if _is_users(state, data):
        state.said.append(data["text"])
    else:
        state.foreign = True
        state.given.append(data["text"])


def hear_amended(state: State, data: dict[str, Any]) -> None:
    """Another value of an argument, when a person typed it."""
    if _is_users(state, data):
        state.said += _texts(data.get("value"))


def _texts(value: object) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _is_users(state: State, data: dict[str, Any]) -> bool:
    return state.model != AGENT and is_users(str(data.get("by", "")))
