"""Which model a string means, and how it is opened: each scheme has a module that knows the rest.

Who may name what (flag, environment, project, skill, user) is judged in `choice`; here one string is read.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, nearest
from harness.models import Model, ModelRef, Opening, agent
from harness.skills import Skill

FORMS = {
    "anthropic": "anthropic:NAME", "openai": "openai:NAME[@BASE_URL]", "ollama": "ollama:NAME[@BASE_URL]",
    "exec": "exec:COMMAND", "scripted": "scripted:FILE", "local": "local:NAME", "none": "none",
}  # fmt: skip
"""How each scheme is written. Its module below `harness.models` is called like it, and has `named` and `opened`."""


def resolve(text: str, *, source: str, skill: Skill | None = None) -> ModelRef:
    """The model a string names. Raises HarnessError (exit 2) for a string that names none."""
    scheme, _, name = text.partition(":")
    if text == agent.NAME:
        return agent.named(source)
    check_scheme(text, source)
    found: ModelRef = _module(scheme).named(name, source, skill)
    return found


def check_scheme(text: str, source: str) -> None:
    """Raises HarnessError (exit 2) for a string of no scheme we know. Loads none of them."""
    if text.partition(":")[0] not in FORMS:
        raise _unknown(text, source)


def open_model(ref: ModelRef, how: Opening) -> Model:
    """The model itself. Raises HarnessError for one that cannot be used."""
    if ref.scheme == agent.NAME:
        return agent.Agent(ref=ref)
    model: Model = _module(ref.scheme).opened(ref, how)
    return model


def _module(scheme: str) -> Any:
    return import_module(f"harness.models.{scheme}")


def _unknown(text: str, source: str) -> HarnessError:
    """A name without a scheme we know, with the nearest string that is one."""
    scheme, colon, name = text.partition(":")
    guess = _guess(text, scheme, colon, name)
    what = f"unknown model scheme {scheme!r} in {text!r}" if colon else f"the model {text!r} has no scheme"
    fix = f"write {guess}" if guess else f"write one of {', '.join(FORMS.values())}"
    return HarnessError(f"{what}{f'; nearest: {guess}' if guess else ''}", fix, source)


def _guess(text: str, scheme: str, colon: str, name: str) -> str:
    """The nearest string: of a file, of a known name, of a scheme; empty where none is near."""
    close = nearest(scheme, [form for form in FORMS if form != "exec"])  # nobody runs a program for a typo
    if not colon and (Path(text).suffix in (".yaml", ".yml") or Path(text).is_file()):
        return f"scripted:{text}"
    if colon and re.fullmatch(r"[0-9.]+[bm](-\S+)?|latest", name):
        return f"ollama:{text}"
    found = "" if colon else _known(text)
    if found or not close:
        return found
    return f"{close[0]}:{name}" if colon and close[0] != "none" else FORMS[close[0]]


def _known(text: str) -> str:
    """The string of a name that is known here, or close to one."""
    from harness.models import anthropic, fetching, weights

    own = {name: f"local:{name}" for name in (*fetching.KNOWN, *weights.installed())}
    names = own | {name.removeprefix("claude-"): f"anthropic:{name}" for name in anthropic.NAMES}
    short = text.removeprefix("claude-")
    if short in names:
        return names[short]
    found = [name for name in names if len(short) > 3 and short in name] or nearest(short, names)
    if found:
        return names[found[0]]
    return f"anthropic:{text}" if text.startswith("claude-") else f"openai:{text}" if text.startswith("gpt-") else ""
