"""A small project whose skill only reads, and the person who begins its run, answers it and goes on with it.

Everything is real but the model, which replays a script and notes what it was asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.events.clock import Clock
from harness.events.fold import fold
from harness.events.io import IO
from harness.events.log import follow
from harness.events.state import State
from harness.executor import Cancel
from harness.loop.run import Run, Stop, World
from harness.loop.turn import drive
from harness.models import Failure, ModelRef, Prompt, Reply
from harness.models.scripted import Scripted
from harness.policy.budget import merged
from harness.policy.vouching import Trust
from harness.runs import deliver
from harness.runs.begin import Order, begin, pins, reopen
from harness.runs.composing import transcript_of
from harness.runs.find import all_runs
from harness.runs.kit import skill_kit, tool_pins
from harness.skills import Resolved
from harness.skills.check import resolve
from harness.skills.discovery import Catalog, read_catalog
from harness.skills.names import find

USAGE = 110
SKILL = """---
name: look
description: Looks at three things and reports. Use for tests.
allowed-tools: alpha beta gamma report
metadata:
  tool-dependencies: |
    report: alpha beta
  requires: report
  verify: check
---
Look.
"""
TOOL = "#!/bin/sh\n# @describe What it shows\n# @meta effect read\n{body}\n"
BODIES = {
    "alpha": "echo alpha",
    "beta": "echo beta",
    "gamma": "printf '%05000d' 7",
    "report": "echo report of alpha and beta",
    "check": 'test "$(cat "$HARNESS_ANSWER")" = "all is well"',
}
ASKING = """harness-script: 1
replies:
  - calls: [{run: [alpha]}, {run: [beta]}, {run: [gamma]}]
    usage: {input: 100, out: 10}
  - text: May I go on?
    calls: [{read: note.txt}, {ask: "go on?"}]
    usage: {input: 100, out: 10}
  - calls: [{run: [report]}]
    usage: {input: 100, out: 10}
  - calls: [{finish: all is well}]
    usage: {input: 100, out: 10}
"""
PLAIN = """harness-script: 1
replies:
  - calls: [{run: [alpha]}, {run: [beta]}]
    usage: {input: 100, out: 10}
  - calls: [{run: [report]}]
    usage: {input: 100, out: 10}
  - calls: [{finish: all is well}]
    usage: {input: 100, out: 10}
"""


Heard = Callable[[Prompt], None]


def unheard(prompt: Prompt) -> None:
    """Nobody wants to know what the model is asked."""


class Still(Clock):
    """A clock that stands, so that equal runs have equal times."""

    def __init__(self) -> None:
        self.at, self.up = float(int(time.time())), 1000.0

    def wall(self) -> float:
        return self.at

    def boot(self) -> float:
        return self.up

    def sleep(self, seconds: float) -> None:
        self.up += seconds


class Noting:
    """A scripted model that tells of each request."""

    def __init__(self, model: Scripted, heard: Heard) -> None:
        self.inner, self.heard = copy(model), heard
        self.ref: ModelRef = self.inner.ref

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        self.heard(prompt)
        return self.inner(prompt, on=on, cancel=cancel)

    def left_over(self, below: Any = ()) -> str | None:
        return self.inner.left_over(below)

    def warm(self) -> None:
        self.inner.warm()

    def close(self) -> None:
        self.inner.close()


@dataclass
class Site:
    """A project on the disk, read once."""

    root: Path
    script: Path
    model: Scripted
    catalog: Catalog
    resolved: Resolved
    clock: Still = field(default_factory=Still)

    def world(self, io: IO, runs: Path) -> World:
        return World(io, self.clock, Cancel(), runs_dir=runs, trust=Trust(own=(str(self.catalog.project),)))

    def order(self, goal: str = "look around", **more: Any) -> Order:
        kit = skill_kit(self.resolved)
        skill = self.resolved.skill
        return Order(
            skill.name, goal, budget=merged(skill.budget, {}), model=ModelRef("scripted", str(self.script)),
            digests=pins(tool_pins(kit.tools), self.resolved), path=str(skill.file), **more,
        )  # fmt: skip

    def begin(self, world: World) -> Run:
        return begin(world, self.root, skill_kit(self.resolved), self.order())

    def reopen(self, world: World, folder: Path) -> Run:
        return reopen(world, self.root, folder, skill_kit(self.resolved), (), "user")

    def drive(self, run: Run, heard: Heard = unheard) -> Stop:
        """Drive an open run until it stops, and give up its lock."""
        try:
            run.attach(transcript_of(run, self.resolved), Noting(self.model, heard))
            return drive(run)
        finally:
            run.log.close()

    def carry(self, io: IO, runs: Path, heard: Heard = unheard) -> Stop:
        """Begin a run, or go on with the one that is there; answer what it asks; until it has ended."""
        world = self.world(io, runs)
        while True:
            folder = started(runs)
            state = state_of(folder) if folder else None
            if folder and state and state.status == "parked" and not list((folder / "inbox").glob("*.json")):
                asked = deliver.one(deliver.meant(folder, None, "answer"))
                deliver.put(asked, io, {"kind": "answer", "text": "yes"})
            stop = self.drive(self.reopen(world, folder) if folder else self.begin(world), heard)
            if not stop.parked or stop.name == "unknown-outcome":
                return stop


def started(runs: Path) -> Path | None:
    """The newest run that has a whole first event."""
    return next((f for f in all_runs(runs) if (f / "events.jsonl").is_file() and follow(f)), None)


def state_of(folder: Path) -> State:
    return fold(follow(folder))


def make_site(root: Path, script: str = PLAIN, bodies: dict[str, str] | None = None, skill: str = SKILL) -> Site:
    """Write the project below `root` and read it as a command would."""
    root.mkdir(parents=True, exist_ok=True)
    for name, body in {**BODIES, **(bodies or {})}.items():
        path = root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body if body.startswith("#!") else TOOL.format(body=body))
        path.chmod(0o755)
    (root / "skills" / "look").mkdir(parents=True)
    (root / "skills" / "look" / "SKILL.md").write_text(skill)
    (root / "note.txt").write_text("a note\n")
    (root / "script.yaml").write_text(script)
    return read_site(root)


def read_site(root: Path) -> Site:
    """The project that is there."""
    catalog = read_catalog(root, root / "home", [])
    resolved = resolve(catalog, find(catalog, "look"))
    assert not [f for f in resolved.findings if f.severity == "error"]
    return Site(root, root / "script.yaml", Scripted(root / "script.yaml"), catalog, resolved)
