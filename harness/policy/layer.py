"""What one policy file says, as values; nothing here reads or merges them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.policy import Bound, Require, Rule, Setting, Unattended

Hosts = tuple[str, ...] | Literal["any"]
From = Literal["env", "file"]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The tools that get a secret, and where its value is kept: the harness's environment, or a file of its own."""

    tools: tuple[str, ...]
    source: From


@dataclass(frozen=True, slots=True)
class Channel:
    """Who may speak in a chat channel, and in which of its rooms."""

    users: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file says; None for a key that it does not have. Paths are absolute, with links resolved.

    Entries of `protect` and `hide` are folded names, or paths if they hold a slash.
    """

    require: Require | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    tests: frozenset[str] | None = None
    unconfined: Mapping[str, str] | None = None
    hosts: Mapping[str, Hosts] | None = None
    env: Mapping[str, tuple[str, ...]] | None = None
    secrets: Mapping[str, SecretRule] | None = None
    effects: Mapping[str, Setting] = field(default_factory=dict)
    unattended: Unattended | None = None
    remember_days: int | None = None
    channels: Mapping[str, Channel] | None = None
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    protect: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    unprotect: Mapping[str, tuple[str, ...]] | None = None
    budget: tuple[Bound, ...] = ()
    rules: tuple[Rule, ...] = ()
