"""Any program as the model: one process a call, a JSON object in, a JSON object out. No shell, and no confined tool.

It is the user's own program, with the user's own environment, and ends with everything it started at the deadline of
the run or at a person's word.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from harness.errors import HarnessError
from harness.models import Call, Failure, Model, ModelRef, Opening, Prompt, Replied, Reply, Stop, Usage
from harness.models.body import encode_turn
from harness.models.chat import with_ids
from harness.models.decoding import count_in, decoded, shares, unambiguous
from harness.models.failures import failure
from harness.models.prices import facts_of
from harness.models.verbs import TOOLS, calls_or_finish, make_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.executor import Cancel, Outcome
    from harness.skills import Skill

DIALECT = "exec"
EXITS = {69: "unavailable", 75: "unavailable", 77: "auth", 2: "bad_request", 64: "bad_request", 78: "bad_request"}
STOPS = ("end", "calls", "length", "refusal", "overflow")
MOST_OUTPUT = 16 * 1024 * 1024
MOST_PROCESSES = 100_000
MOST_SAID = 300
"""Letters of a program's last line on stderr that its failure repeats; -v shows all it says."""
A_DAY = 86_400.0

_running: dict[str, tuple[Cancel, threading.Event]] = {}


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The program of a command. Raises HarnessError for none."""
    if not name.strip():
        raise HarnessError("exec: names no program", "write exec:COMMAND", source)
    known = facts_of(f"exec:{name}")
    facts = known if known.price is not None else facts_of(f"exec:{os.path.basename(name.split()[0])}")  # noqa: PTH119
    return ModelRef("exec", name, source, facts=facts)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The program, found. Raises HarnessError (exit 2) for a command that names none."""
    argv = split_command(ref.name, ref.source, how.folder)
    return Program(argv, how.folder, ref=ref, effort=how.effort, heard=how.heard)


class Program:
    """`argv` is started in `folder` for each call; `heard` is given what it writes on stderr, line by line."""

    def __init__(
        self, argv: tuple[str, ...], folder: Path, *, ref: ModelRef, effort: str | None = None,
        heard: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.ref, self.argv, self.folder, self.effort, self._heard = ref, argv, folder, effort, heard

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        left = A_DAY if prompt.deadline is None else prompt.deadline - time.monotonic()
        if left <= 0 or (cancel is not None and cancel.level):
            return failure("cancelled", "the request was dropped")
        given = json.dumps(request(prompt, self.effort), ensure_ascii=False).encode("utf-8", "replace")
        seen = self._run(given, left, cancel)
        for line in seen.err.decode("utf-8", "replace").splitlines():
            self._heard(line)
        reply = self._judged(seen, prompt)
        if isinstance(reply, Reply) and reply.text:
            on(reply.text)
        return reply

    def warm(self) -> None:
        """Nothing to do ahead."""

    def close(self) -> None:
        """No process outlives its call."""

    def _run(self, given: bytes, left: float, cancel: Cancel | None) -> Outcome:
        from harness.events.io import IO
        from harness.executor import Job, run
        from harness.policy import Limits

        op_id = f"model-{uuid4().hex}"
        env = {**os.environ, "HARNESS_OP_ID": op_id}
        limits = Limits(output=MOST_OUTPUT + 1, procs=MOST_PROCESSES)
        job = Job(self.argv, self.folder, env, left, op_id, given, limits)
        with _ended_at_exit(op_id, cancel) as at_once:
            return run(job, IO(), at_once, limited=False)

    def _judged(self, seen: Outcome, prompt: Prompt) -> Reply | Failure:
        name = Path(self.argv[0]).name
        if seen.timed_out or seen.cancelled:
            return failure("cancelled", f"{name} was ended: the request was dropped")
        if not seen.started:
            return failure("unavailable", seen.why or f"{name} was not started")
        if seen.exit != 0:
            how = f"signal {seen.signal}" if seen.signal else f"exit {seen.exit}"
            reason = "protocol" if seen.signal else EXITS.get(seen.exit or 0, "protocol")
            # A program that says by its exit that it has no reply is like a server's refusal: it costs nothing.
            return replace(failure(reason, f"{name} ended with {how}: {_last_line(seen.err)}"), free=not seen.signal)
        if len(seen.out) > MOST_OUTPUT:
            return failure("protocol", f"{name} wrote more than {MOST_OUTPUT >> 20} MiB")
        found = answer(seen.out, prompt)
        if isinstance(found, str):
            return failure("protocol", f"{name}: {found}")
        return replace(found, ms=seen.ms, served=self.ref.text)


def _last_line(err: bytes) -> str:
    lines = err[-4 * MOST_SAID :].decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return said[:MOST_SAID] if said else "it says nothing on stderr"


def split_command(text: str, source: str, folder: Path) -> tuple[str, ...]:
    """The argv of a command, split as a POSIX shell would; its first word is a program's absolute path.

    Raises HarnessError (exit 2) for what is no command or names no program.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise HarnessError(f"exec: {text!r} cannot be split: {error}", "mend its quotes", source) from error
    if not words or not words[0]:
        raise HarnessError("exec: names no program", "write exec:COMMAND", source)
    path = shutil.which(str(folder / words[0]) if "/" in words[0] else words[0])
    if path is None:
        fix = "name one on PATH, or by its path, that you may execute"
        raise HarnessError(f"exec: there is no program {words[0]}", fix, source)
    return (str(Path(path).absolute()), *words[1:])


@contextmanager
def _ended_at_exit(op_id: str, cancel: Cancel | None) -> Iterator[Cancel]:
    """A word that ends what runs, given by any level of `cancel`, or by the end of this process, which waits for it."""
    from harness.executor import Cancel

    at_once, done = Cancel(), threading.Event()
    _running[op_id] = (at_once, done)
    if cancel is not None:
        threading.Thread(target=_pass_on, args=(cancel, at_once, done), daemon=True).start()
    try:
        yield at_once
    finally:
        done.set()
        del _running[op_id]


def _pass_on(cancel: Cancel, at_once: Cancel, done: threading.Event) -> None:
    while not done.wait(0.05):
        if cancel.level:
            at_once.level = 2
            return


def _end_all() -> None:
    for at_once, done in list(_running.values()):
        at_once.level = 2
        done.wait(10)


atexit.register(_end_all)


def request(prompt: Prompt, effort: str | None = None) -> dict[str, Any]:
    """What a program reads."""
    seed = int(sha256(f"{prompt.mark}/{prompt.turn}".encode()).hexdigest()[:8], 16)
    return {
        "v": 1, "system": list(prompt.system), "verbs": list(TOOLS) if prompt.verbs else [],
        "turns": [_turn(turn) for turn in prompt.turns], "schema": prompt.schema, "max_tokens": prompt.max_tokens,
        "effort": effort, "seed": seed,
    }  # fmt: skip


def _turn(turn: Any) -> dict[str, Any]:
    """As everywhere; of a program's own reply, the content that it gave."""
    if isinstance(turn, Replied) and turn.dialect == DIALECT:
        return {"role": "assistant", "content": turn.content[0]}
    return encode_turn(turn)


def answer(raw: bytes, prompt: Prompt) -> Reply | str:
    """The reply that a program printed, or what is wrong with it."""
    try:
        found = decoded(raw, unambiguous)
    except ValueError as error:
        return f"it printed no JSON object: {error}"[:200]
    wrong = _wrong(found)
    if wrong:
        return wrong
    text, calls = found.get("text") or "", with_ids(found.get("calls") or [], prompt)
    made = tuple(_call(call) for call in calls)
    stop = cast(Stop, found["stop"])
    if stop in ("end", "calls"):
        stop = "calls" if made else "end"
    content = found.get("content", {"text": text, "calls": calls})
    return Reply(
        [content], DIALECT, text, calls_or_finish(text, made), stop, found["stop"],
        _usage(found.get("usage"), prompt, raw),
    )  # fmt: skip


def _wrong(found: Any) -> str:
    if not isinstance(found, dict):
        return "it printed no JSON object"
    if found.get("stop") not in STOPS:
        return f"stop must be one of {', '.join(STOPS)}, not {json.dumps(found.get('stop'))[:80]}"
    if not isinstance(found.get("text") or "", str):
        return "text must be a string"
    calls = found.get("calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return "calls must be a list of objects"
    if not all(isinstance(call.get("verb"), str) for call in calls):
        return "every call names its verb"
    return ""


def _call(call: Mapping[str, Any]) -> Call:
    return make_call(call["id"], call["verb"], call.get("arguments"))


def _usage(given: Any, prompt: Prompt, raw: bytes) -> Usage:
    """The tokens that a program counted, else an estimate."""
    counted, out = count_in(given, "input"), count_in(given, "out")
    if counted is None or out is None:
        return Usage(math.ceil(prompt.bytes / 3), math.ceil(len(raw) / 3), estimated=True)
    return Usage(counted, out, *shares(counted, count_in(given, "cached"), count_in(given, "written")))
