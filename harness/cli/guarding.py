"""What confines the tools of one command: the person's settings, what this machine was seen to give, what is hidden."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

from harness.cli.place import EVALS, Place, found_tool, runs_dir
from harness.errors import DeniedError, HarnessError, near_text
from harness.executor import tree
from harness.loop.fence import Fence
from harness.loop.guard import Guard, hidden_folders
from harness.policy import LEVELS, Level, Require
from harness.policy.examples import check_examples
from harness.policy.files import check_private, config_folder, state_folder
from harness.policy.settings import PROJECT_FILE, Settings, load, raised
from harness.sandbox.facts import Facts, facts
from harness.sandbox.kernel import set_undumpable
from harness.sandbox.names import with_links
from harness.sandbox.probe import test_machine
from harness.secrets import masker
from harness.tools import Tool


def make_guard(at: Place, sandbox: str | None) -> Guard:
    """Read the settings, test the machine, and say what no tool reads. Raises HarnessError, exit 2 or 7."""
    set_undumpable()
    tree.prepare()  # what the self-test leaves behind is ours to end
    return guard_for(at, sandbox, facts())


def guard_for(at: Place, sandbox: str | None, here: Facts) -> Guard:
    """The same on a machine of which `here` is true."""
    check_private(state_folder(os.environ))
    settings = _settings(at, sandbox)
    check_examples(settings.rules, lambda name: found_tool(at, name), at.project, settings)
    levels: tuple[Level, ...] = ("landlock", "full")
    wanted = [level for level in levels if _is_wanted(level, settings)]
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        machine = test_machine(here, Path(scratch).resolve(), wanted)
    keys = frozenset(at.config.value("endpoints").values())
    guard = Guard(
        without_keys(settings, keys), machine, here, _fence(at), trust=at.trust, environ=dict(os.environ),
        hidden=_hidden(at), keys=keys, masker=masker(settings, os.environ, at.project.resolve(), keys),
    )  # fmt: skip
    guard.fence.protect = settings.protect
    if settings.floor != "none" and not any(machine.gives(level) for level in LEVELS[LEVELS.index(settings.floor) :]):
        what = f"this machine does not give the confinement {settings.floor} ({guard.reason(settings.floor)})"
        raise DeniedError(what, "lower `sandbox.require` in your own policy.yaml, or mend the cause")
    return guard


def _settings(at: Place, sandbox: str | None) -> Settings:
    settings = load(at.project, whole=at.trust.of(at.project / PROJECT_FILE) != "untrusted")
    if sandbox is None:
        return settings
    words = ("auto", *LEVELS)
    if sandbox not in words:
        fix = f"use one of {' '.join(words)}"
        raise HarnessError(f"--sandbox {sandbox} is no level{near_text(sandbox, words)}", fix)
    return raised(settings, cast(Require, sandbox))


def without_keys(settings: Settings, keys: frozenset[str]) -> Settings:
    """The settings without what would pass a model endpoint's key to a tool as a plain variable."""
    env = {tool: tuple(name for name in names if name not in keys) for tool, names in settings.env.items()}
    return replace(settings, env=env)


def _is_wanted(level: Level, settings: Settings) -> bool:
    """A level that nobody will get needs no test."""
    return settings.require == "auto" or LEVELS.index(level) >= LEVELS.index(settings.require)


def _fence(at: Place) -> Fence:
    return Fence(at.project.resolve(), tool_places(at))


def tool_places(at: Place) -> list[Path]:
    """The folders of tools and skills, and what the links in them end at, as real paths."""
    return with_links(folder for root in at.roots for folder in (root.skills, root.bin) if folder is not None)


def _hidden(at: Place) -> tuple[Path, ...]:
    found = hidden_folders(os.environ, runs_dir(at), config_folder(os.environ), state_folder(os.environ))
    return (*found, (at.project / EVALS).resolve())


def confinement_notices(guard: Guard) -> list[str]:
    """The line that says what calls get here and why, and below full what stays open."""
    best = guard.best()
    lines = [guard.summary()]
    if best == "landlock":
        lines += [f"open: {gap}" for gap in guard.machine.gaps]
    if best == "none":
        whose = "of this machine" if os.geteuid() == 0 else "of yours"
        lines.append(f"open: everything; a tool can end every process {whose}, this one too")
    return lines


def secret_notices(guard: Guard, tools: Iterable[Tool]) -> list[str]:
    """Which secrets of these tools have no value: a call is refused for it, or its tool runs without."""
    found = [(tool, guard.released(tool)) for tool in tools if tool.env]
    lines = [f"warning: {problem}" for _, secret in found for problem in secret.problems]
    return lines + [f"{tool.name} runs without {' '.join(secret.missing)}, which has no value"
                    for tool, secret in found if secret.missing and not secret.problems]  # fmt: skip
