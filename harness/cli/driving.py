"""What every command that drives a run shares: the view, the signals, the answer on stdout, the exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from harness.cli.options import Globals
from harness.cli.output import flags, print_json
from harness.cli.place import Place, find_tool, runs_dir
from harness.cli.words import Words
from harness.errors import HarnessError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.executor import Cancel
from harness.loop.ending import evidence, spent_of
from harness.loop.run import Stop, World
from harness.runs.children import read_state
from harness.runs.flags import Options
from harness.runs.session import Session
from harness.tools.stages import Pipeline, read_pipeline
from harness.tools.wiring import edges
from harness.view.mode import Mode, current

UNASKED = 128 + signal.SIGINT


@dataclass(slots=True)
class Driver:
    """One command's run: where it works, what it prints, and how it is interrupted."""

    said: Globals
    at: Place
    mode: Mode
    cancel: Cancel
    view: Any

    def world(self) -> World:
        """What the run acts through. Views hear of its events; questions go to the terminal if there is one."""
        ask = terminal_ask(self) if self.mode.can_ask else None
        world = World(IO(), Clock(), self.cancel, ask, runs_dir=runs_dir(self.at))
        world.sinks.append(self._tell)
        world.child_receipts = read_state
        world.delta, world.history = self.view.delta, self.view.history
        world.parallel = int(self.at.config.value("parallel"))
        world.tool_timeout = float(self.at.config.value("tool_timeout"))
        world.tools_path = tuple(str(p) for p in self.at.config.value("tools.path"))
        return world

    def _tell(self, event: dict[str, Any], line: bytes, run: str, depth: int) -> None:
        if self.said.output == "stream-json" and depth == 0:
            write_out(line)
        self.view.event(event, run, depth)

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: once, start nothing more; twice, kill what runs; three times, leave at once."""
        if number == signal.SIGINT and self.cancel.level >= 2:
            os._exit(UNASKED)
        self.cancel.level = 2 if number == signal.SIGTERM else self.cancel.level + 1 if number == signal.SIGINT else 1
        self.view.interrupt()


def drive(said: Globals, at: Place, begin: Callable[[World], Session], out_file: str | None = None) -> int:
    """Begin a run, drive it until it stops, print what it found, return its exit code."""
    check_out(out_file)
    mode = current(flags(said))
    driver = Driver(said, at, mode, Cancel(), make_view(said, at, mode))
    session: Session | None = None
    with Signals(driver):
        try:
            session = begin(driver.world())
            for text in session_notices(session):
                driver.view.notice(text)
            stop = session.go()
        finally:
            driver.view.close()
            if session is not None:
                session.run.log.close()
    return finish(said, session, stop, out_file)


class Signals:
    """Our handlers while a run is driven; the old ones come back whatever happens."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.old = driver, {}  # type: ignore[var-annotated]

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                self.old[number] = signal.signal(number, self.driver.interrupted)
        if hasattr(self.driver.view, "on_stop"):
            self.old[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self.driver.view.on_stop)

    def __exit__(self, *error: object) -> None:
        for number, handler in self.old.items():
            signal.signal(number, handler)


def session_notices(session: Session) -> list[str]:
    """What is said once at the start: which model speaks and why, and the skill's warnings."""
    found = [f"warning: {text}" for text in session.warnings]
    if session.run.state.start.get("by") == "input":
        found.append("the goal was read from a file or a pipe: it counts as input, not as your words")
    if session.model is not None and session.skill is not None:
        why = session.model.source
        if why == "auto":
            why = f"auto: no model was named, and {session.skill.name} has the pipeline {session.skill.pipeline}"
        found.insert(0, f"model: {session.model.text} ({why})")
    return found


def make_view(said: Globals, at: Place, mode: Mode) -> Any:
    """The view that the mode asks for, on stderr."""
    read = blob_reader(runs_dir(at))
    if said.quiet:
        from harness.view.quiet import Quiet

        return Quiet()
    from harness.view.text import glyphs

    if mode.view == "live":
        from harness.view.live import Live

        return Live(sys.stderr, read, glyphs(mode.glyphs), mode.colour, stages=stage_lister(at))
    from harness.view.plain import Plain

    view = Plain(sys.stderr, read, glyphs(mode.glyphs), mode.colour)
    view.keep_ticking()
    return view


def stage_lister(at: Place) -> Callable[[str], Sequence[tuple[str, Sequence[str]]]]:
    """The stages of a pipeline and what each waits for, as the live view lists those that have not begun."""

    @cache
    def stages(name: str) -> Sequence[tuple[str, Sequence[str]]]:
        try:
            tool = find_tool(at, name)
        except HarnessError:
            return ()
        pipeline = read_pipeline(tool) if tool.pipeline else Pipeline()
        return [(stage.name, [need for need, _ in edges(pipeline, stage)]) for stage in pipeline.stages]

    return stages


def blob_reader(runs: Path) -> Callable[[str, str], bytes]:
    def read(run: str, sha: str) -> bytes:
        return (runs / run / "blobs" / sha).read_bytes()

    return read


def terminal_ask(driver: Driver) -> Any:
    from harness.cli.asking import Terminal

    return Terminal(driver.view, driver.mode)


def options_of(
    said: Globals, model: str | None, budget: str | None, allow: Sequence[str], deny: Sequence[str], at: Place,
    accept: bool = False, words: Words | None = None,
) -> Options:  # fmt: skip
    """The flags of one run; a model named by flag, environment or settings keeps its source."""
    named = (model, "-m") if model else None
    if named is None and at.config.value("models.strong"):
        named = (str(at.config.value("models.strong")), at.config.origin("models.strong"))
    source = words.source if words is not None else "user"
    return Options(named, budget or "", tuple(allow), tuple(deny), accept, source)


def check_out(out_file: str | None) -> None:
    """Refuse a file that could not be written before anything runs."""
    if out_file is not None and not Path(out_file).absolute().parent.is_dir():
        raise HarnessError(f"-o {out_file}: there is no such folder", "make the folder, or name another file")


def finish(said: Globals, session: Session, stop: Stop, out_file: str | None) -> int:
    """Print the answer (or the object) and return the exit code. A closed stdout ends nothing."""
    run = session.run
    text = run.text((run.state.end or {}).get("answer", ""))
    accepted = stop.name == "passed"
    if said.output == "json":
        body = summary(session, stop, text)
        if out_file is not None and accepted:
            write_file(run.world.io, out_file, dumped(body))
        else:
            print_json(body)
    elif out_file is not None and accepted:
        write_file(run.world.io, out_file, with_newline(text).encode())
    elif said.output != "stream-json":
        write_out(spoken(session, stop, text, accepted).encode("utf-8", "replace"))
    return stop.code


def spoken(session: Session, stop: Stop, text: str, accepted: bool) -> str:
    """What stdout carries: the accepted answer; after a budget stop the evidence so far, marked as such."""
    if accepted or (session.kind == "tool" and text):
        return with_newline(text)
    if stop.name != "budget":
        return ""
    limit = (session.run.state.end or {}).get("limit", "")
    lines = [f"not accepted: budget {limit}", *evidence(session.run)]
    return "\n".join([*lines, *(["", text] if text else [])]) + "\n"


def with_newline(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def write_out(data: bytes) -> None:
    """Write to stdout; a reader that has gone ends the output, never the run."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except (BrokenPipeError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open for whatever is printed later


def write_file(io: IO, name: str, data: bytes) -> None:
    io.put(Path(name).absolute(), data, 0o644)


def dumped(body: dict[str, Any]) -> bytes:
    import json

    return (json.dumps(body, ensure_ascii=True, default=str) + "\n").encode()


def summary(session: Session, stop: Stop, text: str) -> dict[str, Any]:
    """One object for a run: how it stopped, what it found, what it used."""
    run, state = session.run, session.run.state
    end, park = state.end or {}, state.park or {}
    spent = spent_of(state)
    artifacts = sorted({path for receipt in state.slots.values() for path, _ in receipt.artifacts if receipt.ok})
    passed = stop.name == "passed"
    return {
        "run": run.name, "skill": state.start.get("skill"), "status": state.status, "stop": stop.name,
        "code": stop.code, "resumable": not passed,
        "cause": end.get("error") or end.get("limit") or park.get("hint"),
        "answer": text if passed else None, "unaccepted": text if text and not passed else None,
        "artifacts": artifacts, "verdicts": (state.verdict or {}).get("checks") or [], "spent": spent,
        "limits": state.budget, "timing": {"active_s": spent["active_s"], "waiting_s": spent["waiting_s"]},
        "waiting": park.get("ops") or [], "error": None,
    }  # fmt: skip
