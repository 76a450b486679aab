"""Remembered approvals in a run: those that may answer a call now, and what a person's word makes of a call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from harness.errors import HarnessError
from harness.events.messages import VALID_S
from harness.events.spending import without
from harness.events.state import Operation
from harness.loop.run import Run
from harness.loop.scene import policy_of, settings_of
from harness.policy import RELAXABLE, Grant, Level, Word
from harness.policy.granting import grant_of, offered, outdated, standing
from harness.policy.ledger import pin_of
from harness.policy.pins import COPIED, bytes_of
from harness.policy.request import Request


def given(run: Run, request: Request) -> tuple[Grant, ...]:
    """The yeses that may be one to this call: those of this run, and those of other runs that stand today."""
    if request.effect not in RELAXABLE or not request.digest:
        return ()
    return (*_of_run(run, request), *_kept(run))


def _kept(run: Run) -> tuple[Grant, ...]:
    held = run.world.ledger.grants() if run.world.ledger is not None else ()
    return standing(held, run.world.clock.wall(), settings_of(run).remember_days) if held else ()


def _of_run(run: Run, request: Request) -> Iterator[Grant]:
    """The yeses to calls of this tool for the whole run, as its journal has them."""
    for n, (level, digest) in run.state.grants.items():
        op = run.state.ops[n]
        if op.tool == request.tool:
            values = run.values(op.tool, run.argv(op))
            yield Grant(f"#{n}", op.tool, digest, values, str(run.project), cast(Level, level or "none"), request.path)


def offers(run: Run, op: Operation, request: Request) -> tuple[Word, ...]:
    """The words that would remember a yes to this call. None for a call with a secret in its words: it is not kept."""
    if any(run.masker.text(word) != word for word in request.argv):
        return ()
    days = settings_of(run).remember_days if run.world.ledger is not None else 0
    return offered(request, policy_of(run), without(run.state, op), days)


def remember(run: Run, op: Operation, request: Request, word: str, by: str) -> dict[str, Any]:
    """Make of a yes a grant, as far as it may be one; what the decision says of it."""
    made = next((one for one in offers(run, op, request) if one == word), None)
    if made is None:
        return {"grant": "once"}
    if made == "run":
        return {"grant": "run", "level": request.level, "file": request.digest, **_copy(run, Path(request.path))}
    tool, days = Path(request.path), settings_of(run).remember_days
    grant = grant_of(request, made, run.world.clock.wall(), days, by, pin_of(tool))
    assert grant is not None and run.world.ledger is not None
    try:
        run.world.ledger.add(grant, tool)
    except HarnessError as error:
        run.world.tell(f"it is remembered for this once only: {error.message}")
        return {"grant": "once"}
    return {"grant": made, "rules": ["person", f"grant {grant.id}"]}


def _copy(run: Run, tool: Path) -> dict[str, Any]:
    """The tool's text as it was when a person looked at it, so that a change of it can be shown; none of a long one."""
    data = bytes_of(tool) or b""
    if not data or len(data) > COPIED or b"\0" in data:
        return {}
    return {"copy": run.log.fit(run.masker.text(data.decode("utf-8", "replace")))}


def void_by(run: Run, request: Request) -> Grant | None:
    """The grant that would have answered this call, had its tool not changed."""
    return outdated((*_of_run(run, request), *_kept(run)), request)


def lapsed(run: Run, op: Operation, request: Request) -> str:
    """Why a yes that was not used holds no more, or an empty text."""
    if op.attempt or op.verdict != "allow":
        return ""
    if op.approved_by is not None and run.log.now() - op.decided_at > VALID_S:
        return f"the approval of operation {op.n} is void: it is more than 24 hours old."
    if op.granted and op.granted not in {grant.id for grant in given(run, request)}:
        return f"the approval of operation {op.n} is void: grant {op.granted} is there no more."
    return ""
