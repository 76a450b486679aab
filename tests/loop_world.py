"""A project in a folder, real tools in it, a scripted model, and runs through the sessions that commands use."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.events import line as lines
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.log import follow
from harness.executor import Cancel
from harness.loop.run import Said, Stop, World
from harness.models.choice import Wishes
from harness.policy.vouching import Trust
from harness.runs import session as sessions
from harness.runs.deliver import meant, one, put
from harness.runs.flags import Options
from harness.runs.opened import Session
from harness.runs.peek import read_state
from tests.journal_lines import Hands
from tests.skill_files import catalog_of

Event = dict[str, Any]


class Skipping(Hands):
    """Hands that jump over every pause, and remember how long it was."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0.0

    def boot(self) -> float:
        return self.up + time.monotonic()

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.pass_(seconds)
        time.sleep(0.001)


class CountingIO(IO):
    """The real thing, and a list of the processes it started (each by the name of its program)."""

    def __init__(self) -> None:
        self.spawned: list[str] = []
        self._lock = threading.Lock()

    def spawn(self, argv: Sequence[str], *rest: Any, **more: Any) -> Any:
        program = argv[0]
        if "harness-shim" in argv:  # sh -c TEXT harness-shim TIMEOUT -k 2 SECONDS TOOL…
            program = argv[list(argv).index("harness-shim") + 5]
        with self._lock:
            self.spawned.append(Path(program).name)
        return super().spawn(argv, *rest, **more)


@dataclass(slots=True)
class Person:
    """Somebody at a terminal who says what was prepared, in order; then nothing more."""

    verdicts: list[Said] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    shown: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def approve(self, request: dict[str, Any], elsewhere: Any) -> Said:
        self.shown.append(request)
        return self.verdicts.pop(0) if self.verdicts else Said(None)

    def question(self, question: str, options: Sequence[str], elsewhere: Any, asker: str) -> str | None:
        self.asked.append(question)
        return self.replies.pop(0) if self.replies else None


@dataclass(slots=True)
class Ran:
    """What one drive of a run left: its stop, its journal, and what was started during this drive."""

    stop: Stop
    folder: Path
    spawned: list[str]

    @property
    def events(self) -> list[Event]:
        return follow(self.folder)

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def end(self) -> dict[str, Any]:
        """The data of the last event."""
        last: dict[str, Any] = self.events[-1]["data"]
        return last

    @property
    def answer(self) -> str:
        return self.text(self.end.get("answer", ""))

    def text(self, value: Any) -> str:
        if isinstance(value, dict):
            return (self.folder / "blobs" / value["blob"]).read_text()
        return str(value)

    def codes(self) -> list[str | None]:
        """For each decision: the error class of a denial, else its verdict."""
        return [event["data"].get("code") or event["data"]["verdict"] for event in self.of("decide")]

    def reasons(self) -> list[str]:
        return ["; ".join(event["data"].get("reasons") or ()) for event in self.of("decide")]

    def tools(self) -> dict[int, str]:
        """Operation → tool, from the replies, the decisions and the starts."""
        found: dict[int, str] = {}
        for event in self.events:
            data = event["data"]
            for made in data.get("calls") or ():
                found[made["op"]] = str((made.get("arguments") or {}).get("tool") or made["verb"])
            name = (data.get("call") or {}).get("tool")
            if event["kind"] == "tool.start":
                name = data.get("tool") or name
            if name:
                found[event["op"]] = str(name)
        return found

    def ends(self) -> list[tuple[str, str]]:
        """(tool, class or outcome) of each end of an attempt, in the order of the journal."""
        tools = self.tools()
        found = [(tools.get(e["op"], "read"), e["data"]) for e in self.of("tool.end")]
        return [(name, data.get("class") or data["outcome"]) for name, data in found]

    def notes(self) -> list[str]:
        return [event["data"]["text"] for event in self.of("note")]

    def child(self, position: int = 0) -> Path:
        names = [e["data"]["child"] for e in self.of("tool.start") if "child" in e["data"]]
        return self.folder.parent / str(names[position])


class Project:
    """A folder with tools and skills, and the runs begun in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock: Clock = Clock()
        self.io: CountingIO = CountingIO()
        self.person: Person | None = None
        self.cancel = Cancel()
        self.parallel = 16
        self.wishes = Wishes()
        self.trust = Trust(own=(str(path),))
        self.words: Path | None = None
        """Where it is kept what a person said; None where nobody looks."""
        self.facts: dict[str, Any] = {}
        """Of the world in which its runs begin, by name."""
        (path / ".harness").mkdir(parents=True, exist_ok=True)

    def tool(self, name: str, body: str = "echo ok", head: str = "@meta effect read", place: str = "bin") -> Path:
        """A shell script with this header (one tag a line; empty: no header) and body."""
        lines = [f"# {line}" for line in (f"@describe {name}", *head.splitlines())] if head else []
        return self.file(f"{place}/{name}", "\n".join(["#!/bin/sh", *lines, body, ""]), executable=True)

    def file(self, name: str, text: str, executable: bool = False) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(0o755)
        return path

    def skill(self, name: str = "demo", tools: str = "", deps: str = "", body: str = "Do it.", **metadata: str) -> Path:
        lines = ["---", f"name: {name}", "description: Does a thing. Use for tests.", f"allowed-tools: {tools}"]
        if deps or metadata:
            lines.append("metadata:")
        if deps:
            lines += ["  tool-dependencies: |", *(f"    {line.strip()}" for line in deps.strip().splitlines())]
        lines += [f"  {key}: {json.dumps(value)}" for key, value in metadata.items()]
        return self.file(f"skills/{name}/SKILL.md", "\n".join([*lines, "---", "", body, ""]))

    def script(self, replies: Sequence[Mapping[str, Any]], mode: str = "strict", **skills: Any) -> str:
        """A scripted model's string. Keyword arguments are the replies of workers, `_` for `-` in names."""
        workers = {name.replace("_", "-"): {"replies": list(said)} for name, said in skills.items()}
        whole = {"harness-script": "1", "mode": mode, "replies": list(replies)}
        text = json.dumps(whole | ({"skills": workers} if workers else {}))
        return f"scripted:{self.file('script.yaml', text)}"

    def world(self) -> World:
        world = World(self.io, self.clock, self.cancel, self.person, runs_dir=self.path / ".harness" / "runs")
        world.child_receipts, world.parallel, world.trust = read_state, self.parallel, self.trust
        world.words = self.words
        world.runs_dir.mkdir(parents=True, exist_ok=True)
        for name, value in self.facts.items():
            setattr(world, name, value)
        return world

    def run(
        self, replies: Sequence[Mapping[str, Any]] | str, name: str = "demo", goal: str = "go", budget: str = "",
        allow: Sequence[str] = (), deny: Sequence[str] = (), given: Mapping[str, str] | None = None, **workers: Any,
    ) -> Ran:  # fmt: skip
        """Begin a run of a skill with these replies, and drive it until it stops."""
        model = replies if isinstance(replies, str) else self.script(replies, **workers)
        options = Options((model, "-m"), budget, tuple(allow), tuple(deny), wishes=self.wishes)
        world = self.world()
        return self._drive(sessions.start_skill(world, catalog_of(self.path), name, goal, given or {}, options))

    def chosen(self, name: str = "demo", goal: str = "go", budget: str = "") -> Ran:
        """The same with the model that the settings and the skill name."""
        options = Options(None, budget, wishes=self.wishes)
        return self._drive(sessions.start_skill(self.world(), catalog_of(self.path), name, goal, {}, options))

    def pipeline(self, path: Path, *words: str, budget: str = "", model: str = "", **flags: Any) -> Ran:
        options = Options((model, "-m") if model else None, budget, **flags)
        return self._drive(sessions.start_pipeline(self.world(), catalog_of(self.path), path, words, options))

    def resume(
        self, folder: Path, message: str | None = None, budget: str = "", accept: bool = False, **flags: Any
    ) -> Ran:
        options = Options(flags.pop("model", None), budget, accept_changes=accept, wishes=self.wishes, **flags)
        return self._drive(sessions.resume(self.world(), catalog_of(self.path), folder, message, options))

    def _drive(self, session: Session) -> Ran:
        before = len(self.io.spawned)
        try:
            stop = session.go()
        finally:
            session.close()
        return Ran(stop, session.run.folder, self.io.spawned[before:])

    def stages(self, name: str, stages: str, head: str = "", place: str = "bin") -> Path:
        """A pipeline file: header tags, and its stages as YAML."""
        lines = [f"# {line}" for line in (f"@describe {name}", *head.splitlines())]
        body = "\n".join(f"  {line}" for line in stages.strip("\n").splitlines())
        text = "\n".join(["#!/usr/bin/env -S harness pipeline", *lines, "stages:", body, ""])
        return self.file(f"{place}/{name}", text, executable=True)

    def noted(self, name: str) -> list[str]:
        """The words that tools have written into a file of the project."""
        path = self.path / name
        return path.read_text().split() if path.exists() else []

    def say(self, folder: Path, kind: str, n: int | None = None, **more: Any) -> None:
        """`harness approve`, `deny` and `answer`."""
        target = one(meant(folder, n, {"answer": "answer", "settle": "outcome"}.get(kind, "approval")))
        digest = {"digest": target.op.digest} if kind == "approve" else {}
        put(target, IO(), {"kind": kind, **digest, **more}, words=self.words)


def rewrite(ran: Ran, old: str, new: str) -> None:
    """Change a text in the journal and make every checksum right again."""
    path = ran.folder / "events.jsonl"
    found = [json.loads(text) for text in path.read_text().replace(old, new).splitlines()]
    assert old in path.read_text()
    parts = [lines.frame(e["seq"], e["epoch"], e["at"], e["kind"], e["data"], e.get("op")) for e in found]
    path.write_bytes(b"".join(parts))


def after_end_of(op: int) -> str:
    """Shell words that wait until the journal holds the end of an operation."""
    return f"""until grep -q '"kind":"tool.end","op":{op},' "$HARNESS_RUN/events.jsonl"; do sleep 0.02; done"""


def call(tool: str, *args: str) -> dict[str, Any]:
    return {"run": [tool, *args]}


def reply(*calls: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"calls": list(calls), **more}


def finish(answer: str = "done") -> dict[str, Any]:
    return reply({"finish": answer})
