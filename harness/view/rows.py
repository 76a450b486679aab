"""What a view knows of a run: one row an operation, and how runs hang together. Data only; `fold` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from harness.view.text import money

ASKS = 10
"""A verifier's exit that puts a question to a person."""
CLOSED = frozenset({"ok", "failed", "refused", "skipped", "fresh", "stopped", "unknown"})


@dataclass(slots=True)
class Row:
    """One operation. `argv` is without the name; `started` is epoch seconds, `ms` the time of its attempts together.

    `asked` is what a question to a person holds beside the call; `said` is the word on it that lies in the inbox still
    (approved, denied, answered, settled). `stale`: a person said that its result holds no more.
    """

    op: int
    verb: str  # read, run, ask, finish, stage, verify
    name: str
    argv: tuple[str, ...] = ()
    turn: int = 0
    epoch: int = 1
    state: str = "new"
    code: str = ""
    reasons: tuple[str, ...] = ()
    effect: str = ""
    repeat: str = ""
    digest: str = ""
    level: str = ""
    attempt: int = 0
    outcome: str = ""
    started: float | None = None
    ms: int = 0
    child: str | None = None
    end: dict[str, Any] = field(default_factory=dict)
    end_seq: int = 0
    question: Any = None
    needs: tuple[str, ...] = ()
    asked: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    stale: bool = False

    @property
    def closed(self) -> bool:
        return self.state in CLOSED


@dataclass(slots=True)
class Spent:
    """What one run used, its children apart. Money in nano-dollars; `unpriced` counts replies of unknown price.

    `unmetered` counts those of an agent that drives, whose tokens nobody here sees.
    """

    turns: int = 0
    tokens: int = 0
    nanos: int = 0
    unpriced: int = 0
    seconds: float = 0.0
    unmetered: int = 0

    @property
    def cost(self) -> str:
        """The money in words."""
        return money(self.nanos, self.unpriced, self.unmetered)


@dataclass(slots=True)
class Run:
    """One log's rows. `opened` is the epoch second at which the model was asked, None when no request is out.

    `demonstration` says that such a model gave the newest reply. Of a fork, `inherited` is what the copied lines used,
    and `seam` the last operation among them. `leaks` are the reports of secrets that were masked: name, tool, sink, op.
    """

    name: str
    depth: int = 0
    start: dict[str, Any] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    turn: int = 0
    costs: dict[int, Spent] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    inherited: Spent | None = None
    seam: int = 0
    opened: float | None = None
    model: str = ""
    demonstration: bool = False
    verdict: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    park: dict[str, Any] | None = None
    redacted: bool = False
    leaks: list[dict[str, Any]] = field(default_factory=list)
    at: float = 0.0
    epoch: int = 0
    seq: int = 0


@dataclass(slots=True)
class Tree:
    """All runs seen, by folder name. `top` is the one at depth 0."""

    runs: dict[str, Run] = field(default_factory=dict)
    top: str = ""

    @property
    def main(self) -> Run:
        return self.runs.get(self.top) or Run(self.top)

    def child(self, row: Row) -> Run | None:
        return self.runs.get(row.child) if row.child else None


def moment(at: str) -> float:
    """Epoch seconds of an event's `at`."""
    return datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()


def short(run: str) -> str:
    """The part of a run's folder name that commands need: `k3v9`."""
    return run.rsplit("-", 1)[-1][:4]


def failing(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The checks of a `verify` that did not accept."""
    return [check for check in verdict.get("checks") or () if check.get("exit") != 0]


def account_of(account: dict[str, Any]) -> Spent:
    """The `spent` of an event."""
    tokens = (account.get("tokens_in") or 0) + (account.get("tokens_out") or 0)
    seconds = float(account.get("active_s") or 0)
    return Spent(account.get("turns") or 0, tokens, account.get("nanos") or 0, account.get("unpriced") or 0, seconds)


def run_on(text: str) -> str:
    """A text's lines one after another, blanks at their ends left out: what a row says stands on one."""
    return " ".join(line.strip(" ") for line in text.split("\n"))
