"""The first turn of a run, part by part, and how parts are recorded.

What it holds is what a run was begun with: the project's own words, the task, the files that a person pointed to, and
what may be called. A question that takes no calls has its inputs as data instead, and the form it wants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from harness.models import Part
from harness.prompt.labels import of_speaker
from harness.prompt.observation import attribute, clean, neutral
from harness.prompt.observation import frame as data_block
from harness.prompt.texts import (
    ASKED,
    POLICY,
    PROTOCOL,
    Blob,
    ContextFile,
    Frame,
    ProjectText,
    Release,
    marked,
    state,
    task_block,
)

PROJECT = "what this project says of itself, in {path}{rest}; the task, the skill and the rules go before it:"
Named = tuple[str, tuple[str, ...]]
"""A part by its `id@version`, and its texts."""
_MEANT = re.compile(r"\$\{inputs\.([a-z][a-z0-9_.-]*)\}")


def opening(
    frame: Frame, goal: str, inputs: Mapping[str, object], release: Release, blob: Blob
) -> tuple[Named, ...]:
    """The first turn of a run: what holds for all of it, then what may be called now."""
    if not frame.verbs:
        return question(frame, goal, inputs, blob)
    found = [project(frame.project, frame.mark)] if frame.project is not None else []
    foreign = [_given(name, _value(inputs[name]), frame.mark) for name in inputs if name in frame.foreign]
    found.append(("task@1", (task(frame, goal, inputs), *foreign)))
    if frame.context:
        found.append(("context@1", (context(frame.context, frame.mark),)))
    return (*found, ("state@1", (state(frame, release),)))


def flat(named: Iterable[Named]) -> tuple[str, ...]:
    """The texts of parts, in order."""
    return tuple(text for _, texts in named for text in texts)


def project(given: ProjectText, mark: str) -> Named:
    """A project's own words, framed: they are a guide, and neither the person's nor the harness's."""
    path, told = attribute(given.path, mark), len(given.text.encode())
    rest = f", its first {told} of {given.size} bytes" if told < given.size else ""
    body = neutral(given.text, mark)
    end = "" if body.endswith("\n") else "\n"
    block = f'<project source="file:{path}">\n{body}{end}</project>'
    text = f"{marked(PROJECT.format(path=path, rest=rest), mark)}\n{block}"
    return f"project@{part('project', text).sha}", (text,)


def context(files: Iterable[ContextFile], mark: str) -> str:
    """The files that a person pointed to, a line each; nothing of what is in them."""
    verdicts = ((file, f", {file.verdict}" if file.verdict else "") for file in files)
    lines = (f"context: {attribute(file.path, mark)}, {file.size} bytes{verdict}" for file, verdict in verdicts)
    return marked("\n".join(lines), mark)


def question(frame: Frame, goal: str, inputs: Mapping[str, object], blob: Blob) -> tuple[Named, ...]:
    """A question for one reply: each input is a block of data of its own, named where the text means it."""
    text = _MEANT.sub(lambda found: f"[input {found[1]}]", neutral(goal.strip(), frame.mark))
    blocks = []
    for name, value in inputs.items():
        blocks.append(_given(name, blob(value) if isinstance(value, Mapping) else _value(value), frame.mark))
    form = (marked(clean(frame.form.asked), frame.mark),) if frame.form.asked else ()
    asked = ("task@1", (task_block(text, frame.mark, frame.by), *blocks))
    return (asked, ("output@1", form)) if form else (asked,)


def _given(name: str, text: str, mark: str) -> str:
    """An input that is evidence, not words of the person."""
    about = {"source": f"input:{name}", "bytes": len(text.encode("utf-8", "replace"))}
    return data_block(about, neutral(text, mark), mark)


def inputs_meant(text: str) -> list[str]:
    """The names that `${inputs.NAME}` in a question means."""
    return [found[1] for found in _MEANT.finditer(text)]


def task(frame: Frame, goal: str, inputs: Mapping[str, object]) -> str:
    """The person's task: goal, inputs, what has to be there at the end, limits."""
    lines = [neutral(goal.strip() or "Do what the skill says.", frame.mark)]
    for name, value in inputs.items():
        told = "(its data is below)" if name in frame.foreign else neutral(_value(value), frame.mark)
        lines.append(f"input {name}: {told}")
    if frame.requires:
        lines.append(f"required results: {', '.join(frame.requires)}")
    if frame.checks:
        lines.append(f"checks: {', '.join(frame.checks)}")
    if frame.limits:
        lines.append(f"limits: {frame.limits}")
    return task_block("\n".join(lines), frame.mark, of_speaker(frame.by, frame))


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def part(name: str, text: str) -> Part:
    """How a composed part is recorded."""
    raw = text.encode()
    return Part(name, sha256(raw).hexdigest()[:12], len(raw))


def parts(named: Iterable[Named]) -> tuple[Part, ...]:
    """How the parts of a turn are recorded."""
    return tuple(part(name, "\n".join(texts)) for name, texts in named)


def system_parts(blocks: tuple[str, str]) -> tuple[Part, ...]:
    """The parts of the system blocks: the rules, and the skill under its own digest."""
    skill = part("skill", blocks[1])
    asked = blocks[0] == ASKED
    rules = (part("asked@1", ASKED),) if asked else (part("policy@1", POLICY), part("protocol@1", PROTOCOL))
    return (*rules, Part(f"skill@{skill.sha}", skill.sha, skill.bytes))
