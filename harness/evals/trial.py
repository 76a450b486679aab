"""One trial of a case: a workspace made from its fixture, an ordinary run in it, and what the graders make of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError
from harness.evals.case import Case
from harness.evals.figures import Figures, figures_of
from harness.evals.grade import Check, checks_of
from harness.evals.judging import Bench, why_not
from harness.evals.material import single_question
from harness.evals.rubric import read_rubric
from harness.evals.suite import Suite
from harness.evals.workspace import fill, lay_out
from harness.events.scan import blob_text
from harness.loop.run import Stop, World
from harness.policy.effects import effect_of
from harness.runs.asking import start_question
from harness.runs.flags import Options
from harness.runs.kit import skill_places
from harness.runs.opened import Session
from harness.runs.peek import read_state
from harness.runs.session import start_skill, start_tool
from harness.skills import Skill
from harness.skills.discovery import Catalog
from harness.skills.stages import find_tool
from harness.tools import Tool

Arm = Literal["skill", "open", "single-call"]
ARMS: tuple[Arm, ...] = ("skill", "open", "single-call")
ACCEPTS, REJECTS = 0, 1
VOID = ("waiting", "interrupted", "error")
"""Stops that say nothing about the skill: the model was not there, somebody stopped it, or the harness could not."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One graded trial. `run` is its folder's name; `void` says why it counts for nothing, where it does."""

    arm: Arm
    case: str
    number: int
    run: str
    figures: Figures
    checks: tuple[Check, ...]
    void: str = ""

    @property
    def passed(self) -> bool:
        return not self.void and all(check.ok for check in self.checks if check.gates)


@dataclass(frozen=True, slots=True)
class Lab:
    """Where trials are made. `folder` is the evaluation's; `skill_of` gives what a case tries.

    `world` makes what a run in a workspace acts through, of the workspace and the folder of the runs. `bench` are the
    judges, where some case has a rubric.
    """

    folder: Path
    suite: Suite
    catalog: Catalog
    skill_of: Callable[[Case], Skill]
    options: Options
    world: Callable[[Path, Path], World]
    bench: Bench | None = None

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def workspace(self, case: Case, arm: Arm, number: int) -> Path:
        return self.folder / "work" / f"{case.name}-{arm}-{number}"


def make_trial(lab: Lab, case: Case, arm: Arm, number: int, usd: str | None = None) -> Trial:
    """Make and grade one trial. Raises HarnessError where it cannot be made as it is written."""
    workspace = prepared(lab, case, arm, number)
    here = _moved(lab.catalog, workspace)
    world = lab.world(workspace, lab.runs)
    session = _begun(lab, here, case, arm, world, usd)
    stop = driven(session)
    folder = session.run.folder
    if stop.code == 4:
        raise HarnessError(_why(folder), f"look at it: harness show {folder}", code=4)
    figures = figures_of(folder)
    void = f"{stop.name}: {_why(folder)}" if stop.name in VOID else ""
    if arm == "single-call" and session.model is not None and session.model.scheme == "scripted":
        void = void or _unplayed(stop, figures)
    if void:
        return Trial(arm, case.name, number, folder.name, figures, (), void=void)
    return Trial(arm, case.name, number, folder.name, figures, _graded(lab, here, case, arm, folder, figures))


def _unplayed(stop: Stop, figures: Figures) -> str:
    """Why a script says nothing of a single call: it is one of several, written for the skill."""
    is_single = stop.name == "passed" and figures.turns == 1
    return "" if is_single else "not measured: the case's script is not one reply, so it cannot play this arm"


def _moved(catalog: Catalog, workspace: Path) -> Catalog:
    """The same skills and tools for another workspace: what lies in it is material, and no tool."""
    return replace(catalog, project=workspace, home=catalog.home or catalog.project, _bins={})


def prepared(lab: Lab, case: Case, arm: Arm, number: int) -> Path:
    """A fresh workspace: the fixture's files, and what the case's setup makes of them. Raises HarnessError."""
    workspace = lab.workspace(case, arm, number)
    fill(workspace, lab.suite.fixture(case), lab.suite.folder)
    if case.setup:
        here = _moved(lab.catalog, workspace)
        code, printed = _run_tool(lab, here, case, case.setup, f"the setup of case {case.name}")
        if code != ACCEPTS:
            raise HarnessError(f"the setup of case {case.name} failed: {printed}", "mend it", str(case.file))
    return workspace


def _begun(lab: Lab, here: Catalog, case: Case, arm: Arm, world: World, usd: str | None) -> Session:
    options = _options(lab, case, arm, usd)
    if arm == "single-call":
        return start_question(world, single_question(lab.skill_of(case), case, here.project), here.project, options)
    return start_skill(world, here, lab.skill_of(case).name, case.goal, case.inputs, options)


def _options(lab: Lab, case: Case, arm: Arm, usd: str | None) -> Options:
    given = lab.options
    model, script = given.model, lab.suite.script(case)
    if model is not None and model[0] == "scripted:":
        if script is None:
            raise HarnessError(f"case {case.name} has no script", "add script: FILE of evals/scripts/", str(case.file))
        model = (f"scripted:{script.resolve()}", model[1])
    limits = " ".join(filter(None, (given.budget, f"usd={usd}" if usd is not None else "")))
    return replace(
        given, model=model, budget=limits, deny=(*given.deny, *case.deny), is_open=arm == "open",
        source="input", foreign=tuple(case.inputs),  # a case is a file: its words are nobody's, and name nobody
    )  # fmt: skip


def driven(session: Session) -> Stop:
    try:
        return session.go()
    finally:
        session.close()


def _why(folder: Path) -> str:
    """Why a run stopped, in its own words."""
    state = read_state(folder)
    last = (state.end or state.park or {}) if state is not None else {}
    return str(last.get("error") or last.get("hint") or last.get("stop") or "it never began")


def answer_of(folder: Path) -> str:
    """The last answer that a run proposed, accepted or not."""
    state = read_state(folder)
    return blob_text(folder, (state.end or {}).get("answer", "")) if state is not None else ""


def _graded(
    lab: Lab, here: Catalog, case: Case, arm: Arm, folder: Path, figures: Figures
) -> tuple[Check, ...]:
    answer = answer_of(folder)
    expect = case.expect if arm != "single-call" else replace(case.expect, ran=(), never=(), order=())
    found = checks_of(replace(case, expect=expect), figures, answer, here.project)
    try:
        lay_out(here.project, {"answer.md": answer, "trial.json": _told(figures)})
    except OSError as error:
        return (*found, Check("graders", None, f"the workspace cannot be written: {error.strerror or error}"))
    found += [_asked(lab, here, case, words) for words in case.graders]
    return (*found, *_judged(lab, case, answer))


def _judged(lab: Lab, case: Case, answer: str) -> Iterator[Check]:
    """What a model says of the answer, where a rubric asks one."""
    path = lab.suite.rubric(case)
    if path is None or lab.bench is None:
        return
    rubric = read_rubric(path)
    found = lab.bench.calibration(rubric)
    said = lab.bench.judge(rubric)(answer, rubric.choices)
    why = f"{said or 'no choice'}, not {rubric.accept}"
    counts = "" if found.gates else f"; it counts for nothing: {why_not(found)}"
    yield Check(f"rubric {case.rubric}", said == rubric.accept, f"{why}{counts}", found.gates)


def _told(figures: Figures) -> str:
    """How the run went, for graders."""
    calls = [{"tool": call.tool, "class": call.code} for call in figures.calls]
    return json.dumps({"stop": figures.stop, "turns": figures.turns, "calls": calls})


def _asked(lab: Lab, here: Catalog, case: Case, words: Sequence[str]) -> Check:
    """What a grader command says: 0 accepts, 1 rejects; anything else is no judgement."""
    code, printed = _run_tool(lab, here, case, words, f"grader {words[0]}")
    ok = {ACCEPTS: True, REJECTS: False}.get(code) if code is not None else None
    return Check(words[0], ok, "" if ok else printed if ok is False else f"it cannot judge: {printed}")


def _run_tool(lab: Lab, here: Catalog, case: Case, words: Sequence[str], what: str) -> tuple[int | None, str]:
    """How a tool exits in the workspace (None: it was not run to its end) and its last words. Raises HarnessError."""
    tool = find_tool(here, skill_places(here, lab.skill_of(case)), words[0])
    if tool is None:
        raise HarnessError(f"{what}: there is no tool {words[0]}", "put it into the skill's scripts/")
    _refuse_effects(tool, what)
    session = start_tool(lab.world(here.project, lab.runs), here, tool, words[1:], replace(lab.options, model=None))
    driven(session)
    result = session.run.state.ops[1].result or {}
    said = " ".join(session.run.text(result.get("err") or result.get("out", "")).split())[-200:]
    code = result.get("exit") if result.get("outcome") in ("done", "failed") else None
    return code, said or _why(session.run.folder)


def _refuse_effects(tool: Tool, what: str) -> None:
    effect = effect_of(tool)[0]
    if effect not in ("read", "write"):
        fix = "what prepares or judges a trial reads, or writes the workspace: # @meta effect read"
        raise HarnessError(f"{what}: {tool.name} has the effect {effect}", fix, str(tool.path))
