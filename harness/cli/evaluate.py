"""`harness eval`: try a skill on its cases, grade each trial, and say what the table allows to say."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harness.cli.driving import Driver, model_line, options_of
from harness.cli.options import Globals, globals_of, manual
from harness.cli.outcome import check_out, dumped, write_out
from harness.cli.output import flags, print_json, say
from harness.cli.place import Place, catalog, place
from harness.cli.run import Allow, Budget, Deny, ModelName
from harness.cli.trusting import answered
from harness.errors import HarnessError, near_text
from harness.executor import Cancel
from harness.policy.budget import parse_budget
from harness.runs.flags import Options
from harness.view.mode import current
from harness.view.quiet import Quiet

if TYPE_CHECKING:
    from harness.cli.evaluating import Meant
    from harness.evals.evaluation import Plan
    from harness.evals.trial import Arm, Trial

SCRIPTED = "scripted"


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
    trials: Annotated[int | None, typer.Option("--trials", min=1, metavar="N", help="trials of each case")] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="GLOB", help="only cases of these names")] = None,
    suites: Annotated[list[str] | None, typer.Option("--suite", metavar="S", help="only these: safety, …")] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="S", help="only dev, or only held-out")] = None,
    arms: Annotated[list[str] | None, typer.Option("--arm", metavar="A", help="skill, open, single-call")] = None,
    model: ModelName = None,
    jobs: Annotated[int, typer.Option("-j", min=1, max=64, metavar="N", help="trials at a time")] = 1,
    bar: Annotated[float | None, typer.Option("--bar", min=0, max=1, metavar="X", help="least pass rate")] = None,
    against: Annotated[str | None, typer.Option("--compare", metavar="EVAL", help="pair it with another")] = None,
    budget: Budget = None,
    allow: Allow = None,
    deny: Deny = None,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="the same as one page")] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="fix the suite: from then on it may not change")] = False,
) -> int:
    """Try a skill on its cases; each trial is an ordinary run, graded and kept."""
    from harness.cli import evaluating
    from harness.evals.evaluation import Plan
    from harness.evals.suite import chosen
    from harness.runs.uses import skill_uses

    said = globals_of(ctx)
    check_out(html, "--html")
    at = place(said, asks=True)
    what = evaluating.meant(catalog(at), skill)
    if freeze:
        return _freeze(said, what)
    cases = chosen(what.suite, case, suites or (), split)
    for used in {one.name: one for one in map(what.skill_of, cases)}.values():
        at = answered(said, at, skill_uses(what.found, used))
    if against is not None:
        evaluating.result_file(at, against)  # before anything is paid for
    limits = parse_budget(" ".join(budget or ()))
    usd = limits.pop("usd", None)
    options = options_of(said, model, [f"{key}={value}" for key, value in limits.items()], allow or (), deny or (), at)
    options = _scripted(options)
    number = trials if trials is not None else int(at.config.value("eval.trials"))
    plan = Plan(cases, _arms(arms or ("skill",)), number, jobs, usd)
    least = bar if bar is not None else float(at.config.value("eval.bar"))
    return _evaluated(said, at, what, plan, options, least, against, html)


def _freeze(said: Globals, what: Meant) -> int:
    from harness.evals.suite import FROZEN, digest_of
    from harness.events.io import IO

    digest = digest_of(what.suite.folder)
    IO().put(what.suite.folder / FROZEN, f"{digest}\n".encode(), 0o644)
    say(said, f"the suite of {what.name} is frozen; a change of it is refused from now on")
    print(digest)
    return 0


def _arms(names: Any) -> tuple[Arm, ...]:
    from harness.evals.trial import ARMS

    for name in names:
        if name not in ARMS:
            raise HarnessError(f"--arm {name} is no arm{near_text(name, ARMS)}", f"use {', '.join(ARMS)}")
    return cast("tuple[Arm, ...]", tuple(dict.fromkeys(names)))


def _scripted(options: Options) -> Options:
    """`-m scripted` means each case's own script."""
    named = options.model
    return replace(options, model=(f"{SCRIPTED}:", named[1])) if named and named[0] == SCRIPTED else options


def _evaluated(
    said: Globals, at: Place, what: Meant, plan: Plan, options: Options, least: float, against: str | None,
    html: str | None,
) -> int:  # fmt: skip
    """Make the trials, keep and print what they came to, and return the code that says it."""
    from harness.cli import evaluating

    driver = Driver(said, at, current(flags(said)), Cancel(), Quiet())
    model = _model(said, what, plan, options)
    folder = evaluating.new_folder(at, what.name)
    lab = evaluating.lab_of(at, driver, what, folder, options)
    trials = evaluating.conducted(driver, lab, plan, lambda trial: _told(said, lab.runs, trial))
    found = evaluating.result(what, folder, plan, trials, model)
    if against is not None:
        arm = plan.arms[0]
        found["compared"] = evaluating.compared(at, against, arm, found["cases"], trials)
    evaluating.keep(folder, found)
    code = _code(driver, found, trials, plan.arms[0], least)
    _print(said, at, found | {"bar": least, "code": code}, trials, html)
    return code


def _model(said: Globals, what: Meant, plan: Plan, options: Options) -> str:
    """The model that is tried, said once. Raises NoModelError (exit 4) before anything is made."""
    from harness.runs.speaker import model_of

    if options.model is not None and options.model[0] == f"{SCRIPTED}:":
        return SCRIPTED
    refs = {ref.text: ref for ref in (model_of(options, what.skill_of(case)) for case in plan.cases)}
    for ref in refs.values():
        say(said, model_line(ref, {"usd": plan.usd}))
    return " ".join(refs)


def _told(said: Globals, runs: Any, trial: Trial) -> None:
    """One trial that has ended, on stderr; its events on stdout where these are wanted."""
    from harness.view.evals import trial_line

    say(said, trial_line(trial))
    if said.output == "stream-json":
        write_out((runs / trial.run / "events.jsonl").read_bytes())


def _code(driver: Driver, found: dict[str, Any], trials: list[Trial], arm: Arm, least: float) -> int:
    """What the first arm comes to: interrupted, out of money, not to be judged, under the bar, or passed."""
    if driver.cancel.level:
        return 130
    if any(trial.void for trial in trials):
        return 75
    if len(trials) < found["wanted"]:
        return 6
    return 0 if (found["tables"][arm]["rate"] or 0) >= least else 1


def _print(said: Globals, at: Place, found: dict[str, Any], trials: list[Trial], html: str | None) -> None:
    from harness.view import evals as shown

    runs = os.path.relpath(at.project / ".harness" / "evals" / found["eval"] / "runs")
    if html is not None:
        from pathlib import Path

        from harness.events.io import IO
        from harness.view.evals_page import page

        IO().put(Path(html).resolve(), page(found, trials).encode(), 0o644)
    if said.output == "json":
        print_json(found)
        return
    if said.output == "stream-json":
        write_out(dumped({key: value for key, value in found.items() if key != "trials"}))
        return
    for line in shown.report(found, trials, runs, current(flags(said)).out_width):
        print(line)
