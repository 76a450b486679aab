"""Runs above those that a person has deleted or redacted: what they still need of them, and would do again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from harness.errors import HarnessError
from harness.runs.find import short_id
from harness.runs.list import Listed
from harness.runs.peek import read_state


def parent_of(runs: Sequence[Listed], run: Listed) -> Listed | None:
    """The run that began it, where that is still there."""
    return next((other for other in runs if other.name == run.parent), None)


def works_for(run: Listed, parent: Listed) -> bool:
    """Whether the call that began a run is open still, or its parent's journal does not say."""
    try:
        state = read_state(parent.folder)
    except HarnessError:
        return True
    return state is not None and any(op.child == run.name for op in state.open_ops.values())


def staying(runs: Sequence[Listed], gone: Collection[Listed]) -> list[tuple[Listed, Listed]]:
    """(run, the one that began it) for each whose parent stays and may be gone on with."""
    pairs = ((run, parent_of(runs, run)) for run in gone)
    return [(run, above) for run, above in pairs if above is not None and above not in gone and goes_on(above)]


def goes_on(run: Listed) -> bool:
    """Whether nothing was taken out of a run, so that it may be gone on with."""
    try:
        state = read_state(run.folder)
    except HarnessError:
        return False
    return state is not None and not state.redacted


def check_alone(runs: Sequence[Listed], meant: Collection[Listed], named: Path, force: bool) -> None:
    """Raises HarnessError where a run that goes on would do again what one of these did, or might."""
    for run, above in staying(runs, meant):
        top, open_now = short_id(_top(runs, above).name), works_for(run, above)
        if open_now:
            fix = f"redact that one --with children, or delete both: harness runs prune {top} --force --with children"
            raise HarnessError(f"{run.name} works for {above.name}, which would do it all again", fix)
        if run.folder == named and not force:
            fix = f"redact that one with --with children, or say --force: {top}"
            raise HarnessError(f"{run.name} is part of the run {above.name}, which still needs it", fix)


def _top(runs: Sequence[Listed], run: Listed) -> Listed:
    while (above := parent_of(runs, run)) is not None:
        run = above
    return run
