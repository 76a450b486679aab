"""What a command that drove a run prints at its end: the answer or the object on stdout or in a file, and the code."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

from harness.cli.options import Globals
from harness.errors import BusyError, HarnessError
from harness.loop.ending import all_spent, best_evidence, labelled
from harness.loop.run import Stop
from harness.runs.opened import Session
from harness.view.text import escape

KEYS = (
    "run", "skill", "status", "stop", "code", "resumable", "cause", "answer", "unaccepted", "artifacts", "verdicts",
    "spent", "limits", "timing", "waiting", "error",
)  # fmt: skip
GONE = (errno.EPIPE, errno.EIO, errno.EBADF)
"""A reader that went away, and a terminal that did."""


def check_out(out_file: str | None, flag: str = "-o") -> None:
    """Refuse a file that could not be written before anything runs. Raises HarnessError."""
    if out_file is None:
        return
    path, fix = real(out_file), "name a file in a folder you can write to"
    if not path.parent.is_dir():
        raise HarnessError(f"{flag} {out_file}: there is no such folder", "make the folder, or name another file")
    if path.exists() and not path.is_file():
        raise HarnessError(f"{flag} {out_file} is no plain file: it would be replaced", fix)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise HarnessError(f"{flag} {out_file}: its folder cannot be written", fix)


def real(out_file: str) -> Path:
    """Where a file really is: the name of a link stays, what it leads to is replaced."""
    return Path(os.path.realpath(out_file))


def finish(said: Globals, session: Session, stop: Stop, out_file: str | None) -> int:
    """Print the answer (or the object) and return the exit code. A closed stdout ends nothing."""
    run = session.run
    text = run.text((run.state.end or {}).get("answer", ""))
    accepted = stop.name == "passed"
    if said.output == "json":
        body = dumped(summary(session, stop, text))
        if out_file is not None and accepted:
            write_file(session, out_file, body)
        else:
            write_out(body)
    elif out_file is not None and accepted:
        write_file(session, out_file, with_newline(labelled(session.run.state, text)).encode("utf-8", "replace"))
    elif said.output != "stream-json":
        write_out(on_terminal(spoken(session, stop, text)))
    return stop.code


def spoken(session: Session, stop: Stop, text: str) -> bytes:
    """What stdout carries: the accepted answer; after a budget stop the evidence so far, marked as such.

    Of a single tool it is what the tool printed, byte for byte.
    """
    if session.kind == "tool":
        return printed(session)
    if stop.name == "passed":
        return with_newline(labelled(session.run.state, text)).encode("utf-8", "replace")
    if stop.name != "budget":
        return b""
    limit = (session.run.state.end or {}).get("limit", "")
    return best_evidence(session.run.ground(), limit, text).encode("utf-8", "replace")


def printed(session: Session) -> bytes:
    """The standard output of a run's only call, as far as it was kept."""
    call = session.run.state.ops.get(1)
    return session.run.log.read_blob(call.result.get("out", "")) if call is not None and call.result else b""


def with_newline(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def on_terminal(data: bytes) -> bytes:
    """What a person looks at must not move the cursor or hide words; a pipe gets the bytes as they are."""
    if not sys.stdout.isatty():
        return data
    return escape(data.decode("utf-8", "backslashreplace")).encode()


def write_out(data: bytes) -> None:
    """Write to stdout; a reader that has gone ends the output, never the run."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        if error.errno not in GONE:
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def write_file(session: Session, name: str, data: bytes) -> None:
    """Put the answer into a file. Raises HarnessError where it cannot be; the run has it still."""
    try:
        session.run.world.io.put(real(name), data, 0o644)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        fix = f"make room, or write elsewhere; the answer: harness show {session.run.name}"
        raise HarnessError(f"-o {name}: the answer cannot be written: {reason}", fix, code=3) from error


def dumped(body: dict[str, Any]) -> bytes:
    import json

    return (json.dumps(body, ensure_ascii=True, default=str) + "\n").encode()


def unfinished(run: str | None = None, error: HarnessError | None = None) -> dict[str, Any]:
    """The object of a command that failed before its run had a stop: every key is there."""
    body: dict[str, Any] = {**dict.fromkeys(KEYS), "run": run, "stop": "error"}
    return body | {"resumable": run is not None or isinstance(error, BusyError), "artifacts": [], "verdicts": []}


def summary(session: Session, stop: Stop, text: str) -> dict[str, Any]:
    """One object for a run: how it stopped, what it found, what it used."""
    run, state = session.run, session.run.state
    end, park = state.end or {}, state.park or {}
    spent = end.get("spent") or all_spent(run, state)
    artifacts = sorted({path for receipt in state.slots.values() for path, _ in receipt.artifacts if receipt.ok})
    passed = stop.name == "passed"
    return {
        "run": run.name, "skill": state.start.get("skill"), "status": state.status, "stop": stop.name,
        "code": stop.code, "resumable": not passed,
        "cause": end.get("error") or end.get("limit") or park.get("hint"),
        "answer": text if passed else None, "unaccepted": text if text and not passed else None,
        "artifacts": artifacts, "verdicts": (state.verdict or {}).get("checks") or [], "spent": spent,
        "limits": state.budget, "timing": {"active_s": spent["active_s"], "waiting_s": spent["waiting_s"]},
        "waiting": park.get("ops") or [], "error": error_of(session, stop),
        **({"demonstration": True} if state.demonstration else {}),
    }  # fmt: skip


def error_of(session: Session, stop: Stop) -> dict[str, Any] | None:
    """Why a run could not go on, where that was no decision of policy, budget or a person."""
    if stop.name != "error":
        return None
    message = (session.run.state.end or {}).get("error") or "it could not go on"
    fix = f"harness show {session.run.name}"
    return {"code": stop.code, "message": message, "where": str(session.run.folder), "fix": fix}
