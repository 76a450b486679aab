"""`harness runs`: the newest runs as a table, from their journals or what the index remembers of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_json, print_table, say
from harness.cli.place import logs, place, runs_dir
from harness.cli.words import since_seconds
from harness.errors import HarnessError, near_text
from harness.events.line import at_text
from harness.runs.deliver import WAITS, Waiting, said_on, waiting
from harness.runs.find import short_id
from harness.runs.list import WITHOUT, Listed

LAST = 20


@manual("harness runs", "harness runs --waiting", "harness runs --skill oncall-triage --since 2d --json")
def list_runs(
    ctx: typer.Context,
    waits: Annotated[bool, typer.Option("--waiting", help="those that wait for somebody")] = False,
    status: Annotated[str | None, typer.Option("--status", metavar="S", help="open, stopped, forked or a stop")] = None,
    skill: Annotated[str | None, typer.Option("--skill", metavar="S", help="of this skill or pipeline")] = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="T", help="that called this tool")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="T", help="begun within: 90s, 2h, 7d")] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", help="at most so many")] = LAST,
) -> int:
    """List runs, newest first."""
    said = globals_of(ctx)
    at = place(said)
    if last < 1:
        raise HarnessError(f"--last {last} lists nothing", "give a number of 1 or more")
    check_status(status)
    window = since_seconds(since) if since else None
    folder = runs_dir(at)
    found = newest(folder, waits, status, skill, tool, window, last) if folder.is_dir() else []
    if said.json:
        print_json({"runs": [run.as_json() | {"waits": told_of(run)} for run in found]})
    elif not found:
        is_any = not (waits or status or skill or tool or since)
        say(said, "there is no run; start one: harness run SKILL GOAL" if is_any else "no run fits; all: harness runs")
    else:
        rows = [(short_id(r.name), shown(r), r.skill, began(r), r.problem or _about(r)) for r in found]
        if len(found) == last:
            say(said, f"the newest {last}; more with --last N")
        print_table(said, ("ID", "STATE", "SKILL", "BEGAN (UTC)", "GOAL"), rows)
    return 0


def newest(
    folder: Path, waiting: bool, status: str | None, skill: str | None, tool: str | None, window: float | None,
    last: int,
) -> list[Listed]:  # fmt: skip
    """The newest runs that pass every filter; `window` in seconds, `last` at most so many."""
    from harness.runs.index import Index  # loads a database: not where there is no run

    found: list[Listed] = []
    with Index(folder, logs()) as index:
        called = index.callers(tool) if tool is not None else None
        for run in index.runs():
            if window is not None and run.age_s > window:
                break
            asks = waiting and run.stop == "open" and bool(waits_of(run))
            wanted = index.is_top(run) and run.fits(waiting and not asks, status, skill)
            if wanted and (called is None or called(run)):
                found.append(run)
            if len(found) == last:
                break
    return found


def waits_of(run: Listed) -> list[Waiting]:
    """What a run waits for from a person, where its own commands look for it: in the runs below it, too.

    One that goes on may ask at its terminal, and be answered from another.
    """
    kinds = ("approval", "answer") if run.stop == "open" else [WAITS[run.stop]] if run.stop in WAITS else ()
    try:
        return [one for one in waiting(run.folder) if one.what in kinds] if kinds else []
    except HarnessError:  # a child that a newer harness wrote: its parent is listed all the same
        return []


def told_of(run: Listed) -> list[dict[str, object]]:
    """The same for a program; `said` is the word that was given and not acted on yet."""
    return [{"run": w.folder.name, "op": w.op.n, "what": w.what, "said": said_on(w) or None} for w in waits_of(run)]


def shown(run: Listed) -> str:
    """A run's state with the numbers that `approve`, `answer` and `settle` take, or the word that was given."""
    found = waits_of(run)
    left = [one for one in found if not said_on(one)]
    if not found:
        return run.shown
    if not left:
        return f"{run.stop}: {said_on(found[-1])}, resume it"
    many = Counter(one.op.n for one in left)
    numbers = [f"{short_id(o.folder.name)} #{o.op.n}" if many[o.op.n] > 1 else f"#{o.op.n}" for o in left]
    return f"{run.stop} {' '.join(numbers)}"


def _about(run: Listed) -> str:
    """A run's goal; one that a run began stands here only when that one is gone."""
    return f"(part of {short_id(run.parent)}, which is gone) {run.goal}".rstrip() if run.parent else run.goal


def began(run: Listed) -> str:
    """When a run began, for a table."""
    return at_text(run.began)[:19].replace("T", " ")


def check_status(status: str | None, option: str = "--status") -> None:
    """Refuse a word that no run can be listed with. Raises HarnessError with the nearest."""
    if status is None:
        return
    from harness.loop.ending import CODES  # loads much; every other list goes without

    known = (*CODES, *WITHOUT)
    if status not in known:
        raise HarnessError(f"{option} {status} is no state of a run{near_text(status, known)}", ", ".join(known))
