"""Models behind an address or in a program: what their strings mean, what is known of them, and how they are opened."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.models import FREE, Facts, Model, ModelRef, Opening
from harness.models.endpoints import Endpoint, check_name, openai_endpoint
from harness.models.prices import facts_of
from harness.models.wire import is_loopback

if TYPE_CHECKING:
    from harness.skills import Skill


def openai(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """`NAME[@BASE_URL]`. Raises HarnessError for no name and no address."""
    return _served("openai", name, source)


def ollama(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The same at an Ollama server."""
    return _served("ollama", name, source)


def program(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """A command. Raises HarnessError for none."""
    if not name.strip():
        raise HarnessError("exec: names no program", "write exec:COMMAND", source)
    known = facts_of(f"exec:{name}")
    facts = known if known.price is not None else facts_of(f"exec:{os.path.basename(name.split()[0])}")  # noqa: PTH119
    return ModelRef("exec", name, source, facts=facts)


def _served(scheme: str, name: str, source: str) -> ModelRef:
    check_name(scheme, name, source)
    ref = ModelRef(scheme, name, source)
    base = _endpoint(ref).base
    return replace(ref, base_url=base, facts=_facts(ref, base))


def _facts(ref: ModelRef, base: str) -> Facts:
    """What answers on this machine costs nothing, unless the user says otherwise."""
    facts = facts_of(ref.text)
    return replace(facts, price=FREE) if facts.price is None and is_loopback(base) else facts


def _endpoint(ref: ModelRef) -> Endpoint:
    if ref.scheme == "ollama":
        from harness.models.ollama import endpoint

        return endpoint(ref.name, os.environ)
    return openai_endpoint(ref.name, os.environ)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The model. Raises HarnessError for a program that is not there, and for a key that no header can hold."""
    if ref.scheme == "exec":
        from harness.models.exec import Program, split_command

        return Program(split_command(ref.name, ref.source, how.folder), how.folder, ref=ref, heard=how.heard)
    from harness.models.memory import memory_file
    from harness.models.openai import OpenAI

    return OpenAI(_endpoint(ref), ref=ref, file=memory_file(os.environ))
