"""`harness skills promote`: a state of a skill counts once its held-out cases pass and none has become worse."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import print_json, say
from harness.cli.place import Place, catalog, place
from harness.cli.run import Allow, Budget, Deny, ModelName
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.evals.promoted import Promotion
    from harness.skills import Skill

HELD_OUT = "held-out"


@manual(
    "harness skills promote oncall-triage",
    "harness skills promote oncall-triage -m none --trials 5",
    "harness skills promote oncall-triage --rollback",
    codes=(0, 1, 2, 3, 4, 6, 75, 130),
    notes=("The digest is kept in .harness/promoted.json, which belongs into the repository.",),
)
def promote(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the skill")],
    rollback: Annotated[bool, typer.Option("--rollback", help="go back to what was promoted before")] = False,
    trials: Annotated[int | None, typer.Option("--trials", metavar="N", help="trials of each case")] = None,
    model: ModelName = None,
    jobs: Annotated[int, typer.Option("-j", metavar="N", help="trials at a time")] = 1,
    bar: Annotated[str | None, typer.Option("--bar", metavar="X", help="least pass rate")] = None,
    budget: Budget = None,
    allow: Allow = None,
    deny: Deny = None,
) -> int:
    """Try the skill's held-out cases, and record its digest if they pass and nothing has become worse."""
    from harness.cli.evaluating import asked_for, tried
    from harness.evals.promoted import promotions
    from harness.skills.names import find

    said = globals_of(ctx)
    at = place(said, asks=True)
    skill = find(catalog(at), name)
    before = promotions(at.project, skill.name)
    if rollback:
        return _roll_back(said, at, skill.name, before)
    asked = asked_for(
        said, at, name, trials=trials, split=HELD_OUT, model=model, jobs=jobs, bar=bar, budget=budget, allow=allow,
        deny=deny,
    )  # fmt: skip
    found, code = tried(said, asked)
    return _judged(said, at, skill, before, found, code)


def _judged(said: Globals, at: Place, skill: Skill, before: list[Promotion], found: dict[str, Any], code: int) -> int:
    from harness.evals.promoted import Promotion, promotions, put, regressed, skill_digest

    if code != 0:
        say(said, f"{skill.name} is not promoted")
        return code
    trials = found["trials"]
    passed = tuple(case for case in found["cases"] if all(t["passed"] for t in trials if t["case"] == case))
    worse = regressed(before[-1], found["cases"], passed) if before else []
    if worse:
        say(said, f"{skill.name} is not promoted: what was promoted before passes {', '.join(worse)}")
        return 1
    digest = skill_digest(catalog(at), skill)
    made = Promotion(digest, found["eval"], found["model"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                     found["cases"], passed)  # fmt: skip
    put(at.project, skill.name, [*(one for one in promotions(at.project, skill.name) if one.digest != digest), made])
    say(said, f"{skill.name} is promoted as it is; a run of any other state says so")
    print_json({"skill": skill.name, "digest": digest, "eval": found["eval"]}) if said.json else print(digest)
    return 0


def _roll_back(said: Globals, at: Place, name: str, before: list[Promotion]) -> int:
    from harness.evals.promoted import SHOWN, put

    if not before:
        raise HarnessError(f"nothing of {name} was ever promoted", f"harness skills promote {name}")
    put(at.project, name, before[:-1])
    if len(before) == 1:
        say(said, f"nothing of {name} is promoted any more")
        return 0
    newest = before[-2]
    when = f"what was promoted on {newest.at[:10]} counts again"
    say(said, f"{name}: {when} ({newest.digest[:SHOWN]}); its files are in git")
    print_json({"skill": name, "digest": newest.digest}) if said.json else print(newest.digest)
    return 0
