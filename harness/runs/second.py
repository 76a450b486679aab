"""A run of its own that is called again in the same run: it goes on from the newest call that ended.

A pipeline does so with other arguments, too; a worker as a stage that is tried again with the same words. Called by a
model a worker begins anew: its goal is the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, JournalError
from harness.events.amend import INPUTS
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.state import Operation, State
from harness.loop.below import has_begun
from harness.loop.run import Run
from harness.runs.begin import Order, changed_pins
from harness.runs.behind import behind
from harness.runs.fork import Source, copied, read_source, settled_after
from harness.runs.pins import pinned
from harness.tools.arguments import parse

LOST = "restore its folder from a copy, or do it in a new run"


def take_over(parent: Run, op: Operation, folder: Path, order: Order) -> bool:
    """Make the child's folder a fork of the newest ended call of the same kind; False where there is none."""
    source = _earlier(parent, op)
    if source is None:
        return False
    at, said = _damaged_seam(source) if source.damage else (_seam(source), [])
    fresh = {"parent": dict(order.parent or {}), "budget": dict(order.budget)} | ({"settled": said} if said else {})
    copied(parent.world, source, at, fresh, folder)
    return True


def _damaged_seam(source: Source) -> tuple[int, list[dict[str, Any]]]:
    """Up to where an earlier call whose lines are lost is taken over, and what a person said of what these held.

    Raises JournalError (exit 11): the call waits, it has not failed, until that is settled.
    """
    at = source.quiet[-1]
    try:
        return at, settled_after(source, at)
    except HarnessError as error:
        what = f"{source.folder.name}, the call before, is damaged ({source.damage}): {error.message}"
        raise JournalError(what, error.fix, str(source.folder), error.exit_code) from error


def _seam(source: Source) -> int:
    """Up to where the earlier call is taken over: all of it. A run that it began and that waits goes on in the copy.

    Raises HarnessError where a call of it may have had an effect that nobody knows of.
    """
    for call in behind(source.folder, fold(source.events), (), source.seals):
        if call.is_unsettled:
            what = f"operation {call.text} of the call before may have had its effect"
            raise HarnessError(what, f"look at {call.folder / 'ops' / str(call.op.n)}")
    return int(source.events[-1]["seq"])


def _earlier(parent: Run, op: Operation) -> Source | None:
    """The journal of the newest call before that was closed: of the same tool, in a pipeline of the same stage.

    It need not have ended itself: one that waits is closed when its stage is called otherwise or not at all.
    """
    for other in sorted(parent.state.ops.values(), key=lambda other: -other.n):
        same = (other.verb, other.tool, other.stage) == (op.verb, op.tool, op.stage)
        if not same or other.n >= op.n or other.child is None or not other.closed:
            continue
        if op.tool in parent.toolset.workers and not _is_left(op, other):
            return None
        try:
            source = read_source(parent.folder.parent / other.child, parent.world.words, parent.world.seals)
        except HarnessError as error:  # it never began: the one before may do
            if has_begun(parent.world.seals, parent.log.events, other):
                what = f"{other.child}, the call before (#{other.n}), is lost: what it did would be done again"
                raise HarnessError(f"{what} ({error.message})", LOST) from error
            continue
        if any(event["kind"] == "amend" and event["data"]["what"] == "redact" for event in source.events):
            what = f"{source.folder.name}, the call before (#{other.n}), was redacted: what it did would be done again"
            raise HarnessError(what, "do it in a new run")
        return source
    return None


def _is_left(op: Operation, before: Operation) -> bool:
    """Whether a worker's call before was this very one and came to no answer."""
    same = (op.verb, op.argv) == ("stage", before.argv)
    return same and (before.result or {}).get("stop") != "passed"


def refuse_lost(parent: Run, op: Operation, folder: Path) -> None:
    """Raises JournalError where an open call's own run began and its folder is gone."""
    if not folder.exists() and has_begun(parent.world.seals, parent.log.events, op):
        what = f"{folder.name}, which operation {op.n} began, is lost: what it did would be done again"
        raise JournalError(what, LOST, str(folder))


def changed_since(folder: Path, digests: Mapping[str, Any]) -> list[dict[str, str]]:
    """The tools that are not what they were when the lines of a fork were written."""
    return changed_pins(pinned(follow(folder)), digests)


def settings_below(state: State, pipeline: str) -> dict[str, Any]:
    """What was set for a pipeline, as its own run names it."""
    start = f"{pipeline}/"
    return {key.removeprefix(start): v for key, v in state.settings.items() if key.startswith(start)}


def is_set_otherwise(parent: Run, op: Operation, known: State) -> bool:
    """Whether a person has set something for a child run since it stopped, or it is called with other words now."""
    wanted, tool = settings_below(parent.state, op.tool), parent.toolset.tools.get(op.tool)
    if op.attempt > 1 and tool is not None and tool.pipeline:
        wanted |= _inputs(parse(tool, list(parent.argv(op)))[0])
    return any(_now(known, target) != value for target, value in wanted.items())


def set_arguments(run: Run, values: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Amend what differs from the arguments of this call; a run that was begun with them is left as it is."""
    wanted = _inputs(values)
    wanted |= dict.fromkeys(f"{INPUTS}{name}" for name in run.state.inputs if name not in values)
    wanted |= settings
    for target, value in wanted.items():
        if _now(run.state, target) != value:
            why = "the call's own arguments" if target.startswith(INPUTS) else "set for this pipeline"
            run.append("amend", {"what": "input", "target": target, "value": value, "by": "parent", "why": why})


def _inputs(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as the targets and values of amendments."""
    return {f"{INPUTS}{name}": list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _now(state: State, target: str) -> Any:
    name = target.removeprefix(INPUTS)
    return state.inputs.get(name) if target.startswith(INPUTS) else state.settings.get(target)
