"""`settle`: what a person knows of a call that may or may not have had its effect, put into the run's inbox."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.masking import hide_of
from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags
from harness.cli.place import Place, logs, place, runs_dir
from harness.cli.word import Resume, RunName, refuse_for_agent, said_words
from harness.errors import HarnessError, JournalError, near_text
from harness.events.io import IO
from harness.runs.deliver import Waiting, meant, one, put, send
from harness.runs.find import find_run
from harness.view.closing import SETTLED
from harness.view.mode import current

MAX_OUTPUT = 8 << 20


@manual(
    "harness settle k3v9 7 happened", "harness settle k3v9 7 did-not-happen --resume",
    'harness settle k3v9 unknown --why "the bank does not answer"', codes=(0, 2, 3),
)  # fmt: skip
def settle(
    ctx: typer.Context,
    name: RunName,
    words: Annotated[list[str], typer.Argument(metavar="[OP] VERDICT", help="happened, did-not-happen or unknown")],
    output: Annotated[str | None, typer.Option("--output", metavar="FILE", help="what the call had printed")] = None,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="how you know, for the record")] = None,
    resume: Resume = False,
) -> int:
    """Say what became of a call whose outcome is unknown.

    After `happened` it counts as done, after `did-not-happen` it is tried again, and after `unknown` no call of that
    tool starts in this run any more.
    """
    said = globals_of(ctx)
    at = place(said)
    folder = find_run(runs_dir(at), name, allow_last=False)
    word = _verdict(words)
    if output is not None and word != "happened":
        raise HarnessError("--output is what a call had printed that happened", "leave it out, or say: happened")
    printed = {"output": _printed(output)} if output is not None else {}
    message = {"kind": "settle", "word": word, "why": why or "", **printed}
    try:
        target = _target(folder, words)
    except HarnessError as error:
        if not isinstance(error, JournalError) and not _has_folder(folder, words):
            raise
        return _for_a_fork(said, at, folder, words, message, error)
    if not current(flags(said)).can_ask:
        refuse_for_agent(target.folder)
    put(target, IO(), message, hide_of(at), logs())
    return said_words(said, at, [(target, f"settled as {word}:")], resume)


def _has_folder(folder: Path, words: list[str]) -> bool:
    """Whether something of the operation was begun, whatever the journal says."""
    number = words[0].removeprefix("#")
    return number.isdecimal() and (folder / "ops" / number).is_dir()


def _for_a_fork(
    said: Globals, at: Place, folder: Path, words: list[str], message: dict[str, str], error: HarnessError
) -> int:  # fmt: skip
    """A run of which lines are lost takes no word any more; whoever forks it, or the run above it, reads this one.

    Raises `error` where none are lost.
    """
    from harness.runs.lost import begun_attempts, damage_of, lineage, way_on  # loads all that drives a run

    line = lineage(folder)
    damage = next((f"{run.name} is damaged: {why}" for run in line if (why := damage_of(run))), "")
    numbers = sorted({int(attempt.parent.name) for attempt in begun_attempts(folder)})
    if not damage:
        raise error
    number = words[0].removeprefix("#")
    if len(words) < 2 or not number.isdecimal() or int(number) not in numbers:
        known = " ".join(map(str, numbers)) or "none"
        raise HarnessError(damage, f"name an operation that began: {known}")
    send(folder, IO(), {**message, "op": int(number)}, hide_of(at), logs())
    if not said.quiet:
        print(f"settled as {message['word']}: #{number}; go on: {way_on(line)}", file=sys.stderr)
    return 0


def _verdict(words: list[str]) -> str:
    word = words[-1]
    if word not in SETTLED or len(words) > 2:
        what = f"'{' '.join(words)}' says nothing of an outcome{near_text(word, SETTLED)}"
        raise HarnessError(what, f"give the operation's number and one of: {' '.join(SETTLED)}")
    return word


def _target(folder: Path, words: list[str]) -> Waiting:
    """The operation by its number, or the only one whose outcome is unknown."""
    if len(words) == 1:
        return one(meant(folder, None, "outcome"))
    number = words[0].removeprefix("#")
    if not number.isdecimal():
        raise HarnessError(f"{words[0]} is no operation's number", f"look: harness show {folder.name}")
    return one(meant(folder, int(number), "outcome"))


def _printed(file: str) -> str:
    """The text of FILE. Raises HarnessError."""
    try:
        with open(file, "rb") as source:
            raw = source.read(MAX_OUTPUT + 1)  # it may have no end
    except OSError as error:
        raise HarnessError(f"cannot read {file}: {(error.strerror or str(error)).lower()}", "name a file") from error
    if len(raw) > MAX_OUTPUT:
        raise HarnessError(f"{file} has over {MAX_OUTPUT} bytes, and of a call no more are kept", "give its beginning")
    return raw.decode("utf-8", "replace")
