"""An open run of any kind, and how it is driven."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness import pipeline as pipelines
from harness.loop import single
from harness.loop.ending import close
from harness.loop.run import Run, Stop
from harness.loop.turn import drive
from harness.models import ModelRef
from harness.skills import Skill


@dataclass(slots=True)
class Session:
    """An open run with what drives it. `skill` is None for a pipeline or a single tool."""

    run: Run
    kind: str
    limits: str
    model: ModelRef | None = None
    skill: Skill | None = None
    pipeline: Any = None
    call: tuple[str, list[str]] = ("", [])
    warnings: list[str] = field(default_factory=list)

    def go(self) -> Stop:
        """Drive the run until it stops."""
        if self.kind == "pipeline":
            return pipelines.drive(self.run, self.pipeline)
        if self.kind == "tool":
            return single.drive(self.run, *self.call)
        return drive(self.run)

    def close(self) -> None:
        """Give the run back, and end what its model holds."""
        close(self.run)
