"""Where the trials of an evaluation are made: its folder, the world of each run, the judges."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.driving import Driver
from harness.cli.guarding import tool_places
from harness.cli.place import EVALS, Place
from harness.errors import HarnessError
from harness.evals.case import Case
from harness.evals.judging import Bench
from harness.evals.suite import CASES, Suite, read_suite
from harness.evals.trial import Lab, answer_of, driven
from harness.events.clock import Clock
from harness.events.io import IO
from harness.loop.fence import Fence
from harness.loop.question import Question
from harness.loop.run import World
from harness.models.choice import choose
from harness.runs.asking import askable, start_question
from harness.runs.begin import letters
from harness.runs.flags import Options
from harness.skills import Skill
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import entries, skill_file


@dataclass(frozen=True, slots=True)
class Meant:
    """What is to be evaluated: the suite, and the skill whose cases name no other."""

    name: str
    suite: Suite
    skill: Skill | None
    found: Catalog

    def skill_of(self, case: Case) -> Skill:
        """The skill that a case tries. Raises HarnessError where nobody names one."""
        if case.skill:
            return find(self.found, case.skill)
        if self.skill is None:
            raise HarnessError(f"case {case.name} names no skill", "add skill: NAME", str(case.file))
        return self.skill


def meant(found: Catalog, word: str, anew: bool = False) -> Meant:
    """What a person names: a skill, whose cases are in its `evals/`, or a folder with `cases/`, by a path with /.

    `anew`: the suite is to be frozen as it is. Raises HarnessError.
    """
    folder = Path(word)
    if "/" in word and (folder / CASES).is_dir() and skill_file([one.name for one in entries(word)]) is None:
        return Meant(folder.resolve().name, read_suite(folder.resolve(), anew), None, found)
    try:
        skill = find(found, word)
    except HarnessError as error:
        raise HarnessError(error.message, error.fix.replace("harness run ", "harness eval "), error.where) from error
    return Meant(skill.name, read_suite(skill.folder / "evals", anew), skill, found)


def new_folder(at: Place, name: str) -> Path:
    """A folder of its own for an evaluation. It is kept until somebody deletes it, and is no part of the repository."""
    base = at.project / EVALS
    for path in (base.parent, base):
        if path.is_symlink():
            raise HarnessError("evaluations are kept in a folder, and this is a link", "take it away", str(path))
    folder = base / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{name}-{letters(8)}"
    folder.mkdir(parents=True, mode=0o700)
    ignore = base / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return folder


def lab_of(
    at: Place, driver: Driver, what: Meant, folder: Path, options: Options, usd: str | None, judged: bool
) -> Lab:
    """Where the trials are made: confined, trusted and limited like any run here, but for what is remembered."""
    base = driver.world()
    evals = (at.project / EVALS).resolve()
    roots = tool_places(at)

    def world(workspace: Path, runs: Path) -> World:
        fence = Fence(workspace.resolve(), roots)
        guard = base.guard
        if guard is not None:
            fence.protect = guard.settings.protect
            hidden = [path for path in guard.hidden if path != evals]
            guard = replace(guard, fence=fence, hidden=(*hidden, runs.resolve()))
        return replace(
            base, io=IO(), clock=Clock(), ask=None, sinks=[], guard=guard, ledger=None, runs_dir=runs, here=workspace,
            delta=lambda text: None, history=lambda events, run, depth: None,
        )  # fmt: skip

    lab = Lab(folder, what.suite, what.found, what.skill_of, options, world)
    return replace(lab, bench=_bench(lab, at, usd)) if judged else lab


def _bench(lab: Lab, at: Place, usd: str | None) -> Bench:
    """The judges: the cheap model, which is asked in runs of its own. Raises NoModelError where there is none."""
    ref = askable(choose(None, lab.options.wishes, None, "cheap"))
    limit = f"usd={usd}" if usd is not None else ""

    def asked(question: Question) -> tuple[str, int]:
        options = Options(model=(ref.text, ref.source), budget=limit, wishes=lab.options.wishes)
        session = start_question(lab.world(lab.folder, lab.runs), question, lab.folder, options)
        stop = driven(session)
        return (answer_of(session.run.folder) if stop.name == "passed" else ""), session.run.state.spent.nanos

    return Bench(asked, ref.text, at.project / EVALS)
