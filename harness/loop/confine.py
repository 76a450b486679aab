"""How one attempt is confined: its level, what it may touch, what it is given, what is put back after it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness.errors import DeniedError, HarnessError
from harness.events.io import IO
from harness.events.scan import first_data
from harness.events.state import Operation
from harness.executor import Job
from harness.executor.limits import wrapped
from harness.loop.guard import Guard
from harness.loop.run import Run
from harness.loop.toolchains import Toolchains, toolchains
from harness.policy import Level
from harness.policy.compose import unprotected_of
from harness.policy.hosts import Grant
from harness.policy.names import DRAFTS, lies_in
from harness.policy.request import Request
from harness.policy.settings import limits_of
from harness.sandbox import Cage, names
from harness.sandbox.choose import Refusal
from harness.sandbox.protect import Change
from harness.sandbox.proxy import BRIDGE, Proxy
from harness.sandbox.start import hooks
from harness.secrets import Secret, placed
from harness.tools import Tool

MOST_FORKS = 100
DIRECT_SECONDS = 60.0
UNSAID_SECONDS = 60.0
TEST_SECONDS = 1800.0
WRITES = ("write", "external", "money", "destructive")


@dataclass(frozen=True, slots=True)
class Confined:
    """An attempt ready to start: the job with its variables, and the hooks that start it inside its cage."""

    job: Job
    wrap: Callable[[list[str]], list[str]]
    start: Callable[[Callable[[], Any]], Any]
    pass_fds: tuple[int, ...]
    after: Callable[[], Aftermath]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What an attempt left: protected names that were put back, and connections that were refused."""

    changes: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()


def is_direct(run: Run, op: Operation, tool: Tool) -> bool:
    """Whether the attempt needs no shim: it reads, may be done twice, and is short."""
    return op.effect == "read" and op.repeat == "pure" and seconds_of(run, tool) <= DIRECT_SECONDS


def level_now(run: Run, op: Operation, tool: Tool | None) -> Level:
    """The level that was decided on; that of a plain read is not worth a word of the decision, and is found here.

    Raises DeniedError where the machine does not give it any more.
    """
    guard = run.world.guard
    if guard is None or tool is None or tool.pipeline:
        return "none"
    choice = guard.level(tool, op.effect)
    if isinstance(choice, Refusal):
        raise DeniedError(choice.why, choice.fix)
    return choice.level


def seconds_of(run: Run, tool: Tool) -> float:
    """The deadline of one attempt: the header's, else half an hour for a test runner, else the configured one."""
    if tool.timeout != UNSAID_SECONDS:
        return tool.timeout
    guard = run.world.guard
    return TEST_SECONDS if guard is not None and guard.is_test_runner(tool) else run.world.tool_timeout


def variables(run: Run, op: Operation, tool: Tool) -> list[str]:
    """The names of the plain variables and of the secrets that an attempt gets."""
    guard = run.world.guard
    if guard is None:
        return []
    plain = guard.passed(tool).variables
    return sorted({*plain, *guard.released(tool, _is_approved(op)).values})


def secret_names(run: Run, tool: Tool) -> list[str]:
    """The names of the secrets that the tool would get, if a person agrees."""
    guard = run.world.guard
    return sorted(guard.released(tool, yes=True).values) if guard is not None else []


def _is_approved(op: Operation) -> bool:
    """Whether a person said yes to this very call."""
    return op.verdict == "allow" and op.approved_by is not None


@contextmanager
def confined(run: Run, op: Operation, tool: Tool, job: Job, io: IO, direct: bool) -> Iterator[Confined]:
    """Prepare the cage of one attempt, and take it down again. `direct`: without a shim.

    Raises OSError or HarnessError where that is not possible.
    """
    guard, level = run.world.guard, cast(Level, op.level or "none")
    if guard is None:
        yield Confined(job, list, _here, (), Aftermath)
        return
    with ExitStack() as stack:
        work = run.folder / "ops" / str(op.n) / str(op.attempt) / "work"
        secret = _secrets(guard, op, tool)
        given = stack.enter_context(placed(tool, secret, work, io))
        plain = guard.passed(tool)
        env = {**job.env, **plain.variables, **given}
        tools = toolchains(guard.environ) if guard.is_test_runner(tool) else Toolchains(env["PATH"])
        env["PATH"] = tools.path
        grant = guard.reaches(tool, run.values(tool.name, run.argv(op)), _is_approved(op))
        proxy = _proxy(grant, level, stack)
        cage = cage_of(run, op, tool, level, grant, proxy, (*plain.readable, *tools.readable))
        job = replace(job, env=env, limits=cage.limits)
        fenced = _is_fenced(cage)
        if fenced:
            guard.fence.enter(job.op_id, work.parent, unprotected_of(tool, guard.settings))
        try:
            yield _hooks(cage, job, guard, proxy, fenced, direct, stack)
        finally:
            if fenced:
                guard.fence.forget(job.op_id)


def network_text(run: Run, tool: Tool, request: Request) -> str:
    """What the call could really reach, as a person is told; empty without network."""
    guard, level = run.world.guard, cast(Level, request.level or "none")
    if guard is None:
        return ""
    try:
        return guard.reaches(tool, request.values).text(level)
    except HarnessError as error:
        return f"network: {error}"


def _secrets(guard: Guard, op: Operation, tool: Tool) -> Mapping[str, Secret]:
    """What was there when the call was judged may be gone now: then it must not start."""
    found = guard.released(tool, _is_approved(op))
    if found.problems:
        raise HarnessError(found.problems[0], "give it its secret, and try again")
    return found.values


def _proxy(grant: Grant, level: Level, stack: ExitStack) -> Proxy | None:
    if grant.network(level) != "proxy":
        return None
    folder = Path(tempfile.mkdtemp(prefix="harness-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return stack.enter_context(Proxy(grant.allow, grant.private_ok, folder / "proxy"))


def cage_of(
    run: Run, op: Operation, tool: Tool, level: Level, grant: Grant, proxy: Proxy | None, more: Sequence[Path]
) -> Cage:
    """What this attempt may touch."""
    guard, workspace = run.world.guard, run.project.resolve()
    assert guard is not None
    settings, tests, network = guard.settings, guard.is_test_runner(tool), grant.network(level)
    free = unprotected_of(tool, settings)
    found = names.find(workspace, guard.fence.roots, free, protect=settings.protect, hide=settings.hide)
    bridge = [BRIDGE] if proxy is not None else []
    named = [path for path in (*guard.readable, *more) if not path.is_relative_to(workspace)]  # inside it is as it is
    skill = [run.toolset.folder] if run.toolset.folder is not None else []
    read, hide = _read_roots(workspace, settings.read)
    writable, write = _write_roots(workspace, settings.write) if tests or op.effect in WRITES else (False, ())
    return Cage(
        level=level, workspace=workspace, scratch=run.folder / "ops" / str(op.n) / str(op.attempt) / "work",
        writable=writable, write=write, protect=found.protect, hide=(*found.hide, *guard.hidden, *hide),
        read=tuple(p.resolve() for p in (_bin_of(tool), *skill, *family(run), *named, *bridge, *read)),
        network="loopback" if tests and network == "off" else network, proxy=proxy.path if proxy is not None else None,
        limits=limits_of(tool, guard.settings),
    )  # fmt: skip


def _bin_of(tool: Tool) -> Path:
    """The folder that tools are counted from, `bin/` of `bin/warehouse/query`: shared code lies below it."""
    return tool.path.parents[tool.name.count("/")]


def _read_roots(workspace: Path, roots: tuple[str, ...] | None) -> tuple[list[Path], list[Path]]:
    """What of `paths.read` is readable beside the workspace; the workspace is hidden where it is no root itself."""
    if roots is None:
        return [], []
    whole = any(lies_in(str(workspace), root) for root in roots)
    more = [Path(root) for root in roots if not (whole and lies_in(root, str(workspace)))]
    return more, [] if whole else [workspace]


def _write_roots(workspace: Path, roots: tuple[str, ...] | None) -> tuple[bool, tuple[Path, ...]]:
    """Whether the whole workspace is writable, and what else is: the drafts, and the other roots of `paths.write`."""
    drafts = workspace.joinpath(*DRAFTS)
    found = [drafts] if drafts.is_dir() and not drafts.is_symlink() else []
    whole = roots is None or any(lies_in(str(workspace), root) for root in roots)
    more = [Path(root) for root in roots or () if not (whole and lies_in(root, str(workspace)))]
    return whole, (*found, *(path for path in more if path.exists()))


def family(run: Run) -> list[Path]:
    """The folders that hold what this run's operations brought: its own and those of the runs it began."""
    children = [run.folder.parent / op.child for op in run.state.ops.values() if op.child]
    return [run.folder, *(folder for folder in (*children, *_sources(run)) if folder.is_dir())]


def _sources(run: Run) -> list[Path]:
    """The runs that this one was forked from, newest first: files that were made there are still meant."""
    found: list[Path] = []
    fork = run.state.start.get("fork")
    while fork is not None and len(found) < MOST_FORKS:
        found.append(run.folder.parent / str(fork["run"]))
        fork = (first_data(found[-1]) or {}).get("fork")
    return found


def _is_fenced(cage: Cage) -> bool:
    """Whether the kernel would let the call write protected names: all calls below landlock, and every writer."""
    return cage.writable or cage.level in ("none", "limits")


def _here(start: Callable[[], Any]) -> Any:
    return start()


def _hooks(
    cage: Cage, job: Job, guard: Guard, proxy: Proxy | None, fenced: bool, direct: bool, stack: ExitStack
) -> Confined:
    entry = hooks(cage, guard.facts, stack)

    def after() -> Aftermath:
        changes = guard.fence.leave(job.op_id) if fenced else []
        return Aftermath(tuple(changes), tuple(proxy.refused) if proxy is not None else ())

    return Confined(job, wrapped(entry, job) if direct else entry.wrap, entry.start, entry.pass_fds, after)
