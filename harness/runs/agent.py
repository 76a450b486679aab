"""A run whose model is another agent: one call a command, and what that agent is told after it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.log import follow
from harness.events.state import Operation
from harness.loop.run import Run, Stop, World
from harness.loop.verify import missing
from harness.models import Replied, Results, Turn
from harness.models.agent import FLAG, NAME, Agent
from harness.models.choice import Wishes
from harness.policy.budget import limit, used
from harness.prompt import Transcript
from harness.prompt.observation import cut, error_class
from harness.runs.deliver import speaker
from harness.runs.find import short_id
from harness.runs.flags import Options
from harness.runs.opened import Session
from harness.runs.peek import whole_start
from harness.runs.session import current_state, resume
from harness.skills.discovery import Catalog
from harness.skills.reading import is_skill_file
from harness.tools.outcome import CLASSES

CODES = {"FAILED": 1, "INVALID_INPUT": 65, "RETRYABLE": 75, "NEEDS_AUTH": 77, "CONFLICT": 73, "MISCONFIGURED": 78}
CODES |= {"TIMEOUT": 124, "DENIED": 7, "UNKNOWN_OUTCOME": 11}
"""Exit codes of what ran and did not end well, where the process itself had none of that class."""
REFUSED, OPEN = 2, 1
NO_WISHES = Wishes()
HANDED_BODY, HANDED_RESULT = 16 * 1024, 2 * 1024
"""Bytes of a skill's text and of each result that are printed when a run is handed out; `harness read` has the rest."""
_FRAME = re.compile(r'(<data source="[^"]*#(\d+)"[^>]*>\n)(.*?)(\n</data>)', re.DOTALL)
_CLASS = re.compile(r"^([A-Z][A-Z_]+): ")


def step(
    world: World, catalog: Catalog, folder: Path, call: tuple[str, Mapping[str, Any]] | None, wishes: Wishes = NO_WISHES
) -> Session:
    """Own an agent's run and give it one call, or none. Raises HarnessError (exit 2) for a run that takes none."""
    start = whole_start(folder)
    state, name = current_state(folder), short_id(folder.name)
    check_drivable(start, name)
    if state.end is not None:
        fix = f"harness show {name}" if state.end["stop"] == "passed" else f"harness resume {name} {FLAG}"
        raise HarnessError(f"this run has ended: {state.end['stop']}", fix)
    if (speaks := speaker(folder)) != NAME:
        raise HarnessError(f"in this run {speaks or 'nobody'} speaks", f"hand it over: harness resume {name} {FLAG}")
    session = resume(world, catalog, folder, None, Options(by=NAME, wishes=wishes))
    if call is not None:
        agent_of(session.run).propose(*call)
    return session


def check_drivable(start: Mapping[str, Any], name: str) -> None:
    """Raises HarnessError (exit 2) for a run in which there is nothing to drive: a question, a pipeline, one tool."""
    if not is_skill_file(Path(start.get("path") or "")):
        kind = "asks a model one question" if start.get("question") else "is no skill's: no model decides in it"
        raise HarnessError(f"the run {name} {kind}, so no agent can drive it", f"harness show {name}")


def handed_over(options: Options) -> Options:
    """The same for a run that an agent shall drive: what it was given is input, nobody's own words."""
    return replace(options, model=(NAME, FLAG), source="input", by=NAME)


def agent_of(run: Run) -> Agent:
    assert isinstance(run.model, Agent)
    return run.model


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent is told: `text` of the turn, what it may call (`only` for which values), what waits for what.

    `op` is that of its call, `error_class` how that ended; None while it is open.
    """

    text: str
    callable: tuple[str, ...]
    waiting: Mapping[str, str]
    only: Mapping[str, str]
    op: Operation | None
    error_class: str | None


def told(run: Run, verb: str = "") -> Told:
    """What came of the newest turn. `verb` names the call that was made in it, if one was."""
    transcript = run.transcript
    assert transcript is not None
    release = transcript.release(run.state)
    newest = run.state.ops[run.state.turn_ops[0]] if verb and run.state.turn_ops else None
    op = newest if newest is not None and newest.verb == verb and not agent_of(run).waits else None
    return Told(_newest(run, transcript), release.callable, release.waiting, release.only, op, _class_of(run, op))


def _class_of(run: Run, op: Operation | None) -> str | None:
    if op is None or not op.closed:
        return None
    accepted = op.verb == "finish" and not op.error and (run.state.verdict or {}).get("ok")
    return "OK" if accepted else error_class(op)  # an answer has no result of its own: its checks are its end


def _newest(run: Run, transcript: Transcript) -> str:
    """The turn that a model would be sent now; empty while a call of the newest reply is open."""
    newest = _turns(run, transcript)[-1]
    return "" if isinstance(newest, Replied) else plain(newest, transcript.frame.mark)


def _turns(run: Run, transcript: Transcript) -> Sequence[Turn]:
    """The turns so far; the one that answers the newest reply only when all its calls are closed."""
    is_open = any(not run.state.ops[n].closed for n in run.state.turn_ops)
    return transcript.turns if is_open else transcript.prompt(run.state).turns


def did_something(run: Run) -> bool:
    """Whether anything was decided or ended since this process owns the run."""
    for event in reversed(follow(run.folder)):
        if event["kind"] == "resume":
            return False
        if event["kind"] in ("decide", "tool.end", "verify", "user.say"):
            return True
    return False


def view(run: Run) -> str:
    """All that a model of this run has been told: the skill, and every turn."""
    transcript = run.transcript
    assert transcript is not None
    body = cut(transcript.skill, HANDED_BODY, "skill:SKILL.md")
    parts = [body, *(_shortened(plain(turn, transcript.frame.mark)) for turn in _turns(run, transcript))]
    return "\n\n".join(part.strip("\n") for part in parts)


def _shortened(text: str) -> str:
    """The same with less of each long result: whoever takes over reads again what it needs."""
    return _FRAME.sub(_less, text)


def _less(found: re.Match[str]) -> str:
    """A frame with the first lines only. It may hold a cut already, so lines are not counted."""
    opened, op, text, closed = found.groups()
    if len(text) <= HANDED_RESULT:
        return found[0]
    head = text[:HANDED_RESULT]
    lines = head[: head.rfind("\n")] if "\n" in head else head
    return f"{opened}{lines}\n[shortened here; read op:{op}]{closed}"


def plain(turn: Turn, mark: str) -> str:
    """A turn for a reader of stdout: outside the frames of data every line is the harness's, so none needs its mark."""
    if isinstance(turn, Replied):
        calls = [block for block in turn.content if isinstance(block, dict) and block.get("type") == "tool_use"]
        return "\n".join(f"> {_typed(call['name'], call['input'])}" for call in calls)
    blocks = [block for result in turn.results for block in result.blocks] if isinstance(turn, Results) else []
    blocks += turn.said if isinstance(turn, Results) else turn.texts
    lines = "\n".join(blocks).split("\n")
    ours = f"[{mark}] "
    shown = [_CLASS.sub(r"\1 ", line.removeprefix(ours)) if line.startswith(ours) else line for line in lines]
    return re.sub(f'<task mark="{mark}"(?: source="input")?>', "<task>", "\n".join(shown))


def _typed(verb: str, said: Any) -> str:
    """A call as the words of the command that made it. A model may have written anything: it stays on one line."""
    if not isinstance(said, Mapping):
        return f"{verb} {said!r}"
    if verb == "run" and isinstance(args := said.get("args") or [], list):
        return " ".join(["step", *map(_word, (said.get("tool"), *args))])
    return " ".join([verb, *(f"{'--lines ' if key == 'lines' else ''}{_word(value)}" for key, value in said.items())])


def _word(value: object) -> str:
    text = str(value)
    return shlex.quote(text) if text.isprintable() else repr(text)


def still_to_do(run: Run) -> list[str]:
    """What an agent that forgot everything asks first: which results the answer still needs, and what is left."""
    absent = missing(run)
    needs = "; ".join(f"{one['name']} ({one['why']})" for one in absent) or "only finish"
    left = ", ".join(filter(None, (_left(run, key) for key in ("turns", "calls"))))
    return [f"still required: {needs}", f"left: {left}"]


def _left(run: Run, key: str) -> str:
    bound = limit(run.state.budget, key)
    return "" if bound is None else f"{bound - used(run.state.spent, key, 0):f} of {bound:f} {key}"


def code_of(stop: Stop, said: Told, verb: str) -> int:
    """The exit code of an agent's command: the run's where it stopped, else that of its call."""
    if stop.name != "waiting" or stop.code != CODES["RETRYABLE"]:
        return stop.code
    if verb == "finish":
        return OPEN
    if said.op is None or said.error_class == "OK":
        return 0
    if said.op.error or said.op.code:
        return CODES["DENIED"] if said.op.code == "DENIED" else REFUSED
    return REFUSED if verb == "read" else _tools_code(said)


def _tools_code(said: Told) -> int:
    """The tool's own exit where it says the class, but for the one that means refused."""
    assert said.op is not None
    code, name = (said.op.result or {}).get("exit") or 0, said.error_class or "FAILED"
    own = CLASSES.get(code) == name and code != REFUSED
    return code if own else CODES.get(name, OPEN)
