"""What the policy files say together: how tools are confined, and what they get. Not the verdict on a call.

The system's file is a ceiling for the user's, a project's or a skill's file only narrows. `require` is what the person
chose; `floor` is the least level for every call beside it, which a narrowing file or flag raises.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from harness.documents import Node
from harness.errors import HarnessError
from harness.policy import LEVELS, Level, Limits, Require
from harness.policy.files import config_folder, read, read_trusted
from harness.policy.layer import Hosts, Kind, Layer, SecretRule, read_layer, size_of
from harness.tools import Tool

SYSTEM_FILE = Path("/etc/harness/policy.yaml")
PROJECT_FILE = Path(".harness") / "policy.yaml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """The merged policy. A level for `require` is also the `floor`; with `auto` the floor holds beside its rules.

    `tests` are tools with the profile of a test runner, `unconfined` ones that run without confinement and why.
    `hosts` are host or host:port in their normal form, or `any`; `env` plain variables, both by tool; `secrets` by
    name. `limits` are the most that a tool may have.
    """

    require: Require = "auto"
    floor: Level = "none"
    limits: Limits = field(default_factory=Limits)
    tests: frozenset[str] = frozenset()
    unconfined: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, Hosts] = field(default_factory=dict)
    env: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secrets: Mapping[str, SecretRule] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, whatever files it came from and in whatever order they say it."""
        plain = {**asdict(self), "tests": sorted(self.tests)}
        return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def user_file(env: Mapping[str, str]) -> Path:
    """Where a user's own policy is."""
    return config_folder(env) / "policy.yaml"


def load(workspace: Path | None, env: Mapping[str, str] | None = None, system: Path = SYSTEM_FILE) -> Settings:
    """The policy of the system, the user and the project. Raises HarnessError, exit 2, with file, line and fix."""
    env = os.environ if env is None else env
    home = Path(env.get("HOME") or Path.home()).absolute()
    top = _layer(read_trusted(system, {0}, workspace, None), system, "system")
    own = user_file(env)
    user = _layer(read_trusted(own, {os.geteuid(), 0}, workspace, home), own, "user")
    settings = merged(top, user)
    return settings if workspace is None else narrowed(settings, workspace / PROJECT_FILE, "project")


def merged(top: Layer, user: Layer) -> Settings:
    """The user's layer below the system's ceiling: a key that the system does not have is the user's alone."""
    first = top.require or user.require or "auto"
    require, floor = _strictest(first, "none", user.require)
    return Settings(
        require=require,
        floor=floor,
        limits=_least(replace(Limits(), **{**user.limits, **top.limits}), user.limits),
        tests=_below(top.tests, user.tests, frozenset[str](), lambda most, own: most & own),
        unconfined=_below(top.unconfined, user.unconfined, {}, lambda most, own: _both(most, own, lambda a, b: b)),
        hosts=_below(top.hosts, user.hosts, {}, lambda most, own: _both(most, own, _fewer_hosts)),
        env=_below(top.env, user.env, {}, lambda most, own: _both(most, own, _shared)),
        secrets=_below(top.secrets, user.secrets, {}, lambda most, own: _both(most, own, _fewer_tools)),
    )


def narrowed(settings: Settings, path: Path, kind: Kind = "skill") -> Settings:
    """The settings under a file that can only narrow, a project's or a skill's; the same without such a file."""
    layer = _layer(read(path), path, kind)
    require, floor = _strictest(settings.require, settings.floor, layer.require)
    return replace(settings, require=require, floor=floor, limits=_least(settings.limits, layer.limits))


def raised(settings: Settings, word: Require) -> Settings:
    """The settings under `--sandbox WORD`. Raises HarnessError for a word that would lower the confinement."""
    require, floor = _strictest(settings.require, settings.floor, word)
    holds = require == "auto" if word == "auto" else floor == word
    if not holds or (word in ("none", "limits") and settings.require == "auto"):
        message = f"--sandbox {word} would lower the confinement, which is {_said(settings)} by policy"
        raise HarnessError(message, "leave it out, or set sandbox.require in your own policy.yaml")
    return replace(settings, require=require, floor=floor)


def limits_of(tool: Tool, settings: Settings) -> Limits:
    """The limits of one tool: what its header asks for, as far as it is less than what the policy gives."""
    words = (word.partition("=") for word in tool.roles.get("limit", ()))
    return _least(settings.limits, {key: size for key, _, text in words if (size := size_of(text)) is not None})


def _layer(root: Node | None, path: Path, kind: Kind) -> Layer:
    return Layer() if root is None else read_layer(root, path, kind)


def _said(settings: Settings) -> str:
    both = settings.require == "auto" and settings.floor != "none"
    return f"auto and at least {settings.floor}" if both else settings.require


def _strictest(require: Require, floor: Level, more: Require | None) -> tuple[Require, Level]:
    """Both together: the rules of auto if either has them, and the higher of the levels."""
    words = [word for word in (require, more) if word is not None]
    levels = [floor, *(word for word in words if word != "auto")]
    highest = max(levels, key=LEVELS.index)
    return ("auto" if "auto" in words else highest), highest


def _least(limits: Limits, more: Mapping[str, int]) -> Limits:
    return replace(limits, **{key: min(number, getattr(limits, key)) for key, number in more.items()})


def _below(most: T | None, own: T | None, neither: T, narrow: Callable[[T, T], T]) -> T:
    if most is None or own is None:
        return next((one for one in (most, own) if one is not None), neither)
    return narrow(most, own)


def _both(most: Mapping[str, T], own: Mapping[str, T], narrow: Callable[[T, T], T]) -> Mapping[str, T]:
    return {name: narrow(most[name], own[name]) for name in own if name in most}


def _shared(most: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in own if name in most)


def _fewer_hosts(most: Hosts, own: Hosts) -> Hosts:
    if most == "any" or own == "any":
        return own if most == "any" else most
    return tuple(name for name in own if name in most or name.rpartition(":")[0] in most)


def _fewer_tools(most: SecretRule, own: SecretRule) -> SecretRule:
    return SecretRule(_shared(most.tools, own.tools), most.source)
