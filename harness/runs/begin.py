"""Beginning a run and opening one again: the same run, whatever process holds it."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError, JournalError
from harness.events import seal
from harness.events.amend import is_seam
from harness.events.line import to_json
from harness.events.log import INLINE, INLINE_LARGE, Log, create, open_log
from harness.executor import has_acted
from harness.loop import cover, inbox
from harness.loop.act import is_harmless
from harness.loop.run import Run, World
from harness.loop.toolset import Toolset
from harness.models import ModelRef
from harness.policy import Rule
from harness.runs.facts import git_state, machine
from harness.runs.owning import refuse_redacted, refuse_renamed
from harness.runs.pins import said_in
from harness.runs.where import check_place
from harness.skills import Resolved
from harness.tools import Parameter

LABELS = 4
"""The version of the labels of texts that a run keeps from its beginning; 1 is told by no field."""
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
PATIENCE, AGENT_PATIENCE = 1.0, 60.0
"""Seconds to try for a run's lock. The commands of an agent queue on it."""


Check = Callable[[Path, Sequence[dict[str, Any]]], None]
"""What may refuse a run by its folder and the events in it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a run is asked to do. `name` is the skill's or the pipeline's; `inputs` are checked values of `parameters`.

    `source` is user for typed words, input for a text from a file or a pipe, model for a goal a model wrote; `foreign`
    are inputs that a file or a pipe brought. `flags` are the person's words of `--allow` and `--deny`, `rules` what
    they stand for. `parent` links a child to its parent: {"run", "op", "depth"}. `digests` pin the skill and its tools.
    `question` is what a run of one reply keeps of its question; its inputs may be long. With `parameters` None the one
    input is the words of a tool's call, `args`. `project` and `context` are what its model is given beside the task.
    """

    name: str
    goal: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    model: ModelRef | None = None
    parent: Mapping[str, Any] | None = None
    source: str = "user"
    flags: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    parameters: tuple[Parameter, ...] | None = ()
    question: Mapping[str, Any] | None = None
    foreign: tuple[str, ...] = ()
    project: Mapping[str, Any] | None = None
    context: Sequence[Mapping[str, Any]] = ()


def letters(count: int) -> str:
    """Random lower-case base-32 characters."""
    return "".join(secrets.choice(LETTERS) for _ in range(count))


def new_log(world: World, name: str, folder: Path | None = None) -> Log:
    """A fresh run folder, under a new name unless its parent gave it one."""
    _make_runs_dir(world)
    while True:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(world.clock.wall()))
        path = folder or world.runs_dir / f"{stamp}-{name.replace('/', '-')}-{letters(8)}"
        try:
            return create(path, world.io, world.clock)
        except FileExistsError:
            if folder is not None:
                raise
        except OSError as error:
            raise JournalError(
                f"the run's folder cannot be made: {error.strerror or error}", "make the folder writable", str(path)
            ) from error


def _make_runs_dir(world: World) -> None:
    """`.harness/` with a `.gitignore` of its own, on the first run of a project."""
    base = world.runs_dir
    check_place(base, world.allow_fs)
    try:
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = base.parent / ".gitignore"
        if base.parent.name == ".harness" and not ignore.exists():
            ignore.write_text("runs/\n")
    except OSError as error:
        raise JournalError(
            f"runs cannot be kept: {error.strerror or error}", "make the folder writable, or set runs.dir", str(base)
        ) from error


def begin(world: World, project: Path, toolset: Toolset, order: Order, folder: Path | None = None) -> Run:
    """Make the run's folder and append `run.start`, on the disk before anybody hears of the run."""
    _refuse_long(order.inputs if order.question is None else {})
    log = new_log(world, order.name, folder)
    with ExitStack() as stack:
        stack.callback(log.close)
        world.seals = seal.ready(world.seals)
        seal.note(world.seals, log.name, world.io)
        run = Run(log, world, toolset, project, order.rules, (order.parent or {}).get("depth", 0))
        run.append("run.start", _start_data(run, order))
        log.sync()
        log.beat()
        stack.pop_all()
    return run


def _refuse_long(inputs: Mapping[str, Any]) -> None:
    """The inputs are part of the first event, which every later reader holds whole."""
    size = len(to_json({key: list(v) if isinstance(v, tuple) else v for key, v in inputs.items()}).encode())
    if size > INLINE_LARGE:
        what = f"the inputs are {size} bytes together; a run takes {INLINE_LARGE}"
        raise HarnessError(what, "put long ones into a file and give its path")


def told(world: World) -> dict[str, Any]:
    """How calls are confined here, as the journal says it."""
    if world.guard is None:
        return {"level": "none", "blocked": [], "open": [], "reason": "nothing confines"}
    return world.guard.told()


def _start_data(run: Run, order: Order) -> dict[str, Any]:
    data: dict[str, Any] = {"run": run.name, "skill": order.name, "goal": run.log.fit(order.goal, INLINE)}
    data["inputs"] = _inputs(run, order)
    if order.question is not None:
        data["inputs"] = {key: run.log.fit(str(value)) for key, value in order.inputs.items()}
        data["question"] = {k: run.log.fit(v) if k == "system" else v for k, v in order.question.items()}
    if order.source != "user":
        data["by"] = order.source
    if order.foreign:
        data["foreign"] = list(order.foreign)
    if defaults := _defaults(order):
        data["defaults"] = defaults
    if order.flags:
        data["flags"] = dict(order.flags)
    if order.parent is not None:
        data["parent"] = dict(order.parent)
    guard = run.world.guard
    digests = {**order.digests, "policy": guard.policy_digest() if guard is not None else ""}
    data |= {"budget": dict(order.budget), "digests": digests}
    if order.project is not None:
        data["project"] = {**order.project, "text": run.log.fit(order.project["text"], INLINE)}
    if order.context:
        data["context"] = [dict(file) for file in order.context]
    ref = order.model
    model = _model_data(ref) if ref is not None else {"ref": "", "source": ""}
    data["model"] = model | {"mark": letters(6), "labels": LABELS}
    data["git"] = git_state(run.project)
    facts = machine()
    data |= {"harness": __version__, "host": facts["host"], "boot": facts["boot"], "pid": facts["pid"]}
    data["cwd"] = str(Path.cwd())
    data["confine"] = told(run.world)
    if order.path:
        data["path"] = order.path
    return data


def _defaults(order: Order) -> list[str]:
    """The inputs whose value is the author's, not the person's."""
    given = ((one, order.inputs.get(one.name)) for one in order.parameters or ())
    return sorted(one.name for one, value in given if value is not None and str(value) == one.default)


def _inputs(run: Run, order: Order) -> dict[str, Any]:
    """What the run begins with, masked."""
    if order.parameters is None:
        return {"args": cover.words(run, order.name, order.inputs["args"])}
    return cover.inputs(run, order.inputs, order.parameters)


def _model_data(ref: ModelRef) -> dict[str, Any]:
    role = {"role": ref.role} if ref.role != "strong" else {}
    return {"ref": ref.text, "source": ref.source, "checks": list(ref.checks), **role}


def reopen(
    world: World, project: Path, folder: Path, toolset: Toolset, rules: Sequence[Rule], by: str, changes: Any = (),
    flags: Mapping[str, Sequence[str]] = {}, check: Check = lambda folder, events: None,
) -> Run:  # fmt: skip
    """Own a run again and append `resume`. Raises BusyError or JournalError.

    `flags` are a person's words that hold from now on. `check` may refuse what is in the journal once it is owned.
    """
    check_place(folder, world.allow_fs)
    world.seals = seal.ready(world.seals)
    wait = AGENT_PATIENCE if by == "agent" else PATIENCE
    log = open_log(folder, world.io, world.clock, wait, partial(seal.check, world.seals, folder))
    start = log.events[0]["data"]
    with ExitStack() as stack:
        stack.callback(log.close)
        refuse_redacted(log)
        refuse_renamed(folder, start)
        check(folder, log.events)
        seal.keep(world.seals, log, going_on=True)
        run = Run(log, world, toolset, project, rules, (start.get("parent") or {}).get("depth", 0))
        tidy_attempts(run)
        inbox.drop_cancels(run)
        run.append("resume", _resume_data(run, by, [*changes, *_policy_change(run)]) | _new_words(log, flags))
        log.beat()
        stack.pop_all()
    return run


def _new_words(log: Log, flags: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What of the flags the journal does not hold yet."""
    before = said_in(log.events)
    new = {name: [word for word in words if word not in before.get(name, ())] for name, words in flags.items()}
    new = {name: words for name, words in new.items() if words}
    return {"flags": new} if new else {}


def _policy_change(run: Run) -> list[dict[str, str]]:
    """Today's policy decides; that it is another one is written down."""
    now = run.world.guard.policy_digest() if run.world.guard is not None else run.state.policy
    return [] if now == run.state.policy else [{"what": "policy", "from": run.state.policy, "to": now}]


def _resume_data(run: Run, by: str, changes: list[dict[str, str]]) -> dict[str, Any]:
    facts, log = machine(), run.log
    data: dict[str, Any] = {"by": by, "pid": facts["pid"], "host": facts["host"], "boot": facts["boot"]}
    data |= {"harness": __version__, "git": git_state(run.project), "confine": told(run.world)}
    data["changes"] = changes
    if log.repaired:
        data["repaired"] = log.repaired
    ran_on = run.state.status == "open" and not is_seam(run.state)  # nobody has worked on a fresh fork
    data["lost_s"] = round(log.lost, 3) if ran_on else 0
    return data


def tidy_attempts(run: Run) -> None:
    """Set aside the folders of attempts that the journal does not know: their intent was lost with its tail.

    Raises JournalError for one that began and may have had an effect: the journal was on the disk before it did.
    """
    for attempt in sorted((run.folder / "ops").glob("*/*")):
        n, k = attempt.parent.name, attempt.name
        op = run.state.ops.get(int(n)) if n.isdigit() else None
        if not k.isdigit() or (op is not None and int(k) <= op.attempt):
            continue
        if has_acted(attempt, for_sure=True) and not (op is not None and is_harmless(op)):
            what = f"an attempt began that the journal does not know: ops/{n}/{k}"
            raise JournalError(what, f"look there, then: harness fork {run.name}", str(attempt))
        with run.log.guarded("an attempt's folder cannot be set aside"):
            run.world.io.rename(attempt, attempt.with_name(f"lost-{k}-{letters(4)}"))


def pins(run_tools: Mapping[str, Any], resolved: Resolved) -> dict[str, Any]:
    """What a run pins: SHA-256 of the skill's file and of every tool it may call."""
    skill = hashlib.sha256(resolved.skill.file.read_bytes()).hexdigest()
    return {"skill": skill, "tools": dict(run_tools)}


def changed_pins(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, str]]:
    """What differs from the pins: [{"what", "from", "to"}]."""
    found = []
    if old.get("skill") and old["skill"] != new.get("skill"):
        found.append({"what": "skill", "from": old["skill"], "to": new.get("skill", "")})
    before, now = old.get("tools") or {}, new.get("tools") or {}
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            found.append({"what": f"tool {name}", "from": before.get(name, ""), "to": now.get(name, "")})
    return found


_DIGEST = re.compile(r"[0-9a-f]{64}")


def _shown(value: str) -> str:
    """Enough of a digest; of what a person reads, such as a model's string, all of it and on one line."""
    short = value[:12] if _DIGEST.fullmatch(value) else value.replace("\n", "\\n").replace("\r", "\\r")
    return short or "absent"


def refuse_changes(changes: list[dict[str, str]], command: str) -> None:
    """A run goes on with what it began with, unless a person accepts the difference by `command`."""
    lines = "\n  ".join(f"{c['what']}: {_shown(c['from'])} → {_shown(c['to'])}" for c in changes)
    raise HarnessError(f"what this run began with has changed:\n  {lines}", f"put it back, or: {command}")
