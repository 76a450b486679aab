"""Another agent is the model: each of its commands is one reply of one call. Nothing is sent anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.events.words import AGENT
from harness.models import Failure, ModelRef, Prompt, Reply
from harness.models.failures import failure
from harness.models.verbs import proposal

if TYPE_CHECKING:
    from harness.executor import Cancel

NAME, FLAG = AGENT, "--agent"


def named(source: str) -> ModelRef:
    """The agent that drives. Raises HarnessError where it was named as a model."""
    if source != FLAG:
        raise HarnessError("another agent is no model that can be named", "let it drive: --agent", source)
    return ModelRef(NAME, "", FLAG)


class Agent:
    """Proposes the call it was given, once; after that it is the caller's turn."""

    def __init__(self, *, ref: ModelRef | None = None) -> None:
        self.ref = ref or ModelRef(NAME, "", FLAG)
        self._next: tuple[str, Mapping[str, Any]] | None = None

    def propose(self, verb: str, arguments: Mapping[str, Any]) -> None:
        """What the caller wants next."""
        self._next = (verb, arguments)

    @property
    def waits(self) -> bool:
        """Whether its call has not become a reply of the run yet."""
        return self._next is not None

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        if self._next is None:
            return failure("turn", "it is the agent's turn")
        (verb, arguments), self._next = self._next, None
        return proposal(prompt.turn, verb, arguments, NAME)

    def warm(self) -> None:
        """Nothing to do ahead."""

    def close(self) -> None:
        """Nothing to close."""
