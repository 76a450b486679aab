"""Findings that only running tells: what a tool says to `--help`, and what verifiers say of a skill's samples.

Each is one confined attempt without network and secrets, in a scratch folder that is gone afterwards. Nothing else is
executed to learn about it. Not a place for what reading the files tells.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Finding, HarnessError, Severity
from harness.events.io import IO
from harness.executor import Cancel, Job, Outcome, environment, not_started, run
from harness.executor.limits import wrapped
from harness.executor.tree import prepare
from harness.loop.verify import ACCEPTS, REJECTS
from harness.policy.settings import Settings, limits_of
from harness.policy.vouching import Trust
from harness.sandbox import Cage, Level, names, probe
from harness.sandbox.facts import facts
from harness.sandbox.start import hooks
from harness.skills import Resolved
from harness.tools import Tool
from harness.tools.arguments import canonical, parse

HELP_SECONDS, SAMPLE_SECONDS = 2.0, 10.0
ANSWER = "answer.md"
EMPTY = "the empty answer"


@dataclass(frozen=True, slots=True)
class Ground:
    """Where checks run what they run.

    `level` is the confinement; None where the machine gives none. `hidden` is what nothing may read. `tools_path` are
    more directories for `PATH`. `trust` says which files a person lets act.
    """

    project: Path
    level: Level | None
    hidden: tuple[Path, ...] = ()
    tools_path: tuple[str, ...] = ()
    trust: Trust = field(default_factory=Trust)
    io: IO = field(default_factory=IO)


@dataclass(frozen=True, slots=True)
class _Call:
    """One attempt: its words, what it is given, and its working directory, which it may write only as a scratch."""

    tool: Tool
    args: Sequence[str]
    seconds: float
    workspace: Path
    writable: bool = False
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    skill: Path | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """An answer to judge. `source` is its file, or the folder that is its workspace; None for the empty answer."""

    name: str
    source: Path | None = None


@dataclass(frozen=True, slots=True)
class _End:
    """How a verifier took a sample; of several the one that counts. `exit` is None for one that took too long."""

    name: str
    exit: int | None
    how: str


def ground_of(
    project: Path, hidden: Sequence[Path] = (), tools_path: Sequence[str] = (), trust: Trust | None = None
) -> Ground:
    """The ground at a project, with the best confinement that this machine really gives: it is tried.

    `hidden` are folders that nothing may read, beside the project's own secret files.
    """
    prepare()  # what bubblewrap leaves then comes to this process, which waits for it
    levels: tuple[Level, ...] = ("full", "landlock")
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        level = next((one for one in levels if probe.test_machine(facts(), Path(folder), [one]).gives(one)), None)
    hide = (*names.find(project.resolve(), ()).hide, *(path.resolve() for path in hidden))
    return Ground(project, level, hide, tuple(tools_path), trust or Trust())


def help_findings(ground: Ground, tool: Tool, named: bool = False) -> list[Finding]:
    """What is wrong with `TOOL --help`; `named` says that a person named the tool. Of a pipeline the harness tells."""
    if tool.pipeline:
        return []
    if why := _why_no_help(ground, tool, named):
        return [_about(tool, "note", "help-not-run", f"{tool.name} --help was not run: {why[0]}", why[1])]
    with _scratch() as top:
        outcome = _execute(ground, _Call(tool, ["--help"], HELP_SECONDS, top / "work"), top)
    fix = "let --help print the usage and exit 0 at once, before anything else is done"
    if outcome.timed_out:
        return [_about(tool, "error", "help-slow", f"{tool.name} --help took over {HELP_SECONDS:g} s", fix)]
    if outcome.exit != 0:
        return [_about(tool, "error", "help-failed", f"{tool.name} --help {_how(outcome)}", fix)]
    return []


def verifier_findings(ground: Ground, resolved: Resolved) -> list[Finding]:
    """What a skill's verifiers make of its samples; nothing where one is missing or broken, which is said elsewhere."""
    skill = resolved.skill
    tools = [resolved.tools.get(words[0]) for words in skill.verify]
    if not tools or any(tool is None or tool.broken or tool.effect not in ("read", "write") for tool in tools):
        return []
    found = _Judging(ground, resolved)
    if why := found.why_not():
        found.add("note", "verifier-not-run", *why)
    else:
        found.judge()
    if not _samples(skill.folder, "reject"):
        message = f"nothing shows that {found.verifiers} would reject a bad answer"
        found.add("warning", "verifier-untested", message, "add a bad answer as evals/reject/NAME.md")
    return found.findings


@dataclass(slots=True)
class _Judging:
    """One skill's samples being judged."""

    ground: Ground
    resolved: Resolved
    findings: list[Finding] = field(default_factory=list)

    @property
    def verifiers(self) -> str:
        return " and ".join(dict.fromkeys(words[0] for words in self.resolved.skill.verify))

    def add(self, severity: Severity, code: str, message: str, fix: str) -> None:
        skill = self.resolved.skill
        self.findings.append(Finding(code, severity, skill.shown, skill.lines.get("verify", 1), message, fix))

    def why_not(self) -> tuple[str, str] | None:
        """Why no verifier runs, and what to do."""
        skill = self.resolved.skill
        for words in skill.verify:
            tool = self.resolved.tools[words[0]]
            secret = next((variable.name for variable in tool.env if variable.required), None)
            if "untrusted" in map(self.ground.trust.of, (tool.path, skill.file)):
                return f"{tool.name} was not run: the project is not trusted", "harness trust"
            if self.ground.level is None:
                return f"{tool.name} was not run: this machine confines nothing", "install the package bubblewrap"
            if tool.pipeline:
                return f"{tool.name} was not run: it is a pipeline", "try it in a run"
            if secret:
                return f"{tool.name} was not run: it needs the secret {secret}", "try it in a run"
            problems = parse(tool, words[1:])[1]
            if problems:
                return f"{tool.name} was not run: {problems[0]}", "correct the words after verify"
        return None

    def judge(self) -> None:
        accept, reject = (_samples(self.resolved.skill.folder, kind) for kind in ("accept", "reject"))
        ends = {sample.name: end for sample in (*accept, *reject) if (end := self.of(sample))}
        for sample in accept:
            if (end := ends.get(sample.name)) and end.exit != ACCEPTS:
                message = f"{end.name} does not accept {sample.name}: it {end.how}"
                self.add("error", "verifier-rejects", message, f"mend {end.name}, or the sample")
        passed = [one.name for one in reject if one.name in ends and ends[one.name].exit != REJECTS]
        if passed and all(end.exit == ACCEPTS for end in ends.values()):
            message = f"{self.verifiers} accepts everything, also {', '.join(passed)}"
            self.add("error", "verifier-accepts", message, f"let {self.verifiers} exit 1 for a bad answer")
        else:
            for name in passed:
                how = "all accept it" if ends[name].exit == ACCEPTS else f"{ends[name].name} {ends[name].how}"
                message = f"no verifier rejects {name}: {how}"
                self.add("error", "verifier-accepts", message, f"let {self.verifiers} exit 1 for it")
        end = self.of(_Sample(EMPTY))
        if end and end.exit == ACCEPTS:
            message = f"{self.verifiers} accepts {EMPTY}"
            self.add("warning", "verifier-accepts-empty", message, "let it exit 1 when there is nothing to judge")

    def of(self, sample: _Sample) -> _End | None:
        """How the verifiers take a sample, asked in order until one rejects it; None where it cannot be read."""
        try:
            with _scratch() as top:
                ends = list(self.asked(_laid_out(sample, top), top))
        except OSError as error:
            reason = (error.strerror or "part of it cannot be copied").lower()
            self.add("error", "unreadable", f"{sample.name} cannot be judged: {reason}", f"a folder holds {ANSWER}")
            return None
        if ends[-1].exit == REJECTS:
            return ends[-1]
        return next((end for end in ends if end.exit != ACCEPTS), ends[-1])

    def asked(self, answer: bytes, top: Path) -> Iterator[_End]:
        skill = self.resolved.skill
        env = {"HARNESS_ANSWER": str(top / "run" / ANSWER)}
        for words in skill.verify:
            tool = self.resolved.tools[words[0]]
            args = canonical(tool, parse(tool, words[1:])[0])
            writes = tool.effect == "write"
            call = _Call(tool, args, SAMPLE_SECONDS, top / "workspace", writes, answer, env, skill.folder)
            outcome = _execute(self.ground, call, top)
            end = _End(tool.name, None if outcome.timed_out else outcome.exit, _how(outcome))
            yield end
            if end.exit == REJECTS:
                return


def _samples(folder: Path, kind: str) -> list[_Sample]:
    """The samples of a skill of one kind, by name."""
    try:
        found = sorted((folder / "evals" / kind).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [path for path in found if path.name[0] != "." and (path.is_file() or path.is_dir())]
    return [_Sample(f"evals/{kind}/{path.name}", path) for path in found]


def _laid_out(sample: _Sample, top: Path) -> bytes:
    """Put a copy of the sample's workspace and its answer into the scratch; the answer. Raises OSError."""
    source, workspace = sample.source, top / "workspace"
    if source is not None and source.is_dir():
        shutil.copytree(source, workspace, symlinks=True)
        answer = (source / ANSWER).read_bytes()
    else:
        workspace.mkdir()
        answer = source.read_bytes() if source is not None else b""
    (top / "run" / ANSWER).write_bytes(answer)
    return answer


@contextmanager
def _scratch() -> Iterator[Path]:
    """A private folder with an empty `run/` and an empty `work/`."""
    with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as folder:
        top = Path(folder).resolve()
        (top / "run").mkdir()
        (top / "work").mkdir()
        yield top


def _execute(ground: Ground, call: _Call, top: Path) -> Outcome:
    """Make one attempt inside its cage. What cannot be started is an outcome, too."""
    cage, op_id = _cage(ground, call, top), f"{top.name}/{call.tool.name}"
    env = environment(
        op_id=op_id, run=top / "run", out=cage.scratch, depth=0, passed=call.env,
        skill=call.skill if call.tool.script else None, tools_path=ground.tools_path,
    )  # fmt: skip
    path = call.tool.path.parent.resolve() / call.tool.path.name
    job = Job((str(path), *call.args), call.workspace, env, call.seconds, op_id, call.stdin, cage.limits)
    try:
        with ExitStack() as stack:
            entry = hooks(cage, facts(), stack)
            return run(job, ground.io, Cancel(), None, wrapped(entry, job), entry.start, entry.pass_fds)
    except (OSError, HarnessError) as error:
        return not_started(f"cannot start {call.tool.name}: {error}")


def _cage(ground: Ground, call: _Call, top: Path) -> Cage:
    read = (ground.project, call.tool.path.parent, top / "run", *([call.skill] if call.skill else []))
    return Cage(
        level=ground.level or "limits", workspace=call.workspace, scratch=top / "work", writable=call.writable,
        read=tuple(path.resolve() for path in read),
        hide=ground.hidden, limits=limits_of(call.tool, Settings()),
    )  # fmt: skip


def _why_no_help(ground: Ground, tool: Tool, named: bool) -> tuple[str, str] | None:
    """Why a tool is not executed to see its help, and what to do."""
    if ground.trust.of(tool.path) != "trusted":
        return "the project is not trusted", "harness trust"
    if tool.broken:
        return f"it is broken ({tool.broken.code})", tool.broken.fix
    if not tool.header and not named:
        return "without a header it may do its work instead", f"write a header, or name it: {tool.name}"
    if ground.level is None and tool.effect != "read":
        return f"its effect is {tool.effect}, and this machine confines nothing", "install the package bubblewrap"
    return None


def _about(tool: Tool, severity: Severity, code: str, message: str, fix: str) -> Finding:
    return Finding(code, severity, tool.file, 1, message, fix)


def _how(outcome: Outcome) -> str:
    """How an attempt ended, with the last line that it printed."""
    if not outcome.started:
        return f"did not start: {outcome.why}"
    if outcome.timed_out:
        return "took too long"
    lines = (outcome.err.strip() or outcome.out.strip()).decode("utf-8", "replace").splitlines()
    ended = f"was ended by signal {outcome.signal}" if outcome.signal else f"exited {outcome.exit}"
    return f"{ended}: {lines[-1].strip()}" if lines else ended
