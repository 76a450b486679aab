"""A stage that was decided on and has not ended, and would be called otherwise now: its approval is void with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from harness.events.attempts import is_unknown, may_have_acted, unseen_end, wants_query
from harness.events.state import Operation, State
from harness.loop.ending import spent_of
from harness.loop.gate import is_pipeline, judge, leave_to_person, record
from harness.loop.run import Run
from harness.policy.request import Decision, Request


def see_to(run: Run, old: Operation, words: tuple[str, ...], under_way: Collection[int]) -> bool:
    """Withdraw the stage, or call it with its new words; False where what it began must come to its end before.

    `words` are the tool and the arguments it would be called with, none where it would not be called at all.
    """
    if old.n in under_way or is_unknown(old) or wants_query(old):
        return False
    if old.attempt_open:
        return old.child is not None and _child_changed(run, old, old.child, words)
    if may_have_acted(old):
        leave_to_person(run, old, "it would be called otherwise now")
    else:
        _withdraw(run, old)
    return True


def _withdraw(run: Run, old: Operation) -> None:
    if old.approved_by is not None:
        run.note("changed", f"the approval of operation {old.n} is void: {old.tool} would be called otherwise now.")
    decision = Decision("deny", "SKIPPED", ("pipeline",), ("its arguments were changed before it ran",))
    record(run, old.n, Request(old.tool, argv=run.argv(old), effect="read"), decision)


def _child_changed(run: Run, old: Operation, child: str, words: tuple[str, ...]) -> bool:
    """A pipeline goes on in its own run, where what stays fresh is kept; a worker is given up where nothing is open."""
    if words[:1] == (old.tool,) and is_pipeline(run.toolset.tools.get(old.tool)):
        _cut(run, old, None)
        arguments = {"args": list(words[1:])}
        judge(run, replace(old, arguments=arguments, attempt_open=False),
              call={"stage": old.stage, "tool": old.tool, **arguments})  # fmt: skip
        return True
    state = run.world.child_receipts(run.folder.parent / child)
    if state is None or not _is_quiet(run, state):
        return False
    _cut(run, old, state)
    _withdraw(run, old)
    return True


def _cut(run: Run, old: Operation, state: State | None) -> None:
    """The end of the attempt; `state` is that of a child that nothing goes on with: what it spent counts."""
    data = unseen_end(old, "cut", "its arguments were changed before it ended") | {"by": "child"}
    spent = {} if state is None else {"spent": spent_of(state)}
    run.append("tool.end", data | spent, old.n)


def _is_quiet(run: Run, state: State) -> bool:
    """Whether nothing that a child run began, or those below it, may have an effect that nobody saw."""
    below = [op.child for op in state.open_ops.values() if op.attempt_open and op.child]
    states = [run.world.child_receipts(run.folder.parent / name) for name in below]
    own = [op for op in state.open_ops.values() if not op.child]
    alive = any(op.attempt_open or is_unknown(op) or may_have_acted(op) for op in own)
    return not alive and all(other is None or _is_quiet(run, other) for other in states)
