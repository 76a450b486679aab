"""Carrying out what was allowed: attempts in threads, their ends journaled as they come. The gate has spoken before."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.events.state import Operation
from harness.executor import Job, Outcome, environment
from harness.executor import run as execute
from harness.loop.gate import repeat_of
from harness.loop.run import ChildEnd, Run
from harness.tools import Tool
from harness.tools.outcome import error_class, read_result


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt that came back: what the tool's process or the child run did, or the exception that stopped it."""

    op: Operation
    outcome: Outcome | None = None
    child: ChildEnd | None = None
    broken: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Extra:
    """What only some attempts get: a verifier's standard input and variables."""

    stdin: bytes = b""
    env: tuple[tuple[str, str], ...] = ()


class Crew:
    """The attempts of one run that are under way. Only the loop's own thread uses it; threads only fill its queue."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.busy: dict[int, Operation] = {}
        self.parked: dict[int, ChildEnd] = {}
        self._done: queue.Queue[Ended] = queue.Queue()

    def start(self, ops: Sequence[Operation], needs: dict[int, tuple[int, ...]], extra: Extra | None = None) -> None:
        """Journal the intent of a whole batch, put it on the disk if it can have an effect, then start all of it."""
        for op in ops:
            self._intend(op, needs.get(op.n, ()))
        if any(is_child(self.run, op) or not is_harmless(op) for op in ops):
            self.run.log.sync()
        for op in ops:
            self._launch(op, extra or Extra())

    def go_on(self, op: Operation) -> None:
        """Go on with a child run that an earlier process began."""
        self._launch(op, Extra())

    def _intend(self, op: Operation, needs: tuple[int, ...]) -> None:
        run, attempt = self.run, op.attempt + 1
        data: dict[str, Any] = {"try": attempt} if attempt > 1 else {}
        if op.role != "call" or op.verb == "stage":
            data["role"] = "stage" if op.verb == "stage" else op.role
        if op.verb != "run":  # the reply names it otherwise
            data["tool"] = op.tool
        data["level"] = "none"
        if op.digest:
            data["digest"] = op.digest
        if needs:
            data["needs"] = list(needs)
        if is_child(run, op):
            data["child"] = op.child or child_name(run, op)
        else:
            self._make_scratch(op.n, attempt)
        run.append("tool.start", data, op.n)

    def _make_scratch(self, n: int, attempt: int) -> None:
        folder, io = self.run.folder / "ops" / str(n), self.run.world.io
        with self.run.log.guarded("an attempt's folder cannot be made"):
            if not folder.is_dir():
                io.mkdir(folder)
            io.mkdir(folder / str(attempt))
            io.mkdir(folder / str(attempt) / "work")

    def _launch(self, op: Operation, extra: Extra) -> None:
        self.busy[op.n] = op
        target = self._child if is_child(self.run, op) else self._process
        threading.Thread(target=self._guarded, args=(target, op, extra), name=f"op-{op.n}", daemon=True).start()

    def _guarded(self, target: Any, op: Operation, extra: Extra) -> None:
        try:
            self._done.put(target(op, extra))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the loop's own thread
            self._done.put(Ended(op, broken=error))

    def _child(self, op: Operation, extra: Extra) -> Ended:
        begin = self.run.begin_child
        assert begin is not None
        return Ended(op, child=begin(self.run, op))

    def _process(self, op: Operation, extra: Extra) -> Ended:
        run, tool = self.run, self.run.toolset.tools[op.tool]
        return Ended(op, outcome=execute(job_of(run, op, tool, extra), run.world.io, run.world.cancel))

    def next(self, wait: float) -> Operation | None:
        """The next operation whose attempt ended, journaled; None when none did within `wait` seconds."""
        try:
            ended = self._done.get(timeout=wait)
        except queue.Empty:
            return None
        op = self.busy.pop(ended.op.n)
        if ended.broken is not None:
            raise ended.broken
        if ended.child is not None:
            self._record_child(op, ended.child)
        elif ended.outcome is not None:
            self.run.append("tool.end", end_data(self.run, op, ended.outcome), op.n)
        return op

    def _record_child(self, op: Operation, end: ChildEnd) -> None:
        if end.stop.parked or end.stop.name == "interrupted":
            self.parked[op.n] = end
            return
        self.run.append("tool.end", child_data(self.run, op, end), op.n)


def is_harmless(op: Operation) -> bool:
    """Whether doing it twice is the same as doing it once, and changes nothing."""
    return op.effect == "read" and op.repeat == "pure"


def is_child(run: Run, op: Operation) -> bool:
    """Pipelines and workers are runs of their own; everything else is a process."""
    tool = run.toolset.tools.get(op.tool)
    return op.tool in run.toolset.workers or (tool is not None and tool.pipeline)


def child_name(run: Run, op: Operation) -> str:
    """The folder of a child run: named by its parent before it starts, the same for every attempt."""
    seed = hashlib.sha256(f"{run.name}/{op.n}".encode()).digest()
    letters = "".join("abcdefghijklmnopqrstuvwxyz234567"[byte & 31] for byte in seed[:8])
    return f"{run.name.split('-', 1)[0]}-{op.tool.replace('/', '-')}-{letters}"


def job_of(run: Run, op: Operation, tool: Tool, extra: Extra) -> Job:
    """The process of one attempt, from what was decided and nothing else."""
    work = run.folder / "ops" / str(op.n) / str(op.attempt) / "work"
    op_id = f"{run.name}/{op.n}"
    skill = run.toolset.folder if tool.script else None
    passed = {**run.world.passed, **dict(extra.env)}
    env = environment(
        op_id=op_id, run=run.folder, out=work, depth=run.depth, passed=passed, skill=skill,
        tools_path=run.world.tools_path,
    )  # fmt: skip
    argv = (str(tool.path), *(op.argv or ()))
    return Job(argv=argv, cwd=run.project, env=env, timeout=tool.timeout, op_id=op_id, stdin=extra.stdin)


def end_data(run: Run, op: Operation, outcome: Outcome) -> dict[str, Any]:
    """The `tool.end` of a process: its class, its output kept, and the digest that freshness compares."""
    tool = run.toolset.tools[op.tool]
    head: dict[str, Any] = {"try": op.attempt} if op.attempt > 1 else {}
    name, word, why = classify(run, op, tool, outcome)
    artifacts, missing = _artifacts(run, op, tool, outcome) if name == "OK" else ([], "")
    if missing:
        name, word, why = "FAILED", "failed", missing
    shown = exit_of(outcome)
    data = {**head, "outcome": word, "exit": shown, "class": name, "ms": outcome.ms, "out": run.log.fit(outcome.out)}
    if outcome.err:
        data["err"] = run.log.fit(outcome.err)
    if outcome.dropped:
        data["dropped"] = outcome.dropped
    data["result"] = result_digest(shown, outcome.out, artifacts)
    if artifacts:
        data["artifacts"] = artifacts
    if tool.ttl is not None:
        data["ttl"] = tool.ttl
    if why:
        data["why"] = why
    return data


def exit_of(outcome: Outcome) -> int | None:
    return 128 + outcome.signal if outcome.signal else outcome.exit


def classify(run: Run, op: Operation, tool: Tool, outcome: Outcome) -> tuple[str, str, str]:
    """(class, outcome word, why). A tool without a header is believed only when it says 0."""
    if not outcome.started:
        return "MISCONFIGURED", "failed", outcome.why or "it could not be started"
    if outcome.cancelled:
        return "FAILED", "cut", "stopped by a person"
    if outcome.timed_out or outcome.signal:
        name = "TIMEOUT" if outcome.timed_out else "FAILED"
        why = f"no end within {tool.timeout:g} s" if outcome.timed_out else f"killed by signal {outcome.signal}"
        return name, "failed" if repeat_of(tool) == "pure" else "cut", why
    code = outcome.exit or 0
    name = error_class(code)
    if code and not tool.header:
        return name, "unknown", f"exit {code} of a tool without a header says nothing about its effect"
    return name, "done" if code == 0 else "failed", ""


def _artifacts(run: Run, op: Operation, tool: Tool, outcome: Outcome) -> tuple[list[dict[str, str]], str]:
    """The files a success stands on, hashed; or the sentence that names a missing one."""
    work = run.folder / "ops" / str(op.n) / str(op.attempt) / "work"
    found = []
    for path in [*produced(run, op, tool), *read_result(outcome.out).artifacts]:
        if not _inside(run.project / path, (run.project, work)):
            return [], f"artifact {path} lies outside the workspace"
        sha = run.file_digest(path)
        if sha is None:
            return [], f"{path} is not there, though {tool.name} says it made it"
        found.append({"path": path, "sha256": sha})
    return found, ""


def produced(run: Run, op: Operation, tool: Tool) -> list[str]:
    """The paths of `@meta produces`, the call's own values filled in."""
    values = run.values(tool.name, op.argv or ())
    paths = []
    for template in tool.produces:
        for name, texts in values.items():
            template = template.replace(f"{{--{name}}}", " ".join(texts)).replace(f"{{{name}}}", " ".join(texts))
        paths.append(template)
    return paths


def _inside(path: Path, roots: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(root.resolve()) for root in roots)


def result_digest(code: int | None, out: bytes, artifacts: Sequence[dict[str, str]]) -> str:
    """16 hex digits over exit, stdout and artifacts; not stderr, not time."""
    found = hashlib.sha256(f"{code}\n".encode() + out)
    for artifact in artifacts:
        found.update(f"\0{artifact['path']}\0{artifact['sha256']}".encode())
    return found.hexdigest()[:16]


def child_data(run: Run, op: Operation, end: ChildEnd) -> dict[str, Any]:
    """The `tool.end` of a child run: its stop reaches the parent unchanged."""
    ok = end.stop.name == "passed"
    code = 0 if ok else end.stop.code or 1
    data: dict[str, Any] = {"try": op.attempt} if op.attempt > 1 else {}
    data |= {"outcome": "done" if ok else "failed", "exit": code, "class": "OK" if ok else end.error_class}
    data |= {"by": "child", "ms": end.ms, "out": run.log.fit(end.output), "result": result_digest(code, end.output, ())}
    data |= {"stop": end.stop.name, "spent": dict(end.spent)}
    if end.why:
        data["why"] = end.why
    return data
