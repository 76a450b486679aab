"""Whether a run may be gone on with here and now: whose it was, what was removed from it, whether it is over or due."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import BusyError, HarnessError
from harness.events.fold import fold
from harness.events.line import at_seconds
from harness.events.log import Log, follow
from harness.events.state import State
from harness.runs.facts import machine

if TYPE_CHECKING:
    from harness.loop.run import World
    from harness.runs.flags import Options


def last_host(events: Iterable[Mapping[str, Any]]) -> str:
    """The host of whoever owned a run last."""
    hosts = [event["data"].get("host", "") for event in events if event["kind"] in ("run.start", "resume")]
    return str(hosts[-1]) if hosts else ""


def check_resumable(world: World, folder: Path, state: State, options: Options) -> None:
    """Raises HarnessError for a run that is not gone on with: exit 2, or 75 where it is only too early."""
    refuse_renamed(folder, state.start)
    if state.redacted:
        raise redacted(folder.name)
    refuse_other_host(folder, options.moved, options.command(folder.name, "--moved"))
    due = due_at(state)
    if due is not None and world.clock.wall() < due and not options.now:
        until = (state.park or {})["until"]
        raise BusyError(f"the run waits until {until}", f"sooner: {options.command(folder.name, '--now')}")


def refuse_passed(world: World, folder: Path, state: State, is_spoken: bool) -> None:
    """Raises HarnessError for a run that has passed and is told nothing new."""
    from harness.loop.inbox import has_word  # loads all that drives a run

    if state.end is not None and state.end["stop"] == "passed" and not (is_spoken or has_word(folder, world.words)):
        raise HarnessError("this run has passed", f"go on with a message: harness resume {folder.name} MESSAGE")


def refuse_passed_meanwhile(
    world: World, is_spoken: bool, seq: int, folder: Path, events: Sequence[dict[str, Any]]
) -> None:
    """The same once the run is owned: somebody else may have gone on with it after the event `seq` was looked at."""
    if events[-1]["seq"] != seq:
        refuse_passed(world, folder, fold(events), is_spoken)


def refuse_renamed(folder: Path, start: Mapping[str, Any]) -> None:
    """A run's name is the beginning of each of its calls' keys: under another one a keyed call would act once more.

    Raises HarnessError where the folder has another name than the run in it.
    """
    name = str(start["run"])
    if name == folder.name:
        return
    kept = folder.with_name(name)
    fix = f"harness resume {name}" if kept.exists() else f"mv {shlex.quote(str(folder))} {shlex.quote(str(kept))}"
    raise HarnessError(f"the folder {folder.name} holds the run {name}, whose calls go by that name", fix, str(folder))


def due_at(state: State) -> float | None:
    """When a run that waits for a time is due, in epoch seconds."""
    until = (state.park or {}).get("until")
    return at_seconds(until) if until else None


def refuse_other_host(folder: Path, moved: bool = False, command: str = "") -> None:
    """Two hosts may share a folder and no lock: only a person knows that nobody there goes on with the run.

    `command` is what says so; a plain resume without it.
    """
    host, here = last_host(follow(folder)), machine()["host"]
    if host and host != here and not moved:
        what = f"the run was held on the host {host}, and this is {here}"
        command = command or f"harness resume {folder.name} --moved"
        raise HarnessError(what, f"if nothing runs there any more: {command}", str(folder))


def refuse_redacted(log: Log) -> None:
    """Raises HarnessError where a person had something removed from the journal."""
    if any(event["kind"] == "amend" and event["data"].get("what") == "redact" for event in log.events):
        raise redacted(log.name)


def redacted(name: str) -> HarnessError:
    return HarnessError(
        "something was removed from this run (redact): it can be shown, and not gone on with",
        f"look: harness show {name}; to do it again, start a new run",
    )


def part_of(folder: Path, start: Mapping[str, Any]) -> HarnessError:
    """The error for a child run, which goes on with the run that began it."""
    top = str(start["parent"]["run"])
    what = f"{folder.name} is part of the run {top}"
    if (folder.parent / top).is_dir():
        return HarnessError(what, f"harness resume {top}")
    return HarnessError(f"{what}, which is gone", f"it can only be looked at: harness show {folder.name}")
