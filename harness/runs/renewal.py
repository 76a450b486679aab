"""Another model for a run that goes on: a new context, and who takes over from a model that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from harness.errors import HarnessError, near_text
from harness.loop.context import limit_of, renew
from harness.loop.run import Run
from harness.models import Model, ModelRef
from harness.models.choice import StandIn, Wishes
from harness.models.prices import shipped
from harness.models.resolve import resolve
from harness.models.retry import is_dearer
from harness.policy.budget import limit


def refuse_unpriced(ref: ModelRef, usd: object) -> None:
    """Raises HarnessError (exit 2) where a limit in money cannot be kept, since nobody knows what a token costs."""
    if ref.price is None and usd not in (None, "none"):
        near = near_text(ref.text, shipped().entries)
        what = f"the price of {ref.text} is not known{near}, so a budget of {usd} USD cannot be kept"
        entry = f"`models: {{'{ref.text}': {{in: USD, out: USD}}}}`"
        raise HarnessError(what, f"put {entry} (a million tokens) into prices.yaml beside your config.yaml, "
                                 "or lift the limit: -b usd=none")  # fmt: skip


@dataclass(slots=True)
class StandIns:
    """The models that a user lets take over in a run, in order."""

    run: Run
    wishes: Wishes
    open_model: Callable[[ModelRef], Model]

    def take_over(self) -> bool:
        """Let the next one speak that can be used and paid for. False where there is none."""
        assert self.run.model is not None
        now = self.run.model.ref
        for stand_in in self._after(now):
            other = self._opened(stand_in, now)
            if other is not None:
                self.run.model.close()
                self.run.model = other
                renew(self.run, "model", limit_of(self.run))  # where it has no room, the next request says so
                return True
        return False

    def _after(self, now: ModelRef) -> Iterator[StandIn]:
        """Those behind the one that speaks; all of them behind the run's own model."""
        chain = self.wishes.stand_ins.get(now.role, ())
        at = next((n for n, stand_in in enumerate(chain, 1) if stand_in.text == now.text), 0)
        yield from chain[at:]

    def _opened(self, stand_in: StandIn, now: ModelRef) -> Model | None:
        """The model, where it may take over. One that cannot be used is said and passed over: the run can wait."""
        try:
            ref = replace(resolve(stand_in.text, source="models.fallback"), role=now.role)
            why = self._why_not(stand_in, ref, now)
            if why:
                self.run.world.tell(f"{stand_in.text} does not take over: {why}")
            return None if why else self.open_model(ref)
        except HarnessError as error:
            self.run.world.tell(f"warning: {stand_in.text} cannot take over: {error.message}; fix: {error.fix}")
            return None

    def _why_not(self, stand_in: StandIn, ref: ModelRef, now: ModelRef) -> str:
        """Why it may not take over; empty where it may."""
        if ref.price is None and limit(self.run.state.budget, "usd") is not None:
            return "its price is not known, so the limit in usd could not be kept"
        return "" if stand_in.dearer or not is_dearer(ref, now) else "it may cost more, and is not marked `dearer: yes`"
