"""`harness runs prune` and `harness runs redact`: what a person has deleted, and what that does not reach."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import confirmed, print_json, say
from harness.cli.place import logs, place, runs_dir
from harness.cli.runs import check_status
from harness.cli.word import RunName
from harness.cli.words import since_seconds
from harness.errors import BusyError, HarnessError, near_text
from harness.events.clock import Clock
from harness.events.io import IO
from harness.runs import above
from harness.runs import prune as pruning
from harness.runs import redact as redacting
from harness.runs.cut import Wish
from harness.runs.deliver import me
from harness.runs.find import find_run, short_id
from harness.runs.index import Index, erase
from harness.runs.list import Listed
from harness.runs.tree import empty, size_of
from harness.view.text import plural, size

OLDER, KEEP = "30d", 100
RELATIVES = ("children", "forks")
BEYOND = "not reached: files written with -o or exported, wiki pages, backups"
DryRun = Annotated[bool, typer.Option("-n", "--dry-run", help="only say what would go")]


@manual(
    "harness runs prune -n",
    "harness runs prune --older 30d --keep 100 --yes",
    "harness runs prune k3v9 --with children,forks",
    codes=(0, 2, 3, 5, 75),
    notes=("Without a choice: --older 30d --keep 100.",),
)
def prune(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN…]", help="these runs")] = None,
    older: Annotated[str | None, typer.Option("--older", metavar="T", help="begun longer ago: 2h, 30d")] = None,
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", help="all but the newest so many")] = None,
    stop: Annotated[str | None, typer.Option("--stop", metavar="S", help="that stopped so: failed, passed")] = None,
    relatives: Annotated[str | None, typer.Option("--with", metavar="W", help="also: children, forks, or both")] = None,
    force: Annotated[bool, typer.Option("--force", help="RUNs that have not ended, too")] = False,
    dry: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask; runs that are named never are asked about")] = False,
) -> int:
    """Delete runs that have ended. Those named go without a question; a run that is running never goes."""
    said = globals_of(ctx)
    at = place(said)
    folder = runs_dir(at)
    if force and not names:
        raise HarnessError("--force is for runs that are named", "harness runs prune RUN --force")
    if keep is not None and keep < 0:
        raise HarnessError(f"--keep {keep} keeps nothing", "give a number of 0 or more")
    check_status(stop, "--stop")
    if not names and older is None and keep is None and stop is None:
        older, keep = OLDER, KEEP
    named = tuple(find_run(folder, name, allow_last=False) for name in names or ())
    age = since_seconds(older) if older is not None else None
    wish = pruning.Wish(age, keep, stop, named, force, _relatives(relatives))
    with Index(folder, logs()) as index:
        every = list(index.runs())
    gone = pruning.chosen(every, wish)
    left = pruning.leftovers(folder)
    if dry or not (gone or left):
        return _told(said, gone, every, len(left), done=False)
    if gone and not names and not yes and not confirmed(said, _question(gone), "--yes"):
        return _told(said, [], every, 0, done=True)
    failed = _swept(left) | _removed(gone, every, force, folder)
    _told(said, [run for run in gone if run.name not in failed], every, len(left), done=True)
    for name, why in failed.items():
        say(said, f"{name} stays: {why}")
    return 3 if failed else 0


def _relatives(text: str | None) -> frozenset[str]:
    words = (text or "").replace(",", " ").split()
    for word in words:
        if word not in RELATIVES:
            raise HarnessError(f"--with {word} takes nothing along{near_text(word, RELATIVES)}", "children, forks")
    return frozenset(words)


def _question(gone: list[Listed]) -> str:
    return f"Delete {plural(len(gone), 'run')}, {size(sum(size_of(run.folder) for run in gone))}?"


def _swept(left: list[Path]) -> dict[str, str]:
    """Delete what an earlier prune left; what stays, and why."""
    failed = {}
    for folder in left:
        try:
            empty(folder, IO())
        except FileNotFoundError:
            continue  # another prune is at it
        except OSError as error:
            failed[folder.name] = (error.strerror or str(error)).lower()
    return failed


def _removed(gone: list[Listed], every: list[Listed], force: bool, folder: Path) -> dict[str, str]:
    """Delete each run; what stays, and why."""
    failed = {}
    for run in gone:
        try:
            pruning.remove(run, IO(), logs(), force)
        except OSError as error:
            failed[run.name] = f"{(error.strerror or str(error)).lower()}; what is left goes next time"
        except BusyError as error:
            failed[run.name] = error.message
    if not erase(folder, logs(), [run.name for run in gone]):
        failed[str(folder / ".index.sqlite")] = "it cannot be written; delete it"
    return failed


def _told(said: Globals, gone: list[Listed], every: list[Listed], left: int, done: bool) -> int:
    """Names on stdout; on stderr what was done and what it does not reach."""
    behind = pruning.left_behind(every, gone)
    if said.json:
        print_json({"pruned": [run.name for run in gone], "done": done, "leftovers": left, "left_behind": behind})
        return 0
    for run, parent in above.staying(every, gone):
        say(said, f"warning: {parent.name} stays: gone on with, a second call of what {run.name} did is refused")
    for run in gone:
        typer.echo(run.name)
    if not gone and not left:
        say(said, "nothing was deleted" if done else "nothing was deleted; no run fits")
    elif left:
        say(said, f"{plural(left, 'leftover')} of an earlier prune {'went' if done else 'would go'}, too")
    if behind:
        say(said, f"these belonged to them and stay: {' '.join(map(short_id, behind))}; --with children,forks")
    if gone:
        say(said, BEYOND)
    return 0


@manual(
    'harness runs redact k3v9 --text "Anna Berg" --why "asked to be forgotten"',
    'harness runs redact k3v9 --text "Anna Berg" --why "asked to be forgotten" --with children,forks',
    'harness runs redact k3v9 --seq 12 --why "holds a password"',
    codes=(0, 2, 3, 75),
)
def redact(
    ctx: typer.Context,
    name: RunName,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="the reason, kept in the journal")] = None,
    blob: Annotated[str | None, typer.Option("--blob", metavar="SHA", help="this value, wherever it is named")] = None,
    seq: Annotated[int | None, typer.Option("--seq", metavar="N", help="the values of this event")] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="T", help="every value that holds this text")] = None,
    relatives: Annotated[str | None, typer.Option("--with", metavar="W", help="also: children, forks, or both")] = None,
    force: Annotated[bool, typer.Option("--force", help="one that waits, or that another one needs, too")] = False,
    dry: DryRun = False,
) -> int:
    """Take something out of a run that has ended or waits. It can be shown afterwards, and not gone on with."""
    said = globals_of(ctx)
    if [blob, seq, text].count(None) != 2:
        raise HarnessError("one thing goes at a time", "give one of --blob SHA, --seq N, --text T")
    if not (why or "").strip():
        raise HarnessError("the reason is missing", "give it: --why TEXT")
    at = place(said)
    if relatives and seq is not None:
        raise HarnessError("--seq is an event of one run", "leave --with out, or give --blob SHA or --text T")
    folder, wish = find_run(runs_dir(at), name, allow_last=False), Wish(blob, seq, text)
    with Index(runs_dir(at), logs()) as index:
        every = list(index.runs())
    family = [run.folder for run in pruning.family(every, folder, _relatives(relatives))]
    meant = [run for run in every if run.folder in redacting.meant(family, wish)]
    take = partial(redacting.redact_all, family, wish, str(why), f"user:{me()}", IO(), Clock(), logs())
    taken = take(dry=True)  # before anybody is asked about what nothing holds
    above.check_alone(every, meant, folder, force)
    if not dry and not force and not _gives_up(said, meant):
        say(said, "nothing was taken out")
        return 0
    taken = taken if dry else take()
    if not dry and not erase(runs_dir(at), logs(), [one.name for one in taken]):
        raise HarnessError("the index cannot be written", f"delete {runs_dir(at) / '.index.sqlite'}", code=3)
    others = redacting.also_holding([one for one in _kin(every, folder) if one not in taken], wish)
    for run, parent in above.staying(every, meant) if not said.json else ():
        say(said, f"warning: {parent.name} stays: gone on with, a second call of what {run.name} did is refused")
    return _told_redacted(said, folder, taken, others, dry)


def _gives_up(said: Globals, meant: list[Listed]) -> bool:
    """Whether the person gives up what still waits. Raises HarnessError (exit 2) where nobody can be asked."""
    waiting = [run for run in meant if run.parked and above.goes_on(run)]
    if not waiting:
        return True
    names = " ".join(run.name for run in waiting)
    question = f"{names} waits ({waiting[0].shown}) and cannot go on afterwards. Redact it all the same?"
    return confirmed(said, question, "--force", code=2)


def _told_redacted(
    said: Globals, folder: Path, taken: dict[Path, redacting.Taken], others: list[str], dry: bool
) -> int:  # fmt: skip
    """Names on stdout; on stderr what went, what that means, and what it does not reach."""
    if said.json:
        own = _as_json(folder, taken.get(folder, redacting.Taken()))
        more = [_as_json(one, what) for one, what in taken.items() if one != folder]
        print_json({**own, "done": not dry, "also": others, "with": more})
        return 0
    for one, what in taken.items():
        _say_taken(said, one, what, dry)
    for other in others:
        say(said, f"not reached: the run {other} holds it, too: --with children,forks, or name it: {short_id(other)}")
    say(said, BEYOND)
    return 0


def _as_json(run: Path, taken: redacting.Taken) -> dict[str, object]:
    return {"run": run.name, "events": taken.seqs, "values": taken.values, "files": taken.files, "left": taken.left}


def _say_taken(said: Globals, folder: Path, taken: redacting.Taken, dry: bool) -> None:
    typer.echo(folder.name)
    events = " ".join(map(str, taken.seqs)) or "none"
    head = "would go" if dry else "gone"
    say(said, f"{head}: {plural(taken.values, 'value')} (events {events}), {plural(len(taken.files), 'file')}")
    say(said, f"it can be shown, and {'could not be' if dry else 'not'} gone on with")
    if taken.left:
        say(said, f"as a name or a word of the format it stays in the events {' '.join(map(str, taken.left))}")


def _kin(runs: list[Listed], folder: Path) -> list[Path]:
    """The runs that may hold the same: those it began or was begun by, and its copies."""
    every = {run.name: run for run in runs}
    names, edges = {folder.name}, [(run.name, other) for run in every.values() for other in (run.parent, run.fork)]
    while more := {n for pair in edges for n in pair if n in every and names & set(pair)} - names:
        names |= more
    return [every[one].folder for one in sorted(names - {folder.name})]
