"""How an evaluation is set up and what becomes of it: the place of its trials, what is kept, printed and returned."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from harness import __version__
from harness.cli.driving import Driver, Signals, model_line, options_of
from harness.cli.lab import Meant, lab_of, meant, new_folder
from harness.cli.options import Globals
from harness.cli.outcome import dumped, write_out
from harness.cli.output import flags, print_json, say
from harness.cli.place import EVALS, Place, catalog
from harness.cli.trusting import answered
from harness.config.values import share
from harness.errors import HarnessError, NoModelError, near_text
from harness.evals import evaluation
from harness.evals.compare import Side, compare
from harness.evals.evaluation import RESULT, VERSION, Plan, evaluate, kept, tables
from harness.evals.suite import FROZEN, case_digest, chosen, digest_of
from harness.evals.trial import ARMS, Arm, Trial
from harness.events.io import IO
from harness.executor import Cancel
from harness.models.script import load_script
from harness.policy.budget import parse_budget
from harness.runs.flags import Options
from harness.runs.speaker import model_of
from harness.runs.uses import skill_uses
from harness.view.evals import report, trial_line
from harness.view.evals_page import page
from harness.view.mode import current
from harness.view.quiet import Quiet
from harness.view.text import escape, plural

SCRIPTED = "scripted"
MOST = 1000
EACH = "scripted:"
"""The script of each case."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one evaluation is asked to do: `bar` is the least pass rate, `against` another one, `html` a file."""

    at: Place
    what: Meant
    plan: Plan
    options: Options
    bar: float
    against: str | None = None
    html: str | None = None


def asked_for(
    said: Globals, at: Place, name: str, *, trials: int | None, case: str | None = None,
    suites: Sequence[str] | None = None, split: str | None = None, arms: Sequence[str] | None = None,
    model: str | None, jobs: int, bar: str | None, against: str | None = None, budget: Sequence[str] | None,
    allow: Sequence[str] | None, deny: Sequence[str] | None, html: str | None = None,
) -> Asked:  # fmt: skip
    """What a person's words come to, once what would run is trusted. Raises HarnessError before anything is made."""
    number = trials if trials is not None else int(at.config.value("eval.trials"))
    least = _share(bar) if bar is not None else float(at.config.value("eval.bar"))
    _check_numbers(number, jobs)
    what = meant(catalog(at), name)
    cases = chosen(what.suite, case, suites or (), split)
    for used in {one.name: one for one in map(what.skill_of, cases)}.values():
        at = answered(said, at, skill_uses(what.found, used))
    if against is not None:
        result_file(at, against)  # before anything is paid for
    limits = parse_budget(" ".join(budget or ()))
    usd = limits.pop("usd", None)
    words = [f"{key}={value}" for key, value in limits.items()]
    options = _scripted(options_of(said, model, words, allow or (), deny or (), at))
    plan = Plan(cases, _arms(arms or ("skill",)), number, jobs, usd)
    return Asked(at, what, plan, options, least, against, html)


def result(what: Meant, folder: Path, plan: Plan, trials: Sequence[Trial], model: str) -> dict[str, Any]:
    """The evaluation as one object: what was tried, each trial, and the tables."""
    return {
        "version": VERSION, "eval": folder.name, "skill": what.name, "model": model, "harness": __version__,
        "suite": digest_of(what.suite.folder), "frozen": bool(what.suite.frozen),
        "cases": {case.name: case_digest(what.suite, case) for case in plan.cases},
        "splits": {case.name: case.split for case in plan.cases}, "k": plan.trials, "wanted": _wanted(plan),
        "tables": tables(trials, plan.arms, plan.trials), "trials": [kept(trial) for trial in trials],
    }  # fmt: skip


def compared(at: Place, before: str, arm: Arm, digests: Mapping[str, str], trials: Sequence[Trial]) -> dict[str, Any]:
    """What one arm changed against another evaluation's. Raises HarnessError."""
    other = evaluation.read_result(result_file(at, before))
    arms = list(other["tables"])
    theirs = arm if arm in arms else arms[0]
    first = Side([trial for trial in other["trials"] if trial.arm == theirs], other["cases"])
    second = Side([trial for trial in trials if trial.arm == arm], digests)
    return {"eval": other["eval"], "arm": arm, "before": theirs, **compare(first, second)}


def result_file(at: Place, name: str) -> Path:
    """The result of an evaluation, by its id, a part of it, or a path. Raises HarnessError."""
    path = Path(name)
    if path.is_file():
        return path
    if (path / RESULT).is_file():
        return path / RESULT
    known = sorted(one.parent.name for one in (at.project / EVALS).glob(f"*/{RESULT}"))
    fitting = known[-1:] if name == "last" else [one for one in known if name in one]
    if len(fitting) != 1:
        why = f"could be any of: {', '.join(fitting[:8])}" if fitting else f"is no evaluation{near_text(name, known)}"
        raise HarnessError(f"'{name}' {why}", f"name one of {at.project / EVALS}", None)
    return at.project / EVALS / fitting[0] / RESULT


def _share(text: str) -> float:
    try:
        return share(text)
    except ValueError as error:
        raise HarnessError(f"--bar {text} is no share", "give one from 0 to 1, such as 0.9") from error


def _check_numbers(trials: int, jobs: int) -> None:
    for flag, number in (("--trials", trials), ("-j", jobs)):
        if not 1 <= number <= MOST:
            raise HarnessError(f"{flag} {number} is no number of trials", f"give one from 1 to {MOST}")


def freeze_suite(said: Globals, what: Meant) -> int:
    """Fix a suite as it is, and print its digest."""
    digest = digest_of(what.suite.folder)
    IO().put(what.suite.folder / FROZEN, f"{digest}\n".encode(), 0o644)
    say(said, f"the suite of {what.name} is frozen; a change of it is refused from now on")
    print(digest)
    return 0


def _arms(names: Sequence[str]) -> tuple[Arm, ...]:
    for name in names:
        if name not in ARMS:
            raise HarnessError(f"--arm {name} is no arm{near_text(name, ARMS)}", f"use {', '.join(ARMS)}")
    return cast("tuple[Arm, ...]", tuple(dict.fromkeys(names)))


def _scripted(options: Options) -> Options:
    """`-m scripted` means each case's own script."""
    named = options.model
    return replace(options, model=(EACH, named[1])) if named and named[0] == SCRIPTED else options


def tried(said: Globals, asked: Asked) -> tuple[dict[str, Any], int]:
    """Make the trials, keep and print what they came to, and give that with the code that says it."""
    at, plan = asked.at, asked.plan
    driver = Driver(said, at, current(flags(said)), Cancel(), Quiet())
    model = _model(said, asked)
    folder = new_folder(at, asked.what.name)
    judged = any(case.rubric for case in plan.cases)
    lab = lab_of(at, driver, asked.what, folder, asked.options, plan.usd, judged)
    with Signals(driver):
        count, wanted = itertools.count(1), _wanted(plan)
        told = lambda trial: _told(said, lab.runs, trial, next(count), wanted)  # noqa: E731
        made = evaluate(lab, plan, told, lambda: driver.cancel.level > 0)
    trials, found = made.trials, result(asked.what, folder, plan, made.trials, model)
    if asked.against is not None:
        found["compared"] = compared(at, asked.against, plan.arms[0], found["cases"], trials)
    IO().put(folder / RESULT, (json.dumps(found, indent=1) + "\n").encode())
    if made.error is not None:
        say(said, f"{plural(len(trials), 'trial')} made before this, kept in {os.path.relpath(folder)}")
        raise made.error
    code = _code(driver, found, trials, plan.arms[0], asked.bar)
    found |= {"bar": asked.bar, "code": code}
    _print(said, asked, found, trials)
    return found, code


def _model(said: Globals, asked: Asked) -> str:
    """The model that is tried, said once. Raises NoModelError (exit 4) before anything is made."""
    options = asked.options
    if options.model is not None and options.model[0] == EACH:
        return SCRIPTED
    try:
        refs = {ref.text: ref for ref in (model_of(options, asked.what.skill_of(case)) for case in asked.plan.cases)}
    except NoModelError as error:
        ways = error.fix.removesuffix("  or  --agent")  # an agent drives runs, not trials
        raise NoModelError(error.message, f"-m scripted (each case's script)  or  -m none  or  {ways}") from error
    for ref in refs.values():
        if ref.scheme == SCRIPTED:
            load_script(Path(ref.name))  # one that cannot be read leaves no evaluation behind
        say(said, model_line(ref, {"usd": asked.plan.usd}))
    return " ".join(refs)


def _wanted(plan: Plan) -> int:
    return sum(evaluation.fits(case, arm) for case in plan.cases for arm in plan.arms) * plan.trials


def _told(said: Globals, runs: Path, trial: Trial, number: int, wanted: int) -> None:
    """One trial that has ended, on stderr; its events on stdout where these are wanted."""
    say(said, trial_line(trial, number, wanted))
    if said.output == "stream-json":
        write_out((runs / trial.run / "events.jsonl").read_bytes())


def _code(driver: Driver, found: dict[str, Any], trials: list[Trial], arm: Arm, least: float) -> int:
    """What the first arm comes to: interrupted, out of money, not to be judged, under the bar, or passed."""
    if driver.cancel.level:
        return 130
    if any(trial.void for trial in trials if trial.arm == arm):
        return 75
    if len(trials) < found["wanted"]:
        return 6
    return 0 if (found["tables"][arm]["rate"] or 0) >= least else 1


def _print(said: Globals, asked: Asked, found: dict[str, Any], trials: list[Trial]) -> None:
    if asked.html is not None:
        IO().put(Path(asked.html).resolve(), page(found, trials).encode(), 0o644)
    if said.output == "json":
        print_json(found)
    elif said.output == "stream-json":
        write_out(dumped({key: value for key, value in found.items() if key != "trials"}))
    else:
        runs = os.path.relpath(asked.at.project / EVALS / found["eval"] / "runs")
        print("\n".join(map(escape, report(found, trials, runs, current(flags(said)).out_width))))
