"""The label of each text that a model sees: set by the harness, from what it knows of the call, never from the text.

A run keeps the labels that it began with, so that what it asked its model can be composed again byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.events.receipt import writer_of
from harness.events.state import Operation, State
from harness.prompt.texts import Frame

_OF_CALL = re.compile(r"(?:op:|run:ops/)([0-9]{1,9})(?:/|$)")


def of_call(op: Operation, frame: Frame) -> str:
    """The label of what a call brings: the worker's run, or the tool."""
    return f"worker:{op.child}" if op.tool in frame.workers and op.child else f"tool:{op.tool}"


def of_speaker(by: str, frame: Frame) -> str:
    """Whose words a goal or a message is."""
    return by if frame.labels > 1 else "user"


def of_read(op: Operation, state: State, frame: Frame) -> dict[str, Any]:
    """What the frame of a file says of where its text came from; a file that a call made keeps that call's label."""
    path, lines = str(op.arguments.get("path", "")), op.arguments.get("lines")
    if frame.labels == 1:
        return {"source": _first_label(path, op, state, frame), "path": path, "lines": lines}
    label = _label(path, op, state, frame)
    where = None if label.startswith("file:") else path
    return {"source": label, "path": where, "lines": lines, "from": _maker(op, state, frame)}


def _maker(op: Operation, state: State, frame: Frame) -> str | None:
    """The call that made the file, of this run or of an earlier one."""
    writer, made = writer_of(state, op), (op.result or {}).get("made")
    if writer is not None:
        return f"{of_call(writer, frame)}#{writer.n}"
    return str(made["by"]) if isinstance(made, dict) else None


def of_words(turn: int, words: str, frame: Frame) -> Mapping[str, Any]:
    """The frame of what the model itself said."""
    size = {"bytes": len(words.encode("utf-8", "replace"))} if frame.labels > 1 else {}
    return {"source": f"model#turn {turn}", "class": "unverified", **size}


def _label(path: str, op: Operation, state: State, frame: Frame) -> str:
    """It stays that of the tool when its output or its scratch is read again."""
    if path.startswith("skill:"):
        return f"skill:{frame.skill}#{op.n}"
    if path.startswith("turn:") or path == "run:answer.md":
        return f"model#{op.n}"
    found = _OF_CALL.match(path)
    origin = state.ops.get(int(found[1])) if found else None
    if origin is not None and origin.verb == "read" and origin.n < op.n:
        return _label(str(origin.arguments.get("path", "")), origin, state, frame)
    return f"{of_call(origin, frame)}#{origin.n}" if origin is not None else f"file:{path}#{op.n}"


def _first_label(path: str, op: Operation, state: State, frame: Frame) -> str:
    """As runs say it that began before a file's label held its path."""
    if path.startswith("skill:"):
        return f"skill:{frame.skill}#{op.n}"
    number = path[3:].partition("/")[0] if path.startswith("op:") else ""
    origin = state.ops.get(int(number)) if number.isdecimal() else None
    return f"tool:{origin.tool}#{origin.n}" if origin is not None and origin.verb != "read" else f"file#{op.n}"
