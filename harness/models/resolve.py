"""Which model a string means, which one is taken when nobody named one, and how it is opened.

Who may name what (flag, environment, project, skill, user) is the caller's order; here one string is judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from harness.errors import HarnessError, NoModelError, nearest
from harness.models import Model, ModelRef
from harness.models.agent import FLAG, NAME, Agent
from harness.models.endpoints import check_name, openai_endpoint
from harness.skills import Skill

QUESTION = "prompt"
"""Whose replies a script plays to the questions that stages ask."""
FORMS = {
    "openai": "openai:NAME[@BASE_URL]", "ollama": "ollama:NAME[@BASE_URL]", "exec": "exec:COMMAND",
    "scripted": "scripted:FILE", "none": "none",
}  # fmt: skip


def resolve(text: str | None, *, source: str, skill: Skill | None) -> ModelRef:
    """The model a string names; with None the automatic choice, whose source is `auto`.

    Raises HarnessError (exit 2) for a string that names no model, NoModelError (exit 4) when there is none to take.
    """
    if text is None:
        return _automatic(skill)
    if text == NAME:
        return _agent(source)
    scheme, _, name = text.partition(":")
    if scheme not in FORMS:
        raise _unknown(text, source)
    if scheme == "none":
        return _nobody(text, source, skill)
    if scheme in ("openai", "ollama"):
        check_name(scheme, name, source)
    elif not name.strip():
        what = "file" if scheme == "scripted" else "program"
        raise HarnessError(f"{scheme}: names no {what}", f"write {FORMS[scheme]}", source)
    return ModelRef(scheme, name, source)


def open_model(
    ref: ModelRef, *, folder: Path, skill: Skill | None, args: tuple[str, ...] = (), worker: bool = False,
    heard: Callable[[str], None] = lambda line: None,
) -> Model:  # fmt: skip
    """The model itself. A script's path is taken from `folder`; `args` is the argv of the skill's pipeline.

    With `worker` a script plays its list for that skill, or for questions where there is none. `heard` is given what a
    program says on stderr, in lines. Raises HarnessError for a script or a program that cannot be used.
    """
    if ref.scheme in ("openai", "ollama"):
        return _over_http(ref)
    if ref.scheme == "exec":
        from harness.models.exec import Program, split_command

        return Program(split_command(ref.name, ref.source, folder), folder, ref=ref, heard=heard)
    if ref.scheme == "none" and skill is not None:
        from harness.models.none import NoModel

        return NoModel(_pipeline(skill, ref.source), args, ref=ref)
    if ref.scheme == NAME:
        return Agent(ref=ref)
    from harness.models.scripted import Scripted

    return Scripted(folder / ref.name, (skill.name if skill else QUESTION) if worker else None, ref=ref)


def _over_http(ref: ModelRef) -> Model:
    from harness.models.memory import memory_file
    from harness.models.openai import OpenAI

    if ref.scheme == "ollama":
        from harness.models.ollama import endpoint

        return OpenAI(endpoint(ref.name, os.environ), ref=ref, file=memory_file(os.environ))
    return OpenAI(openai_endpoint(ref.name, os.environ), ref=ref, file=memory_file(os.environ))


def _agent(source: str) -> ModelRef:
    if source != FLAG:
        raise HarnessError("another agent is no model that can be named", "let it drive: --agent", source)
    return ModelRef(NAME, "", FLAG)


def _automatic(skill: Skill | None) -> ModelRef:
    if skill is not None and skill.pipeline:
        return ModelRef("none", "", "auto")
    which = f"{skill.name} names no pipeline" if skill is not None else "no skill names a pipeline"
    fix = "give one: -m scripted:FILE replays a file; -m none runs the pipeline of a skill that has one"
    raise NoModelError(f"no model to use: none was named, and {which}", fix)


def _nobody(text: str, source: str, skill: Skill | None) -> ModelRef:
    if text != "none":
        raise HarnessError(f"none takes no name: {text!r}", "write none", source)
    if skill is not None:
        _pipeline(skill, source)
    return ModelRef("none", "", source)


def _pipeline(skill: Skill, source: str) -> str:
    if skill.pipeline:
        return skill.pipeline
    fix = "name one in metadata.pipeline, or another model: scripted:FILE"
    raise HarnessError(f"none runs a skill's pipeline, and {skill.name} has none", fix, source)


def _unknown(text: str, source: str) -> HarnessError:
    """A name without a scheme we know, with the nearest string that is one."""
    scheme, colon, name = text.partition(":")
    close = nearest(scheme, [form for form in FORMS if form != "exec"])  # nobody runs a program for a typo
    if not colon and (Path(text).suffix in (".yaml", ".yml") or Path(text).is_file()):
        guess = f"scripted:{text}"
    elif close and colon and close[0] != "none":
        guess = f"{close[0]}:{name}"
    else:
        guess = FORMS[close[0]] if close else ""
    what = f"unknown model scheme {scheme!r} in {text!r}" if colon else f"the model {text!r} has no scheme"
    fix = f"write {guess}" if guess else f"write one of {', '.join(FORMS.values())}"
    return HarnessError(f"{what}{f'; nearest: {guess}' if guess else ''}", fix, source)
