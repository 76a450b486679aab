"""What the policy files say together: verdicts, limits, how tools are confined, what they get. Decides on no call.

The system's file is a ceiling for the user's, a project's or a skill's file only narrows. `require` is what the person
chose; `floor` is the least level for every call beside it, which a narrowing file or flag raises.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness.documents import Node
from harness.errors import HarnessError
from harness.policy import (
    DEFAULT_EFFECTS,
    LEVELS,
    SETTINGS,
    Bound,
    Level,
    Limits,
    Policy,
    Require,
    Rule,
    Setting,
    Unattended,
)
from harness.policy.confinement import size_of
from harness.policy.files import config_folder, read, read_trusted
from harness.policy.layer import Channel, Hosts, Layer, SecretRule
from harness.policy.names import lies_in
from harness.policy.reading import Kind, Reader
from harness.tools import Tool

SYSTEM_FILE = Path("/etc/harness/policy.yaml")
PROJECT_FILE = Path(".harness") / "policy.yaml"
REMEMBER_DAYS = 30
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """The merged policy. A level for `require` is also the `floor`; with `auto` the floor holds beside its rules.

    `tests` are tools with the profile of a test runner, `unconfined` ones that run without confinement and why.
    `hosts` are host or host:port in their normal form, or `any`; `env` plain variables, both by tool; `secrets` by
    name. `limits` are the most that a tool may have.
    `read` and `write` are absolute roots, None for the workspace alone; `protect` and `hide` more names or places that
    are never written or read; `unprotect` protected names by the tool that may write them. `remember_days` is how long
    a grant lasts; `channels` say who may approve in a chat. `budget` are limits, `rules` verdicts, each with its place.
    """

    require: Require = "auto"
    floor: Level = "none"
    limits: Limits = field(default_factory=Limits)
    tests: frozenset[str] = frozenset()
    unconfined: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, Hosts] = field(default_factory=dict)
    env: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secrets: Mapping[str, SecretRule] = field(default_factory=dict)
    effects: Mapping[str, Setting] = field(default_factory=lambda: DEFAULT_EFFECTS)
    unattended: Unattended = "park"
    remember_days: int = REMEMBER_DAYS
    channels: Mapping[str, Channel] = field(default_factory=dict)
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    protect: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    unprotect: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    budget: tuple[Bound, ...] = ()
    rules: tuple[Rule, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all of it, whatever files it came from and in whatever order and on what lines they say it."""
        plain = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        return hashlib.sha256(_json(plain).encode()).hexdigest()

    def policy(self, *flags: Rule) -> Policy:
        """What a call is decided by, with the rules that flags stand for."""
        return Policy(self.effects, (*self.rules, *flags), self.unattended)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    """The value without places and examples, and what has no order in one order."""
    if isinstance(value, Rule | Bound):
        said = {name: part for name, part in asdict(value).items() if name not in ("place", "examples", "why")}
        return {**said, "where": sorted(map(_json, said.get("where", ())))}
    if isinstance(value, tuple | frozenset):
        return sorted(map(_json, map(_plain, value)))
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def user_file(env: Mapping[str, str]) -> Path:
    """Where a user's own policy is."""
    return config_folder(env) / "policy.yaml"


def load(
    workspace: Path | None, env: Mapping[str, str] | None = None, system: Path = SYSTEM_FILE, whole: bool = True
) -> Settings:
    """The policy of the system, the user and, if it is `whole`, the project; of a project only they count otherwise.

    Raises HarnessError, exit 2, with file, line and fix.
    """
    env = os.environ if env is None else env
    home, own = home_of(env), user_file(env)
    near = workspace or home
    top = _layer(read_trusted(system, {0}, workspace, None), Reader(system, "system", near, home))
    user = _layer(read_trusted(own, {os.geteuid(), 0}, workspace, home), Reader(own, "user", near, home))
    settings = merged(top, user)
    if workspace is None or not whole:
        return settings
    return narrowed(settings, workspace / PROJECT_FILE, "project", workspace, home)


def home_of(env: Mapping[str, str]) -> Path:
    """The person's home folder."""
    return Path(env.get("HOME") or Path.home()).absolute()


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
        effects={effect: _strictest_of(top, user, effect) for effect in DEFAULT_EFFECTS},
        unattended="deny" if "deny" in (top.unattended, user.unattended) else "park",
        remember_days=_fewest(top.remember_days, user.remember_days),
        channels=_below(top.channels, user.channels, {}, lambda most, own: _both(most, own, _fewer_people)),
        read=_deeper(top.read, user.read),
        write=_deeper(top.write, user.write),
        protect=(*top.protect, *user.protect),
        hide=(*top.hide, *user.hide),
        unprotect=_below(top.unprotect, user.unprotect, {}, lambda most, own: _both(most, own, _shared)),
        budget=(*top.budget, *user.budget),
        rules=(*top.rules, *user.rules),
    )


def _strictest_of(top: Layer, user: Layer, effect: str) -> Setting:
    said = [setting for layer in (top, user) if (setting := layer.effects.get(effect)) is not None]
    return max(said, key=SETTINGS.index) if said else DEFAULT_EFFECTS[effect]


def narrowed(settings: Settings, path: Path, kind: Kind, workspace: Path, home: Path) -> Settings:
    """The settings under a file that can only narrow, a project's or a skill's; the same without such a file."""
    layer = _layer(read(path), Reader(path, kind, workspace, home))
    require, floor = _strictest(settings.require, settings.floor, layer.require)
    own = (os.path.realpath(workspace),)
    return replace(
        settings, require=require, floor=floor, limits=_least(settings.limits, layer.limits),
        effects={e: max(s, layer.effects.get(e, s), key=SETTINGS.index) for e, s in settings.effects.items()},
        unattended="deny" if "deny" in (settings.unattended, layer.unattended) else "park",
        remember_days=_fewest(settings.remember_days, layer.remember_days),
        channels=_below(settings.channels, layer.channels, {}, lambda most, own: _both(most, own, _fewer_people)),
        read=settings.read if layer.read is None else _deeper(_within(settings.read, own), layer.read),
        write=settings.write if layer.write is None else _deeper(_within(settings.write, own), layer.write),
        protect=(*settings.protect, *layer.protect), hide=(*settings.hide, *layer.hide),
        budget=(*settings.budget, *layer.budget), rules=(*settings.rules, *layer.rules),
    )  # fmt: skip


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


def _layer(root: Node | None, reader: Reader) -> Layer:
    if root is None:
        return Layer()
    from harness.policy.layerfile import read_layer  # what reads and checks values is only needed for a file

    return read_layer(root, reader)


def _within(roots: tuple[str, ...] | None, own: tuple[str, ...]) -> tuple[str, ...]:
    """The roots of the layers before; none at all where these have nothing in common, which is not the default."""
    return own if roots is None else roots


def _deeper(most: tuple[str, ...] | None, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The folders that lie in both lists, if both are there: of two that lie within each other the deeper one."""
    if most is None or own is None:
        return own if most is None else most
    inside = [one for one in own if any(lies_in(one, other) for other in most)]
    return tuple(dict.fromkeys([*inside, *(one for one in most if any(lies_in(one, other) for other in own))]))


def _fewest(*days: int | None) -> int:
    return min((number for number in days if number is not None), default=REMEMBER_DAYS)


def _fewer_people(most: Channel, own: Channel) -> Channel:
    return Channel(_shared(most.users, own.users), _shared(most.channels, own.channels))


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
