"""`harness fork` and `harness amend`: another way on from a run's journal, and a person's word on its results."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.masking import hide_of
from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags, print_json
from harness.cli.place import Place, catalog, logs, place, runs_dir
from harness.cli.word import RunName, refuse_for_agent
from harness.errors import HarnessError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.words import AGENT
from harness.executor import Cancel
from harness.loop.run import World
from harness.runs.amend import receipt_given, slots_named
from harness.runs.deliver import send
from harness.runs.find import find_run, short_id
from harness.runs.fork import Source, done_after, point, read_source
from harness.runs.fork import fork as fork_run
from harness.runs.kit import load_pipeline
from harness.runs.peek import peek
from harness.runs.session import current_state
from harness.skills.reading import is_skill_file
from harness.view.mode import current
from harness.view.text import escape


@manual("harness fork k3v9", "harness fork k3v9@41", codes=(0, 2, 3, 11),
        notes=("11: after that event lie attempts that may have had an effect; settle them first.",
               "SEQ: an operation's last event is its `seq` in harness show RUN --json."))  # fmt: skip
def fork(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="RUN[@SEQ]", help="a run, and the event after which it goes on anew")],
) -> int:
    """Begin a new run where another one stood; its id is printed, and `harness resume` goes on with it."""
    said = globals_of(ctx)
    at = place(said)
    text, mark, seq = name.rpartition("@")
    if mark and not (seq.isascii() and seq.isdigit() and len(seq) < 10):
        raise HarnessError(f"{name}: {seq or 'nothing'} is no event number", "write RUN@SEQ, as in k3v9@41")
    source = read_source(find_run(runs_dir(at), text if mark else name), logs(), logs())
    seq_at = point(source, int(seq) if mark else None)
    world = World(IO(), Clock(), Cancel(), runs_dir=runs_dir(at), seals=logs())
    made = fork_run(world, source, seq_at)
    if said.json:
        print_json({"run": made.name, "fork": {"run": source.folder.name, "seq": seq_at}})
        return 0
    typer.echo(made.name)
    if not said.quiet:
        go_on = _go_on(made)
        why = escape(_why_there(source, seq_at)) if not mark else ""
        typer.echo(f"forked {source.folder.name} at event {seq_at}{why}; {go_on}", err=True)
        if done := done_after(source, seq_at):
            typer.echo(f"done after that event, and perhaps once more by the fork: {escape(' '.join(done))}", err=True)
    return 0


def _go_on(made: Path) -> str:
    """How a fork is gone on with: one whose lines end with an accepted answer wants something new to do."""
    name, state = short_id(made.name), current_state(made)
    if state.end is None or state.end["stop"] != "passed":
        return f"go on: harness resume {name}{' --agent' if state.model == AGENT else ''}"
    more = "MESSAGE" if is_skill_file(Path(state.start.get("path") or "")) else "--set STAGE.PARAM=VALUE"
    return f"it has passed; go on: harness resume {name} {more}"


def _why_there(source: Source, at: int) -> str:
    """Why a fork begins where it does when nobody said where."""
    last = source.events[-1]["seq"]
    if at < last:
        return f", the last of {last} at which no call was open"
    return f", the last good one: {source.damage}" if source.damage else ""


@manual(
    'harness amend k3v9 --stale fetch-lines --why "was cut"',
    'harness amend k3v9 --receipt 7=pods.json --why "the cluster was down"',
    codes=(0, 2, 3),
    notes=("A result that a person supplied is shown as a person's.",),
)
def amend(
    ctx: typer.Context,
    name: RunName,
    stale: Annotated[str | None, typer.Option("--stale", metavar="SLOT", help="a stage, tool or 'TOOL ARGS'")] = None,
    receipt: Annotated[str | None, typer.Option("--receipt", metavar="OP=FILE", help="an operation's result")] = None,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="the reason; it must be given")] = None,
) -> int:
    """Declare a result stale, or supply one by hand; the run's owner, or the next resume, acts on it."""
    said = globals_of(ctx)
    at = place(said)
    if (stale is None) == (receipt is None):
        raise HarnessError("say what is amended", "give --stale SLOT or --receipt OP=FILE, one of them")
    if not (why or "").strip():
        raise HarnessError("an amendment needs a reason", "give --why TEXT")
    folder = find_run(runs_dir(at), name, allow_last=False)
    if not current(flags(said)).can_ask:
        refuse_for_agent(folder)
    message, told = _stale(folder, stale) if stale is not None else _receipt(at, folder, receipt or "")
    _refuse_closed_child(folder)
    send(folder, IO(), {"kind": "amend", "why": why, **message}, hide_of(at), logs())
    return _say(said, folder, told)


def _refuse_closed_child(folder: Path) -> None:
    """Nobody opens a child run again once its parent has its end: the next call of it goes on from a copy."""
    parent = peek(folder).get("parent")
    if parent and current_state(folder).status == "ended":
        what = f"{folder.name} has ended as operation {parent['op']} of {parent['run']}"
        raise HarnessError(what, f"amend that one: harness amend {parent['run']} --stale SLOT --why TEXT")


def _stale(folder: Path, text: str) -> tuple[dict[str, object], str]:
    slots = slots_named(current_state(folder), text)
    return {"what": "stale", "target": text, "value": [list(slot) for slot in slots]}, f"{text} is stale"


def _receipt(at: Place, folder: Path, word: str) -> tuple[dict[str, object], str]:
    target, value = receipt_given(word, current_state(folder), lambda stage: _tool_of(at, folder, stage))
    call = shlex.join((str(value["tool"]), *map(str, value["argv"] or ())))
    number = f"#{target}" if target.isdecimal() else target
    return {"what": "receipt", "target": target, "value": value}, f"{number} ({call}) has a person's result"


def _tool_of(at: Place, folder: Path, stage: str) -> str | None:
    """The tool of a stage that has not begun, where the run is a pipeline's."""
    path = Path(peek(folder).get("path") or "")
    if is_skill_file(path) or not path.is_file():
        return None
    try:
        found = load_pipeline(catalog(at), path)[2].stage(stage)
    except HarnessError:
        return None
    return found.run[0].text if found is not None else None


def _say(said: Globals, folder: Path, told: str) -> int:
    start, top = peek(folder), folder.name
    while start.get("parent"):
        top = start["parent"]["run"]
        start = peek(folder.parent / top)
    if said.json:
        print_json({"run": folder.name, "amended": told})
    elif not said.quiet:
        typer.echo(escape(f"{told}; go on: harness resume {short_id(top)}"), err=True)
    return 0
