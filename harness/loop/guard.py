"""What settings and machine come to: the level of a call, and what no tool may read. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.loop.fence import Fence
from harness.policy import LEVELS, Level
from harness.policy.hosts import Grant, hosts_of
from harness.policy.request import Request, Values
from harness.policy.settings import Settings
from harness.policy.vouching import Trust
from harness.sandbox import Machine
from harness.sandbox.choose import Call, Choice, Refusal, level_for, strongest, summary
from harness.sandbox.facts import Facts
from harness.secrets import Passed, Released, passed, released, store
from harness.secrets.masker import Masker
from harness.tools import Tool


@dataclass(slots=True)
class Guard:
    """What the person's settings and this machine come to, for a run and its children.

    `least` is what `--sandbox` asks for. `readable` are files and folders that the person named as inputs. `hidden`
    are folders that no tool reads: other runs, settings, secrets. `keys` are the names of keys that the person's
    settings give to model endpoints; `masker` knows what must show nowhere; `trust` is that of the world.
    """

    settings: Settings
    machine: Machine
    facts: Facts
    fence: Fence
    least: Level = "none"
    trust: Trust = field(default_factory=Trust)
    environ: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    keys: frozenset[str] = frozenset()
    masker: Masker = field(default_factory=Masker)
    _told: tuple[Settings, str] | None = None

    def policy_digest(self) -> str:
        """The digest of the settings, made once for each."""
        if self._told is None or self._told[0] is not self.settings:
            self._told = self.settings, self.settings.digest
        return self._told[1]

    def best(self) -> Level:
        """The strongest level that calls get here."""
        return strongest(self.machine, self.settings.require, self.floor())

    def floor(self) -> Level:
        """The least level of every call, beside the rules of `require`."""
        return max(self.least, self.settings.floor, key=rank)

    def summary(self) -> str:
        """The line that says what calls get here, and why."""
        return summary(self.machine, self.settings.require, self.floor())

    def reason(self, level: Level) -> str:
        """Why the machine does not give a level."""
        tested = self.machine.levels.get(level)
        return tested.reason if tested is not None and tested.reason else "not tested"

    def told(self) -> dict[str, Any]:
        """What `run.start` says of it: the best level, what its self-test saw blocked and open, and the reason."""
        best = self.best()
        tested = self.machine.levels.get(best)
        blocked, left = (list(tested.blocked), list(tested.open)) if tested is not None else ([], [])
        return {"level": best, "blocked": blocked, "open": left, "reason": self.summary()}

    def is_test_runner(self, tool: Tool) -> bool:
        """Whether the tool has the profile of a test runner: it writes the workspace and uses loopback."""
        return tool.name in self.settings.tests

    def given(self, tool: Tool) -> Settings:
        """The settings as they hold for a tool: what is given to a name is not given to a file that nobody trusts."""
        if self.trust.of(tool.path) == "trusted":
            return self.settings
        return replace(self.settings, env={}, secrets={}, hosts={})

    def passed(self, tool: Tool) -> Passed:
        """The plain variables that the person passes to a tool."""
        return passed(tool, self.given(tool), self.environ)

    def released(self, tool: Tool, yes: bool = False) -> Released:
        """The secrets of a tool. One that is there and may not be used is a problem of the call, not of the run.

        `yes`: a person said that it may have those that the policy does not give to it.
        """
        try:
            found = released(tool, self.given(tool), self.environ, self.fence.workspace, self.keys, yes)
            self.masker.learn({name: value.reveal() for name, value in found.values.items()})
            return found
        except HarnessError as error:
            return Released(problems=(f"{tool.name}: {error.where or ''} {error.message}; {error.fix}",))

    def level(self, tool: Tool, effect: str) -> Choice | Refusal:
        """The level a call of this effect gets here, or why it may not run at all."""
        return self._level(tool, effect, self.released(tool))

    def _level(self, tool: Tool, effect: str, found: Released) -> Choice | Refusal:
        secret = bool(found.values or found.ungranted)
        if effect == "read" and self.is_test_runner(tool):
            effect = "write"
        trusted = self.trust.of(tool.path) == "trusted"
        call = Call(tool.name, effect, any(host != "none" for host in tool.net), secret, trusted)
        unconfined = self.settings.unconfined.get(tool.name, "")
        return level_for(call, self.machine, self.settings.require, unconfined, self.floor())

    def reaches(self, tool: Tool, values: Values, yes: bool = True) -> Grant:
        """Where a call with these values may connect, with the secrets that a person's yes would release.

        Raises HarnessError for a value that names no host.
        """
        if not any(word != "none" for word in tool.net):
            return Grant()
        plain = self.passed(tool).variables
        secret = {name: value.reveal() for name, value in self.released(tool, yes).values.items()}
        return hosts_of(tool, values, {**plain, **secret}, self.given(tool))

    def confined(self, tool: Tool, request: Request) -> Request:
        """The request with what the call would be given and how it would be confined, or why it may not run so."""
        if tool.pipeline:
            return request
        secret = self.released(tool)
        choice = self._level(tool, request.effect, secret)
        env = tuple(sorted(self.passed(tool).variables))
        request = replace(request, env=env, secrets=tuple(sorted(secret.values)), auth=secret.problems)
        request = replace(request, ungranted=secret.ungranted, lacking=secret.missing)
        try:
            request = replace(request, hosts=self.reaches(tool, request.values).hosts())
        except HarnessError as error:
            return replace(request, problems=(f"{error.message}; {error.fix}",))
        if isinstance(choice, Refusal):
            return replace(request, caged=f"{choice.why}; {choice.fix}")
        unconfined = tool.name in self.settings.unconfined and choice.level == "none"
        return replace(request, level=choice.level, unconfined=unconfined)


def rank(level: Level) -> int:
    """How strong a level is; weakest first."""
    return LEVELS.index(level)


def hidden_folders(environ: Mapping[str, str], runs: Path, config: Path, state: Path) -> tuple[Path, ...]:
    """What no tool reads: other runs, the person's settings and their secrets."""
    return tuple(path.resolve() for path in (runs, config, state, store(environ)))
