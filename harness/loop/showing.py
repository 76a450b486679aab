"""What a person who is asked must know beside the call, found while the run is at hand and kept in its event."""

from __future__ import annotations

from typing import Any

from harness.events.origins import shortened
from harness.events.state import Operation
from harness.loop import granted
from harness.loop.confine import network_text, secret_names
from harness.loop.run import Run
from harness.loop.scene import settings_of
from harness.policy.request import Request

USERS, YOURS = "the user's words", "your words"
"""How what a run knows calls the person's words, and how the person is told."""


def facts(run: Run, op: Operation, request: Request) -> dict[str, Any]:
    """What the event of a question holds beside the call.

    Where its values are from, what it could reach and be given, which answers would be remembered, which grant is void.
    """
    tool, found = run.toolset.tools.get(request.tool), dict[str, Any]()
    if sources := _sources(request):
        found["sources"] = sources
    if tool is not None:
        found |= {"network": network_text(run, tool, request), "secrets": secret_names(run, tool)}
    if words := granted.offers(run, op, request):
        days, hosts = settings_of(run).remember_days, list(request.hosts)
        found |= {"remember": list(words), "days": days} | ({"hosts": hosts} if "host" in words else {})
    if (void := granted.void_by(run, request)) is not None:
        found["void"] = void.id
    return {name: value for name, value in found.items() if value or name == "days"}


def _sources(request: Request) -> dict[str, list[list[Any]]]:
    """Option → its values, each with where it is from: those that must be known, and those that say who receives."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in request.grounding:
        found[one.option, one.value] = [YOURS if text == USERS else text for text in one.sources]
    for dest in request.dests:
        told = found.setdefault((dest.option, dest.value), [])
        told += [YOURS] if dest.named and YOURS not in told else []
    by_option: dict[str, list[list[Any]]] = {}
    for (option, value), labels in found.items():
        by_option.setdefault(option, []).append([shortened(value), labels])
    return by_option
