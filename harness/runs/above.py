"""Runs that stand on those which a person deletes or redacts: what they still need of them, and would do again."""

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
    """(run, one that stands on it: what began it, or a fork of that) for each that stays and may be gone on with."""
    parents = ((run, parent_of(runs, run)) for run in gone)
    pairs = [(run, above) for run, above in parents if above is not None]
    pairs += _forks_on([run for run in runs if run.fork], gone)
    return [(run, above) for run, above in pairs if above not in gone and goes_on(above)]


def _forks_on(forks: Sequence[Listed], gone: Collection[Listed]) -> list[tuple[Listed, Listed]]:
    """(run, fork) for each fork whose copied lines hold the call that began a run: a second call goes on from it."""
    children = [run for run in gone if run.parent]
    called = [(fork, _called(fork)) for fork in forks] if children else []
    return [(run, fork) for run in children for fork, names in called if run.name in names and run.parent != fork.name]


def _called(run: Listed) -> set[str]:
    """The runs that a run's calls have begun, as far as its journal can be read."""
    try:
        state = read_state(run.folder)
    except HarnessError:
        return set()
    return {op.child for op in state.ops.values() if op.child} if state is not None else set()


def held(runs: Sequence[Listed], gone: Collection[Listed]) -> list[tuple[Listed, Listed]]:
    """(run, fork) for each fork that stands on a run, has not come to its end, and may be gone on with."""
    forks = [run for run in runs if run.fork and not _top(runs, run).has_ended and goes_on(run)]
    return _forks_on(forks, gone)


def check_held(runs: Sequence[Listed], gone: Collection[Listed]) -> None:
    """Raises HarnessError where a fork that has not come to its end stands on one of these."""
    for run, fork in held(runs, gone):
        top = short_id(_top(runs, fork).name)
        fix = f"let it end: harness resume {top}, or harness stop {top}; or say --force"
        raise HarnessError(f"{run.name} is a call that {fork.name}, a fork, goes on from", fix)


def goes_on(run: Listed) -> bool:
    """Whether nothing was taken out of a run, so that it may be gone on with."""
    try:
        state = read_state(run.folder)
    except HarnessError:
        return False
    return state is not None and not state.redacted


def check_alone(runs: Sequence[Listed], meant: Collection[Listed], named: Path, force: bool) -> None:
    """Raises HarnessError where a run that goes on would do again what one of these did, or might."""
    if not force:
        check_held(runs, meant)
    for run, above in staying(runs, meant):
        top, open_now = short_id(_top(runs, above).name), works_for(run, above)
        if open_now:
            fix = f"redact that one --with children, or delete both: harness runs prune {top} --force --with children"
            raise HarnessError(f"{run.name} works for {above.name}, which would do it all again", fix)
        if run.folder == named and run.parent == above.name and not force:
            fix = f"redact that one with --with children, or say --force: {top}"
            raise HarnessError(f"{run.name} is part of the run {above.name}, which still needs it", fix)


def _top(runs: Sequence[Listed], run: Listed) -> Listed:
    while (above := parent_of(runs, run)) is not None:
        run = above
    return run
