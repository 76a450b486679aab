"""A stage that was decided on and has not ended, and would be called otherwise now: its approval is void with it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from harness.events.attempts import is_approved, is_unknown, may_have_acted, unseen_end, wants_query
from harness.events.state import Operation, State
from harness.loop.below import unseen_in
from harness.loop.ending import all_spent
from harness.loop.gate import is_pipeline, judge, leave_to_person, record
from harness.loop.run import Run
from harness.policy.request import Decision, Request

OTHERWISE = "it would be called otherwise now"
GONE = "its stage is no more in the pipeline"


def see_to(
    run: Run, old: Operation, words: tuple[str, ...], under_way: Collection[int], why: str = OTHERWISE
) -> bool:
    """Withdraw the stage, or call it with its new words; False where what it began must come to its end before.

    `words` are the tool and the arguments it would be called with, none where it would not be called at all.
    """
    if old.n in under_way or is_unknown(old) or wants_query(old):
        return False
    if old.attempt_open:
        return old.child is not None and _child_changed(run, old, old.child, words, why)
    if may_have_acted(old):
        leave_to_person(run, old, why)
    else:
        _withdraw(run, old, why)
    return True


def _withdraw(run: Run, old: Operation, why: str) -> None:
    if is_approved(old):
        run.note("changed", f"the approval of operation {old.n} is void: {why}.")
    decision = Decision("deny", "SKIPPED", ("pipeline",), (why,))
    record(run, old.n, Request(old.tool, argv=run.argv(old), effect="read"), decision)


def _child_changed(run: Run, old: Operation, child: str, words: tuple[str, ...], why: str) -> bool:
    """A pipeline goes on in its own run, where what stays fresh is kept; a worker is given up where nothing is open."""
    if words[:1] == (old.tool,) and is_pipeline(run.toolset.tools.get(old.tool)):
        _cut(run, old, None, why)
        arguments = {"args": list(words[1:])}
        judge(run, replace(old, arguments=arguments, attempt_open=False),
              call={"stage": old.stage, "tool": old.tool, **arguments})  # fmt: skip
        return True
    state = run.world.child_receipts(run.folder.parent / child)
    if state is None or unseen_in(run, old):
        return False
    _cut(run, old, state, why)
    _withdraw(run, old, why)
    return True


def _cut(run: Run, old: Operation, state: State | None, why: str) -> None:
    """The end of the attempt; `state` is that of a child that nothing goes on with: what it spent counts."""
    data = unseen_end(old, "cut", why) | {"by": "child"}
    spent = {} if state is None else {"spent": all_spent(run, state)}
    run.append("tool.end", data | spent, old.n)
