"""An open run, and the world it acts through. Everything that touches the outside is passed in here."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.events.clock import Clock
from harness.events.fold import apply
from harness.events.hiding import hidden, masked_text
from harness.events.io import IO
from harness.events.line import to_json
from harness.events.log import INLINE_LARGE, Log
from harness.events.receipt import argv_in
from harness.events.state import Operation, Receipt, Slot, State
from harness.executor import Cancel
from harness.graph.fresh import Ground, Values
from harness.loop.guard import Guard
from harness.loop.toolset import Toolset, values_of
from harness.models import Model
from harness.policy import Rule, Word
from harness.policy.grounding import Known, Source
from harness.policy.ledger import Ledger
from harness.policy.vouching import Trust
from harness.prompt import Transcript
from harness.secrets.masker import Masker
from harness.tools import Tool

SAME_LOOK = 0.02
"""Seconds for which what was found on the disk holds."""
SINKS = {"run.start": "goal", "user.say": "words", "model.reply": "reply", "model.fail": "message", "run.end": "answer"}
"""A kind of event → what of it a secret was masked in, as reports call it; others by their kind."""
SAYERS = {"goal": "user", "words": "user", "reply": "model", "message": "model"}
"""Who said it, where that was no tool."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run stopped, in a word, and the exit code that says it. `parked` runs wait; the others have ended."""

    name: str
    code: int
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A person's word on a call: `verdict` is allow, deny, quit (stop the run) or None (could not be asked).

    `grant` is how long a yes holds.
    """

    verdict: str | None
    why: str | None = None
    grant: Word | Literal["once"] = "once"


class Ask(Protocol):
    """Somebody at a terminal. `elsewhere` is looked at while waiting: True closes the prompt, the word is there.

    `asker` is who asks: the model, or a verifier.
    """

    def approve(self, request: dict[str, Any], elsewhere: Callable[[], bool]) -> Said: ...

    def question(
        self, question: str, options: Sequence[str], elsewhere: Callable[[], bool], asker: str
    ) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child run stopped. `output` is its stdout or answer; `error_class` that of its failing step.

    `barred` are tools whose calls left an outcome that stays unknown; `until` is when one that waits is due, in epoch
    seconds.
    `artifacts` are the files, (path, SHA-256), that the stages of a pipeline made.
    """

    stop: Stop
    output: bytes
    error_class: str
    why: str
    spent: Mapping[str, Any]
    hint: str = ""
    ms: int = 0
    barred: tuple[str, ...] = ()
    until: float | None = None
    artifacts: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class World:
    """What a run acts through, shared by a run and its children.

    `ask` is None where nobody can be asked, `guard` where nothing is confined, `seals` (the folder of the journals'
    digests) where none are kept, `words` (of the digests of a person's words) where nobody asks whose they are,
    `ledger` (approvals that outlast a run) where none are. `cancelled` hears the level of a stop that came from another
    process, `heard` the lines that a program which is the model writes on stderr. `allow_fs` are types of FUSE file
    systems that the person lets runs live on; `early` lets what waits for a time go on before it; `ruled` says that a
    person's flags came with this opening, which may answer calls that wait. `context` is how many tokens a request may
    grow to. `trust` says which files a person lets act; only a trusted project's own words reach a model. `here` is the
    folder that paths in the person's words are meant from. `page_verdict` says whether what a page claims still holds:
    fresh or stale, nothing for what is no page.
    """

    io: IO
    clock: Clock
    cancel: Cancel
    ask: Ask | None = None
    sinks: list[Callable[[dict[str, Any], bytes, str, int], None]] = field(default_factory=list)
    delta: Callable[[str], None] = field(default=lambda text: None)
    tell: Callable[[str], None] = field(default=lambda text: None)
    history: Callable[[Sequence[dict[str, Any]], str, int], None] = field(default=lambda events, run, depth: None)
    cancelled: Callable[[int], None] = field(default=lambda level: None)
    heard: Callable[[str], None] = field(default=lambda line: None)
    child_receipts: Callable[[Path], State | None] = field(default=lambda folder: None)
    parallel: int = 16
    tool_timeout: float = 60.0
    tools_path: tuple[str, ...] = ()
    passed: Mapping[str, str] = field(default_factory=dict)
    guard: Guard | None = None
    ledger: Ledger | None = None
    seals: Path | None = None
    words: Path | None = None
    runs_dir: Path = field(default=Path(".harness/runs"))
    allow_fs: tuple[str, ...] = ()
    early: bool = False
    ruled: bool = False
    context: int = 120_000
    trust: Trust = field(default_factory=Trust)
    page_verdict: Callable[[Path], str] = field(default=lambda path: "")
    here: Path = field(default_factory=Path.cwd)


class Run:
    """One open run: its journal, the state that follows from it, and what it may call.

    `flags` are the rules that the person's flags stand for; `words_above` gives the user's words of the run above.
    `known` is what its values may be taken from, as far as it is `filed`; `known_above` tells where the run above has a
    value from that it passed on.
    """

    def __init__(
        self, log: Log, world: World, toolset: Toolset, project: Path, flags: Sequence[Rule] = (), depth: int = 0
    ) -> None:
        self.log, self.world, self.toolset, self.project = log, world, toolset, project
        self.flags, self.depth = tuple(flags), depth
        self.state = State()
        self.transcript: Transcript | None = None
        self.model: Model | None = None
        self.last_request: dict[str, Any] = {}
        self.anew = False
        self.stand_in: Callable[[], bool] = lambda: False
        self.begin_child: Callable[[Run, Operation, Mapping[str, Any]], ChildEnd] | None = None
        self.barred_above: Callable[[str], bool] = lambda tool: False
        self.happened_above: Callable[[Slot], str | None] = lambda slot: None
        self.words_above: Callable[[], tuple[str, ...]] = tuple
        self.known, self.filed = Known(), dict[str, int]()
        self.known_above: Callable[[str], tuple[Source, ...]] = lambda value: ()
        self.stage_needs: Callable[[Operation], tuple[int, ...]] = lambda op: ()
        self.is_held: Callable[[Operation], bool] = lambda op: False
        self.masker = world.guard.masker if world.guard is not None else Masker()
        log.hide = self.masker.raw
        self._project = str(project)
        self._seen: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._ground: tuple[tuple[int, int], float, Ground] | None = None
        log.sinks.append(self._tell)
        for event in log.events:
            self._take(event)
        world.history(log.events, log.name, depth)

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def folder(self) -> Path:
        return self.log.folder

    def is_barred(self, tool: str) -> bool:
        """Whether the outcome of a call of this tool stays unknown, in this run or in one above or below it."""
        return tool in self.state.barred or self.barred_above(tool)

    def happened(self, slot: Slot) -> str | None:
        """Where a call was done in lines that are lost: before a fork of this run, or of one above it."""
        return self.state.happened.get(slot) or self.happened_above(slot)

    def attach(self, transcript: Transcript, model: Model) -> None:
        """Let a model speak in this run; the transcript catches up with the journal."""
        state = State()
        for event in self.log.events:
            transcript.apply(event, state)
            apply(state, event)
        self.transcript, self.model = transcript, model

    def append(self, kind: str, data: dict[str, Any], op: int | None = None) -> None:
        """Write one event, its secrets masked, and let the state follow. What was masked is reported beside it."""
        if self.masker.longest:
            data = hidden(data, self.masker.raw, self.log.found)
        names, self.log.found = self.log.found, set()
        if kind == "run.start":  # which is the first of a journal
            self._take(self.log.append(kind, data, op))
        self.report(((name, SINKS.get(kind, kind)) for name in names), op)
        if kind != "run.start":
            self._take(self.log.append(kind, data, op))

    def report(self, leaks: Iterable[tuple[str, str]], op: int | None = None) -> None:
        """Say which secrets, by name, were masked in what: (name, sink)."""
        for name, sink in sorted(set(leaks)):
            tool = self.state.ops[op].tool if op in self.state.ops else SAYERS.get(sink, "harness")
            self._take(self.log.append("secret.leak", {"name": name, "tool": tool, "sink": sink}, op))

    def _take(self, event: dict[str, Any]) -> None:
        if self.transcript is not None:
            self.transcript.apply(event, self.state)
        apply(self.state, event)

    def _tell(self, event: dict[str, Any], line: bytes) -> None:
        for sink in self.world.sinks:
            sink(event, line, self.name, self.depth)

    def note(self, why: str, text: str) -> None:
        """Add the harness's own words to the next message, once."""
        text = masked_text(text, self.masker.raw, self.log.found)
        key = why if why == "strikes" else f"{why}:{text}"
        if key not in self.state.noted:
            self.append("note", {"why": why, "text": text})

    def active_s(self) -> float:
        """Active seconds up to now, waits for people left out."""
        return self.state.spent.active_ms / 1000 + max(0.0, self.log.now() - self.state.at)

    def ground(self) -> Ground:
        """What freshness is judged on now, disk included. One look serves the calls that are judged together."""
        known, state, now = self._ground, self.state, time.monotonic()
        held, at = (len(state.receipts), state.epoch), max(self.log.now(), state.at)
        if known is None or known[0] != held or now - known[1] > SAME_LOOK or at - known[2].now > SAME_LOOK:
            known = self._ground = (held, now, Ground(state, at, self.changed, self.values))
        return known[2]

    def values(self, name: str, argv: tuple[str, ...]) -> Values:
        """A canonical argv as comparable values."""
        return values_of(self.toolset, name, argv)

    def changed(self, receipt: Receipt) -> str:
        """The first file that a receipt stands on and that is not as it was; empty when all are."""
        tool = self.toolset.tools.get(receipt.tool)
        if tool is not None and receipt.file and self.tool_mark(tool) != receipt.file:
            return "its own file"
        return next((path for path, sha in receipt.artifacts if self.file_digest(path) != sha), "")

    def file_digest(self, path: str) -> str | None:
        """SHA-256 of a file, read again only when size, time or inode differ; None when it cannot be read."""
        full = os.path.join(self._project, path)
        try:
            at = os.stat(full)  # noqa: PTH116 - many a receipt is looked at, and a Path costs more than the look
            mark = (at.st_size, at.st_mtime_ns, at.st_ino)
            known = self._seen.get(path)
            settled = self.world.clock.wall() - at.st_mtime > 2.0
            if known is None or known[0] != mark or not settled:
                if not stat.S_ISREG(at.st_mode):  # a pipe would be waited for, and a device has no end
                    return None
                with open(full, "rb") as file:
                    known = (mark, hashlib.file_digest(file, "sha256").hexdigest())
                self._seen[path] = known
            return known[1]
        except OSError:
            return None

    def tool_mark(self, tool: Tool) -> str:
        """A tool's file as receipts remember it: 16 hex digits; empty when it cannot be read."""
        return (self.file_digest(str(tool.path)) or "")[:16]

    def fit_argv(self, argv: Sequence[str]) -> Any:
        """An argv for an event: the list, or a reference where it is long."""
        size = len(to_json(list(argv)).encode())
        return list(argv) if size <= INLINE_LARGE else self.log.keep("\0".join(argv).encode("utf-8", "replace"))

    def argv(self, op: Operation) -> tuple[str, ...]:
        """The canonical argv that was decided on, inline or not: what is shown, approved and started."""
        return argv_in(op, self.text)

    def args(self, op: Operation) -> list[str]:
        """The words a call was made with, inline or not."""
        given = op.arguments.get("args") or ()
        if isinstance(given, dict):
            given = json.loads(self.log.read_blob(given))
        return [str(word) for word in given]

    def text(self, value: object) -> str:
        """A text as an event holds it, inline or not."""
        return value if isinstance(value, str) else self.log.read_blob(value).decode("utf-8", "replace")
