"""What every command that drives a run shares: the view, the signals, the answer on stdout, the exit code."""

from __future__ import annotations

import _thread
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any

from harness.cli.guarding import confinement_notices, make_guard, secret_notices
from harness.cli.options import Globals
from harness.cli.outcome import check_out, finish, unfinished, write_out
from harness.cli.output import flags
from harness.cli.place import Place, ledger, logs, runs_dir
from harness.cli.trusting import keep_lent
from harness.cli.watching import make_view
from harness.cli.words import Words
from harness.config import Config
from harness.errors import HarnessError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.state import LABEL
from harness.executor import Cancel
from harness.loop.run import Stop, World
from harness.models import ModelRef
from harness.models.choice import said_of, unusable, wishes_of
from harness.models.prices import old_prices, rates
from harness.runs.find import short_id
from harness.runs.flags import Options
from harness.runs.opened import Session
from harness.runs.peek import read_state
from harness.view.mode import Mode, current

UNASKED = 128 + signal.SIGINT
KILLING = "killing what still runs · again to leave at once"


@dataclass(slots=True)
class Driver:
    """One command's run: where it works, what it prints, and how it is interrupted. `folder` is that of an old run."""

    said: Globals
    at: Place
    mode: Mode
    cancel: Cancel
    view: Any
    terminal: Any = None
    sandbox: str | None = None
    folder: Path | None = None
    run: str = ""

    def world(self) -> World:
        """What the run acts through. Views hear of its events; questions go to the terminal if there is one."""
        self.terminal = terminal_ask(self) if self.mode.can_ask else None
        world = World(IO(), Clock(), self.cancel, self.terminal, runs_dir=runs_dir(self.at))
        world.sinks.append(self._tell)
        world.child_receipts = read_state
        world.cancelled = self._told_elsewhere
        world.delta, world.history, world.tell = self.view.delta, self.view.history, self.notice
        if self.said.verbose:
            world.heard = self.notice
        world.parallel = int(self.at.config.value("parallel"))
        world.tool_timeout = float(self.at.config.value("tool_timeout"))
        world.allow_fs = tuple(self.at.config.value("runs.allow_fs"))
        world.context = int(self.at.config.value("models.context"))
        world.guard, world.trust = make_guard(self.at, self.sandbox), self.at.trust
        self.said.hide = world.guard.masker.text
        world.ledger = ledger(self.at)
        world.ledger.grants()  # what cannot be used is said before anything runs
        world.seals = world.words = logs()
        world.tools_path = tuple(str(p) for p in self.at.config.value("tools.path"))
        return world

    def notice(self, text: str) -> None:
        """A line beside the events, for whoever looks."""
        self.view.notice(self.said.hide(text) if self.said.hide else text)

    def _tell(self, event: dict[str, Any], line: bytes, run: str, depth: int) -> None:
        if self.said.output == "stream-json" and depth == 0:
            write_out(line)
        self.view.event(event, run, depth)
        if event["kind"] in ("park", "run.end"):
            from harness.runs.index import update  # loads a database: not before a run stops

            update(runs_dir(self.at), logs(), [run])

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: once, start nothing more; twice, kill what runs; three times, leave at once.

        A terminal that hangs up at a question takes the question away, and the run parks. Anywhere else nothing more is
        started or written, and what runs is left to its shim: the next resume finds how it ended.
        """
        if number == signal.SIGHUP:
            if self.terminal is None or not self.terminal.is_asking:
                self.cancel.level = max(1, self.cancel.level)
                _thread.start_new_thread(self._leave, ())
            return
        before = self.cancel.level
        if number == signal.SIGINT and before >= 2:
            os._exit(UNASKED)
        self.cancel.level = max(before, 2 if number == signal.SIGTERM else before + 1)
        if self.cancel.level > before:
            # The signal may have come in the middle of a line of the view: only another thread can wait for its end.
            _thread.start_new_thread(self._tell_level, (self.cancel.level,))

    def _leave(self) -> None:
        try:
            self.view.notice(f"hung up: what runs goes on without us · harness resume {short_id(self.run)}")
            self.view.close()
        finally:
            os._exit(UNASKED)

    def _told_elsewhere(self, level: int) -> None:
        """Another process told the run to stop: no key of this terminal did, and none is named."""
        stopping = f"stopping once what runs has ended · sooner: harness stop {short_id(self.run)} --now"
        self.view.notice(stopping if level == 1 else KILLING)

    def _tell_level(self, level: int) -> None:
        if level == 1:
            self.view.interrupt()
        else:
            self.view.notice(KILLING)


def drive(
    said: Globals, at: Place, begin: Callable[[World], Session], out_file: str | None = None,
    sandbox: str | None = None, folder: Path | None = None,
) -> int:  # fmt: skip
    """Begin a run, or go on with that in `folder`, until it stops; print what it found, return its exit code."""
    check_out(out_file)
    session, stop = driven(said, at, begin, sandbox, folder)
    return finish(said, session, stop, out_file)


def driven(
    said: Globals, at: Place, begin: Callable[[World], Session], sandbox: str | None = None, folder: Path | None = None
) -> tuple[Session, Stop]:
    """Begin a run and drive it until it stops, in view of the person; nothing goes to stdout but its events."""
    said.frame = unfinished()
    mode = current(flags(said))
    driver = Driver(said, at, mode, Cancel(), make_view(said, at, mode), None, sandbox, folder)
    session: Session | None = None
    with Signals(driver):
        try:
            session = begun(said, driver, begin)
            for text in (*session_notices(session), *setting_notices(session, at.config)):
                driver.notice(text)
            stop = session.go()
        finally:
            driver.view.close()
            if session is not None:
                session.close()
    if said.quiet and stop.name != "passed":
        print_stop(session)
    return session, stop


def begun(said: Globals, driver: Driver, begin: Callable[[World], Session]) -> Session:
    """The open run, named in whatever goes wrong from here on."""
    try:
        session = begin(driver.world())
    except HarnessError as error:
        said.frame = unfinished(_resumable(driver.folder), error)
        raise
    said.frame, driver.run = unfinished(session.run.name), session.run.name
    keep_lent(driver.at, session.run.name)
    return session


def _resumable(folder: Path | None) -> str | None:
    """The name of a run that could not be opened this time, where it can still be gone on with."""
    state = read_state(folder) if folder is not None else None
    if folder is None or state is None or state.redacted:
        return None
    return None if state.end is not None and state.end["stop"] == "passed" else folder.name


def print_stop(session: Session) -> None:
    """A stop that asks for something or is an error is said with -q, too."""
    from harness.cli.show import load_tree
    from harness.view.closing import last_lines
    from harness.view.text import ASCII

    for line in last_lines(load_tree(session.run.folder), ASCII):
        print(line, file=sys.stderr)


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
        found.append("the goal came from an agent, a file or a pipe: it counts as input, not as your words")
    if session.run.world.guard is not None:
        found += confinement_notices(session.run.world.guard)
        found += secret_notices(session.run.world.guard, session.run.toolset.tools.values())
    if session.run.world.seals is None:
        found.append("warning: the state directory cannot be written: changes to the journal will not be noticed")
    if session.model is not None and session.kind in ("skill", "prompt"):
        found.insert(0, model_line(session.model, session.run.state.budget))
        if session.model.demonstration:
            found.insert(1, LABEL)
        old = old_prices(date.today()) if session.model.price and not session.model.price.is_free else None
        found += [f"warning: {old}"] if old else []
    return found


def setting_notices(session: Session, config: Config) -> list[str]:
    """One line on models that the settings name and that nobody can use; this run does without them."""
    wrong = unusable(wishes_of(config)) if session.kind in ("skill", "prompt") else []
    more = f" (and {len(wrong) - 1} more: harness models)" if len(wrong) > 1 else ""
    return [f"warning: {wrong[0].where}: {wrong[0].message}; fix: {wrong[0].fix}{more}"] if wrong else []


def model_line(ref: ModelRef, budget: Mapping[str, Any]) -> str:
    """Which model speaks, what chose it, what it costs, and how much of that it may."""
    why = f"auto: {ref.checks[-1].removeprefix('anthropic: ')}" if ref.source == "auto" and ref.checks else ref.source
    if ref.price is not None and ref.price.is_free:
        return f"model: {ref.text} ({why})"
    at = f"; at {ref.base_url}" if ref.base_url else ""
    usd = budget.get("usd")
    bound = "none" if usd in (None, "none") else f"{usd} USD"
    return f"model: {ref.text} ({why}; {rates(ref.price)}{at}) budget {bound}"


def terminal_ask(driver: Driver) -> Any:
    from harness.cli.asking import Terminal

    def hide(text: str) -> str:  # which secrets there are is known once the run is opened
        return driver.said.hide(text) if driver.said.hide else text

    return Terminal(driver.view, driver.mode, runs_dir(driver.at), hide)


def options_of(
    said: Globals, model: str | None, budget: Sequence[str] | None, allow: Sequence[str], deny: Sequence[str],
    at: Place, accept: bool = False, words: Words | None = None,
) -> Options:  # fmt: skip
    """The flags of one run; a model named by flag, environment or settings keeps its source."""
    named = (model, "-m") if model else said_of(at.config)
    source, wishes = words.source if words is not None else "user", wishes_of(at.config)
    return Options(named, " ".join(budget or ()), tuple(allow), tuple(deny), accept, source, wishes=wishes)
