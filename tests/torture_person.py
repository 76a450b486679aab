"""A run under whatever comes (`torture_life.py`) and all that a person does to it beside: other arguments, results
supplied by hand, policy files, stops, redactions, deletions. Each can be cut short like a process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from harness.errors import HarnessError
from harness.events.fold import apply
from harness.events.state import State
from harness.loop.fence import Fence
from harness.loop.guard import Guard
from harness.loop.run import Run, Stop, World
from harness.policy.settings import load
from harness.policy.vouching import Trust
from harness.runs import prune, sets, stopping
from harness.runs.cut import Wish
from harness.runs.find import all_runs
from harness.runs.flags import Options
from harness.runs.kit import skill_places
from harness.runs.list import read
from harness.runs.redact import redact
from harness.runs.session import resume
from harness.runs.tree import empty
from harness.sandbox import Machine
from harness.sandbox.facts import facts
from tests import journal_invariants as must
from tests.journal_disk import at_point
from tests.torture_life import Life, folded
from tests.torture_matrix import HOWS
from tests.torture_stage import Stage

TOOLS = ("mail", "note", "look", "pay", "book")
SAYS_OF = st.sampled_from(["", "ask", "deny", "deny", "allow"])
CUTS = st.floats(0, 1)
ABOUT = (Wish(text="busy"), Wish(text="paid"), Wish(seq=1), Wish(seq=4), Wish(text="look"))


class Whole(Life):
    """The life of a run, and every command of a person's."""

    def __init__(self) -> None:
        super().__init__()
        self.told = {"user": "", "project": ""}
        self.sets: dict[str, str] = {}

    @rule(whose=st.sampled_from(["user", "project"]), name=st.sampled_from(TOOLS), verdict=SAYS_OF)
    def a_policy_file_is_edited(self, whose: str, name: str, verdict: str) -> None:
        """The next process goes by it, whatever the ones before it decided."""
        allowed = verdict and not (verdict == "allow" and (whose == "project" or name == "pay"))
        self.told[whose] = f"rules:\n- tool: {name}\n  verdict: {verdict}\n" if allowed else ""

    @rule(value=st.sampled_from("fg"), stage=st.sampled_from(["first", "plan/first"]))
    def a_stage_is_set(self, value: str, stage: str) -> None:
        """The next process begins with another argument for a stage of the pipeline."""
        if self.name:
            self.sets[f"{stage}.what"] = value

    @rule(which=st.integers(0, 20), out=st.sampled_from(["", "by hand\n"]))
    def a_result_is_supplied(self, which: int, out: str) -> None:
        """For a call that has ended, by a word in the inbox."""
        state = folded(self.logs[self.name]) if self.name else State()
        ended = [op for op in state.ops.values() if op.closed and op.verb == "run" and op.child is None and op.result]
        if ended:
            op = ended[which % len(ended)]
            value = {"tool": op.tool, "argv": list(op.argv or ()), "out": out}
            self._sends({"kind": "amend", "what": "receipt", "target": str(op.n), "value": value, "why": "I saw it"})
            self._says_more("look again")

    @rule(now=st.booleans(), at=CUTS, dies=st.booleans(), how=st.sampled_from(HOWS))
    def is_stopped(self, now: bool, at: float, dies: bool, how: str) -> None:
        """By the command, while nobody owns it. What is open stays as it is known."""
        if not self.name or self._has_ended():
            return

        stops: list[Stop] = []

        def act(world: World, runs: Path) -> None:
            stops.append(stopping.end_here(world, self.site.root, runs / self.name, now))

        self.stop = None
        self._commanded(act, at if dies else None, how, look=True)
        [stop] = stops
        assert (stop.name, stop.code) == ("interrupted", 130)
        self.stop = None if dies else stop

    @rule(wish=st.sampled_from(ABOUT), at=CUTS, dies=st.booleans(), how=st.sampled_from(HOWS))
    def is_redacted(self, wish: Wish, at: float, dies: bool, how: str) -> None:
        """Something is taken out. Cut short it is the old run or a redacted one, which nobody goes on with."""
        if not self.name:
            return
        name, before = self.name, must.whole_events(*self.disk.journal(self.name))

        def act(world: World, runs: Path) -> None:
            with suppress(HarnessError):  # nothing holds it, or the run neither ended nor waits
                redact(runs / name, wish, "a person wants it so", "user:x", world.io, world.clock, None)

        self._commanded(act, at if dies else None, how)
        after = must.whole_events(self.disk.journal(name)[0])
        assert [event["seq"] for event in after] == list(range(1, len(after) + 1))
        if after[len(before) :] and after[-1]["data"].get("what") == "redact":
            assert not dies or [e["kind"] for e in after[: len(before)]] == [e["kind"] for e in before]
            self._refuses_to_go_on(name)
            self.logs.pop(name, None)
            self.name, self.stop = "", None

    @rule(which=st.integers(0, 5), force=st.booleans(), along=st.booleans(), at=CUTS, dies=st.booleans())
    def is_pruned(self, which: int, force: bool, along: bool, at: float, dies: bool) -> None:
        """A run goes, by its name, or stays whole. What a killed prune leaves goes with the next one."""
        relatives = frozenset({"children", "forks"} if along else ())

        def act(world: World, runs: Path) -> None:
            for left in prune.leftovers(runs):
                empty(left, world.io)
            every = [read(folder) for folder in all_runs(runs)]
            if every:
                wish = prune.Wish(named=(every[which % len(every)].folder,), force=force, relatives=relatives)
                with suppress(HarnessError):  # it may not go
                    for run in prune.chosen(every, wish):
                        prune.remove(run, world.io, runs, force)

        before = {name: self.disk.journal(name)[0] for name in self.logs}
        stop = self.stop
        self._commanded(act, at if dies else None, "kill")
        here = {name: self.disk.journal(name)[0] for name in before}
        assert all(raw in (b"", before[name]) for name, raw in here.items()), "a run that is half gone"
        self.logs = {name: sure for name, sure in self.logs.items() if here[name]}
        self.name, self.stop = (self.name, stop) if self.name in self.logs else ("", None)

    def _has_ended(self) -> bool:
        return folded(self.logs[self.name]).status == "ended"

    def _commanded(
        self, act: Callable[[World, Path], None], dies_at: float | None, how: str, look: bool = False
    ) -> None:  # fmt: skip
        """One command of a person's over what is there, cut short or not."""
        before = self.disk
        runs, stage = self._unpacked()
        try:
            with self._this_boot():
                act(self._world(stage, runs), runs)
                if look:
                    self._look(runs, stage)
            self.disk = at_point(before, stage.trace, len(stage.trace), None)
            if dies_at is not None:
                self._crash(before, stage, dies_at, how)
        finally:
            stage.close()
            shutil.rmtree(runs)

    def _world(self, stage: Stage, runs: Path) -> World:
        world = super()._world(stage, runs)
        world.guard = self._guard(world.trust)
        return world

    def _guard(self, trust: Trust) -> Guard:
        """The policy files as they are now. No tool here is confined: none is a process."""
        config = self.place / f"config-{self.site.root.name}" / "harness" / "policy.yaml"
        config.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        config.write_text(f"version: 1\nsandbox: {{require: none}}\n{self.told['user']}")
        own = self.site.root / ".harness" / "policy.yaml"
        own.parent.mkdir(exist_ok=True)
        own.write_text(f"version: 1\n{self.told['project']}")
        env = {"HOME": str(self.place), "XDG_CONFIG_HOME": str(config.parent.parent)}
        settings = load(self.site.root, env, self.place / "none.yaml")
        return Guard(settings, Machine(), facts(), Fence(self.site.root, ()), trust=trust)

    def _speak(self, run: Run, is_short: bool) -> None:
        given, self.sets = self.sets, {}
        places = skill_places(self.site.catalog, self.site.resolved.skill)
        open_ = partial(sets.within, self.site.catalog, places, run.toolset.folder)
        wanted = sets.for_skill(run.toolset, open_, [f"{target}={value}" for target, value in given.items()])
        sets.write(run, wanted)
        super()._speak(run, is_short)

    def _look_back(self, name: str, stage: Stage) -> None:
        super()._look_back(name, stage)
        denied = {text.split()[3] for text in self.told.values() if "deny" in text}
        assert not denied & set(allowed_since(self.disk.journal(name), stage.root / name))

    def _refuses_to_go_on(self, name: str) -> None:
        runs, stage = self._unpacked()
        try:
            before = (runs / name / "events.jsonl").read_bytes()
            with pytest.raises(HarnessError, match="redact") as refused:
                resume(self._world(stage, runs), self.site.catalog, runs / name, "go on", Options(now=True))
            assert refused.value.exit_code == 2 and (runs / name / "events.jsonl").read_bytes() == before
        finally:
            stage.close()
            shutil.rmtree(runs)


def allowed_since(before: tuple[bytes, set[str]], folder: Path) -> list[str]:
    """The tools of the calls that a rule allowed since what there was `before`."""
    known, state, found = len(must.whole_events(*before)), State(), []
    for number, event in enumerate(must.whole_events((folder / "events.jsonl").read_bytes()), 1):
        apply(state, event)
        by_rule = event["kind"] == "decide" and event["data"]["verdict"] == "allow" and not event["data"].get("via")
        if by_rule and number > max(known, state.start.get("fork", {}).get("seq", 0)):
            found.append(state.ops[event["op"]].tool)
    return found
