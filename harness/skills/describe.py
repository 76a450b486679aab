"""A skill in sentences: what may run at the start, what waits for what, when it passes."""

from __future__ import annotations

from harness.graph.draw import sentences
from harness.skills import Resolved


def describe(resolved: Resolved) -> list[str]:
    """The skill's order, requirements and limits in sentences."""
    skill = resolved.skill
    notes = dict.fromkeys(resolved.workers, "worker")
    for name, tool in resolved.tools.items():
        if tool.effect != "read":
            notes[name] = tool.effect if tool.effect == "write" else f"{tool.effect}, asks"
    names = [name for name in skill.allowed if name in resolved.tools or name in resolved.workers]
    verifiers = list(dict.fromkeys(words[0] for words in skill.verify))
    return sentences(skill.graph, names, skill.requires, verifiers, skill.budget, notes)
