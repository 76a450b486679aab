"""`harness run` and `harness resume`: the arguments of a skill's run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.driving import drive, options_of
from harness.cli.options import Globals, globals_of, manual
from harness.cli.outcome import check_out, unfinished
from harness.cli.output import flags, say
from harness.cli.place import Place, catalog, place, runs_dir
from harness.cli.trusting import answered
from harness.cli.words import Pipe, pairs_of, text_of
from harness.errors import HarnessError
from harness.models.agent import NAME
from harness.runs.agent import check_drivable, handed_over
from harness.runs.deliver import speaker, top_of
from harness.runs.find import find_run, short_id
from harness.runs.flags import Options
from harness.runs.opened import Session
from harness.runs.peek import peek
from harness.runs.session import resume as resume_session
from harness.runs.session import start_skill
from harness.runs.uses import run_uses, skill_uses
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.view.mode import current

File = Annotated[str | None, typer.Option("-f", metavar="FILE", help="take the text from FILE (- is stdin)")]
Inputs = Annotated[list[str] | None, typer.Option("-i", metavar="K=V", help="an input; K=@FILE, K=- reads it")]
ModelName = Annotated[str | None, typer.Option("-m", "--model", metavar="MODEL", help="a model, as anthropic:NAME")]
Budget = Annotated[list[str] | None, typer.Option("-b", "--budget", metavar="K=V", help="limits: turns=10 usd=0.20")]
Out = Annotated[str | None, typer.Option("-o", metavar="FILE", help="put the accepted answer into FILE")]
Allow = Annotated[list[str] | None, typer.Option("--allow", metavar="CALL", help="allow 'TOOL --opt=value' this run")]
Deny = Annotated[list[str] | None, typer.Option("--deny", metavar="TOOL", help="deny a tool in this run")]
Sandbox = Annotated[str | None, typer.Option("--sandbox", metavar="LEVEL", help="at least: landlock or full")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="STAGE.PARAM=V", help="another argument of a pipeline's stage")
]
AgentFlag = Annotated[bool, typer.Option("--agent", help="you are the model: prints what you need to go on")]
PROMOTED = Path(".harness") / "promoted.json"
CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 75, 124, 130)


@manual(
    "harness run oncall-triage what is going wrong -i logs=app.log",
    "harness run oncall-triage why is batch 42 late -i source=incident -m none",
    "harness run oncall-triage why is batch 42 late -i source=incident --agent",
    codes=CODES,
    streams=True,
)
def run(
    ctx: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="a skill's name, or a path with /")],
    goal: Annotated[list[str] | None, typer.Argument(metavar="[GOAL…]", help="what to do; - reads stdin")] = None,
    file: File = None,
    inputs: Inputs = None,
    model: ModelName = None,
    budget: Budget = None,
    out: Out = None,
    allow: Allow = None,
    deny: Deny = None,
    agent: AgentFlag = False,
    sandbox: Sandbox = None,
    context: Annotated[
        list[str] | None, typer.Option("--context", metavar="FILE", help="point the model to a file of the project")
    ] = None,
    record: Annotated[str | None, typer.Option("--record", metavar="FILE", help="keep its replies as a script")] = None,
) -> int:
    """Run a skill until its answer is accepted, it waits for somebody, or a limit stops it."""
    said, pipe = globals_of(ctx), Pipe()
    words = text_of(goal or (), file, pipe)
    given = pairs_of(inputs or (), pipe)
    pairs = {key: value.text for key, value in given.items()}
    foreign = tuple(key for key, value in given.items() if value.source == "input")
    at = place(said, asks=True)
    found, said.frame = catalog(at), unfinished()
    at = answered(said, at, skill_uses(found, find(found, skill)))
    options = options_of(said, model, budget, allow or (), deny or (), at, words=words)
    options = replace(options, context=tuple(context or ()), foreign=foreign)
    text = words.text if words else ""
    begin = partial(start_skill, catalog=found, name=skill, goal=text, given=pairs)
    if agent and record is not None:
        raise HarnessError("there is --agent and --record", "record it later: harness show RUN --as-script")
    if agent:
        from harness.cli.agent import hand_out

        return hand_out(said, at, partial(begin, options=agents(said, options, out)), sandbox)
    with recorded(at, record) as began:
        return drive(said, at, lambda world: noted(at, found, began(begin(world, options=options))), out, sandbox)


def noted(at: Place, found: Catalog, session: Session) -> Session:
    """The session, whose person hears where another state of the skill was promoted than what is run."""
    if session.skill is not None and (at.project / PROMOTED).exists():
        from harness.evals.promoted import unpromoted

        what = unpromoted(at.project, found, session.skill)
        session.warnings += [what] if what else []
    return session


@contextmanager
def recorded(at: Place, file: str | None) -> Iterator[Callable[[Session], Session]]:
    """Write the replies of the run that is begun inside into a file, however it ends. Raises HarnessError."""
    check_out(file, "--record")
    if file is not None and os.path.lexists(file):
        raise HarnessError(f"--record {file}: there is such a file already", "name another file, or take it away")
    sessions: list[Session] = []

    def began(session: Session) -> Session:
        sessions.append(session)
        return session

    try:
        yield began
    finally:
        if file is not None and sessions:
            from harness.cli.show_model import write_script

            write_script(at, sessions[0].run.folder, file)


def agents(said: Globals, options: Options, out: str | None) -> Options:
    """The options of a run that an agent drives. Raises HarnessError for what it may not say, or what says nothing."""
    if options.model is not None and options.model[1] == "-m":
        raise HarnessError("there is --agent and -m", "give one of them: with --agent you are the model")
    if out is not None:
        raise HarnessError("there is --agent and -o", "the answer comes from: harness finish RUN -f -")
    _refuse_own_yes(said, options)
    return handed_over(options)


def _refuse_own_yes(said: Globals, options: Options) -> None:
    """Whoever drives has a shell to say `--allow` with. Raises HarnessError (exit 5) where no person is at hand."""
    if options.allow and not current(flags(said)).can_ask:
        fix = "leave it out; a person can approve"
        raise HarnessError("--allow counts with --agent at a terminal only", fix, code=5)


@manual(
    "harness resume last",
    "harness resume k3v9 look at the other pod too",
    "harness resume k3v9 -b turns=40",
    "harness resume k3v9 --set clusters.capacity=51000",
    codes=CODES,
    streams=True,
)
def resume(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="RUN", help="its folder, a part of its id, or last")],
    message: Annotated[list[str] | None, typer.Argument(metavar="[MESSAGE…]", help="say something first")] = None,
    file: File = None,
    model: ModelName = None,
    budget: Budget = None,
    out: Out = None,
    allow: Allow = None,
    deny: Deny = None,
    accept: Annotated[bool, typer.Option("--accept-changes", help="go on though skill or tools changed")] = False,
    now: Annotated[bool, typer.Option("--now", help="before the time it waits for")] = False,
    moved: Annotated[bool, typer.Option("--moved", help="its folder came here from another host")] = False,
    sets: Sets = None,
    agent: AgentFlag = False,
    sandbox: Sandbox = None,
) -> int:
    """Go on with a run from its journal: what has ended is not done again."""
    said, pipe = globals_of(ctx), Pipe()
    words = text_of(message or (), file, pipe)
    at = place(said, asks=True)
    folder, found = _top(said, find_run(runs_dir(at), name)), catalog(at)
    at = answered(said, at, run_uses(found, folder), folder, moved=moved)
    options = options_of(said, model, budget, allow or (), deny or (), at, accept, words)
    options = options if model else options.without_model()
    options = replace(options, now=now, moved=moved, sets=tuple(sets or ()))
    text = words.text if words else None
    begin = partial(resume_session, catalog=found, folder=folder, message=text)
    if speaker(folder) == NAME:
        _refuse_own_yes(said, options)
    if agent:
        from harness.cli.agent import hand_out

        check_drivable(peek(folder), short_id(folder.name))
        return hand_out(said, at, partial(begin, options=agents(said, options, out)), sandbox, folder)
    return drive(said, at, partial(begin, options=options), out, sandbox, folder)


def _top(said: Globals, folder: Path) -> Path:
    """The run that goes on where a part of it was named."""
    top = top_of(folder)
    if top != folder:
        say(said, f"{short_id(folder.name)} is part of {top.name}, which goes on")
    return top
