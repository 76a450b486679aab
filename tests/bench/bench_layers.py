"""How close a run comes to its critical path: 3 layers of 8 tools that sleep 0.2 s. A measurement, not a test."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.loop_world import Project, Ran, call, finish, reply

LAYERS, WIDTH, SLEEP, ROUNDS, GOAL = 3, 8, 0.2, 7, 0.94
CRITICAL = LAYERS * SLEEP


def names(layer: int) -> list[str]:
    return [f"t{layer}-{n}" for n in range(WIDTH)]


def as_skill(project: Project) -> Callable[[], Ran]:
    """Each layer waits for the whole one before it; the model calls a layer in one reply."""
    deps = "\n".join(f"{' '.join(names(n))}: {' '.join(names(n - 1))}" for n in range(1, LAYERS))
    project.skill(tools=" ".join(name for n in range(LAYERS) for name in names(n)), deps=deps)
    model = project.script([*(reply(*map(call, names(n))) for n in range(LAYERS)), finish()])
    return lambda: project.run(model)


def as_pipeline(project: Project) -> Callable[[], Ran]:
    """The same as stages, released as those before them end."""
    stages = [
        f"{name}: {{run: [{name}], needs: [{', '.join(names(n - 1)) if n else ''}]}}"
        for n in range(LAYERS) for name in names(n)
    ]  # fmt: skip
    path = project.stages("layers", "\n".join(stages))
    return lambda: project.pipeline(path)


def bare(project: Project) -> None:
    """What the machine itself needs for it: the same 8 scripts at once, 3 times."""
    for layer in range(LAYERS):
        running = [subprocess.Popen([project.path / "bin" / name]) for name in names(layer)]
        for child in running:
            child.wait()


def taken(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def driven(run: Callable[[], Ran]) -> float:
    """From the first proposal to the end of the run, by its journal: a run is begun once, whatever it holds."""
    ran = run()
    assert ran.stop.name == "passed", ran.end
    return float(ran.end["spent"]["active_s"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        for layer in range(LAYERS):
            for name in names(layer):
                project.tool(name, f"exec sleep {SLEEP}")
        ways = {"skill": as_skill(project), "pipeline": as_pipeline(project)}
        times: dict[str, list[float]] = {"bare": [], **{name: [] for name in ways}}
        for _ in range(ROUNDS):
            times["bare"].append(taken(lambda: bare(project)))
            for name, run in ways.items():
                times[name].append(driven(run))
    for name, figures in times.items():
        figure = median(figures)
        print(
            f"{LAYERS} layers of {WIDTH}, {name:<9}| critical path {CRITICAL:.3f} s | {figure:.3f} s"
            f" | reached {CRITICAL / figure:.3f} (best {CRITICAL / min(figures):.3f}) | goal {GOAL}"
        )


if __name__ == "__main__":
    main()
