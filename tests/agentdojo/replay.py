"""The tasks and the attacks of AgentDojo through the real `decide`: `make agentdojo` prints a table. A report, no gate.

For each user task its own calls, and in its context every call of each attack that has any, with the task's prompt as
the user's words. It is static: nothing runs, and an attacker who adapts is stronger. Workspace and travel are for
developing; banking and slack are looked at untouched.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from agentdojo.task_suite.load_suites import get_suites  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.policy import EFFECTS, Policy, Rule, Test
from harness.policy.compose import Scene, compose
from harness.policy.decide import decide
from harness.policy.paths import Area
from harness.policy.request import Decision, Request
from harness.tools import Tool
from harness.tools.discovery import read_bin

VERSION = "v1.2.2"
HALVES = {"developed on": ("workspace", "travel"), "untouched": ("banking", "slack")}
EVERYWHERE = Area(Path("/"), ("/",), ("/",))
Call = tuple[str, Mapping[str, Any]]
Tools = Mapping[str, tuple[Tool, Tool | None, Sequence[str]]]
"""Name → its tool, the one for calls without a receiver, and the parameters that name receivers."""


@dataclass(slots=True)
class Figures:
    """What came of the tasks and attacks of some suites."""

    tasks: int = 0
    unasked: int = 0
    prompts: int = 0
    denied: int = 0
    pairs: int = 0
    through: Counter[str] = field(default_factory=Counter)
    approved: Counter[str] = field(default_factory=Counter)


def header(parameters: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """A tool's header: its parameters as options, and what tools.yaml says of it."""
    lines = ["#!/bin/sh", "# @describe A tool of AgentDojo"]
    for name, parameter in parameters.items():
        many = "list" in str(parameter.annotation)
        mark = ("+" if many else "!") if parameter.is_required() else ("*" if many else "")
        lines.append(f"# @option --{option(name)}{mark} <TEXT>  {name}")
    lines.append(f"# @meta effect {said.get('effect', 'read')}")
    lines += [f"# @meta dest --{option(name)}" for name in said.get("dest", ())]
    if "amount" in said:
        lines.append(f"# @meta amount --{option(said['amount'])} EUR")
    return "\n".join([*lines, "exit 0", ""])


def option(name: str) -> str:
    return name.replace("_", "-")


def tools_of(suite: Any, said: Mapping[str, Any], folder: Path) -> Tools:
    """The suite's tools as scripts with headers, read as the harness reads any."""
    folder.mkdir()
    for one in suite.tools:
        about = said.get(one.name, {})
        write_tool(folder / option(one.name), one, about)
        if "alone" in about:
            write_tool(folder / f"{option(one.name)}-alone", one, {"effect": about["effect"]})
    found, findings = read_bin(folder)
    wrong = [finding.text() for finding in findings if finding.severity in ("refused", "error")]
    if wrong:
        raise SystemExit("\n".join(wrong))
    names = [one.name for one in suite.tools]
    return {
        name: (found[option(name)], found.get(f"{option(name)}-alone"), said.get(name, {}).get("dest", ()))
        for name in names
    }  # fmt: skip


def write_tool(path: Path, tool: Any, about: Mapping[str, Any]) -> None:
    path.write_text(header(tool.parameters.model_fields, about))
    path.chmod(0o755)


def argv(arguments: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words += [f"--{option(name)}={one}"]
    return words


def calls_of(task: Any, suite: Any) -> list[Call]:
    environment = suite.load_and_inject_default_environment({})
    return [(call.function, call.args) for call in task.ground_truth(environment)]


def judged(
    tools: Tools, policy: Policy, calls: Iterable[Call], prompt: str, tainted: bool
) -> Iterator[tuple[Request, Decision]]:
    """The verdict on each call. Everything after the first result stands beside text that nobody vouches for."""
    for number, (name, arguments) in enumerate(calls):
        seen = tainted or number > 0
        scene = Scene(EVERYWHERE.workspace, lambda _: EVERYWHERE, lambda: (prompt,), policy=policy, tainted=seen)
        request = compose(tool_for(tools, name, arguments), argv(arguments), scene)
        yield request, decide(request, policy)


def policy_of(said: Mapping[str, Any]) -> Policy:
    """The defaults, and a rule for what names no receiver: it passes when the person said it."""
    alone = {option(name): about["alone"] for name, about in said.items() if "alone" in about}
    mine = Test("from", ("user",))
    return Policy(
        rules=tuple(
            Rule("allow", (f"{name}-alone",), where=((f"--{option(parameter)}", mine),))
            for name, parameter in alone.items()
        )
    )


def tool_for(tools: Tools, name: str, arguments: Mapping[str, Any]) -> Tool:
    """The tool of a call: one that names no receiver may have a tool of its own."""
    with_receiver, alone, receivers = tools[name]
    return with_receiver if alone is None or any(arguments.get(one) for one in receivers) else alone


def look_at(suite: Any, tools: Tools, policy: Policy, figures: Figures) -> None:
    attacks = [calls for task in suite.injection_tasks.values() if (calls := calls_of(task, suite))]
    for task in suite.user_tasks.values():
        verdicts = [decision for _, decision in judged(tools, policy, calls_of(task, suite), task.PROMPT, False)]
        asked = sum(decision.verdict == "ask" for decision in verdicts)
        figures.tasks += 1
        figures.prompts += asked
        figures.denied += any(decision.verdict == "deny" for decision in verdicts)
        figures.unasked += all(decision.verdict == "allow" for decision in verdicts)
        for calls in attacks:
            attack(list(judged(tools, policy, calls, task.PROMPT, True)), figures)


def attack(found: list[tuple[Request, Decision]], figures: Figures) -> None:
    """One pair, by the strongest effect of its calls: is nobody asked about any of them, and is one of them denied?"""
    figures.pairs += 1
    effect = max((request.effect for request, _ in found), key=EFFECTS.index)
    verdicts = {decision.verdict for _, decision in found}
    figures.through[effect] += verdicts == {"allow"}
    figures.approved[effect] += "deny" not in verdicts


def report(name: str, figures: Figures) -> str:
    return (
        f"{name:14s} {figures.unasked} of {figures.tasks} tasks without a prompt "
        f"({figures.unasked / figures.tasks:.1%}), {figures.prompts / figures.tasks:.2f} prompts a task, "
        f"{figures.denied} with a denied call\n"
        f"{'':14s} of {figures.pairs} attacks allowed unasked: {counted(figures.through)}; "
        f"if every prompt is approved: {counted(figures.approved)}"
    )


def counted(effects: Counter[str]) -> str:
    """The sum, and what it is made of."""
    parts = ", ".join(f"{effects[effect]} {effect}" for effect in EFFECTS if effects[effect])
    return f"{effects.total()} ({parts})" if parts else "0"


def main() -> int:
    suites = get_suites(VERSION)
    said = yaml.safe_load((Path(__file__).parent / "tools.yaml").read_text())
    whole = Figures()
    with TemporaryDirectory() as place:
        for half, names in HALVES.items():
            figures = Figures()
            for name in names:
                tools = tools_of(suites[name], said[name], Path(place) / name)
                for counted in (figures, whole):
                    look_at(suites[name], tools, policy_of(said[name]), counted)
            print(report(half, figures))
    print(report("both", whole))
    return 0


if __name__ == "__main__":
    sys.exit(main())
