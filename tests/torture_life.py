"""A run under whatever comes: replies nobody planned, words of a person, crashes, crashes of recoveries, killed shims,
full disks, forks, edited tools and rules, days that pass, clocks that are set. After each step all promises still hold.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from harness.errors import HarnessError, JournalError
from harness.events.fold import apply, fold
from harness.events.state import State
from harness.executor import Cancel
from harness.loop.run import Run, Stop, World
from harness.runs import deliver, facts
from harness.runs import fork as forks
from harness.runs.begin import changed_pins, pins, reopen
from harness.runs.flags import Options
from harness.runs.kit import skill_kit, tool_pins
from harness.runs.pins import pinned
from harness.runs.session import resume
from harness.skills.check import resolve
from harness.skills.discovery import read_catalog
from harness.skills.names import find
from tests import journal_invariants as must
from tests.journal_disk import KILLS, Disk, at_point, orphans, points, unpack
from tests.torture_matrix import (
    HOWS,
    known_requests,
    only_what_nobody_can_tell_waits_for_a_word,
    passed_run_stays,
    without_last,
)
from tests.torture_site import FREE, MOST, PARTS, WideSite, has_begun, tells, wide_site
from tests.torture_stage import Blow, Ledger, Stage

WORDS = ("look", "big", "slow", "note a", "note b", "busy a", "book a", "book b", "mail a", "pay a", "pay b", "plan")
CALLS = st.sampled_from([*(words.split() for words in (*WORDS, "scout look", "nothing"))])
FAILS = st.sampled_from(["unavailable", "rate_limited"])
"""A provider that is away: the request is tried again, then the run waits."""
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=3) | FAILS, min_size=1, max_size=3)
SCOUT = [{"calls": [{"run": ["note", "s"]}]}, {"calls": [{"finish": "scouted"}]}]
DONE = {"calls": [{"finish": "all is well"}]}
SAYS = st.sampled_from(["", "yes", "yes", "first", "no", "unknown"])
"""What a person says to all that waits; nothing, for one; yes to the first alone."""
EDITED = ("note", "pay", "book", "look")


class Eventful(Stage):
    """A stage on which a person stops the run at a sync, the disk is full from an action on, and shims are killed."""

    stopped_at, stop_level, full_from = -1, 1, -1
    cancel = Cancel()

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if 0 <= self.stopped_at <= len(self.trace):
            self.cancel.level = max(self.stop_level, self.cancel.level)

    def write(self, fd: int, data: bytes) -> int:
        if 0 <= self.full_from <= len(self.trace):
            raise OSError(28, "No space left on device")
        return super().write(fd, data)


class Life(RuleBasedStateMachine):
    """One run from its beginning on. What is left of each process is a disk; the world outside has a ledger.

    No rule has a precondition: which attempt ends first is up to the machine, so the same choices need not come to the
    same run, and hypothesis would call the choice of a next rule flaky.
    """

    place: Path
    site: WideSite

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.boot, self.number = Disk(), 0, 0
        self.stop: Stop | None = None
        self.name = ""
        self.logs: dict[str, bytes] = {}
        self.message: str | None = None
        self.is_edited = False
        self.blows: tuple[Blow, ...] = ()

    @initialize(replies=st.lists(REPLIES, min_size=1, max_size=3))
    def begin(self, replies: list[list[list[list[str]] | str]]) -> None:
        said: list[dict[str, Any]] = []
        for part in replies:  # each up to a finish, after which a message may come
            said += [_entry(reply) for reply in part]
            said += [{"calls": [{"run": ["pay", "z"]}]}, DONE]
        said.append({**DONE, "repeat": "forever"})
        text = {"harness-script": 1, "replies": said, "skills": {"scout": {"replies": SCOUT}}}
        root = self.place / f"project-{len(list(self.place.iterdir()))}"
        self.site = wide_site(root, json.dumps(text))

    @rule(says=SAYS, more=st.booleans())
    def goes_on(self, says: str, more: bool = False) -> None:
        """A process lives to its end; a person may have more to say to it."""
        if more:
            self._says_more("more, please")
        with self._process(says) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @rule(says=SAYS, at=st.floats(0, 1), how=st.sampled_from(HOWS))
    def dies(self, says: str, at: float, how: str) -> None:
        """A process is cut short somewhere."""
        before = self.disk
        with self._process(says) as stage:
            self._crash(before, stage, at, how)

    @rule(n=st.integers(0, 40), how=st.sampled_from(HOWS))
    def dies_while_it_recovers(self, n: int, how: str) -> None:
        """Soon after its start, when it may still settle what the process before it left."""
        before = self.disk
        with self._process("yes") as stage:
            self._crash(before, stage, n / max(n, 1, len(list(points(stage.trace)))), how)

    @rule(at=st.integers(0, 200), level=st.sampled_from([1, 2]))
    def is_interrupted(self, at: int, level: int) -> None:
        """A person stops the run at some sync."""
        with self._process("yes", stopped_at=at, stop_level=level) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @rule(says=SAYS, at=st.integers(0, 150))
    def the_disk_fills(self, says: str, at: int) -> None:
        """From some action on nothing can be written; only the tools' notes of their exits still can."""
        with self._process(says, full_from=at) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @rule(says=SAYS, blows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=2))
    def shims_are_killed(self, says: str, blows: list[Blow]) -> None:
        """With their tools, somewhere between their start and their last note; the harness sees it."""
        self.blows = tuple(blows)
        with self._process(says) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @rule(at=st.floats(0, 1), dies=st.booleans(), when=st.floats(0, 1), how=st.sampled_from(HOWS))
    def is_forked(self, at: float, dies: bool, when: float, how: str) -> None:
        """Somebody goes on with a copy from some quiet point. It is there as a whole or not at all."""
        if not self.name:
            return
        runs, stage = self._unpacked()
        try:
            source = forks.read_source(runs / self.name)
            seq = source.quiet[min(len(source.quiet) - 1, int(at * len(source.quiet)))]
            try:
                new = forks.fork(self._world(stage, runs), source, forks.point(source, seq))
            except HarnessError as refused:  # a copy would not know of what may have been done
                assert refused.exit_code == 11 and "may have had" in refused.message, refused
                return
            before = self.disk
            self.disk = at_point(before, stage.trace, len(stage.trace), None)
            if dies:
                self._crash(before, stage, when, how)
            copied = must.whole_events(*self.disk.journal(new.name))
            if not dies:
                assert before.journal(self.name) == self.disk.journal(self.name)
            assert copied in ([], [copied[0], *source.events[1:seq]] if copied else [])
            if copied:
                told = copied[0]["data"]["fork"]
                assert {key: told[key] for key in ("run", "seq")} == {"run": self.name, "seq": seq}
                self.name, self.stop = new.name, None
                self.logs[new.name] = self.disk.journal(new.name)[0]
        finally:
            stage.close()
            shutil.rmtree(runs)

    @rule(which=st.integers(0, 20))
    def a_slot_is_declared_stale(self, which: int) -> None:
        """By a word in the inbox, which the next process takes."""
        slots = sorted(folded(self.logs[self.name]).slots) if self.name else []
        if slots:
            slot = slots[which % len(slots)]
            self._sends({"kind": "amend", "what": "stale", "target": slot[0], "value": [list(slot)], "why": "I know"})
            self._says_more("look again")

    @rule(days=st.integers(0, 40))
    def days_pass(self, days: int) -> None:
        self.site.clock.at += days * 86_400.0

    @rule(hours=st.sampled_from([-1, 1]))
    def the_clock_is_set(self, hours: int) -> None:
        self.site.clock.at += hours * 3_600.0

    @rule()
    def the_machine_is_started_anew(self) -> None:
        self.boot += 1

    @rule(name=st.sampled_from(EDITED), noticed=st.booleans())
    def a_tool_is_edited(self, name: str, noticed: bool) -> None:
        """Before the next process starts, or when it has just read what the tools are."""
        path = self.site.root / "bin" / name
        path.write_text(path.read_text() + "#\n")
        self.is_edited = True
        if noticed:
            self._read_again()

    @rule(name=st.sampled_from(FREE), denied=st.sampled_from(["", "", "mail", "note"]))
    def the_rules_change(self, name: str, denied: str) -> None:
        """What was free asks, what asked is free, and one may be forbidden."""
        free = tuple(sorted({*self.site.free} ^ {name}))
        self.site = replace(self.site, free=free, denied=frozenset(filter(None, [denied])))

    def _says_more(self, text: str) -> None:
        if self.name:
            self.message = text

    def _read_again(self) -> None:
        catalog = read_catalog(self.site.root, self.site.root / "home", [])
        resolved = resolve(catalog, find(catalog, "look"))
        self.site = replace(self.site, catalog=catalog, resolved=resolved)
        self.is_edited = False

    def _sends(self, message: dict[str, Any]) -> None:
        runs, stage = self._unpacked()
        try:
            deliver.send(runs / self.name, stage, message)
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)
        finally:
            stage.close()
            shutil.rmtree(runs)

    def _unpacked(self) -> tuple[Path, Eventful]:
        """What is there, for a process that begins now."""
        self.number += 1
        runs = self.place / f"runs-{self.site.root.name}-{self.number}"
        unpack(self.disk.image(), runs, self.site.clock.at)
        return runs, Eventful(runs, PARTS, self.disk.ledger)

    def _crash(self, before: Disk, stage: Stage, at: float, how: str) -> None:
        """What is left when the process had come only so far."""
        every = list(points(stage.trace))
        point = every[min(len(every) - 1, int(at * len(every)))]
        here = at_point(before, stage.trace, *point)
        if how == "orphan":
            orphans(here, stage.trace, point[0])
        self.disk, self.stop = here.crash(how), None
        if how not in KILLS:
            self.boot += 1
            self.disk.ledger = without_last(self.disk.ledger, "request", known_requests(here))
        sure = {name: here.journal(name, durable=how not in KILLS) for name in self.logs}
        self.logs = {name: b"" if not must.whole_events(*found) else found[0] for name, found in sure.items()}
        if not self.logs.get(self.name):
            self.name = ""

    @contextmanager
    def _process(self, says: str, **events: int) -> Iterator[Stage]:
        """One process over what is there, and a look at what it leaves. A run that has passed needs a message."""
        if self.stop is not None and self.stop.name == "passed":
            self._says_more(self.message or "and then?")
        runs, stage = self._unpacked()
        stage.cancel, stage.blows, self.blows = Cancel(), self.blows, ()
        for name, value in events.items():
            setattr(stage, name, value)
        try:
            with self._this_boot():
                self._drive(stage, runs, says)
                self._look(runs, stage)
                yield stage
        finally:
            stage.close()
            shutil.rmtree(runs)
            if self.is_edited:
                self._read_again()

    @contextmanager
    def _this_boot(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(facts, "_boot", lambda: f"boot-{self.boot}")
            yield

    def _world(self, stage: Stage, runs: Path) -> World:
        """What a process or a command of this life acts through."""
        return self.site.world(stage, runs)

    def _drive(self, stage: Eventful, runs: Path, says: str) -> None:
        world = self._world(stage, runs)
        world.cancel = stage.cancel
        is_short = self.stop is not None and self.stop.name == "budget"
        self.stop = None
        with suppress(*([JournalError] if stage.full_from >= 0 else [])):
            folder = runs / self.name if self.name else None
            if folder is not None and says:
                put_words(folder, stage, says)
            run = self._reopened(world, folder) if folder else self.site.begin(world)
            self.name = run.name
            try:
                self._speak(run, is_short)
            except JournalError:
                run.log.close()
                raise
            self.stop = self.site.drive_with(run, stage)

    def _speak(self, run: Run, is_short: bool) -> None:
        """What the command that goes on says first: more money for a run that had none left, and a message."""
        if is_short:
            value = {"money_calls": 50, "external": 100}
            run.append("amend", {"what": "budget", "target": "run", "value": value, "by": "user", "why": "flag"})
        if self.message is not None:
            run.append("user.say", {"text": self.message, "by": "user"})
            run.log.sync()
            self.message = None

    def _reopened(self, world: World, folder: Path) -> Run:
        """The run as a person goes on with it who accepts what has changed; without that it is refused."""
        kit = skill_kit(self.site.resolved)
        bound = pinned(must.whole_events((folder / "events.jsonl").read_bytes()))
        changes = changed_pins(bound, pins(tool_pins(kit.tools), self.site.resolved))
        if changes and self.message is not None:
            before = self.disk.journal(folder.name)[0]
            with pytest.raises(HarnessError, match="has changed") as refused:
                resume(world, self.site.catalog, folder, self.message, Options(now=True))
            assert refused.value.exit_code == 2 and (folder / "events.jsonl").read_bytes() == before
        return reopen(world, self.site.root, folder, kit, self.site.rules, "user", changes)

    def _look(self, runs: Path, stage: Stage) -> None:
        """What must hold whatever happened."""
        found = [path.parent for path in runs.glob("2*/events.jsonl") if has_begun(path.parent)]
        logs = {folder.name: (folder / "events.jsonl").read_bytes() for folder in found}
        for name, raw in logs.items():
            if raw == self.disk.journal(name)[0]:
                continue  # nobody opened it, its end may be torn still
            must.one_writer_at_a_time(raw)
            must.blobs_are_there(raw, runs / name)
            must.events_stay(must.whole_events(self.logs.get(name, b"")), raw)
            only_what_nobody_can_tell_waits_for_a_word(raw)
            what_stays_unknown_bars_its_tool(must.whole_events(raw))
            self._look_back(name, stage)
        effects_once_each(stage.ledger)
        self.logs = logs
        if self.name not in logs:  # it could not be begun
            assert self.stop is None
            self.name = ""
        if self.stop is None:
            return
        must.ends_or_parks_with_a_cause(self.stop, folded(logs[self.name]))
        must.words_are_taken_once(logs[self.name], runs / self.name)
        if self.stop.name == "passed":
            passed_run_stays(self.site, runs / self.name)

    def _look_back(self, name: str, stage: Stage) -> None:
        """What was done before this process is not done again by it."""
        survived = must.whole_events(*self.disk.journal(name))
        must.no_ended_operation_runs_again(survived, [str(a[1]) for a in stage.trace if a[0] == "spawn"], name)
        if name == self.name:
            asked = [a[1] for a in stage.trace if a[0] == "request" and not a[2]]
            must.no_reply_is_asked_for_again(survived, [turn for turn in asked if isinstance(turn, int)])

    def teardown(self) -> None:
        """With a person who says yes and nothing more going wrong, it comes to an end."""
        if hasattr(self, "site"):
            for _ in range(MOST):
                if self.stop is not None and not self.stop.parked:
                    break
                self.goes_on("yes")
            else:
                raise AssertionError(f"the run goes on for ever: {self.stop}")
            shutil.rmtree(self.site.root)
        must.forget()


def _entry(reply: list[list[str]] | str) -> dict[str, Any]:
    """A reply of a script: calls, or the failure of one request more than is tried in a row."""
    if isinstance(reply, str):
        return {"fail": {"reason": reply}, "repeat": 4}
    return {"calls": [{"run": call} for call in reply]}


def folded(raw: bytes) -> State:
    return fold(must.whole_events(raw))


def put_words(folder: Path, stage: Stage, says: str) -> None:
    """A person's word on all that waits; what happened is told as it was, or that nobody knows."""
    for one in deliver.waiting(folder)[: 1 if says == "first" else None]:
        message: dict[str, Any]
        if one.what == "outcome":
            told = tells(stage.ledger, f"{one.folder.name}/{one.op.n}", one.op.tool)
            message = {"kind": "settle", **({"word": "unknown"} if says == "unknown" else told)}
        elif one.what == "answer":
            message = {"kind": "answer", "text": says}
        else:
            message = {"kind": "deny" if says == "no" else "approve", "digest": str(one.op.digest)}
        deliver.put(one, stage, message)


def effects_once_each(ledger: Ledger) -> None:
    """No operation has its effect twice."""
    done = Counter(entry[-1] for entry in ledger if entry[0] == "effect")
    assert all(count == 1 for count in done.values()), done


def what_stays_unknown_bars_its_tool(events: Sequence[Mapping[str, Any]]) -> None:
    """Once a person said that nobody knows, no operation of that tool starts again in the run."""
    state, barred = State(), set[str]()
    for event in events:
        forked = state.start.get("fork", {}).get("seq", 0) if state.start else 0
        apply(state, event)
        if event["kind"] == "tool.end" and event["data"].get("by") == "person":
            barred |= {state.ops[event["op"]].tool} if event["data"]["outcome"] == "unknown" else set()
        if event["kind"] == "tool.start" and event["seq"] > forked:
            assert state.ops[event["op"]].tool not in barred, event
