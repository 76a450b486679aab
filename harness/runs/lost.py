"""Attempts that a damaged journal tells nothing of, and what a person has said of them: none is repeated blindly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, JournalError
from harness.events.fold import fold
from harness.events.messages import read_message, waiting_files
from harness.events.scan import journal_bytes, never_started, reading, scan
from harness.events.state import State
from harness.events.witness import is_borne
from harness.executor import has_acted
from harness.executor.files import request
from harness.loop.act import child_letters
from harness.loop.inbox import SETTLED
from harness.runs.find import all_runs, short_id
from harness.runs.peek import read_state

MOST_CALLS = 10_000
"""As many calls of one run are tried for whether a folder bears the name of a run that one of them began."""


def begun_attempts(folder: Path) -> list[Path]:
    """The attempt folders of a run in which something ran that may have had an effect; one that only reads has none."""
    attempts = sorted((folder / "ops").glob("*/*"))
    return [path for path in attempts if path.parent.name.isdigit() and path.name.isdigit() and has_acted(path)]


def damage_of(folder: Path, begun: Collection[Path] | None = None) -> str:
    """What is wrong with a run's journal, in words; empty where nothing is, and where the run never started.

    `begun` are its attempts that may have had an effect, found before: a live owner extends the journal first.
    """
    attempts = begun_attempts(folder) if begun is None else begun
    try:
        found = scan(_journal(folder), folder)
    except JournalError as error:
        return error.message
    if not found.started:
        return never_started(folder).message if attempts else ""  # else it was not on the disk yet
    lost = [path for path in unaccounted(attempts, fold(found.events)) if has_acted(path, for_sure=True)]
    return f"an attempt began that the journal does not know: {lost[0]}" if lost else ""


def _journal(folder: Path) -> bytes:
    """Raises JournalError where it is there and cannot be read."""
    if not (folder / "events.jsonl").exists():
        return b""
    with reading(folder):
        return journal_bytes(folder)


def unaccounted(attempts: Collection[Path], state: State) -> list[Path]:
    """Those of which a state knows nothing."""
    found = []
    for attempt in attempts:
        op = state.ops.get(int(attempt.parent.name))
        if op is None or int(attempt.name) > op.attempt:
            found.append(attempt)
    return found


def unaccounted_below(folder: Path, state: State, is_damaged: bool) -> list[Path]:
    """The same in the runs that this one began and that the state does not know, and in those below them.

    Where it is damaged itself, all that its children did counts; else what a damaged child did.
    """
    known = {op.child for op in state.ops.values() if op.child}
    below = (child for child in children(folder, is_damaged) if child.name not in known)
    return [attempt for child in below for attempt in _lost_in(child, is_damaged)]


def _lost_in(folder: Path, is_above: bool) -> list[Path]:
    is_damaged = is_above or bool(damage_of(folder))
    own = begun_attempts(folder) if is_damaged else []
    return [*own, *(path for child in children(folder, is_damaged) for path in _lost_in(child, is_damaged))]


def children(folder: Path, is_damaged: bool) -> list[Path]:
    """The folders of the runs that a run began: by its journal, and by their names where lines of it may be lost."""
    state = read_state(folder) if (folder / "events.jsonl").is_file() else None
    names = {op.child for op in state.ops.values() if op.child} if state is not None else set()
    if is_damaged:
        names |= set(_named_after(folder))
    return [folder.parent / name for name in sorted(names) if (folder.parent / name).is_dir()]


def _named_after(folder: Path) -> list[str]:
    """Those whose names only this run's calls give."""
    same = _of_one_time(folder)
    given = {child_letters(folder.name, n) for n in range(1, MOST_CALLS)} if same else set()
    return [path.name for path in same if short_id(path.name) in given]


def _of_one_time(folder: Path) -> list[Path]:
    """The runs whose names begin as this one's: a child's does so."""
    start = f"{folder.name.partition('-')[0]}-"
    return [path for path in all_runs(folder.parent) if path.name.startswith(start) and path != folder]


def lineage(folder: Path) -> list[Path]:
    """A run and those above it, told by their names alone: a journal may be damaged from its first line on."""
    found = [folder]
    while above := [path for path in _of_one_time(found[-1]) if found[-1].name in _named_after(path)]:
        found.append(above[0])
    return found


def way_on(line: Sequence[Path]) -> str:
    """The command that goes on once what a damaged run of this lineage did is settled.

    A call that has its end stays as it is: what stands on it asks for the words by itself. Else the top one is forked.
    """
    top = line[-1].name
    above = [] if any(damage_of(run) for run in line[1:]) else [read_state(run) for run in line[1:2]]
    ops = [op for state in above if state is not None for op in state.ops.values()]
    has_ended = any(op.child == line[0].name and op.closed for op in ops)
    return f"harness resume {top} (or its fork)" if has_ended else f"harness fork {top}"


def settled(attempts: Collection[Path], top: Path, known: Path | None = None) -> list[dict[str, Any]]:
    """What a person said of these attempts: [{"run"?, "op", "word", "argv"}], `run` for those of runs below `top`.

    The words lie in the inboxes: a damaged run has no owner that could turn them into events. `known` is where it is
    kept that a person said them. Raises HarnessError (exit 11) for an attempt that is left over.
    """
    words = {folder: words_on(folder, known) for folder in {run_of(attempt) for attempt in attempts}}
    left = [attempt for attempt in attempts if int(attempt.parent.name) not in words[run_of(attempt)]]
    if left:
        named = "\n  ".join(str(attempt) for attempt in left)
        what = f"the lost part of the journal held attempts that may have had an effect:\n  {named}"
        fix = f"look there, then: harness settle {run_of(left[0]).name} {left[0].parent.name} VERDICT"
        raise HarnessError(what, fix, code=11)
    return [_said(attempt, words[run_of(attempt)], top) for attempt in attempts]


def _said(attempt: Path, words: dict[int, str], top: Path) -> dict[str, Any]:
    folder, n = run_of(attempt), int(attempt.parent.name)
    told = {"op": n, "word": words[n], "argv": _argv(attempt)}
    return told if folder == top else {"run": folder.name, **told}


def run_of(attempt: Path) -> Path:
    """The run that an attempt's folder is in."""
    return attempt.parents[2]


def words_on(folder: Path, known: Path | None) -> dict[int, str]:
    """Operation → a person's newest verdict on it."""
    theirs = [path for path in waiting_files(folder) if is_borne(known, path)]
    messages = [message for path in theirs if (message := read_message(path)) is not None]
    settled = [message for message in messages if message["kind"] == "settle"]
    return {message["op"]: message["word"] for message in settled if message.get("word") in SETTLED}


def _argv(attempt: Path) -> list[str]:
    """The call, its tool by name."""
    argv = [str(word) for word in request(attempt).get("argv") or ()]
    return [Path(argv[0]).name, *argv[1:]] if argv else []
