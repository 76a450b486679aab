"""Carrying out what was allowed: attempts in threads, their ends journaled as they come. The gate has spoken before."""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.errors import HarnessError
from harness.events.receipt import pinned_mark
from harness.events.state import Operation
from harness.executor import Attempt, Job, Outcome, cut, environment, not_started, prepare, run_shim
from harness.executor import run as execute
from harness.loop import threads
from harness.loop.confine import Aftermath, confined, is_direct, level_now, seconds_of, variables
from harness.loop.gate import is_question
from harness.loop.leaks import Leak, covered
from harness.loop.made import remember
from harness.loop.result import child_data, end_data
from harness.loop.run import ChildEnd, Run
from harness.policy.budget import share
from harness.tools import Tool
from harness.tools.notation import shown

Conclude = Callable[[Run, Operation, Outcome], dict[str, Any]]
"""Makes the data of the `tool.end` of an attempt."""
LOOK = 0.5
"""Seconds after which whoever waits for attempts looks around."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt that came back: what the tool's process or the child run did, or the exception that stopped it."""

    op: Operation
    outcome: Outcome | None = None
    left: Aftermath = field(default_factory=Aftermath)
    leaks: tuple[Leak, ...] = ()
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
        self.rested = False  # whether it waited for something that goes on by itself
        self._told: set[str] = set()
        self._conclude: Conclude = end_data
        self._slices: dict[int, Mapping[str, Any]] = {}
        self._attempts: dict[int, Attempt] = {}
        self._done: queue.Queue[Ended] = queue.Queue()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """When the loop cannot go on, nothing more starts, and what runs comes to its end, unrecorded."""
        if self.busy:
            self.run.world.cancel.level = max(1, self.run.world.cancel.level)
        while self.busy:
            self.busy.pop(self._done.get().op.n, None)

    def start(self, ops: Sequence[Operation], needs: dict[int, tuple[int, ...]], extra: Extra | None = None) -> None:
        """Journal the intent of a whole batch, put it on the disk if it can have an effect, then start all of it."""
        self._share_out(ops)
        for op in ops:
            self._intend(op, needs.get(op.n, ()))
        if any(is_child(self.run, op) or not is_harmless(op) for op in ops):
            self.run.log.sync()
        for op in ops:
            self._launch(op, extra or Extra())

    def go_on(self, ops: Sequence[Operation]) -> None:
        """Go on with child runs that an earlier process began, or was about to begin."""
        self._share_out(ops)
        for op in ops:
            self._launch(op, Extra())

    def query(self, ops: Sequence[Operation], conclude: Conclude) -> None:
        """Start reads that tell of operations what happened: attempts of theirs, each a copy that says what to run."""
        self._conclude = conclude
        made = [replace(op, attempt=op.attempt + 1, level=level_now(self.run, op, self._tool(op))) for op in ops]
        for op in made:
            self._prepare(op, self._tool(op), op.attempt)
            data = {"try": op.attempt, "role": "query", "tool": op.tool, "level": op.level}
            self.run.append("tool.start", data, op.n)
        for op in made:
            self._launch(op, Extra())

    def _tool(self, op: Operation) -> Tool:
        return self.run.toolset.tools[op.tool]

    def next(self, wait: float = LOOK) -> Operation | None:
        """The next operation whose attempt ended, journaled; None when none did within `wait` seconds."""
        try:
            ended = self._done.get(timeout=wait)
        except queue.Empty:
            return None
        op = self.busy.pop(ended.op.n)
        self._slices.pop(op.n, None)
        if ended.broken is not None:
            raise ended.broken
        if ended.child is not None:
            self._record_child(op, ended.child)
        elif ended.outcome is not None:
            self.run.report(ended.leaks, op.n)
            self._record(op, ended.outcome, ended.left)
        return op

    def say_once(self, text: str) -> None:
        """Tell whoever watches."""
        if text not in self._told:
            self._told.add(text)
            self.run.world.tell(text)

    def wait(self) -> None:
        """Let everything that runs come to its end."""
        while self.busy:
            self.next()

    def _share_out(self, ops: Sequence[Operation]) -> None:
        """What each child run of a batch may use of what is left and lent to no other, nor to one that waits.

        One that goes on has what it was lent when it began.
        """
        state = self.run.state
        self._slices |= {op.n: op.slice for op in ops if op.attempt_open and op.slice}
        children = [op.n for op in ops if is_child(self.run, op) and op.n not in self._slices]
        if children:
            lent = [op.slice for op in state.open_ops.values() if op.attempt_open and op.slice]
            part = share(state.budget, state.spent, self.run.active_s(), lent, len(children))
            self._slices.update(dict.fromkeys(children, part))

    def _intend(self, op: Operation, needs: tuple[int, ...]) -> None:
        run, attempt = self.run, op.attempt + 1
        tool = run.toolset.tools.get(op.tool)
        data: dict[str, Any] = {"try": attempt} if attempt > 1 else {}
        if op.verb in ("stage", "verify"):
            data["role"] = op.verb
        if op.verb != "run":  # the reply names it otherwise
            data["tool"] = op.tool
        data["level"] = level_now(run, op, tool)
        if tool is not None and (mark := run.tool_mark(tool)) != pinned_mark(run.state, op.tool):
            data["file"] = mark
        if needs:
            data["needs"] = list(needs)
        if is_child(run, op):
            data |= {"child": op.child or child_name(run, op), "slice": self._slices[op.n]}
        elif tool is not None:
            self._prepare(op, tool, attempt)
            given = variables(run, op, tool)
            data |= {"env": given} if given else {}
        run.append("tool.start", data, op.n)

    def _prepare(self, op: Operation, tool: Tool, attempt: int) -> None:
        """The attempt's folder, and for one that must outlive this process the files it leaves its evidence in."""
        self._make_scratch(op.n, attempt)
        if not is_direct(self.run, op, tool):
            folder = self.run.folder / "ops" / str(op.n) / str(attempt)
            with self.run.log.guarded("an attempt's files cannot be made"):
                job = job_of(self.run, op, tool, Extra(), attempt)
                self._attempts[op.n] = prepare(folder, job, self.run.world.io)

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
        threads.start(partial(self._guarded, target, op, extra))

    def _guarded(self, target: Any, op: Operation, extra: Extra) -> None:
        try:
            self._done.put(target(op, extra))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the loop's own thread
            self._done.put(Ended(op, broken=error))

    def _child(self, op: Operation, extra: Extra) -> Ended:
        begin = self.run.begin_child
        assert begin is not None
        return Ended(op, child=begin(self.run, op, self._slices[op.n]))

    def _process(self, op: Operation, extra: Extra) -> Ended:
        run, tool = self.run, self.run.toolset.tools[op.tool]
        io, cancel, attempt = run.world.io, run.world.cancel, self._attempts.pop(op.n, None)
        try:
            with confined(run, op, tool, job_of(run, op, tool, extra, op.attempt), io, attempt is None) as cage:
                hooks = (cage.wrap, cage.start, cage.pass_fds)
                if attempt is None:
                    outcome = execute(cage.job, io, cancel, None, *hooks)
                else:
                    outcome = run_shim(cage.job, attempt, io, cancel, *hooks)
                    cut(attempt.folder, io, cage.job.limits)
                left = cage.after()
            outcome, leaks = covered(run, outcome, run.folder / "ops" / str(op.n) / str(op.attempt))
            return Ended(op, outcome, left, leaks)
        except (OSError, HarnessError) as error:
            return Ended(op, not_started(f"cannot start {tool.name}: {error}"))
        finally:
            if attempt is not None:
                attempt.close()

    def _record(self, op: Operation, outcome: Outcome, left: Aftermath) -> None:
        run = self.run
        data = self._conclude(run, op, outcome) if op.role == "query" else end_data(run, op, outcome, left)
        guides = remember(run, op, data.get("artifacts") or ())
        run.append("tool.end", data, op.n)
        if guides:
            what = f"{' '.join(guides)} changed while operation {op.n} ran"
            run.note("warning", f"{what}: no model is told it as the project's word until somebody changes it again")
        moved = [shown(str(change.path)) for change in left.changes if change.what == "moved"]
        if moved:
            run.note("warning", f"while operation {op.n} ran, these changed and were left so: {' '.join(moved)}")

    def _record_child(self, op: Operation, end: ChildEnd) -> None:
        if end.stop.parked or end.stop.name == "interrupted":
            self.parked[op.n] = end
            return
        self.run.append("tool.end", child_data(self.run, op, end), op.n)


def is_harmless(op: Operation) -> bool:
    """Whether doing it twice is the same as doing it once, and changes nothing."""
    return op.effect == "read" and op.repeat == "pure"


def is_child(run: Run, op: Operation) -> bool:
    """Pipelines, workers and questions to a model are runs of their own; everything else is a process."""
    tool = run.toolset.tools.get(op.tool)
    return is_question(op) or op.tool in run.toolset.workers or (tool is not None and tool.pipeline)


def child_name(run: Run, op: Operation) -> str:
    """The folder of a child run: named by its parent before it starts, the same for every attempt."""
    return f"{run.name.split('-', 1)[0]}-{op.tool.replace('/', '-')}-{child_letters(run.name, op.n)}"


def child_letters(parent: str, n: int) -> str:
    """The end of that name, which no other operation of any run gives."""
    seed = hashlib.sha256(f"{parent}/{n}".encode()).digest()
    return "".join("abcdefghijklmnopqrstuvwxyz234567"[byte & 31] for byte in seed[:8])


def job_of(run: Run, op: Operation, tool: Tool, extra: Extra, attempt: int) -> Job:
    """The process of one attempt, from what was decided and nothing else."""
    work = run.folder / "ops" / str(op.n) / str(attempt) / "work"
    op_id = f"{run.name}/{op.n}"
    skill = run.toolset.folder if tool.script else None
    passed = {**run.world.passed, **dict(extra.env)}
    env = environment(
        op_id=op_id, run=run.folder, out=work, depth=run.depth, passed=passed, skill=skill,
        tools_path=run.world.tools_path,
    )  # fmt: skip
    argv = (str(tool.path), *run.argv(op))
    timeout = seconds_of(run, tool)
    return Job(argv, run.project, env, timeout, op_id, extra.stdin, digest=op.digest, harmless=is_harmless(op))
