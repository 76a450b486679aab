"""Whether a run may be gone on with here and now: whose it was, what was removed from it, when it is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import BusyError, HarnessError
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
    if state.redacted:
        raise redacted(folder.name)
    refuse_other_host(folder, options.moved, options.command(folder.name, "--moved"))
    due = due_at(state)
    if due is not None and world.clock.wall() < due and not options.now:
        until = (state.park or {})["until"]
        raise BusyError(f"the run waits until {until}", f"sooner: {options.command(folder.name, '--now')}")


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
