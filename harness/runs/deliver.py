"""A person's word from another process: found where it is awaited, written into that run's inbox, nothing else."""

from __future__ import annotations

import getpass
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, JournalError
from harness.events.io import IO
from harness.events.state import Operation, State
from harness.runs.peek import peek, read_state


@dataclass(frozen=True, slots=True)
class Waiting:
    """One call or question that waits for a person, in a run or below it."""

    folder: Path
    state: State
    op: Operation
    question: bool


def waiting(folder: Path) -> list[Waiting]:
    """Everything that waits for a person in this run and in the children it began, in order."""
    state = read_state(folder)
    if state is None:
        return []
    found = [Waiting(folder, state, op, False) for op in state.open_ops.values() if op.verdict == "ask"]
    found += [Waiting(folder, state, state.ops[n], True) for n in _questions(state)]
    for op in state.open_ops.values():
        if op.child and op.attempt_open:
            found += waiting(folder.parent / op.child)
    return found


def _questions(state: State) -> list[int]:
    found = [op.n for op in state.open_ops.values() if op.verb == "ask" and op.answer is None]
    if state.question is not None and state.verdict is not None:
        found += [check["op"] for check in state.verdict.get("checks") or () if check.get("exit") == 10]
    return found


def meant(folder: Path, n: int | None, question: bool) -> list[Waiting]:
    """Those that a person can mean: the one with the number, or all. Raises HarnessError where nothing waits."""
    peek(folder)
    found = [w for w in waiting(folder) if w.question == question and n in (None, w.op.n)]
    if not found:
        named = f"operation {n}" if n is not None else f"run {folder.name}"
        what = "answer" if question else "approval"
        raise HarnessError(f"{named} waits for no {what}", f"look: harness show {folder.name}")
    return found


def one(found: list[Waiting]) -> Waiting:
    """The only one. Raises HarnessError where several wait."""
    if len(found) == 1:
        return found[0]
    what = "answer" if found[0].question else "approval"
    numbers = " ".join(f"#{w.op.n}" for w in found)
    raise HarnessError(f"several operations wait for an {what}: {numbers}", "name one of them")


def put(target: Waiting, io: IO, message: dict[str, Any]) -> None:
    """Write a message into the inbox of the run that waits; its owner, or the next one, acts on it."""
    body = {"by": f"user:{_me()}", **message, "op": target.op.n}
    path = target.folder / "inbox" / f"{message['kind']}-{secrets.token_hex(8)}.json"
    try:
        io.put(path, json.dumps(body).encode())
    except OSError as error:
        what = f"the inbox cannot be written: {(error.strerror or str(error)).lower()}"
        raise JournalError(what, "free the cause, then say it again", str(path.parent)) from error


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
