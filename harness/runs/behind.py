"""What a fork would leave behind: calls after it that had an effect, or may have had one, in the run and below it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.attempts import is_unknown, may_have_acted
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.spending import is_without_effect
from harness.events.state import Operation, State
from harness.loop.below import has_begun
from harness.runs.lost import damage_of, words_on
from harness.runs.peek import read_state


@dataclass(frozen=True, slots=True)
class Behind:
    """One call and the run that made it; `below` where that is not the one that is forked."""

    folder: Path
    op: Operation
    below: bool

    @property
    def is_unsettled(self) -> bool:
        """Whether nobody knows yet what became of it."""
        return not self.op.closed and (self.op.attempt_open or self.op.child is not None or may_have_acted(self.op))

    @property
    def is_unknown(self) -> bool:
        """Whether a person said that it stays unknown."""
        return self.op.closed and (self.op.result or {}).get("class") == "UNKNOWN_OUTCOME"

    @property
    def is_done(self) -> bool:
        result = self.op.result or {}
        return self.op.closed and result.get("outcome") in ("done", "failed") and not is_without_effect(result)

    @property
    def text(self) -> str:
        return f"#{self.op.n} ({self.op.tool})" + (f" of {self.folder.name}" if self.below else "")

    def fix_in(self, top: Path) -> str:
        """How it becomes known."""
        if is_unknown(self.op):
            return f"harness settle {self.folder.name} {self.op.n} VERDICT"
        return f"let it come to its end first: harness resume {top.name}"


def told_of(calls: Collection[Behind], top: Path, known: Path | None = None) -> list[dict[str, Any]]:
    """What a person said of those whose end nobody knows, as a fork keeps it: see `lost.settled`.

    The words may lie in the inbox still. Raises HarnessError (exit 11) for a call that is left over.
    """
    said = []
    for call in calls:
        word = "unknown" if call.is_unknown else None
        if call.is_unsettled and word is None:
            word = words_on(call.folder, known).get(call.op.n)
        if call.is_unsettled and word is None:
            what = f"operation {call.text} may have had its effect, and a fork would not know of it"
            raise HarnessError(what, call.fix_in(top), code=11)
        if word is not None:
            at = {"run": call.folder.name} if call.below else {}
            said.append({**at, "op": call.op.n, "word": word, "argv": [call.op.tool, *(call.op.argv or ())]})
    return said


def behind(
    folder: Path, state: State, known: Collection[int], seals: Path | None = None, below: bool = False
) -> list[Behind]:
    """The calls of a run that are not known, and that may do more than twice the same; of its child runs all.

    `seals` is where it is kept which runs have begun.
    """
    found = []
    for op in state.ops.values():
        if op.n in known or op.verb == "verify":
            continue
        is_gone = op.child is not None and not (folder.parent / op.child).is_dir()
        is_lost = is_gone and has_begun(seals, follow(folder), op)
        if op.child is not None and not is_lost:
            found += _of_child(folder.parent / op.child, seals)
        elif is_lost or (op.attempt and op.repeat != "pure"):  # what a lost run did, nobody can tell any more
            found.append(Behind(folder, op, below))
    return found


def _of_child(folder: Path, seals: Path | None) -> list[Behind]:
    """Nothing of a damaged one: what that did is asked for by its attempts."""
    try:
        state = None if damage_of(folder) else read_state(folder)
    except HarnessError:  # a newer harness wrote it
        return []
    return behind(folder, state, _copied(folder, state), seals, below=True) if state is not None else []


def _copied(folder: Path, state: State) -> Collection[int]:
    """The calls that a second call of a pipeline took over when they had ended: they are those of the first one."""
    fork = state.start.get("fork")
    if not fork or not (folder.parent / str(fork["run"])).is_dir():
        return ()
    before = fold(event for event in follow(folder) if event["seq"] <= fork["seq"])
    return [op.n for op in before.ops.values() if op.closed]
