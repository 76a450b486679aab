"""What a run knows, as data. Only `fold.apply` changes it; everything that decides reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Slot = tuple[str, ...]
"""Where the newest receipt of one thing is kept: (tool, *argv), ("stage", name) in a pipeline, ("read", path)."""

TAKES_SLOT = frozenset({"OK", "FAILED", "CONFLICT", "UNKNOWN_OUTCOME"})
"""Classes whose receipt replaces the slot's; the others leave it as it was."""
LABEL = "demonstration model: it proves the machinery; its findings are unverified"
"""Stands wherever something that a demonstration model said is shown."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an ended operation proves. `at` is epoch seconds; `result` digests exit, stdout and artifacts.

    `file` is the beginning of the digest of the tool's own file, as it was started.
    """

    op: int
    slot: Slot
    tool: str
    argv: tuple[str, ...]
    exit: int
    error_class: str
    result: str
    at: float
    ttl: float | None = None
    artifacts: tuple[tuple[str, str], ...] = ()
    needs: tuple[int, ...] = ()
    file: str = ""

    @property
    def ok(self) -> bool:
        return self.exit == 0 and self.error_class == "OK"


@dataclass(slots=True)
class Operation:
    """One call of a run. `verdict` is the newest decision's; `waiting` is True while a person must speak.

    A long `argv` stands for itself by its digest, as in a slot; `argv_at` is the blob that holds its words.
    `attempt` is the number of the newest attempt, `attempt_open` is True between its start and its end, `attempt_boot`
    the host and boot it was started on. `tries` counts the attempts that may have had an effect. `rest_until` (epoch
    seconds) is when an announced retry or query is due. `result` is the data of the newest `tool.end`. `error` is the
    reason a call never was one (a reply's parse error, or a `finish` beside other calls). `granted` names the grant
    that said yes, `decided_at` (epoch seconds) is when the newest decision was made, `asked` is what its event says for
    the question to a person. `counted` is True once it was allowed for the first time; `policy` is the digest of what
    it was decided under; `amounts` is what it moves, by currency, until its end proves that nothing happened.
    """

    n: int
    verb: str  # run, read, ask, finish, stage, verify
    call_id: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    argv: tuple[str, ...] | None = None
    argv_at: dict[str, Any] | None = None
    stage: str | None = None
    turn: int = 0
    error: str | None = None
    verdict: str | None = None
    code: str | None = None
    reasons: tuple[str, ...] = ()
    effect: str = ""
    repeat: str = ""
    digest: str | None = None
    approved_by: str | None = None
    granted: str = ""
    decided_at: float = 0.0
    asked: dict[str, Any] = field(default_factory=dict)
    counted: bool = False
    amounts: dict[str, str] = field(default_factory=dict)
    attempt: int = 0
    attempt_open: bool = False
    attempt_boot: str = ""
    tries: int = 0
    rest_until: float | None = None
    role: str = "call"
    child: str | None = None
    slice: dict[str, Any] = field(default_factory=dict)
    file: str = ""
    needs: tuple[int, ...] = ()
    started_at: float | None = None
    ended_at: float | None = None
    result: dict[str, Any] | None = None
    answer: Any = None
    answered_by: str = "user"
    level: str = ""
    policy: str = ""
    closed: bool = False

    @property
    def waiting(self) -> bool:
        return not self.closed and (self.verdict == "ask" or (self.verb == "ask" and self.answer is None))


@dataclass(slots=True)
class Spent:
    """What the run has used. Money in whole nano-dollars; `unpriced` counts requests of unknown price.

    `money` is what calls moved, or may have, by currency, in ten-thousandths.
    """

    turns: int = 0
    calls: int = 0
    active_ms: int = 0
    waiting_ms: int = 0
    nanos: int = 0
    unpriced: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    money: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Asking:
    """How it stands with the request that is due. `tries` failed in a row; the next is due `at` (epoch seconds).

    `cut` counts its replies that were cut off, `pauses` the replies in a row that only paused. `measured` is (bytes,
    input, output) of the newest answered request of the context: its bytes, and its tokens as the provider counts.
    """

    tries: int = 0
    at: float | None = None
    cut: int = 0
    pauses: int = 0
    measured: tuple[int, int, int] | None = None


@dataclass(slots=True)
class Breaker:
    """How a tool has ended lately: `failures` in a row; open `until` (epoch seconds), the `opened`th time by `code`."""

    failures: int = 0
    until: float = 0.0
    opened: int = 0
    code: str = ""


@dataclass(slots=True)
class State:
    """The fold of a run's events. `start` is the data of `run.start`; `status` is new, open, parked or ended.

    `asking` is how it stands with the next request; `request` is the newest `model.start` with all its fields;
    `reserved` is the same while it has no result. `boot` is the host and boot of the newest process. `context` is the
    number of the present context; `renewed` says that it was opened because a request was refused, and that no reply
    came since. `demonstration`: the newest reply came from a model of that kind. `barred` are tools with an outcome
    that stays unknown, `happened` calls that were done in the lost part of a fork's source. `inherited` is what the
    lines used that a fork took over. `settings` are arguments that take the place of what a stage binds: STAGE.PARAM →
    text, or a list of texts. `since_resume` is the first operation that was decided since the newest resume or
    amendment, `since_end` since the newest end or amendment, `since_over` but for interruptions.
    `said` are the user's own words, `given` what an agent, a
    file or a pipe said in their place; `foreign` is True once somebody else gave the run a goal, an input or a message.
    `written` leads from the SHA-256 of a file to the call that first made it: its label and its words stay
    with the content, wherever that is read. `policy` is the digest of the policy that decides now.
    `grants` are the yeses that hold for the whole run, by operation: the level and the digest of the tool.
    """

    status: str = "new"
    seq: int = 0
    epoch: int = 0
    at: float = 0.0
    start: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    ops: dict[int, Operation] = field(default_factory=dict)
    open_ops: dict[int, Operation] = field(default_factory=dict)
    next_op: int = 1
    turn: int = 0
    asking: Asking = field(default_factory=Asking)
    turn_ops: tuple[int, ...] = ()
    slots: dict[Slot, Receipt] = field(default_factory=dict)
    by_tool: dict[str, dict[Slot, Receipt]] = field(default_factory=dict)
    receipts: dict[int, Receipt] = field(default_factory=dict)
    succeeded: dict[str, list[int]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    seen: set[tuple[Slot, str]] = field(default_factory=set)
    stale: set[Slot] = field(default_factory=set)
    strikes: int = 0
    progress: bool = False
    finishes: int = 0
    proposal: Any = None
    verdict: dict[str, Any] | None = None
    missing: int = 0
    question: Any = None
    replies: list[Any] = field(default_factory=list)
    inbox: set[str] = field(default_factory=set)
    spent: Spent = field(default_factory=Spent)
    inherited: Spent = field(default_factory=Spent)
    settings: dict[str, Any] = field(default_factory=dict)
    since_resume: int = 1
    since_end: int = 1
    since_over: int = 1
    request: dict[str, Any] = field(default_factory=dict)
    reserved: dict[str, Any] | None = None
    model: str = ""
    context: int = 0
    demonstration: bool = False
    renewed: bool = False
    denied: dict[Slot, str] = field(default_factory=dict)
    grants: dict[int, tuple[str, str]] = field(default_factory=dict)
    happened: dict[Slot, str] = field(default_factory=dict)
    boot: str = ""
    barred: set[str] = field(default_factory=set)
    written: dict[str, int] = field(default_factory=dict)
    breakers: dict[str, Breaker] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)
    inputs: dict[str, Any] = field(default_factory=dict)
    git: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    park: dict[str, Any] | None = None
    last_kind: str = ""
    redacted: bool = False
    said: list[Any] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    foreign: bool = False
    policy: str = ""
