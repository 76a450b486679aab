"""Confinement: which level this machine can really give, and how a command is started inside it.

Nothing here decides what may run. `full` is bubblewrap with namespaces, `landlock` the kernel's Landlock and seccomp
entered by a fresh thread, `limits` resource limits without capabilities, `none` what every level has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.policy import LEVELS, Level, Limits

__all__ = ["LEVELS", "Cage", "Level", "Limits", "Machine", "Network", "Tested"]

Network = Literal["off", "loopback", "proxy", "host"]


@dataclass(frozen=True, slots=True)
class Cage:
    """What one attempt may touch. All paths are absolute and resolved.

    `workspace` is writable for a write call (`writable`), else readable. `scratch` is the attempt's own `work/` folder,
    always writable, and all that it may write of the run's folder. `read` are more readable paths (the tool's file and
    its folder, paths of passed variables, the skill's folder), `write` more writable ones (the drafts). System and
    interpreter are readable without being named. `protect` are names inside the workspace that must not change: bound
    read-only at full. `hide` are paths that must not be read: covered at full, at landlock in read calls. Where they
    lie within each other the longest path decides. `network` is off, a loopback of its own (at full; elsewhere
    the host's network), the proxy alone (full), or the host's. `proxy` is
    the socket of the proxy when it is used.
    """

    level: Level
    workspace: Path
    scratch: Path
    writable: bool = False
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    protect: tuple[Path, ...] = ()
    hide: tuple[Path, ...] = ()
    network: Network = "off"
    proxy: Path | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Tested:
    """What a self-test saw at one level: act number → blocked; `reason` is why the level does not count, or empty."""

    level: Level
    blocked: tuple[int, ...] = ()
    open: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The levels this machine gives, each with what its self-test saw; `gaps` are sentences for people."""

    levels: Mapping[Level, Tested] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()

    def gives(self, level: Level) -> bool:
        return level in ("none", "limits") or (level in self.levels and not self.levels[level].reason)
