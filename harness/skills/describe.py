"""A skill in sentences: what may run at the start, what waits for what, when it passes."""

from __future__ import annotations

from harness.graph.draw import sentences
from harness.skills import Resolved, Skill
from harness.tools import Parameter


def inputs(skill: Skill) -> list[str]:
    """What `-i` takes, a line an input: its form, whether it must be given or what it is otherwise, and its words."""
    return [f"-i {one.name}={one.notation or 'TEXT'}{_given(one)}  {one.text}".rstrip() for one in skill.inputs]


def _given(one: Parameter) -> str:
    if one.required:
        return " (must be given)"
    return f" (else {one.default})" if one.default is not None else ""


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
