"""The examples of rules, run with the tools' real headers: a rule that does not do what it shows is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.errors import HarnessError
from harness.policy import Example, Policy, Rule
from harness.policy.compose import Knows, Scene, compose
from harness.policy.grounding import Found, Known, Source
from harness.policy.paths import Area
from harness.policy.rules import failing, matches
from harness.policy.settings import Settings
from harness.tools import Tool
from harness.tools.arguments import FREE
from harness.tools.meta import spelled

Lookup = Callable[[str], Tool | None]
"""What a name of a tool means here, or None where it means nothing."""


def check_examples(rules: Iterable[Rule], lookup: Lookup, workspace: Path, settings: Settings) -> None:
    """Raises HarnessError, exit 2, for the first example that fails. One of a tool that is not here is left out."""
    for rule in rules:
        for example in rule.examples:
            tool = lookup(example.tool)
            if tool is not None and (wrong := _wrong(rule, example, tool, workspace, settings)):
                where = f"{rule.place.rpartition(':')[0]}:{example.line}"
                raise HarnessError(wrong, "correct the rule or its example", where)


def _wrong(rule: Rule, example: Example, tool: Tool, workspace: Path, settings: Settings) -> str:
    """What is wrong with an example, or an empty text."""
    request = compose(tool, example.args, example_scene(rule, example, workspace, settings))
    bad = request.large or request.broken or "; ".join(line.strip() for line in request.problems)
    if bad:
        return f"the example is no call of {tool.name}: {bad.splitlines()[0]}"
    found = matches(rule, request)
    if found and not example.matches:
        return f"the rule matches a call of {tool.name} that it says it does not match"
    if found or not example.matches:
        return ""
    reasons = "; ".join(failing(rule, request)) or "it is about other calls"
    return f"the rule does not match a call of {tool.name} that it says it matches: {reasons}"


def example_scene(rule: Rule, example: Example, workspace: Path, settings: Settings) -> Scene:
    """A run that has just begun, with the example's goal as all that the user said."""
    whole = (str(workspace.resolve()),)
    read, write = (whole if roots is None else roots for roots in (settings.read, settings.write))
    area = Area(workspace.resolve(), read, write, hide=settings.hide, protect=settings.protect)
    return Scene(
        workspace, lambda tool: area, lambda: (example.goal,), knows((example.goal,)), settings, Policy(rules=(rule,)),
        skill=example.skill,
    )  # fmt: skip


def knows(words: Iterable[str]) -> Knows:
    """What is known where the user's words are all there is."""
    known = Known()
    for text in words:
        known.file(Source("user", "the user's words"), text)
    return lambda value: Found(known.sources(value))


def unsure(rules: Iterable[Rule], lookup: Lookup) -> Iterator[tuple[Rule, str, str]]:
    """Rules that may not do what somebody thinks: (rule, what, fix), in their order."""
    for rule in rules:
        unknown = [name for name in rule.tools if name != "read" and lookup(name) is None]
        if unknown:
            yield rule, f"no tool here is called {', '.join(unknown)}", "correct the name, or leave it for later"
        for option in dict.fromkeys(option for option, _ in rule.where):
            lacking = [name for name in rule.tools if (tool := lookup(name)) and option not in declared(tool)]
            if lacking:
                known = "never matches" if rule.verdict == "allow" else "matches every call"
                yield rule, f"{', '.join(lacking)} declares no {option}, so the test {known}", "correct the name"
        if rule.verdict == "allow" and not any(not example.matches for example in rule.examples):
            yield rule, "an allow rule without no_match", "add a call that it must not allow: `no_match: [{args: []}]`"


def declared(tool: Tool) -> tuple[str, ...]:
    """The arguments of a tool, by the names that rules use."""
    return tuple(spelled(one) for one in tool.parameters) if tool.declared else (FREE,)
