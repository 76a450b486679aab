"""Words from other processes: files in the run's inbox, turned into events by its owner. Only it writes the log."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.events.attempts import is_unsettled
from harness.events.log import follow
from harness.events.messages import about, is_old, read_message, waiting_files
from harness.events.receipt import options_in
from harness.events.state import Operation
from harness.events.witness import is_borne
from harness.loop import cover
from harness.loop.amend import amend
from harness.loop.below import unseen_in
from harness.loop.gate import DIGEST_SHOWN, person_decides
from harness.loop.result import artifacts_there, result_digest
from harness.loop.run import Run

SETTLED = {"happened": ("done", "OK"), "did-not-happen": ("not-started", ""), "unknown": ("unknown", "UNKNOWN_OUTCOME")}
"""A person's word → the outcome and the class of the operation's end."""
CANCEL = "cancel-"
LOOK = 0.25
"""Seconds between two looks for a wish to stop."""


def cancel_level(folder: Path) -> int:
    """How much somebody else wants the run stopped: 0, 1 (start nothing more) or 2 (kill what runs)."""
    return max((2 if _is_now(path) else 1 for path in _cancels(folder)), default=0)


def _cancels(folder: Path) -> list[Path]:
    return [path for path in waiting_files(folder) if path.name.startswith(CANCEL)]


def _is_now(path: Path) -> bool:
    try:
        return json.loads(path.read_bytes()).get("now") is True
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def drop_cancels(run: Run) -> None:
    """A wish to stop was for the owner before: who opens the run again wants it to go on."""
    for path in _cancels(run.folder):
        with run.log.guarded("a message cannot be removed from the inbox"):
            run.world.io.unlink(path)


@contextmanager
def watched(run: Run) -> Iterator[None]:
    """Heed a wish to stop from another process, whatever the loop waits for meanwhile. A child's comes to its top."""
    over = threading.Event()
    if run.depth == 0:
        threading.Thread(target=_watch, args=(run, over), name=f"inbox-{run.name}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(run: Run, over: threading.Event) -> None:
    while not over.wait(LOOK):
        _heed(run, cancel_level(run.folder))


def _heed(run: Run, level: int) -> None:
    """Raise the level of the run and of all that run with it; whoever shows them says so."""
    if level > run.world.cancel.level:
        run.world.cancel.level = level
        run.world.cancelled(level)


def has_word(folder: Path, words: Path | None) -> bool:
    """Whether a person spoke from another process: a file that `words` does not know is nobody's word."""
    return any(is_borne(words, path) for path in waiting_files(folder))


def take(run: Run) -> int:
    """Turn every message into its event, on the disk before it is acknowledged; returns how many there were."""
    said = {path: read_message(path) for path in waiting_files(run.folder)}
    theirs = {path for path, message in said.items() if _is_theirs(run, path, message)}
    last = {about(message): path for path, message in said.items() if path in theirs}
    for path, message in said.items():
        if path not in theirs:
            run.note("warning", f"the inbox message {path.name} is no person's word and was dropped.")
        elif path.stem not in run.state.inbox:
            _take_one(run, path, message, is_last=last[about(message)] == path)
        with run.log.guarded("a message cannot be removed from the inbox"):
            run.world.io.unlink(path)
    return len(said)


def _is_theirs(run: Run, path: Path, message: dict[str, Any] | None) -> bool:
    """Whether a message may speak for a person. A wish to stop may be anybody's: it was heeded when it was seen."""
    return message is None or message["kind"] == "cancel" or is_borne(run.world.words, path)


def _take_one(run: Run, path: Path, message: dict[str, Any] | None, *, is_last: bool) -> None:
    if message is None:
        run.note("warning", f"the inbox message {path.name} could not be read and was dropped.")
        return
    kind, n = message["kind"], message["op"]
    if about(message) is not None and not is_last:
        run.note("changed", f"'{message.get('word') or kind}' on operation {n} was taken back by a newer word.")
    elif kind in ("approve", "deny"):
        _decision(run, message, n, path.stem)
    elif kind in ("answer", "say"):
        _words(run, message, n, path.stem)
    elif kind == "settle":
        _settlement(run, message, n, path.stem)
    elif kind == "cancel":
        _heed(run, 2 if _is_now(path) else 1)
    elif kind == "amend":
        amend(run, message, path.stem)
    else:
        run.note("warning", f"the inbox message {path.name} is of the unknown kind {kind!r} and was dropped.")


def _decision(run: Run, message: dict[str, Any], n: int, name: str) -> None:
    op = run.state.open_ops.get(n)
    by = str(message.get("by", "user"))
    if op is None or op.verdict != "ask":
        run.note("changed", f"operation {n} waits for no approval any more.")
        return
    if message["kind"] == "deny":
        person_decides(run, op, "deny", by, "command", str(message.get("why") or ""), name)
    elif is_old(message, run.world.clock.wall()):  # by the person's clock, which is this run's, too
        run.note("changed", f"the approval of operation {op.n} is void: it is more than 24 hours old.")
    elif str(message.get("digest", ""))[:DIGEST_SHOWN] != op.digest:
        why = _since(run, n, str(message.get("digest", "")))
        run.note("changed", f"the approval of operation {op.n} is void: {why}.")
    else:
        person_decides(run, op, "allow", by, "command", "", name, str(message.get("grant") or "once"))


def _since(run: Run, n: int, digest: str) -> str:
    """What changed since the call was asked about in the way that a yes was said to."""
    is_after = False
    for event in follow(run.folder):
        data = event["data"]
        if event["kind"] == "decide" and event.get("op") == n and data.get("digest", "")[:DIGEST_SHOWN] == digest:
            is_after = True
        changes = data.get("changes") or () if is_after and event["kind"] == "resume" else ()
        if any(change["what"] == "policy" for change in changes):
            return "the policy is not what it was"
    return "the call is another one now"


def _settlement(run: Run, message: dict[str, Any], n: int, name: str) -> None:
    """What a person knows of an operation whose outcome nothing else tells."""
    op, word = run.state.open_ops.get(n), message.get("word")
    if op is None or not is_unsettled(op) or word not in SETTLED:
        run.note("changed", f"operation {n} waits to be settled no more.")
        return
    outcome, error_class = SETTLED[word]
    data: dict[str, Any] = {"try": op.attempt, "outcome": outcome, "exit": 0 if word == "happened" else None}
    data |= {"class": error_class} if error_class else {}
    out = cover.text(run, str(message.get("output") or "")).encode()
    data |= {"by": "person", "ms": 0, "out": run.log.fit(out), "result": ""}
    tool = run.toolset.tools.get(op.tool)
    if word == "happened":
        artifacts = artifacts_there(run, op, tool) if tool is not None else []
        data |= {"result": result_digest(0, out, artifacts)} | ({"artifacts": artifacts} if artifacts else {})
    if word == "unknown" and (tools := unseen_in(run, op)):
        data["barred"] = tools
    data["why"] = str(message.get("why") or f"settled by a person: {word}")
    run.append("tool.end", data | {"inbox": name}, n)
    run.log.sync()


def _words(run: Run, message: dict[str, Any], n: int, name: str) -> None:
    text, by = str(message.get("text", "")), str(message.get("by", "user"))
    data: dict[str, Any] = {"text": run.log.fit(text), "by": by}
    if message["kind"] == "answer":
        op = asked(run, n)
        if op is None:
            run.note("changed", f"operation {n} waits for no answer any more.")
            return
        data = answer(run, run.state.ops[op], text, by)
    run.append("user.say", data | {"inbox": name})
    run.log.sync()


def answer(run: Run, op: Operation, text: str, by: str) -> dict[str, Any]:
    """The data of the `user.say` that answers. Who takes an option says its number: its words are the model's."""
    options = options_in(op, run.text)
    chosen = {"option": options.index(text) + 1} if text in options else {}
    return {"text": run.log.fit(text), "by": by, "answers": op.n, **chosen}


def asked(run: Run, n: int) -> int | None:
    """The operation that waits for an answer: the one named, or the only one."""
    found = questions(run)
    if n:
        return n if n in found else None
    return found[0] if len(found) == 1 else None


def questions(run: Run) -> list[int]:
    """The operations whose question a person must answer: the model's, and a verifier's."""
    found = [op.n for op in run.state.open_ops.values() if op.verb == "ask" and op.answer is None]
    if run.state.question is not None and run.state.verdict is not None:
        found += [check["op"] for check in run.state.verdict.get("checks") or () if check.get("exit") == 10]
    return found


def approvals(run: Run) -> list[Operation]:
    """The calls that wait for a person's yes, in order."""
    return [op for op in run.state.open_ops.values() if op.verdict == "ask" and not op.closed]
