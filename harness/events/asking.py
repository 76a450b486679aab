"""What becomes of requests to a model: how often one failed, when it is due again, what its tokens were. Pure."""

from __future__ import annotations

from typing import Any

from harness.events.state import Asking, State


def answered(state: State, data: dict[str, Any]) -> None:
    """A reply: the next request is a new one."""
    old, usage = state.asking, data.get("usage") or {}
    taken, out, size = usage.get("input", 0), usage.get("out", 0), state.request.get("bytes", 0)
    is_count = bool(taken and size and not usage.get("estimated"))
    pauses = old.pauses + 1 if data.get("stop") == "pause" else 0
    state.asking = Asking(pauses=pauses, measured=(size, taken, out) if is_count else old.measured)


def failed(state: State, data: dict[str, Any]) -> None:
    """No reply: the same request is due again, at once or after an announced time."""
    asking, after = state.asking, data.get("retry_after")
    if data["reason"] == "length":
        asking.cut += 1
        return
    asking.tries, asking.at = data.get("try", 1), None if after is None else state.at + float(after)


def rested(state: State) -> None:
    """The run stopped: whoever goes on with it asks at once, and as often as at first."""
    state.asking.tries, state.asking.at, state.asking.cut = 0, None, 0


def renewed(state: State, data: dict[str, Any]) -> None:
    """A new context: what was counted before was another text."""
    state.context = data["n"]
    state.model = data.get("model") or state.model
    state.asking = Asking()
