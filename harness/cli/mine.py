"""`harness eval mine`: what went wrong lately, by cause, and candidate cases from runs that a person chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.masking import masker_of
from harness.cli.options import globals_of, manual
from harness.cli.output import print_json, print_paths, print_table, say
from harness.cli.place import Place, catalog, logs, place, runs_dir
from harness.cli.words import since_seconds
from harness.errors import HarnessError
from harness.runs.find import find_run, short_id
from harness.skills.names import find

if TYPE_CHECKING:
    from pathlib import Path

    from harness.evals.mining import Cause

SHOWN = 4


@manual("harness eval mine oncall-triage --since 30d", "harness eval mine --case k3v9", codes=(0, 2, 3))
def mine(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[SKILL]", help="runs of one skill; else of all")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="T", help="begun within: 2h, 7d, 30d")] = None,
    case: Annotated[list[str] | None, typer.Option("--case", metavar="RUN", help="draft a case from it")] = None,
) -> int:
    """Group the runs that did not pass by what stopped them; secrets are masked in the cases that are drafted."""
    from harness.evals.mining import causes

    said = globals_of(ctx)
    at = place(said)
    if case:
        print_paths(said, [_draft(at, run) for run in case])
        say(said, "next: look at it, say what is expected, move it to cases/")
        return 0
    found = causes(_failed(at, name, since_seconds(since) if since else None))
    if said.json:
        print_json({"causes": [{"cause": one.why, "runs": list(one.runs)} for one in found]})
    elif not found:
        if name is not None:
            find(catalog(at), name)  # a name of no skill is no answer of nothing
        say(said, "no run that fits failed")
    else:
        print_table(said, ("RUNS", "CAUSE", "NEWEST"), [_row(one) for one in found])
        say(said, "next: harness eval mine --case RUN drafts a case from one of them")
    return 0


def _row(one: Cause) -> tuple[str, str, str]:
    more = " …" if len(one.runs) > SHOWN else ""
    return str(len(one.runs)), one.why, " ".join(map(short_id, one.runs[:SHOWN])) + more


def _failed(at: Place, name: str | None, window: float | None) -> list[Path]:
    """The runs that did not pass, newest first; one that somebody stopped did not fail."""
    from harness.runs.index import Index

    folder, found = runs_dir(at), []
    if not folder.is_dir():
        return []
    with Index(folder, logs()) as index:
        for run in index.runs():
            if window is not None and run.age_s > window:
                break
            failed = run.code not in (None, 0, 130) and name in (None, run.skill)
            if failed and index.is_top(run):
                found.append(run.folder)
    return found


def _draft(at: Place, name: str) -> Path:
    from harness.evals.mining import draft
    from harness.runs.narrow import PLACES
    from harness.runs.peek import peek
    from harness.skills.names import find

    folder = find_run(runs_dir(at), name, allow_last=False)
    start = peek(folder)
    if start.get("parent"):
        what = f"{folder.name} is part of another run: a model gave it its inputs"
        raise HarnessError(what, f"draft a case from that one: --case {start['parent']['run']}")
    skill = find(catalog(at), str(start.get("skill", "")))
    if not skill.folder.is_relative_to(at.project):
        what = f"{skill.name} is not of this project"
        raise HarnessError(what, "copy the skill into skills/ first", str(skill.folder))
    paths = {one.name for one in skill.inputs if one.notation in PLACES}
    try:
        return draft(folder, skill.folder / "evals", at.project, paths, masker_of(at).text)
    except FileExistsError as error:
        where = str(error.filename)
        raise HarnessError("there is a case of this run already", "move it, or delete it", where) from error
