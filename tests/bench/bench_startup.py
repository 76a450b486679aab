"""How long the command line takes to start, as a ratio to `python -c pass`. A measurement, not a test."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.command import owning

ROUNDS = 15
ENTRY = "import sys; from harness.cli.main import main; sys.exit(main())"
GOALS = {"--version": 3, "--help": 8, "tools": 16, "tools show item-1": 16, "skills": 16, "skills show skill-1": 16}
GOALS |= {"runs --last 100": 16, "show": 16, "show --graph": 16}
PIPELINE = "#!/usr/bin/env -S harness pipeline\n# @describe Many stages\n# @meta effect read\nstages:\n"


def main() -> None:
    """Print one table: yardstick, our figure, ratio, goal."""
    with tempfile.TemporaryDirectory() as folder:
        project(Path(folder))
        past_runs(Path(folder))
        commands = {"python -c pass": [sys.executable, "-c", "pass"]}
        commands |= {name: [sys.executable, "-c", ENTRY, *name.split()] for name in GOALS}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                times[name].append(once(command, folder))
    yard = statistics.median(times.pop("python -c pass"))
    print(f"{'command':<24}{'yardstick':>12}{'ours':>10}{'ratio':>8}{'goal':>7}")
    for name, taken in times.items():
        ours = statistics.median(taken)
        print(f"{name:<24}{yard * 1000:>9.1f} ms{ours * 1000:>7.1f} ms{ours / yard:>7.1f}x{GOALS[name]:>6}x")


def once(command: list[str], folder: str) -> float:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": folder}
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def project(folder: Path) -> None:
    """100 tools and 100 skills that use them."""
    (folder / "bin").mkdir()
    for number in range(100):
        tool = folder / "bin" / f"item-{number}"
        tool.write_text("#!/bin/sh\n# @describe An item\n# @option --name! <NAME>  which\n# @meta effect read\n")
        tool.chmod(0o755)
        skill = folder / "skills" / f"skill-{number}"
        skill.mkdir(parents=True)
        names = f"item-{number} item-{(number + 1) % 100}"
        block = f"metadata:\n  tool-dependencies: |\n    item-{number}: item-{(number + 1) % 100}\n"
        head = f"---\nname: skill-{number}\ndescription: Looks at items.\nallowed-tools: {names}\n{block}---\n"
        (skill / "SKILL.md").write_text(f"{head}Look at the items.\n")


def past_runs(folder: Path) -> None:
    """100 runs, each the same pipeline of 60 stages: some 200 events."""
    stages = "".join(f"  s-{number}: {{run: [item-{number}, --name, x]}}\n" for number in range(60))
    (folder / "bin" / "many").write_text(PIPELINE + stages)
    (folder / "bin" / "many").chmod(0o755)
    owning(folder, folder)
    once([sys.executable, "-c", ENTRY, "pipeline", "bin/many"], str(folder))
    runs = folder / ".harness" / "runs"
    first = next(runs.glob("2*"))
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    for number in range(99):
        name = f"{first.name[:-8]}aaaaaa{letters[number // 32]}{letters[number % 32]}"
        shutil.copytree(first, runs / name)


if __name__ == "__main__":
    main()
