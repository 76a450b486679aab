"""A person's word from another process: found where it is awaited, written into that run's inbox, nothing else."""

from __future__ import annotations

import getpass
import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import HarnessError, JournalError
from harness.events.attempts import is_unknown
from harness.events.hiding import Hide, as_they_are, masked
from harness.events.io import IO
from harness.events.log import follow
from harness.events.messages import about, is_old, read_message, waiting_files
from harness.events.state import Operation, State
from harness.events.witness import bear
from harness.runs.owning import redacted
from harness.runs.peek import peek, read_state
from harness.runs.pins import pinned

What = Literal["approval", "answer", "outcome"]
WAITS: dict[str, What] = {"needs-approval": "approval", "needs-answer": "answer", "unknown-outcome": "outcome"}
"""A park that only a person ends → what then waits."""
SAID = {"approve": "approved", "deny": "denied", "answer": "answered", "settle": "settled"}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person, in a run or below it: `what` is an approval, an answer or an outcome."""

    folder: Path
    state: State
    op: Operation
    what: What


def waiting(folder: Path) -> list[Waiting]:
    """Everything that waits for a person in this run and in the children it began, in order."""
    state = read_state(folder)
    if state is None:
        return []
    found = waiting_in(folder, state)
    for op in state.open_ops.values():
        if op.child and op.attempt_open:
            found += waiting(folder.parent / op.child)
    return found


def waiting_in(folder: Path, state: State) -> list[Waiting]:
    """The same of one run alone."""
    found = [Waiting(folder, state, op, "approval") for op in state.open_ops.values() if op.verdict == "ask"]
    found += [Waiting(folder, state, state.ops[n], "answer") for n in _questions(state)]
    return found + [Waiting(folder, state, op, "outcome") for op in _unknown(state)]


def said_on(one: Waiting) -> str:
    """The newest word on it that lies in the inbox still: approved, denied, answered or settled; else empty.

    A yes to another call than the one that waits now, or one that is too old, is void: it is asked for again.
    """
    messages = [read_message(path) for path in reversed(waiting_files(one.folder))]
    word = next((message for message in messages if message and about(message) == (one.what, one.op.n)), None)
    return "" if word is None or _is_void(word, one.op) else SAID[word["kind"]]


def _is_void(word: dict[str, Any], op: Operation) -> bool:
    is_other = str(word.get("digest", ""))[: len(op.digest or "")] != op.digest
    return word["kind"] == "approve" and (is_other or is_old(word, time.time()))


def _questions(state: State) -> list[int]:
    found = [op.n for op in state.open_ops.values() if op.verb == "ask" and op.answer is None]
    if state.question is not None and state.verdict is not None:
        found += [check["op"] for check in state.verdict.get("checks") or () if check.get("exit") == 10]
    return found


def _unknown(state: State) -> list[Operation]:
    """What nobody but a person can tell the end of: by its own account, or because the run parked for it."""
    park = state.park or {}
    named = set(park.get("ops") or ()) if park.get("stop") == "unknown-outcome" else set()
    return [op for op in state.open_ops.values() if is_unknown(op) or (op.child is None and op.n in named)]


def speaker(folder: Path) -> str:
    """The model of a run: the one it began with, or the newest that took its place."""
    return str(pinned(follow(folder))["model"])


def meant(folder: Path, n: int | None, what: What) -> list[Waiting]:
    """Those that a person can mean: the one with the number, or all. Raises HarnessError where nothing waits."""
    peek(folder)
    state = read_state(folder)
    if state is not None and state.redacted:
        raise redacted(folder.name)
    found = [w for w in waiting(folder) if w.what == what and n in (None, w.op.n)]
    if not found:
        named = f"operation {n}" if n is not None else f"run {folder.name}"
        raise HarnessError(f"{named} waits for no {what}", f"look: harness show {folder.name}")
    return found


def one(found: list[Waiting], digest: str = "") -> Waiting:
    """The only one, or of several the one with the digest. Raises HarnessError where several wait.

    Two workers count their calls each from 1: below one top run a number alone may name several.
    """
    fits = [w for w in found if digest and str(w.op.digest).startswith(digest)]
    if len(found) == 1 or len(fits) == 1:
        return (fits or found)[0]
    what = f"several operations wait for an {found[0].what}: {' '.join(f'#{w.op.n}' for w in found)}"
    if len({w.folder for w in found}) == 1:
        raise HarnessError(what, "name one of them")
    named = ", ".join(f"{w.folder.name[-8:]} {w.op.n}" for w in found)
    raise HarnessError(what, f"name one of them with its own run: {named}")


def put(
    target: Waiting, io: IO, message: dict[str, Any], hide: Hide = as_they_are, words: Path | None = None
) -> None:  # fmt: skip
    """Write a message into the inbox of the run that waits; its owner, or the next one, acts on it."""
    send(target.folder, io, {**message, "op": target.op.n}, hide, words)


def send(
    folder: Path, io: IO, message: dict[str, Any], hide: Hide = as_they_are, words: Path | None = None
) -> Path:  # fmt: skip
    """Write a message into a run's inbox, its secrets masked; returns its file. Raises JournalError.

    `words` is where it is kept that a person said it; without it an owner that looks there drops the message.
    """
    said = {"by": f"user:{me()}", **{key: masked(value, hide, set()) for key, value in message.items()}}
    path, body = folder / "inbox" / f"{message['kind']}-{secrets.token_hex(8)}.json", json.dumps(said).encode()
    try:
        if words is not None:
            bear(words, path, body, io)
        io.put(path, body)
    except OSError as error:
        what = f"the inbox cannot be written: {(error.strerror or str(error)).lower()}"
        raise JournalError(what, "free the cause, then say it again", str(path.parent)) from error
    return path


def top_of(folder: Path) -> Path:
    """The run that a person goes on with: the outermost one that is still there. Raises JournalError."""
    while parent := peek(folder).get("parent"):
        above = folder.parent / str(parent["run"])
        if not above.is_dir():
            return folder
        folder = above
    return folder


def me() -> str:
    """The person's name, as far as this machine knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
