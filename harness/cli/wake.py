"""`harness runs wake`: for cron, resume what waits for a time that has come."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import print_json, say
from harness.cli.place import Place, logs, place, runs_dir
from harness.errors import BusyError, HarnessError
from harness.runs.find import short_id
from harness.runs.index import Index
from harness.runs.list import Listed

INTERRUPTED = 130


@manual(
    "harness runs wake",
    "harness runs wake -n",
    codes=(0, 2, 3, 130),
    notes=("What a run stops with is its own; the code is that of one that could not be resumed.",),
)
def wake(
    ctx: typer.Context,
    dry: Annotated[bool, typer.Option("-n", "--dry-run", help="only list them")] = False,
) -> int:
    """Resume each waiting run that is due, one after the other; print their names."""
    said = globals_of(ctx)
    at = place(said)
    with Index(runs_dir(at), logs()) as index:
        due = [run for run in index.runs() if index.is_top(run) and is_due(run, time.time())]
    done: list[dict[str, Any]] = []
    for run in reversed(due):
        found = {"run": run.name} if dry else resumed(said, at, run)
        done += [found] if found else []
        if not said.json and found:
            typer.echo(run.name)
        if found and found.get("code") == INTERRUPTED:
            break
    if said.json:
        print_json({"runs": done})
    elif not due:
        say(said, "no waiting run is due")
    failed = [found["code"] for found in done if found.get("error")]
    return INTERRUPTED if done and done[-1].get("code") == INTERRUPTED else next(iter(failed), 0)


def is_due(run: Listed, now: float) -> bool:
    """Whether it waits for a time that has come: not for a person, nor for whoever drives it."""
    return run.parked and run.stop == "waiting" and run.until is not None and run.until <= now


def resumed(said: Globals, at: Place, run: Listed) -> dict[str, Any] | None:
    """Drive one run until it stops; None where another process was faster."""
    from harness.cli.driving import driven, options_of
    from harness.cli.place import catalog
    from harness.cli.trusting import answered
    from harness.runs.session import resume
    from harness.runs.uses import run_uses

    folder: Path = run.folder
    try:
        found = catalog(at)
        at = answered(said, at, run_uses(found, folder), folder)
        options = options_of(said, None, None, (), (), at).without_model()
        _, stop = driven(said, at, partial(resume, catalog=found, folder=folder, message=None, options=options))
    except BusyError:
        return None
    except HarnessError as error:
        say(said, f"{short_id(run.name)} cannot be resumed: {error.message}; fix: {error.fix}")
        return {"run": run.name, "stop": "error", "code": error.exit_code, "error": error.message}
    return {"run": run.name, "stop": stop.name, "code": stop.code}
