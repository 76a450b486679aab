"""All trials of an evaluation, some at a time, within the money that was given; and what is kept of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.evals.case import Case
from harness.evals.figures import Call, Figures
from harness.evals.grade import Check
from harness.evals.table import Graded, row
from harness.evals.trial import Arm, Lab, Trial, make_trial
from harness.events.spending import MONEY
from harness.policy.budget import DEFAULTS

RESULT = "result.json"
VERSION = 1


@dataclass(slots=True)
class Purse:
    """What all trials together may cost, in USD; each takes its limit out of it and puts back what it did not use.

    `beside` says what was spent beside the trials, in nano-dollars.
    """

    left: Decimal | None
    beside: Callable[[], int]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, most: str) -> Decimal | None:
        """A trial's limit, at `most` what its skill says; None where nothing is limited, zero where nothing is left."""
        if self.left is None:
            return None
        with self._lock:
            left = self.left - Decimal(self.beside()) / MONEY
            taken = left if most == "none" else min(left, Decimal(most))
            self.left -= taken
            return taken

    def back(self, taken: Decimal | None, used: int) -> None:
        """`used` is in nano-dollars."""
        if self.left is not None and taken is not None:
            with self._lock:
                self.left += taken - Decimal(used) / MONEY


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried: each case `trials` times in each arm, `jobs` at a time; `usd` limits them together."""

    cases: tuple[Case, ...]
    arms: tuple[Arm, ...]
    trials: int
    jobs: int = 1
    usd: str | None = None


@dataclass(slots=True)
class Made:
    """The trials, and what came in the way of one: then no more are begun, and none that was paid for is lost."""

    trials: list[Trial] = field(default_factory=list)
    error: HarnessError | None = None


def evaluate(lab: Lab, plan: Plan, told: Callable[[Trial], None], stopped: Callable[[], bool]) -> Made:
    """Make the trials, each told as it ends.

    Those that there is no money for, or that were not begun when somebody stopped it, are left out.
    """
    left = None if plan.usd in (None, "none") else Decimal(str(plan.usd))
    purse, made = Purse(left, lambda: lab.bench.nanos if lab.bench is not None else 0), Made()

    def one(arm: Arm, case: Case, number: int) -> None:
        if stopped() or made.error is not None:
            return
        taken = purse.take(lab.skill_of(case).budget.get("usd") or DEFAULTS["usd"])
        if taken is not None and taken <= 0:
            return
        try:
            trial = make_trial(lab, case, arm, number, str(taken) if taken is not None else plan.usd)
        except HarnessError as error:
            made.error = made.error or error
            return
        purse.back(taken, trial.figures.nanos)
        made.trials.append(trial)
        told(trial)

    tries = product(range(1, plan.trials + 1), plan.cases, plan.arms)
    with ThreadPoolExecutor(plan.jobs, "trial") as pool:
        futures = [pool.submit(one, arm, case, n) for n, case, arm in tries if fits(case, arm)]
    for future in futures:
        future.result()
    made.trials.sort(key=lambda trial: (plan.arms.index(trial.arm), trial.case, trial.number))
    return made


def fits(case: Case, arm: Arm) -> bool:
    """Whether an arm can be tried on a case: with one call there is nothing that could be refused or waited for."""
    return arm != "single-call" or "passed" in case.expect.stop


def tables(trials: Sequence[Trial], arms: Iterable[str], k: int) -> dict[str, Any]:
    """The table of each arm; trials that say nothing are left out of it."""
    return {arm: row([graded(t) for t in trials if t.arm == arm and not t.void], k) for arm in arms}


def graded(trial: Trial) -> Graded:
    return Graded(trial.case, trial.passed, trial.figures)


def kept(trial: Trial) -> dict[str, Any]:
    """A trial as plain data."""
    return asdict(trial) | {"passed": trial.passed}


def read_trial(data: Mapping[str, Any]) -> Trial:
    """A trial as it was kept."""
    figures = dict(data["figures"])
    calls = tuple(Call(**call) for call in figures.pop("calls"))
    checks = tuple(Check(**check) for check in data["checks"])
    made = Figures(**figures, calls=calls)
    return Trial(data["arm"], data["case"], data["number"], data["run"], made, checks, data["void"])


def read_result(path: Path) -> dict[str, Any]:
    """A kept evaluation. Raises HarnessError (exit 2) for what is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["version"] != VERSION:
            raise HarnessError("the evaluation is of another version", "evaluate anew", str(path))
        found["trials"] = [read_trial(one) for one in found["trials"]]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot read the evaluation: {reason}", "name one by its id", str(path)) from error
    except (ValueError, LookupError, TypeError) as error:
        raise HarnessError("this is no result of an evaluation", "name one by its id", str(path)) from error
    return found
