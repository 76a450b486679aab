"""What may follow a proposal. The model proposes; nothing here asks it, and nothing it says about itself counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["none", "limits", "landlock", "full"]
LEVELS: tuple[Level, ...] = ("none", "limits", "landlock", "full")
"""Levels of confinement, weakest first."""

Require = Literal["auto", "none", "limits", "landlock", "full"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one attempt: bytes, counts. `output` is what is kept of stdout and of stderr each."""

    memory: int = 4 * 1024**3
    files: int = 256
    file_size: int = 1024**3
    procs: int = 128
    output: int = 8 * 1024**2
