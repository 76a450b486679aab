"""What a call may do, from the tool's header: the declared effect, raised by what the header says elsewhere. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.policy import EFFECTS
from harness.policy.hosts import is_argument, lists, place_in
from harness.tools import Tool

if TYPE_CHECKING:
    from harness.policy.settings import Settings

From = Literal["header", "absent", "raised"]


def effect_of(tool: Tool, settings: Settings | None = None) -> tuple[str, From]:
    """The effect of a call of this tool, and where it comes from; a pipeline's call counts as a read.

    `settings` say which hosts the user lists for the tool: a network to those alone raises nothing.
    """
    if tool.pipeline:
        return "read", "header"
    least = _raised(tool, settings)
    if tool.effect in EFFECTS and EFFECTS.index(least) > EFFECTS.index(tool.effect):
        return least, "raised"
    return tool.effect, "header" if tool.effect_declared else "absent"


def only_reads(tool: Tool) -> bool:
    """Whether a call of the tool is a read, but for what its network makes of it."""
    plain = not tool.roles.get("writes") and not tool.roles.get("amount")
    return tool.effect == "read" and tool.effect_declared and plain and not tool.pipeline


def _raised(tool: Tool, settings: Settings | None) -> str:
    """The least effect that the roles of the header stand for."""
    if tool.roles.get("amount"):
        return "money"
    words = [word for word in tool.net if word != "none"]
    if not all(settings is not None and _is_listed(tool, word, settings) for word in words):
        return "external"
    return "write" if tool.roles.get("writes") else "read"


def _is_listed(tool: Tool, word: str, settings: Settings) -> bool:
    """Whether the header fixes the host and the user lists it for this tool, by name or as a variable's value."""
    if is_argument(tool, word):
        return False
    if any(variable.name == word for variable in tool.env):
        rule = settings.secrets.get(word)
        return word in settings.env.get(tool.name, ()) or (rule is not None and tool.name in rule.tools)
    listed = settings.hosts.get(tool.name, ())
    return listed == "any" or lists(listed, place_in(word, userinfo=False))
