"""`harness skills stats`: the figures of an evaluation over the runs that people made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_json, print_table, say
from harness.cli.place import Place, catalog, found_tool, logs, place, runs_dir
from harness.cli.words import since_seconds
from harness.errors import HarnessError
from harness.runs.find import short_id
from harness.skills.names import find

if TYPE_CHECKING:
    from harness.evals.table import Graded
    from harness.runs.list import Listed

COLUMNS = ("SKILL", "RUNS", "PASSED", "95 %", "COST", "REFUSED", "NEVER CALLED")


@manual("harness skills stats", "harness skills stats oncall-triage --since 30d", codes=(0, 2, 3))
def stats(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="one skill; else all that ran")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="T", help="begun within: 2h, 7d, 30d")] = None,
) -> int:
    """Runs that ended, by skill: how many passed, with its interval, what they cost, and which tools nobody calls."""
    from harness.evals.table import row

    said = globals_of(ctx)
    at = place(said)
    groups = _groups(at, name, since_seconds(since) if since else None)
    found = {skill: row(graded, 1) | {"never_called": never} for skill, (graded, never) in groups.items()}
    if said.json:
        print_json({"skills": found})
    elif not found:
        if name is not None:
            find(catalog(at), name)  # a name of no skill is no answer of nothing
        say(said, "no run that ended fits; start one: harness run SKILL GOAL")
    elif name is None:
        print_table(said, COLUMNS, [_line(skill, one) for skill, one in found.items()])
    else:
        _card(name, found[name])
    return 0


def _groups(at: Place, name: str | None, window: float | None) -> dict[str, tuple[list[Graded], list[str]]]:
    """By skill: its runs that ended, and the tools it lists that none of them called."""
    from harness.evals.table import Graded

    found: dict[str, list[Graded]] = {}
    for run, figures in _ended(runs_dir(at), name, window):
        found.setdefault(run.skill, []).append(Graded(run.name, figures.passed, figures))
    known = catalog(at)
    groups = {}
    for skill, graded in sorted(found.items()):
        if not known.named(skill) and found_tool(at, skill) is not None:
            continue  # of `tools run` or `pipeline`: a tool is no skill
        listed = [tool for one in known.named(skill)[:1] for tool in one.allowed]
        called = {call.tool for one in graded for call in one.figures.calls}
        groups[skill] = graded, [tool for tool in listed if tool not in called]
    return groups


def _ended(folder: Path, name: str | None, window: float | None) -> Iterator[tuple[Listed, Any]]:
    """Each run that ended by itself, nobody's child, with its figures; what cannot be read is left out and said."""
    from harness.evals.figures import figures_of
    from harness.evals.trial import VOID
    from harness.runs.index import Index

    if not folder.is_dir():
        return
    with Index(folder, logs()) as index:
        for run in index.runs():
            if window is not None and run.age_s > window:
                break
            if index.is_top(run) and run.has_ended and run.stop not in VOID and name in (None, run.skill):
                try:
                    yield run, figures_of(run.folder)
                except (HarnessError, OSError) as error:
                    print(f"warning: {short_id(run.name)} is left out: {error}", file=sys.stderr)


def _line(skill: str, one: dict[str, Any]) -> tuple[str, ...]:
    from harness.view.evals import interval, usd

    spent = NONE if one["unpriced"] else usd(one["usd_total"])
    return (
        skill, str(one["trials"]), str(one["passed"]), interval(one), spent, str(sum(one["refusals"].values())),
        " ".join(one["never_called"]) or "none",
    )  # fmt: skip


NONE = "unknown"


def _card(name: str, one: dict[str, Any]) -> None:
    from harness.view.evals import table_lines

    for line in table_lines({name: one}, None):
        print(line)
    never: Sequence[str] = one["never_called"]
    print(f"tools never called: {', '.join(never) or 'none'}")
