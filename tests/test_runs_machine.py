"""A run under whatever comes: replies nobody planned, words of a person, crashes, crashes of recoveries, edited tools,
days that pass, clocks that are set. After each step all that was promised still holds.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from harness.events import attempts
from harness.events.fold import fold
from harness.events.state import State
from harness.executor import Cancel
from harness.loop.run import Stop
from harness.runs import deliver, facts
from tests import journal_invariants as must
from tests.journal_disk import KILLS, Disk, at_point, orphans, points, unpack
from tests.torture_matrix import (
    HOWS,
    known_requests,
    only_what_nobody_can_tell_waits_for_a_word,
    passed_run_stays,
    playground,
    without_last,
)
from tests.torture_site import MOST, PARTS, WideSite, has_begun, tells, top_run, wide_site
from tests.torture_stage import Ledger, Stage

LONG = os.environ.get("HARNESS_TORTURE") == "1"
EXAMPLES, STEPS = (500, 50) if LONG else (25, 14)
WORDS = ("look", "big", "slow", "note a", "note b", "busy a", "book a", "book b", "mail a", "pay a", "pay b", "plan")
CALLS = st.sampled_from([*(words.split() for words in (*WORDS, "scout look", "nothing"))])
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=5)
SCOUT = [{"calls": [{"run": ["note", "s"]}]}, {"calls": [{"finish": "scouted"}]}]


class Sudden(Stage):
    """A stage on which a person stops the run at an action."""

    at, cancel = -1, Cancel()

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if 0 <= self.at <= len(self.trace):
            self.cancel.level = max(1, self.cancel.level)


class Life(RuleBasedStateMachine):
    """One run from its beginning to its end. What is left of each process is a disk; the world outside has a ledger."""

    place: Path
    site: WideSite

    def __init__(self) -> None:
        super().__init__()
        self.disk, self.boot, self.number = Disk(), 0, 0
        self.stop: Stop | None = None
        self.logs: dict[str, bytes] = {}

    @initialize(replies=REPLIES)
    def begin(self, replies: list[list[list[str]]]) -> None:
        said: list[dict[str, Any]] = [{"calls": [{"run": call} for call in reply]} for reply in replies]
        said += [{"calls": [{"run": ["pay", "z"]}]}] + [{"calls": [{"finish": "all is well"}]}] * 4
        text = {"harness-script": 1, "replies": said, "skills": {"scout": {"replies": SCOUT}}}
        root = self.place / f"project-{len(list(self.place.iterdir()))}"
        self.site = wide_site(root, json.dumps(text))

    @property
    def is_over(self) -> bool:
        return self.stop is not None and self.stop.name == "passed"

    @precondition(lambda self: not self.is_over)
    @rule(says=st.sampled_from(["", "yes", "no"]))
    def goes_on(self, says: str) -> None:
        """A process lives to its end."""
        with self._process(says) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @precondition(lambda self: not self.is_over)
    @rule(says=st.sampled_from(["", "yes", "yes", "no"]), at=st.floats(0, 1), how=st.sampled_from(HOWS))
    def dies(self, says: str, at: float, how: str) -> None:
        """A process is cut short somewhere."""
        before = self.disk
        with self._process(says) as stage:
            trace = stage.trace
            every = list(points(trace))
            point = every[min(len(every) - 1, int(at * len(every)))]
            here = at_point(before, trace, *point)
            if how == "orphan":
                orphans(here, trace, point[0])
            self.disk, self.stop = here.crash(how), None
            if how not in KILLS:
                self.boot += 1
                self.disk.ledger = without_last(self.disk.ledger, "request", known_requests(here))
        sure = {name: here.journal(name, durable=how not in KILLS) for name in self.logs}
        self.logs = {name: b"" if not must.whole_events(*found) else found[0] for name, found in sure.items()}

    @precondition(lambda self: not self.is_over)
    @rule(at=st.integers(0, 200))
    def is_interrupted(self, at: int) -> None:
        """A person stops the run at some sync."""
        with self._process("yes", at) as stage:
            self.disk = at_point(self.disk, stage.trace, len(stage.trace), None)

    @rule(days=st.integers(0, 40))
    def days_pass(self, days: int) -> None:
        self.site.clock.at += days * 86_400.0

    @rule(hours=st.sampled_from([-1, 1]))
    def the_clock_is_set(self, hours: int) -> None:
        self.site.clock.at += hours * 3_600.0

    @rule()
    def the_machine_is_started_anew(self) -> None:
        self.boot += 1

    @rule(name=st.sampled_from(["note", "pay", "book"]))
    def a_tool_is_edited(self, name: str) -> None:
        path = self.site.root / "bin" / name
        path.write_text(path.read_text() + "#\n")

    @contextmanager
    def _process(self, says: str, interrupt_at: int = -1) -> Iterator[Stage]:
        """One process over what is there, and a look at what it leaves."""
        self.number += 1
        runs = self.place / f"runs-{self.site.root.name}-{self.number}"
        unpack(self.disk.image(), runs, self.site.clock.at)
        stage = Sudden(runs, PARTS, self.disk.ledger)
        stage.at, stage.cancel = interrupt_at, Cancel()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(facts, "_boot", lambda: f"boot-{self.boot}")
            try:
                self.stop = self._drive(stage, runs, says)
                self._look(runs, stage)
                yield stage
            finally:
                stage.close()
                shutil.rmtree(runs)

    def _drive(self, stage: Sudden, runs: Path, says: str) -> Stop:
        world = self.site.world(stage, runs)
        world.cancel = stage.cancel
        folder = top_run(runs)
        if folder is not None and says:
            put_words(folder, stage, says)
        run = self.site.reopen(world, folder) if folder else self.site.begin(world)
        return self.site.drive_with(run, stage)

    def _look(self, runs: Path, stage: Stage) -> None:
        """What must hold whatever happened."""
        folder = top_run(runs)
        assert folder is not None and self.stop is not None
        logs = {path.parent.name: path.read_bytes() for path in runs.glob("*/events.jsonl") if has_begun(path.parent)}
        for name, raw in logs.items():
            must.one_writer_at_a_time(raw)
            must.blobs_are_there(raw, runs / name)
            must.events_stay(must.whole_events(self.logs.get(name, b"")), raw)
            only_what_nobody_can_tell_waits_for_a_word(raw)
        state = folded(logs[folder.name])
        must.ends_or_parks_with_a_cause(self.stop, state)
        effects_once_each(stage.ledger)
        must.words_are_taken_once(logs[folder.name], folder)
        if self.stop.name == "passed":
            passed_run_stays(self.site, folder)
        self.logs = logs

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


def folded(raw: bytes) -> State:
    return fold(must.whole_events(raw))


def put_words(folder: Path, stage: Stage, says: str) -> None:
    """A person's word on all that waits; what happened is told as it was."""
    for one in deliver.waiting(folder):
        message: dict[str, Any]
        if one.what == "outcome":
            message = {"kind": "settle", **tells(stage.ledger, f"{one.folder.name}/{one.op.n}", one.op.tool)}
        elif one.what == "answer":
            message = {"kind": "answer", "text": says}
        else:
            message = {"kind": "approve" if says == "yes" else "deny", "digest": str(one.op.digest)}
        deliver.put(one, stage, message)


def effects_once_each(ledger: Ledger) -> None:
    """No operation has its effect twice."""
    done = Counter(entry[-1] for entry in ledger if entry[0] == "effect")
    assert all(count == 1 for count in done.values()), done


@pytest.fixture
def life() -> Iterator[type[Life]]:
    with playground() as place:

        class Here(Life):
            pass

        Here.place = place
        yield Here


def live(life: type[Life], examples: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, deadline=None, database=None, print_blob=True,
            suppress_health_check=list(HealthCheck), phases=phases or tuple(Phase),
        ),
    )  # fmt: skip


def test_l8_a_run_under_whatever_comes(life: type[Life]) -> None:
    live(life, EXAMPLES)


def test_l8_with_blind_retries_it_finds_a_second_effect(life: type[Life], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_word", lambda op: "")
    with pytest.raises(AssertionError, match="Counter"):
        live(life, 200, Phase.generate)
