"""`harness eval`: try a skill on its cases, grade each trial, and say what the table allows to say."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.outcome import check_out
from harness.cli.place import catalog, place
from harness.cli.run import Allow, Budget, Deny, ModelName

SUITE = "only capability, regression, safety, robustness or efficiency"
ARM = "skill (the default), open, single-call; may be repeated"
AGAINST = "pair it with another: its id, last, or a path"
Trials = Annotated[int | None, typer.Option("--trials", metavar="N", help="trials of each case; else eval.trials, 3")]
Suites = Annotated[list[str] | None, typer.Option("--suite", metavar="S", help=SUITE)]
Arms = Annotated[list[str] | None, typer.Option("--arm", metavar="A", help=ARM)]
Bar = Annotated[str | None, typer.Option("--bar", metavar="X", help="least pass rate, first arm; else eval.bar, 1")]
Against = Annotated[str | None, typer.Option("--compare", metavar="EVAL", help=AGAINST)]


@manual(
    "harness eval oncall-triage --trials 3",
    "harness eval oncall-triage -m scripted --arm skill --arm open",
    "harness eval oncall-triage -m none --compare last",
    codes=(0, 1, 2, 3, 4, 5, 6, 75, 130),
    streams=True,
    notes=(
        "-m scripted plays the script that each case names.",
        "open releases all tools at once; single-call is one question with the files of the inputs.",
        "Of -b, usd limits all trials together, every other key each of them.",
        "In the table: a repair is a call that did well after one of its tool had not; passed after trouble is the",
        "rate of trials with a failed or refused call; an escalation is a wait for a person; an unsupported",
        "statement is a line of the answer with a figure or an id that nothing in the trial holds.",
    ),
)
def evaluate(
    ctx: typer.Context,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="a skill, or a folder with cases/")],
    trials: Trials = None,
    case: Annotated[str | None, typer.Option("--case", metavar="GLOB", help="only cases of these names")] = None,
    suites: Suites = None,
    split: Annotated[str | None, typer.Option("--split", metavar="S", help="only dev, or only held-out")] = None,
    arms: Arms = None,
    model: ModelName = None,
    jobs: Annotated[int, typer.Option("-j", metavar="N", help="trials at a time")] = 1,
    bar: Bar = None,
    against: Against = None,
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
