"""What confinement costs at the start of a tool, and what it blocks: `python tests/bench/bench_cage.py [ROUNDS]`.

`/bin/true` at each level and bare are started in turn; the fastest rounds are compared. The same again while this
process holds much memory. Then the acts of the self-test at every level. A measurement: it never fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.events.io import IO
from harness.sandbox import LEVELS, Cage, Level, kernel, probe, protect
from harness.sandbox.facts import facts
from harness.sandbox.start import start

PROGRAM = "/bin/true"
HELD_BYTES = 400 << 20
GOALS: dict[str, str] = {"landlock": "≤ 1.7x", "full": "≤ 8x"}


def starting(cage: Cage) -> Callable[[], None]:
    """Start the program in a cage and wait for its end."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def spawn(words: Sequence[str], fds: Sequence[int]) -> subprocess.Popen[bytes]:
        return IO().spawn(words, cage.workspace, {}, null, null, null, fds)

    return lambda: start(cage, [PROGRAM], spawn).wait() and None


def measure(rounds: int, actions: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Milliseconds of each round of each action, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            times[name].append((time.perf_counter() - began) * 1000)
    return times


def table(title: str, times: dict[str, list[float]]) -> None:
    yard = min(times["bare"])
    print(f"{title:<34}{'fastest':>10}{'median':>10}{'ratio':>8}{'goal':>9}")
    for name, taken in times.items():
        goal = GOALS.get(name, "")
        print(f"{name:<34}{min(taken):>7.2f} ms{median(taken):>7.2f} ms{min(taken) / yard:>7.2f}x{goal:>9}")


def cages(folder: Path) -> dict[str, Callable[[], None]]:
    """The levels this machine gives, for a write call in a workspace with a repository and tools."""
    workspace = folder / "workspace"
    kept = (workspace / ".git", workspace / ".harness", workspace / "bin", workspace / "skills")
    for path in (*kept, folder / "work"):
        path.mkdir(parents=True, exist_ok=True)
    machine = probe.test_machine(facts(), folder)
    made: dict[str, Callable[[], None]] = {"bare": starting(Cage("none", workspace, folder / "work"))}
    levels: list[Level] = [level for level in LEVELS[1:] if machine.gives(level)]
    for level in levels:
        made[level] = starting(Cage(level, workspace, folder / "work", writable=True))
    if "full" in levels:
        made["full, 4 protected names"] = starting(Cage("full", workspace, folder / "work", True, protect=kept))
    before = workspace, (workspace / "bin",), folder
    made["names before and after a call"] = lambda: protect.restore(protect.snapshot(*before)) and None
    return made


def acts(folder: Path) -> None:
    """Act by act what each level blocks."""
    machine = probe.test_machine(facts(), folder, LEVELS)
    print(f"\n{'act':<38}" + "".join(f"{level:>10}" for level in reversed(LEVELS)))
    for number, name in probe.ACTS.items():
        row = ["blocked" if number in machine.levels[level].blocked else "open" for level in reversed(LEVELS)]
        print(f"{number:>2} {name:<35}" + "".join(f"{cell:>10}" for cell in row))
    for level in reversed(LEVELS):
        if machine.levels[level].reason:
            print(f"{level} does not count: {machine.levels[level].reason}")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    kernel.set_undumpable()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        actions = cages(folder)
        table(f"{PROGRAM}, {rounds} rounds", measure(rounds, actions))
        held = bytearray(os.urandom(1 << 20) * (HELD_BYTES >> 20))
        table(f"\nwith {len(held) >> 20} MB held", measure(rounds, actions))
        acts(folder)


if __name__ == "__main__":
    main()
