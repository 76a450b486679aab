"""The verb `read`: a file of the workspace, the skill or the run, or an operation's output. Nothing else is opened."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.events.log import follow
from harness.events.state import Operation
from harness.loop.made import maker
from harness.loop.paths import hidden_reason, open_beneath
from harness.loop.pictures import media_of
from harness.loop.result import result_digest
from harness.loop.run import Run
from harness.loop.scene import area_of, is_tainted
from harness.policy.paths import check
from harness.policy.request import Request, Typed
from harness.prompt.compile import own_words

MAX_BYTES = 8 * 1024 * 1024
OUTSIDE = "`read` opens its files, a given input, skill:FILE, run:FILE and op:N; a tool may open others"
_OPERATION = re.compile(r"op:(\d{1,9})(/err)?")
_TURN = re.compile(r"turn:(\d{1,9})")
_LINES = re.compile(r"(\d+)-(\d+)|-(\d+)|(\d+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path leads: a root and the path below it, an operation's output, or the model's own words of a turn.

    `given`: the root is no folder of the run's, but what the person named as an input.
    """

    root: Path | None
    path: str
    op: int = 0
    err: bool = False
    turn: int = 0
    given: bool = False


def target_of(run: Run, path: str) -> Target | str:
    """Where `path` leads, or the sentence that says why it leads nowhere."""
    if "\0" in path or not path:
        return "no path"
    if found := _OPERATION.fullmatch(path):
        return Target(None, path, int(found[1]), bool(found[2]))
    if found := _TURN.fullmatch(path):
        return Target(None, path, turn=int(found[1]))
    prefix, colon, rest = path.partition(":")
    roots = {"skill": run.toolset.folder, "run": run.folder}
    if colon and prefix in roots:
        root = roots[prefix]
        if root is None:
            return "this run has no skill folder"
        return _below(root, rest, prefix)
    if (given := _given(run, path)) is not None:
        return given
    if Path(path).is_absolute():
        inside = _relative(run.project, path)
        return _below(run.project, inside, "") if inside else f"{path} lies outside the workspace: {OUTSIDE}"
    return _below(run.project, path, "")


def _given(run: Run, path: str) -> Target | None:
    """The file where it lies outside the workspace and is an input of the run, or below one."""
    spelled = run.project / path
    guard = run.world.guard
    if guard is None or _relative(run.project, str(spelled)) is not None:
        return None
    try:
        real = Path(os.path.realpath(spelled))
    except OSError:
        return None  # a link that may not be followed leads to nothing that was given
    for root in guard.readable:
        if real == root:
            return Target(root.parent, root.name, given=True)
        if real.is_relative_to(root):
            return Target(root, str(real.relative_to(root)), given=True)
    return None


def _relative(root: Path, path: str) -> str | None:
    real = Path(os.path.normpath(path))
    return str(real.relative_to(root)) if real.is_relative_to(root) else None


def _below(root: Path, path: str, prefix: str) -> Target | str:
    parts = PurePosixPath(path).parts
    if Path(path).is_absolute() or ".." in parts:
        return f"{path} leads out of the {prefix or 'workspace'}"
    hidden = hidden_reason(parts, prefix)
    return hidden or Target(root, path)


def request_of(run: Run, op: Operation) -> Request:
    """The read as the gate sees it."""
    path = str(op.arguments.get("path", ""))
    where = target_of(run, path)
    lines = op.arguments.get("lines")
    problems = () if lines is None or _span(str(lines)) else (f"lines {lines!r}: give 1-200 or -50",)
    argv = (path,) if lines is None else (path, str(lines))
    is_file = isinstance(where, Target) and (where.given or where.root == run.project)
    return Request(
        "read", argv, effect="read", outside=where if isinstance(where, str) else None, problems=problems,
        skill=str(run.state.start.get("skill", "")), cwd=str(run.project), values={"path": (path,)},
        typed={"path": Typed("text", (path,))}, paths=(check("path", path, "read", area_of(run)),) if is_file else (),
        tainted=is_tainted(run), attended=run.world.ask is not None,
    )  # fmt: skip


def perform(run: Run, op: Operation) -> dict[str, Any]:
    """The `tool.end` data of a read: what was there, or why not."""
    path = str(op.arguments.get("path", ""))
    where = target_of(run, path)
    assert isinstance(where, Target)
    try:
        raw, dropped = _operation_output(run, where) if where.root is None else _file(where.root, where.path)
    except OSError as error:
        why = f"{path}: {error.strerror or 'cannot be read'}"
        return {"outcome": "failed", "exit": 66, "class": "INVALID_INPUT", "ms": 0, "out": "", "result": "", "why": why}
    names: set[str] = set()
    told = run.masker.raw(raw, names, net=True)
    run.report(((name, "read") for name in names), op.n)
    media = media_of(told, dropped, run.model is not None and run.model.ref.shows_pictures)
    shown = told if media is not None else select(told, op.arguments.get("lines"))
    data: dict[str, Any] = {"outcome": "done", "exit": 0, "class": "OK", "ms": 0, "out": run.log.fit(shown)}
    if dropped:
        data["dropped"] = dropped
    if media is not None:
        data["media"] = media
    return data | {"result": result_digest(0, told, ())} | _artifact(run, where, raw)


def _artifact(run: Run, where: Target, raw: bytes) -> dict[str, Any]:
    """A file of the workspace that was read whole is what this receipt stands on."""
    if where.root != run.project or len(raw) >= MAX_BYTES:
        return {}
    sha = hashlib.sha256(raw).hexdigest()
    return {"artifacts": [{"path": where.path, "sha256": sha}]} | maker(run, sha)


def _file(root: Path, path: str) -> tuple[bytes, int]:
    fd = open_beneath(root, path)
    with os.fdopen(fd, "rb") as file:
        raw = file.read(MAX_BYTES)
        return raw, max(0, os.fstat(fd).st_size - len(raw))


def _operation_output(run: Run, where: Target) -> tuple[bytes, int]:
    if where.turn:
        return _own_words(run, where.turn), 0
    op = run.state.ops.get(where.op)
    if op is None or op.result is None:
        raise OSError(errno.ENOENT, f"there is no output of operation {where.op}")
    value = op.result.get("err" if where.err else "out", "")
    return (value.encode() if isinstance(value, str) else run.log.read_blob(value)), 0


def _own_words(run: Run, turn: int) -> bytes:
    """What the model said in a turn, as the journal has it."""
    for event in reversed(follow(run.folder)):
        if event["kind"] == "model.reply" and event["data"]["turn"] == turn:
            content, calls = (_plain(run, event["data"][key]) for key in ("content", "calls"))
            return own_words(content, calls, run.text).encode("utf-8", "replace")
    raise OSError(errno.ENOENT, f"there is no turn {turn}")


def _plain(run: Run, value: Any) -> Any:
    return json.loads(run.text(value)) if isinstance(value, dict) and "blob" in value else value


def select(raw: bytes, lines: object) -> bytes:
    """The lines asked for: `1-200`, `7`, or `-50` for the last 50; everything without."""
    span = _span(str(lines)) if lines is not None else None
    return raw if span is None else b"".join(raw.splitlines(keepends=True)[span])


def _span(lines: str) -> slice | None:
    """The lines that are meant; None for what names none: lines count from 1, and the first is not behind the last."""
    found = _LINES.fullmatch(lines)
    if found is None:
        return None
    if found[3]:
        return slice(-int(found[3]), None) if int(found[3]) else None
    first, last = int(found[1] or found[4]), int(found[2] or found[4])
    return slice(first - 1, last) if 1 <= first <= last else None
