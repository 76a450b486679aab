"""What a person's amendment names: slots that are to be stale, or the call whose result is supplied by hand."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from harness.errors import HarnessError, near_text
from harness.events.state import Slot, State

MAX_BYTES = 8 * 1024 * 1024


def slots_named(state: State, text: str) -> list[Slot]:
    """The slots that a word means: a stage, a tool with all it was called with, or one call. Raises HarnessError."""
    stage: Slot = ("stage", text)
    if stage in state.slots:
        return [stage]
    if text in state.by_tool:
        return list(state.by_tool[text])
    try:
        call: Slot = tuple(shlex.split(text))
    except ValueError:
        call = ()
    if call in state.slots:
        return [call]
    known = [slot[1] if slot[0] == "stage" else slot[0] for slot in state.slots]
    what = f"this run holds no result of {text!r}{near_text(text, known)}"
    raise HarnessError(what, f"name one of: {' '.join(dict.fromkeys(known))}" if known else _look(state))


def _look(state: State) -> str:
    return f"look: harness show {state.start['run']}"


def receipt_given(word: str, state: State, tool_of: Callable[[str], str | None]) -> tuple[str, dict[str, Any]]:
    """`OP=FILE` or `STAGE=FILE` as (target, value of the message). `tool_of` gives the tool of a stage not begun.

    Raises HarnessError where there is no such call, where it has not ended, or where the file cannot be taken.
    """
    target, equals, file = word.partition("=")
    if not equals or not target or not file:
        raise HarnessError(f"--receipt {word} names no file", "write --receipt OP=FILE")
    newest = {op.stage: op for op in state.ops.values() if op.stage}
    op = state.ops.get(int(target)) if target.isascii() and target.isdigit() else newest.get(target)
    if op is None:
        tool = tool_of(target)
        if tool is None:
            names = [*map(str, state.ops), *filter(None, newest)]
            raise HarnessError(f"this run has no operation {target}{near_text(target, names)}", _look(state))
        return target, {"tool": tool, "stage": target, "argv": None, "out": _text(file)}
    if not op.closed:
        raise HarnessError(f"operation {op.n} ({op.tool}) has not ended", "approve, deny, answer or settle it")
    if op.verb not in ("run", "stage"):
        raise HarnessError(f"operation {op.n} is a {op.verb}: no tool's result", "name a call of a tool")
    value = {"tool": op.tool, "stage": op.stage, "argv": list(op.argv or ()), "out": _text(file)}
    return target, value


def _text(file: str) -> str:
    try:
        with open(file, "rb") as source:
            raw = source.read(MAX_BYTES + 1)  # it may have no end
    except OSError as error:
        what = f"{file} cannot be read: {error.strerror or error}"
        raise HarnessError(what, "name a file with the result") from error
    if len(raw) > MAX_BYTES:
        raise HarnessError(f"{file} is larger than {MAX_BYTES} bytes", "a result is at most 8 MiB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise HarnessError(f"{file} is no text", "a result is UTF-8") from error
