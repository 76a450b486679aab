"""No model: a skill's pipeline is run once, and its output is the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.models import Ended, Failure, Model, ModelRef, Opening, Prompt, Reply
from harness.models.failures import failure
from harness.models.verbs import proposal

if TYPE_CHECKING:
    from harness.executor import Cancel
    from harness.skills import Skill


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """Nobody. Raises HarnessError for a name, and for a skill without a pipeline to stand in."""
    if name:
        raise HarnessError(f"none takes no name: 'none:{name}'", "write none", source)
    if skill is not None:
        _pipeline(skill, source)
    return ModelRef("none", "", source)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The skill's pipeline in place of a model."""
    assert how.skill is not None, "nobody answers no question"
    return NoModel(_pipeline(how.skill, ref.source), how.args, ref=ref)


def _pipeline(skill: Skill, source: str) -> str:
    if skill.pipeline:
        return skill.pipeline
    fix = "name one in metadata.pipeline, or a model: -m"
    raise HarnessError(f"none runs a skill's pipeline, and {skill.name} has none", fix, source)


class NoModel:
    """Proposes `pipeline` with `args`, then its stdout as the answer; a pipeline that did not end OK ends the run.

    Where the run goes on after its end, the pipeline is proposed again: of its stages only those run that must.
    """

    def __init__(self, pipeline: str, args: tuple[str, ...], *, ref: ModelRef | None = None) -> None:
        self.ref = ref or ModelRef("none", "")
        self.pipeline, self.args = pipeline, args

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        ended = prompt.ended.get(self.pipeline)
        if ended is None or ended.before:
            return proposal(prompt.turn, "run", {"tool": self.pipeline, "args": list(self.args)}, "none")
        if ended.error_class != "OK":
            return failure("pipeline", _failed(self.pipeline, ended))
        return proposal(prompt.turn, "finish", {"answer": ended.out()}, "none")

    def warm(self) -> None:
        """Nothing to do ahead."""

    def close(self) -> None:
        """Nothing to close."""


def _failed(pipeline: str, ended: Ended) -> str:
    why = ended.why()
    return f"{pipeline} ended {ended.error_class}" + (f": {why}" if why else "")
