"""What the model of a run sees, composed from its skill and its journal: while it runs, and again from the files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.fold import apply
from harness.events.log import follow
from harness.events.scan import blob_bytes, blob_text
from harness.events.state import State
from harness.graph import Need
from harness.graph.fresh import Ground, held_values, is_fresh, unmet
from harness.loop.question import form_of
from harness.loop.run import Run
from harness.loop.toolset import Toolset, moment, values_of
from harness.models import LOCAL, Offer, Prompt
from harness.models.turns import Raw
from harness.prompt import Frame, Release, Transcript
from harness.prompt.brief import Moment, with_brief
from harness.prompt.observation import clean
from harness.prompt.texts import limits_text
from harness.runs.given import context_of, project_of
from harness.runs.kit import skill_kit
from harness.runs.peek import check_whole
from harness.runs.speaker import usable
from harness.skills import Resolved, Skill
from harness.skills.body import substitute
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file
from harness.skills.worker import as_tool
from harness.tools.arguments import usage

MAX_FILES = 20
BY_VALUE = 3
"""From this version of the labels on a run's model is told for which values a tool is callable."""
MAX_VALUES, MAX_VALUE = 5, 60


@dataclass(frozen=True, slots=True)
class Source:
    """What a transcript is composed from: a skill, what may be called, a run's first event, readers of its values.

    `text` reads a value of an event, `raw` the bytes of a blob. `hide` masks the secrets of what the files of a project
    say.
    """

    resolved: Resolved
    kit: Toolset
    start: Mapping[str, Any]
    text: Callable[[object], str]
    raw: Raw
    hide: Callable[[str], str] = str


def transcript_of(run: Run, resolved: Resolved) -> Transcript:
    """What the model of this run sees, composed from its journal."""
    read = partial(blob_bytes, run.folder)
    return compose(Source(resolved, run.toolset, run.state.start, run.text, read, run.masker.text))


def compose(source: Source) -> Transcript:
    """A transcript that follows a run's events from the first one on."""
    resolved, kit, start = source.resolved, source.kit, source.start
    offers = {name: _offer(resolved, name) for name in kit.available}
    catalogue = {n: Offer(n, source.hide(o.usage), source.hide(o.text)) for n, o in offers.items()}
    frame = Frame(
        skill=resolved.skill.name, body=source.hide(body_of(resolved.skill, start, source.text)),
        files=tuple((source.hide(name), size) for name, size in _other_files(resolved.skill.folder)),
        catalogue=catalogue, requires=kit.requires,
        checks=tuple(words[0] for words in kit.verify), limits=limits_text(start.get("budget") or {}, labels_of(start)),
        mark=start["model"]["mark"], can_ask=True, workers=frozenset(kit.workers), labels=labels_of(start),
        by=str(start.get("by", "user")), foreign=frozenset(start.get("foreign") or ()),
        project=project_of(start, source.text((start.get("project") or {}).get("text", ""))), context=context_of(start),
    )  # fmt: skip
    release = partial(_release, kit, by_value=frame.labels >= BY_VALUE)
    return Transcript(frame, release, source.text, partial(_fresh, kit), source.raw)


def question_transcript(start: Mapping[str, Any], text: Callable[[object], str]) -> Transcript:
    """What a model sees of a question, from the first event of its run."""
    kept = start["question"]
    frame = Frame(
        skill=str(start["skill"]), body=text(kept.get("system", "")), files=(), catalogue={}, requires=(), checks=(),
        limits="", mark=start["model"]["mark"], can_ask=False, verbs=False, form=form_of(kept), labels=labels_of(start),
        max_tokens=int(kept["max_tokens"]),
    )  # fmt: skip
    return Transcript(frame, lambda state: Release((), {}), text, lambda state: (), lambda sha: b"")


def body_of(skill: Skill, start: Mapping[str, Any], text: Callable[[object], str]) -> str:
    """A skill's text for a run that began like this. What are not the person's own words stands in the task alone."""
    inputs, all_foreign = start.get("inputs") or {}, bool(start.get("parent"))
    foreign = inputs if all_foreign else start.get("foreign") or ()
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in inputs.items()}
    values |= {name: f"(input {name}, see task)" for name in foreign}
    is_typed = not all_foreign and (labels_of(start) == 1 or not start.get("by"))
    goal = text(start.get("goal", "")) if is_typed else "(goal, see task)"
    return substitute(skill.body, goal, values)


def labels_of(start: Mapping[str, Any]) -> int:
    """The version of the labels of a run that began like this."""
    return int(start["model"].get("labels", 1))


def _settled(kit: Toolset, state: State) -> Ground:
    """What freshness is judged on from the journal alone, so that a request can be composed again byte for byte."""
    return Ground(state, state.at, values=partial(values_of, kit))


@dataclass(frozen=True, slots=True)
class Request:
    """A model call as the journal has it: the event it was announced by, all its fields, and the prompt again.

    `sent` is the beginning of the digest of what was sent; empty where another agent was the model, to whom nothing is.
    """

    n: int
    event: Mapping[str, Any]
    fields: Mapping[str, Any]
    prompt: Prompt

    @property
    def sent(self) -> str:
        return str(self.fields.get("body", "")) if self.event["kind"] == "model.start" else ""


def requests(folder: Path, catalog: Catalog, hide: Callable[[str], str] = str) -> Iterator[Request]:
    """Every model call of a run, composed again from its files. Raises HarnessError where its skill cannot be read."""
    events = follow(folder)
    transcript, state, n = _from_start(folder, catalog, events[0]["data"], hide), State(), 0
    kit: Toolset | None = None
    for event in events:
        is_call = event["kind"] == "model.start" or (event["kind"] == "model.reply" and event["data"].get("provider"))
        prompt = transcript.prompt(state) if is_call else None
        transcript.apply(event, state)
        apply(state, event)
        if prompt is not None:
            n += 1
            if str(state.request.get("model", "")).startswith(f"{LOCAL}:") and event["kind"] == "model.start":
                kit = kit or _source(folder, catalog, events[0]["data"]).kit
                prompt = with_brief(prompt, _moment(folder, kit, state, prompt.turn))
            yield Request(n, event, dict(state.request), prompt)


def _moment(folder: Path, kit: Toolset, state: State, turn: int) -> Moment:
    """What there was for a model that only chooses, as far as the journal knows."""
    text = partial(blob_text, folder)
    return moment(kit, _settled(kit, state), text(state.start.get("goal") or ""), folder.name, turn, text)


def _from_start(
    folder: Path, catalog: Catalog, start: Mapping[str, Any], hide: Callable[[str], str]
) -> Transcript:
    check_whole(start, folder)
    if start.get("question"):
        return question_transcript(start, partial(blob_text, folder))
    return compose(replace(_source(folder, catalog, start), hide=hide))


def _source(folder: Path, catalog: Catalog, start: Mapping[str, Any]) -> Source:
    path = Path(start.get("path") or "")
    if not is_skill_file(path):
        raise HarnessError("no model is asked in this run", f"harness show {folder.name}")
    resolved = usable(catalog, find(catalog, str(path.parent)))
    return Source(resolved, skill_kit(resolved), start, partial(blob_text, folder), partial(blob_bytes, folder))


def _release(kit: Toolset, state: State, by_value: bool) -> Release:
    ground = _settled(kit, state)
    open_now, waiting, stale, only = [], {}, {}, {}
    for name in kit.available:
        missing = [one.need for one in unmet(ground, kit.graph, name, None)]
        keyed = [need for need in kit.graph.needs(name) if need.options] if by_value else []
        missing = missing or [need.text() for need in keyed if not held_values(ground, need)]
        if name in kit.locked:
            waiting[name] = kit.locked[name]
        elif missing:
            waiting[name] = needs_text(kit, name)
            stale[name] = missing[0]
        else:
            open_now.append(name)
            if keyed:
                only[name] = "; ".join(_values_text(ground, need) for need in keyed)
    return Release(tuple(open_now), waiting, stale, only)


def _values_text(ground: Ground, need: Need) -> str:
    """The values that a need leaves, as they are typed: `--id a, --id b, which x ran for`."""
    held = held_values(ground, need)
    shown = [" ".join(f"--{name} {_short(value)}" for name, value in one.items()) for one in held[:MAX_VALUES]]
    more = f" and {len(held) - MAX_VALUES} more" if len(held) > MAX_VALUES else ""
    return f"{', '.join(shown)}{more}, which {need.name} ran for"


def _short(value: str) -> str:
    told = shlex.quote(" ".join(clean(value).split()))
    return told if len(told) <= MAX_VALUE else f"{told[: MAX_VALUE - 1]}…"


def _fresh(kit: Toolset, state: State) -> frozenset[int]:
    """The operations whose results stand, as far as the journal knows."""
    ground = _settled(kit, state)
    return frozenset(receipt.op for receipt in state.slots.values() if is_fresh(ground, receipt))


def needs_text(kit: Toolset, name: str) -> str:
    """A tool's needs as the dependency block writes them: `a b | c`."""
    needs = kit.graph.needs(name)
    plain = [n.text() for n in needs if n.kind != "once"]
    once = [n.text() for n in needs if n.kind == "once"]
    return " ".join([*plain, *(["|", *once] if once else [])])


def _offer(resolved: Resolved, name: str) -> Offer:
    tool = resolved.tools.get(name)
    if tool is not None:
        return Offer(name, usage(tool), tool.describe)
    worker = resolved.workers[name]
    return Offer(name, usage(as_tool(worker, name)), worker.description)


def _other_files(folder: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the skill's other files; evals are nobody's business."""
    found = []
    for path in sorted(folder.rglob("*")):
        part = path.relative_to(folder)
        hidden = any(p.startswith(".") or p == "__pycache__" for p in part.parts)
        if hidden or part.parts[0] == "evals" or part.name in ("SKILL.md", "skill.md") or not path.is_file():
            continue
        found.append((part.as_posix(), path.stat().st_size))
        if len(found) == MAX_FILES:
            break
    return tuple(found)
