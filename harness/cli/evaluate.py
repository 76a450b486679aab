"""`harness eval`: try a skill on its cases, grade each trial, and say what the table allows to say."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.outcome import check_out
from harness.cli.place import catalog, place
from harness.cli.run import Allow, Budget, Deny, ModelName


@manual(
    "harness eval oncall-triage --trials 3",
    "harness eval oncall-triage -m scripted --arm skill --arm open",
    "harness eval oncall-triage -m none --compare last",
    codes=(0, 1, 2, 3, 4, 6, 75, 130),
    streams=True,
    notes=(
        "-m scripted plays the script that each case names.",
        "Of -b, usd limits all trials together, every other key each of them.",
    ),
)
def evaluate(
    ctx: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="a skill, or a folder with cases/")],
    trials: Annotated[int | None, typer.Option("--trials", metavar="N", help="trials of each case")] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="GLOB", help="only cases of these names")] = None,
    suites: Annotated[list[str] | None, typer.Option("--suite", metavar="S", help="only these: safety, …")] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="S", help="only dev, or only held-out")] = None,
    arms: Annotated[list[str] | None, typer.Option("--arm", metavar="A", help="skill, open, single-call")] = None,
    model: ModelName = None,
    jobs: Annotated[int, typer.Option("-j", metavar="N", help="trials at a time")] = 1,
    bar: Annotated[str | None, typer.Option("--bar", metavar="X", help="least pass rate")] = None,
    against: Annotated[str | None, typer.Option("--compare", metavar="EVAL", help="pair it with another")] = None,
    budget: Budget = None,
    allow: Allow = None,
    deny: Deny = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="the same as one page")] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="fix the suite: from then on it may not change")] = False,
) -> int:
    """Try a skill on its cases; each trial is an ordinary run, graded and kept."""
    from harness.cli.evaluating import asked_for, freeze_suite, tried
    from harness.cli.lab import meant

    said = globals_of(ctx)
    check_out(html, "--html")
    at = place(said, asks=True)
    if freeze:
        return freeze_suite(said, meant(catalog(at), skill, anew=True))
    asked = asked_for(
        said, at, skill, trials=trials, case=case, suites=suites, split=split, arms=arms, model=model, jobs=jobs,
        bar=bar, against=against, budget=budget, allow=allow, deny=deny, html=html,
    )  # fmt: skip
    return tried(said, asked)[1]
