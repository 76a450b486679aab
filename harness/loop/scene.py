"""What is true around a call of an open run: where its paths may lead, what the user said, whose policy holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.loop.confine import family
from harness.loop.guard import Guard
from harness.loop.known import look_up
from harness.loop.run import Run
from harness.policy import Policy
from harness.policy.budget import places
from harness.policy.compose import Scene
from harness.policy.paths import Area
from harness.policy.settings import Settings
from harness.sandbox.names import own_roots
from harness.tools import Tool


def settings_of(run: Run) -> Settings:
    """The merged policy files, as they are today."""
    return run.world.guard.settings if run.world.guard is not None else Settings()


def policy_of(run: Run) -> Policy:
    """What calls are decided by now: files, flags, and the limits in force."""
    settings, budget = settings_of(run), run.state.budget
    return replace(settings.policy(*run.flags), budget=budget, places=places(budget, settings.budget))


def users_words(run: Run) -> tuple[str, ...]:
    """The user's own words, those of the runs above included."""
    return (*run.words_above(), *(run.text(text) for text in run.state.said))


def is_tainted(run: Run) -> bool:
    """Whether text that nobody vouches for is in the run: after its first result always."""
    return bool(run.state.receipts) or run.state.foreign


def scene_of(run: Run) -> Scene:
    """The scene of the next call."""
    return Scene(
        run.project, partial(area_of, run), partial(users_words, run), partial(look_up, run), settings_of(run),
        policy_of(run), skill=str(run.state.start.get("skill", "")), tainted=is_tainted(run),
        attended=run.world.ask is not None,
    )  # fmt: skip


def area_of(run: Run, tool: Tool | None = None) -> Area:
    """Where calls of this run may go. `tool` adds what the variables passed to it make readable."""
    skill = [run.toolset.folder] if run.toolset.folder is not None else []
    if run.world.guard is not None:
        return guarded_area(run.world.guard, run.project, tool, skill, family(run), run.world.tools_path)
    root, hidden = str(run.project.resolve()), _real([run.world.runs_dir])
    return Area(Path(root), (root, *_real(skill)), (root,), hidden, _real(family(run)), hidden)


def guarded_area(
    guard: Guard, project: Path, tool: Tool | None, skill: Sequence[Path] = (), own: Sequence[Path] = (),
    tools_path: Sequence[str] = (),
) -> Area:  # fmt: skip
    """The same by the person's settings: `own` are the folders of the run itself, `skill` is its skill's."""
    settings, workspace = guard.settings, project.resolve()
    whole = (str(workspace),)
    more = [*skill, *guard.readable]
    if tool is not None:
        more += guard.passed(tool).readable
    roots = guard.fence.roots
    closed = [*own_roots(workspace, roots), *roots, *guard.hidden, *map(Path, tools_path)]
    return Area(
        workspace, (*(whole if settings.read is None else settings.read), *_real(more)),
        whole if settings.write is None else settings.write,
        hidden=_real(guard.hidden), own=_real(own), protected=_real(closed), hide=settings.hide,
        protect=settings.protect, environ=guard.environ,
    )  # fmt: skip


def _real(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(str(path.resolve()) for path in paths)
