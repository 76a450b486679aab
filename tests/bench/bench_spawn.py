"""What an attempt of a tool costs, as a ratio to a bare spawn: `python tests/bench/bench_spawn.py [ROUNDS]`.

All are run in turn, and their fastest and their median rounds are compared. It prints rows and never fails.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.events.io import IO
from harness.executor import Cancel, Job, environment, prepare, run, run_shim

PROGRAM = "/bin/true"
PYTHON_TOOL = "import argparse, json, sys\nargparse.ArgumentParser().parse_args()\n"
Action = Callable[[], object]


def measure(rounds: int, *actions: Action) -> list[list[float]]:
    """Milliseconds of each round of each action, run in turn."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, taken in zip(actions, times, strict=True):
            began = time.perf_counter()
            action()
            taken.append((time.perf_counter() - began) * 1000)
    return times


def actions(place: Path, argv: tuple[str, ...]) -> tuple[Action, Action, Action]:
    """The bare spawn, the direct attempt, the one through the shim, of one command in one environment."""
    env = environment(op_id="bench/1", run=place, out=place, depth=0, passed={}, skill=None)
    job, io, cancel = Job(argv, place, env, 60, "bench/1"), IO(), Cancel()
    numbers = itertools.count()

    def shim() -> None:
        folder = place / f"{Path(argv[-1]).name}-{next(numbers)}"
        folder.mkdir()
        run_shim(job, prepare(folder, job, io), io, cancel)

    def bare() -> None:
        subprocess.Popen(argv).wait()

    return bare, lambda: run(job, io, cancel), shim


def row(what: str, bare: list[float], ours: list[float], goal: float) -> str:
    return (
        f"{what:<28} | bare spawn {min(bare):.2f} ms, median {median(bare):.2f}"
        f" | ours {min(ours):.2f} ms, median {median(ours):.2f}"
        f" | ratio {min(ours) / min(bare):.2f}, of medians {median(ours) / median(bare):.2f} | goal {goal}"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tool = place / "tool.py"
        tool.write_text(PYTHON_TOOL)
        bare, direct, shim = measure(rounds, *actions(place, (PROGRAM,)))
        print(row(f"G9 {PROGRAM}, direct", bare, direct, 2.5))
        print(row(f"G9 {PROGRAM}, shim", bare, shim, 3.6))
        bare, direct, shim = measure(max(5, rounds // 4), *actions(place, (sys.executable, str(tool))))
        print(row("G9 Python tool, direct", bare, direct, 1.3))
        print(row("G9 Python tool, shim", bare, shim, 1.3))


if __name__ == "__main__":
    main()
