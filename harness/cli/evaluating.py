"""How an evaluation is set up and what becomes of it: the place of its trials, what is kept, printed and returned."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import __version__
from harness.cli.driving import Driver, Signals
from harness.cli.place import Place
from harness.errors import HarnessError, near_text
from harness.evals import evaluation
from harness.evals.compare import Side, compare
from harness.evals.evaluation import RESULT, VERSION, Plan, evaluate, kept, tables
from harness.evals.suite import CASES, Suite, case_digest, digest_of, read_suite
from harness.evals.trial import Arm, Lab, Trial
from harness.events.clock import Clock
from harness.events.io import IO
from harness.loop.fence import Fence
from harness.loop.run import World
from harness.runs.begin import letters
from harness.runs.flags import Options
from harness.skills import Skill
from harness.skills.discovery import Catalog
from harness.skills.names import find

EVALS = Path(".harness") / "evals"


@dataclass(frozen=True, slots=True)
class Meant:
    """What is to be evaluated: the suite, and the skill whose cases name no other."""

    name: str
    suite: Suite
    skill: Skill | None
    found: Catalog

    def skill_of(self, case: Any) -> Skill:
        """The skill that a case tries. Raises HarnessError where nobody names one."""
        if case.skill:
            return find(self.found, case.skill)
        if self.skill is None:
            raise HarnessError(f"case {case.name} names no skill", "add skill: NAME", str(case.file))
        return self.skill


def meant(found: Catalog, word: str) -> Meant:
    """What a person names: a skill, whose cases are in its `evals/`, or a folder with `cases/`. Raises HarnessError."""
    folder = Path(word)
    if (folder / CASES).is_dir():
        return Meant(folder.resolve().name, read_suite(folder.resolve()), None, found)
    skill = find(found, word)
    return Meant(skill.name, read_suite(skill.folder / "evals"), skill, found)


def new_folder(at: Place, name: str) -> Path:
    """A folder of its own for an evaluation. It is kept until somebody deletes it, and is no part of the repository."""
    base = at.project / EVALS
    folder = base / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{name}-{letters(8)}"
    folder.mkdir(parents=True, mode=0o700)
    ignore = base / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def lab_of(at: Place, driver: Driver, what: Meant, folder: Path, options: Options) -> Lab:
    """Where the trials are made: confined, trusted and limited like any run here, but for what is remembered."""
    base = driver.world()
    roots = [folder.resolve() for root in at.roots for folder in (root.skills, root.bin) if folder is not None]

    def world(workspace: Path, runs: Path) -> World:
        fence = Fence(workspace.resolve(), roots)
        guard = base.guard
        if guard is not None:
            fence.protect = guard.settings.protect
            guard = replace(guard, fence=fence, hidden=(*guard.hidden, runs.resolve()))
        return replace(
            base, io=IO(), clock=Clock(), ask=None, sinks=[], guard=guard, ledger=None, runs_dir=runs, here=workspace,
            delta=lambda text: None, history=lambda events, run, depth: None,
        )  # fmt: skip

    return Lab(folder, what.suite, what.found, what.skill_of, options, world)


def conducted(driver: Driver, lab: Lab, plan: Plan, told: Any) -> list[Trial]:
    """Make all trials; Ctrl-C ends those that run and begins no more. Raises HarnessError."""
    with Signals(driver):
        return list(evaluate(lab, plan, told, lambda: driver.cancel.level > 0))


def result(what: Meant, folder: Path, plan: Plan, trials: Sequence[Trial], model: str) -> dict[str, Any]:
    """The evaluation as one object: what was tried, each trial, and the tables."""
    wanted = sum(evaluation.fits(case, arm) for case in plan.cases for arm in plan.arms) * plan.trials
    return {
        "version": VERSION, "eval": folder.name, "skill": what.name, "model": model, "harness": __version__,
        "suite": digest_of(what.suite.folder), "frozen": bool(what.suite.frozen),
        "cases": {case.name: case_digest(what.suite, case) for case in plan.cases},
        "splits": {case.name: case.split for case in plan.cases}, "k": plan.trials, "wanted": wanted,
        "tables": tables(trials, plan.arms, plan.trials), "trials": [kept(trial) for trial in trials],
    }  # fmt: skip


def keep(folder: Path, found: Mapping[str, Any]) -> None:
    """Put the result beside its trials."""
    IO().put(folder / RESULT, (json.dumps(found, indent=1) + "\n").encode())


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
