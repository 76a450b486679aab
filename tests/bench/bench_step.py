"""What one durable step costs: a reply of the model and one call of a tool, over 200 steps. A measurement, not a test.

The yardstick does the least that is as durable: it appends the same bytes and syncs them once a step, and, where the
tool is real, starts it and waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import harness.loop.act as act
from harness.events.io import IO
from harness.executor import Cancel, Job, Outcome
from tests.loop_world import Project, Ran, call, finish, reply

STEPS, ROUNDS, GOAL = 200, 5, 2.0
TOOL = "#!/bin/sh\n# @describe step\n# @option --n <N>  which\n# @meta effect write\necho ok\n"


def project_in(folder: Path) -> Callable[[], Ran]:
    project = Project(folder)
    project.file("bin/step", TOOL, executable=True)
    project.skill(tools="step")
    model = project.script([*(reply(call("step", "--n", str(n))) for n in range(STEPS)), finish()])
    return lambda: project.run(model, budget=f"turns={STEPS + 1} calls={STEPS}")


def nothing(job: Job, io: IO, cancel: Cancel) -> Outcome:
    return Outcome(0, None, False, False, b"ok\n", b"", 0, 0, True, None)


def yardstick(folder: Path, lines: list[bytes], tool: Path | None) -> float:
    """Milliseconds a step of a loop that appends, syncs once, and starts the tool."""
    fd = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    size = sum(map(len, lines)) // STEPS
    began = time.perf_counter()
    for _ in range(STEPS):
        os.write(fd, b"x" * size)
        os.fdatasync(fd)
        if tool is not None:
            subprocess.run([tool], stdout=subprocess.PIPE)
    took = time.perf_counter() - began
    os.close(fd)
    return took / STEPS * 1000


def ours(run: Callable[[], Ran]) -> tuple[float, list[bytes]]:
    """Milliseconds a step, from the first request to the end, and the lines that were journaled."""
    began = time.perf_counter()
    ran = run()
    took = time.perf_counter() - began
    assert ran.stop.name == "passed", ran.end
    return took / STEPS * 1000, (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)


def compare(name: str, run: Callable[[], Ran], folder: Path, tool: Path | None) -> None:
    figures, bare = [], []
    for _ in range(ROUNDS):
        figure, lines = ours(run)
        figures.append(figure)
        bare.append(yardstick(folder, lines, tool))
    ratio = median(figures) / median(bare)
    print(
        f"durable step, {name:<10}| {sum(map(len, lines)) / STEPS:.0f} bytes | yardstick {median(bare):.2f} ms"
        f" | {median(figures):.2f} ms | {ratio:.1f}x (best {min(figures) / min(bare):.1f}x) | goal {GOAL}x"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = project_in(folder)
        compare("sh tool", run, folder, folder / "bin" / "step")
        real = act.execute
        act.execute = nothing  # type: ignore[assignment]
        try:
            compare("no-op", run, folder, None)
        finally:
            act.execute = real


if __name__ == "__main__":
    main()
