"""What an attempt of a tool costs, as a ratio to a bare spawn: `python tests/bench/spawn.py [ROUNDS]`.

The two are run in turn, and their fastest and their median rounds are compared. It prints one row and never fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.events.io import IO
from harness.executor import Cancel, Job, environment, run

PROGRAM = "/bin/true"
GOAL = 2.5


def measure(rounds: int, *actions: Callable[[], object]) -> list[list[float]]:
    """Milliseconds of each round of each action, run in turn."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, taken in zip(actions, times, strict=True):
            began = time.perf_counter()
            action()
            taken.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        env = environment(op_id="bench/1", run=place, out=place, depth=0, passed={}, skill=None)
        job, io, cancel = Job((PROGRAM,), place, env, 60, "bench/1"), IO(), Cancel()
        bare, ours = measure(rounds, lambda: subprocess.Popen([PROGRAM]).wait(), lambda: run(job, io, cancel))
    print(
        f"G9 attempt of {PROGRAM} | bare spawn {min(bare):.2f} ms, median {median(bare):.2f}"
        f" | ours {min(ours):.2f} ms, median {median(ours):.2f}"
        f" | ratio {min(ours) / min(bare):.2f}, of medians {median(ours) / median(bare):.2f} | goal {GOAL}"
    )


if __name__ == "__main__":
    main()
