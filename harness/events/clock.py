"""Time as the journal sees it: the wall read once, then a clock that never steps back."""

from __future__ import annotations

import time


class Clock:
    """`wall` is epoch seconds; `boot` counts on through suspend where the platform can, and never falls."""

    def wall(self) -> float:
        return time.time()

    def boot(self) -> float:
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let the boot clock advance by about so much."""
        time.sleep(seconds)


class Hand:
    """The hand of one epoch: starts at the later of the wall and the last event, and advances with the boot clock."""

    def __init__(self, clock: Clock, last: float = 0.0) -> None:
        self._clock = clock
        self._base = max(clock.wall(), last)
        self._boot = clock.boot()

    def now(self) -> float:
        return self._base + max(0.0, self._clock.boot() - self._boot)
