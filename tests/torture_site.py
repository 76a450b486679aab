"""A run of all that can be cut short: every repeat class, a batch, a blob, an approval, a retry, two children."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.events.io import IO
from harness.loop.run import Run, Stop, World
from harness.loop.turn import drive
from harness.models.scripted import Scripted
from harness.policy import Rule
from harness.runs import deliver
from harness.runs.begin import begin, reopen
from harness.runs.children import Family
from harness.runs.composing import transcript_of
from harness.runs.find import all_runs, is_child
from harness.runs.kit import skill_kit, skill_places
from tests import journal_invariants as must
from tests.journal_disk import Recorder
from tests.journal_site import Noting, Site, make_site
from tests.run_files import add_pipeline
from tests.torture_stage import Ledger, Part, Stage, accepts, answers, busy_once, does, once, says

HEADS = {
    "look": "effect read", "big": "effect read", "slow": "effect read\n@meta timeout 90",
    "note": "effect write\n@meta repeat keyed", "store": "effect write\n@meta repeat keyed",
    "busy": "effect write\n@meta repeat keyed",
    "book": "effect external\n@meta repeat queryable\n@meta query asked {op}",
    "mail": "effect external\n@meta repeat opaque", "pay": "effect money\n@meta repeat opaque",
    "check": "effect read", "asked": "effect read",
}  # fmt: skip
PRINTED = {
    "look": "looked\n", "big": "7" * 5000, "slow": "slow\n", "note": "noted\n", "store": "stored\n", "busy": "got it\n",
    "book": "booked\n", "mail": "mailed\n", "pay": "paid\n",
}  # fmt: skip
KINDS = {"note": once, "store": once, "busy": busy_once, "book": does, "mail": does, "pay": does}
PARTS: dict[str, Part] = {name: KINDS.get(name, says)(text) for name, text in PRINTED.items()}
PARTS |= {"check": accepts("all is well"), "asked": answers(PRINTED["book"])}
FREE = ("book", "mail")
SKILL = """---
name: look
description: Does everything once. Use for tests.
allowed-tools: look big slow note busy book mail pay plan scout
metadata:
  requires: pay
  verify: check
---
Do everything.
"""
SCOUT = """---
name: scout
description: Looks and reports. Use for tests.
allowed-tools: look note
---
Look.
"""
SAID = "usage: {input: 100, out: 10}"
SCRIPT = f"""harness-script: 1
replies:
  - calls: [{{run: [look]}}, {{run: [note, a]}}, {{run: [big]}}]
    {SAID}
  - calls: [{{run: [book, b]}}, {{run: [mail, c]}}, {{run: [slow]}}]
    {SAID}
  - calls: [{{run: [busy, d]}}]
    {SAID}
  - text: May I pay?
    calls: [{{run: [pay, e]}}, {{ask: "and go on?"}}]
    {SAID}
  - calls: [{{run: [plan]}}, {{run: [scout, look, around]}}]
    {SAID}
  - calls: [{{finish: all is well}}]
    {SAID}
skills:
  scout:
    replies:
      - calls: [{{run: [note, g]}}, {{run: [look]}}]
        {SAID}
      - calls: [{{finish: scouted}}]
        {SAID}
"""
SHORT = f"""harness-script: 1
replies:
  - calls: [{{run: [big]}}, {{run: [note, a]}}, {{run: [book, b]}}]
    {SAID}
  - calls: [{{run: [busy, d]}}, {{run: [pay, e]}}, {{run: [scout, look]}}]
    {SAID}
  - calls: [{{finish: all is well}}]
    {SAID}
skills:
  scout:
    replies:
      - calls: [{{run: [note, g]}}]
        {SAID}
      - calls: [{{finish: scouted}}]
        {SAID}
"""
"""The same kinds of things in fewer steps, for the crashes of recoveries, of which there are many."""
SLOW = f"""harness-script: 1
replies:
  - calls: [{{run: [slow]}}]
    {SAID}
  - calls: [{{run: [pay, e]}}]
    {SAID}
  - calls: [{{finish: all is well}}]
    {SAID}
"""
"""A read through the shim in a batch of its own, whose intent nobody puts on the disk."""
PLAN = "  first: {run: [store, f]}\n  second: {run: [look], needs: [first]}\n"
UNKNOWN = "unknown-outcome"
MOST = 40
"""Processes after which a run must have ended."""


@dataclass
class WideSite(Site):
    """A project whose tools are played; its run is gone on with by a person who says yes to all.

    A flag lets the tools that are `free` run, and forbids those that are `denied`; the other ones wait for a person.
    """

    worker: Scripted = field(kw_only=True)
    free: tuple[str, ...] = FREE
    denied: frozenset[str] = frozenset()

    def stage(self, runs: Path, ledger: Ledger) -> Stage:
        return Stage(runs, PARTS, ledger)

    @property
    def rules(self) -> tuple[Rule, ...]:
        denied = (Rule("deny", (name,), place=f"--deny {name}", source="run") for name in self.denied)
        return (*(Rule("allow", (name,), source="run") for name in self.free), *denied)

    def begin(self, world: World) -> Run:
        return begin(world, self.root, skill_kit(self.resolved), self.order(rules=self.rules))

    def reopen(self, world: World, folder: Path) -> Run:
        return reopen(world, self.root, folder, skill_kit(self.resolved), self.rules, "user")

    def drive_with(self, run: Run, recorder: Recorder) -> Stop:
        """Drive an open run until it stops, with children, and give up its lock."""
        skill = self.resolved.skill
        ref = self.order().model

        def speak(name: str) -> Noting:
            heard = partial(recorder.heard, worker=name)
            return Noting(self.worker if name else self.model, heard)

        try:
            places = tuple(skill_places(self.catalog, skill))
            family = Family(run.world, self.catalog, skill, places, ref, lambda _, worker: speak(worker.name))
            run.begin_child = family.begin
            run.attach(transcript_of(run, self.resolved), speak(""))
            return drive(run)
        finally:
            run.log.close()

    def live(self, stage: Stage, runs: Path) -> Stop:
        """Begin a run, or go on with the one that is there, with a person who sees to all it waits for, to its end."""
        world = self.world(stage, runs)
        for _ in range(MOST):
            folder = top_run(runs)
            if folder is not None:
                speak(folder, stage, lambda op_id, tool: tells(stage.ledger, op_id, tool))
            stop = self.drive_with(self.reopen(world, folder) if folder else self.begin(world), stage)
            if not stop.parked:
                return stop
        raise AssertionError("the run goes on for ever")


def top_run(runs: Path) -> Path | None:
    """The newest run that no other began and that has a whole first event."""
    return next((folder for folder in all_runs(runs) if not is_child(folder) and has_begun(folder)), None)


def has_begun(folder: Path) -> bool:
    journal = folder / "events.jsonl"
    if not journal.is_file():
        return False
    with journal.open("rb") as file:
        first = file.readline()
    return bool(must.whole_events(first))


def tells(ledger: Ledger, op_id: str, tool: str) -> dict[str, str]:
    """What somebody says who looks at the world: whether an operation had its effect, and what that would print."""
    happened = any(entry[0] == "effect" and entry[-1] == op_id for entry in ledger)
    return {"word": "happened", "output": PRINTED[tool]} if happened else {"word": "did-not-happen"}


def speak(
    folder: Path, io: IO, knows: Callable[[str, str], dict[str, str]], words: Path | None = None
) -> None:  # fmt: skip
    """Approve, answer and settle whatever waits in a parked run, unless that was said already.

    `words` is where the digests of a person's words are kept.
    """
    if must.whole_events((folder / "events.jsonl").read_bytes())[-1]["kind"] != "park":
        return
    for one in deliver.waiting(folder):
        kind = {"approval": "approve", "answer": "answer", "outcome": "settle"}[one.what]
        said = [json.loads(path.read_bytes())["op"] for path in (one.folder / "inbox").glob(f"{kind}-*.json")]
        if one.op.n in said:
            continue
        if one.what == "outcome":
            more = knows(f"{one.folder.name}/{one.op.n}", one.op.tool)
        else:
            more = {"text": "yes"} if one.what == "answer" else {"digest": str(one.op.digest)}
        deliver.put(one, io, {"kind": kind, **more}, words=words)


def wide_site(root: Path, script: str = SCRIPT) -> WideSite:
    """Write the project below `root` and read it."""
    bodies = {name: f"#!/bin/sh\n{header(name, meta)}exit 0\n" for name, meta in HEADS.items()}
    (root / "bin").mkdir(parents=True)
    add_pipeline(root, "plan", PLAN)
    scout = root / "skills" / "scout"
    scout.mkdir(parents=True)
    (scout / "SKILL.md").write_text(SCOUT)
    site = make_site(root, script, bodies, SKILL)
    worker = Scripted(site.script, "scout")
    return WideSite(site.root, site.script, site.model, site.catalog, site.resolved, worker=worker)


def header(name: str, meta: str) -> str:
    takes_nothing = meta == "effect read" and name != "asked"
    lines = [f"@describe {name}", *([] if takes_nothing else ["@arg what=x <WHAT>  of what"])]
    return "".join(f"# {line}\n" for line in (*lines, *f"@meta {meta}".splitlines()))
