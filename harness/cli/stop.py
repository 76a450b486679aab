"""`harness stop`: end a run from another terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import print_json, say
from harness.cli.place import Place, logs, place, runs_dir
from harness.errors import HarnessError
from harness.events.io import IO
from harness.runs.deliver import top_of
from harness.runs.find import find_run, short_id
from harness.runs.list import UNTOLD, Listed, is_owned, read


@manual(
    "harness stop k3v9",
    "harness stop last --now",
    codes=(0, 2, 3),
    notes=("1    it did not stop within 15 s; it still may",),
)
def stop(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="RUN", help="its folder, a part of its id, or last")],
    now: Annotated[bool, typer.Option("--now", help="kill what runs instead of letting it end")] = False,
) -> int:
    """Stop a run: nothing more starts, what runs comes to its end. One that only waits gets its end at once."""
    said = globals_of(ctx)
    at = place(said)
    folder = top_of(find_run(runs_dir(at), name))
    before = read(folder)
    if before.has_ended:
        return _told(said, before, f"has ended already: {before.stop}")
    if is_owned(folder):
        say(said, f"{short_id(folder.name)} is running: it is asked to stop, and waited for")
    if is_owned(folder) and not _asked(folder, now):
        say(said, f"{short_id(folder.name)} still runs; it stops when its running call ends")
        if not now:
            say(said, f"sooner: harness stop {short_id(folder.name)} --now")
        return 1
    found = read(folder)
    if not found.has_ended:
        _end(at, folder, now)
        found = read(folder)
    return _told(said, found, f"stopped: {found.stop}")


def _asked(folder: Path, now: bool) -> bool:
    from harness.runs.stopping import ask_owner

    return ask_owner(folder, IO(), now)


def _end(at: Place, folder: Path, now: bool) -> None:
    from harness.events.clock import Clock
    from harness.executor import Cancel
    from harness.loop.run import World
    from harness.runs.index import update
    from harness.runs.stopping import end_here

    world = World(IO(), Clock(), Cancel(), runs_dir=runs_dir(at), seals=logs())
    world.allow_fs = tuple(at.config.value("runs.allow_fs"))
    end_here(world, at.project, folder, now)
    update(runs_dir(at), logs(), [folder.name])


def _told(said: Globals, run: Listed, what: str) -> int:
    if run.stop in UNTOLD:
        raise HarnessError(f"the run cannot be read: {run.stop}", f"look at {run.folder}", code=3)
    if said.json:
        print_json({"run": run.name, "stop": run.stop, "code": run.code})
    else:
        say(said, f"{short_id(run.name)} {what}")
    return 0
