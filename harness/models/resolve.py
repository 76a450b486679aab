"""Which model a string means, and how it is opened: a table of forms, each with the module that knows the rest.

Who may name what (flag, environment, project, skill, user) is judged in `choice`; here one string is read.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import HarnessError, nearest
from harness.models import Model, ModelRef, Opening, agent
from harness.skills import Skill


class Form(NamedTuple):
    """How a scheme is written, its module below `harness.models`, which has `opened`, and what reads a name there."""

    shown: str
    module: str
    reader: str = "named"


FORMS: dict[str, Form] = {
    "anthropic": Form("anthropic:NAME", "anthropic"),
    "openai": Form("openai:NAME[@BASE_URL]", "outside", "openai"),
    "ollama": Form("ollama:NAME[@BASE_URL]", "outside", "ollama"),
    "exec": Form("exec:COMMAND", "outside", "program"),
    "scripted": Form("scripted:FILE", "scripted"),
    "none": Form("none", "none"),
}


def resolve(text: str, *, source: str, skill: Skill | None = None) -> ModelRef:
    """The model a string names. Raises HarnessError (exit 2) for a string that names none."""
    scheme, _, name = text.partition(":")
    if text == agent.NAME:
        return agent.named(source)
    if scheme not in FORMS:
        raise _unknown(text, source)
    found: ModelRef = getattr(_module(scheme), FORMS[scheme].reader)(name, source, skill)
    return found


def open_model(ref: ModelRef, how: Opening) -> Model:
    """The model itself. Raises HarnessError for one that cannot be used."""
    if ref.scheme == agent.NAME:
        return agent.Agent(ref=ref)
    model: Model = _module(ref.scheme).opened(ref, how)
    return model


def _module(scheme: str) -> Any:
    return import_module(f"harness.models.{FORMS[scheme].module}")


def _unknown(text: str, source: str) -> HarnessError:
    """A name without a scheme we know, with the nearest string that is one."""
    scheme, colon, name = text.partition(":")
    guess = _guess(text, scheme, colon, name)
    what = f"unknown model scheme {scheme!r} in {text!r}" if colon else f"the model {text!r} has no scheme"
    fix = f"write {guess}" if guess else f"write one of {', '.join(form.shown for form in FORMS.values())}"
    return HarnessError(f"{what}{f'; nearest: {guess}' if guess else ''}", fix, source)


def _guess(text: str, scheme: str, colon: str, name: str) -> str:
    close = nearest(scheme, [form for form in FORMS if form != "exec"])  # nobody runs a program for a typo
    if not colon and (Path(text).suffix in (".yaml", ".yml") or Path(text).is_file()):
        return f"scripted:{text}"
    if not colon and text.startswith("claude-"):
        return f"anthropic:{text}"
    if close and colon and close[0] != "none":
        return f"{close[0]}:{name}"
    return FORMS[close[0]].shown if close else ""
