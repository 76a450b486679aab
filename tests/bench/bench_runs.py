"""What a list over many runs costs: `python tests/bench/bench_runs.py [COUNT]` prints a table. Ratios, because machines
differ: the yardstick lists the folder and asks for the size of each journal, once.

Goals, at 10,000 runs, in the process that runs `harness runs`: the newest 20 ≤ 5x, a filter over all of them ≤ 10x.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.cli.runs import newest
from harness.events.line import at_text, frame
from harness.runs.index import NAME
from tests.bench.bench_journal import best
from tests.journal_lines import RUN

COUNT = 10_000
BEGAN = 1_796_039_123
GOALS = {"newest 20": 5.0, "--waiting": 10.0, "--tool": 10.0, "--skill, none fits": 10.0}


def past(runs: Path, count: int) -> None:
    """So many runs of one call each, a minute apart; every tenth waits for a person."""
    for number in range(count):
        at = at_text(BEGAN + 60 * number)
        stamp = at[:19].replace("-", "").replace(":", "")
        letters = "".join("abcdefghijklmnopqrstuvwxyz234567"[number >> 5 * place & 31] for place in range(8))
        folder = runs / f"{stamp}-look-{letters}"
        folder.mkdir()
        (folder / "lock").touch()
        tool = "rare" if number % 500 == 0 else "look"
        call = {"op": 1, "id": "c", "verb": "run", "arguments": {"tool": tool, "args": []}}
        reply = {"turn": 1, "content": [], "dialect": "x", "calls": [call], "stop": "calls", "usage": None, "cost": 0}
        last = ("park", {"stop": "needs-approval", "exit": 5, "ops": [1], "hint": "h"})
        if number % 10:
            last = ("run.end", {"stop": "passed", "exit": 0, "answer": "a", "unmet": [], "spent": {}})
        events = [("run.start", {**RUN, "run": folder.name, "goal": f"goal {number}"}), ("model.reply", reply), last]
        lines = [frame(seq, 1, at, kind, data) for seq, (kind, data) in enumerate(events, 1)]
        (folder / "events.jsonl").write_bytes(b"".join(lines))


def look(runs: Path) -> int:
    """The yardstick."""
    with os.scandir(runs) as entries:
        return sum(os.stat(f"{entry.path}/events.jsonl").st_size for entry in entries if entry.is_dir())  # noqa: PTH116


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with tempfile.TemporaryDirectory() as at:
        runs = Path(at)
        past(runs, count)
        cold = time.perf_counter()
        newest(runs, True, None, None, None, None, count)
        cold = time.perf_counter() - cold
        yard = best(lambda: look(runs))
        works: dict[str, Callable[[], object]] = {
            "newest 20": lambda: newest(runs, False, None, None, None, None, 20),
            "--waiting": lambda: newest(runs, True, None, None, None, None, count),
            "--tool": lambda: newest(runs, False, None, None, "rare", None, count),
            "--skill, none fits": lambda: newest(runs, False, None, "other", None, None, count),
        }
        print(f"{count} runs; listing and stat {yard * 1000:.1f} ms; index {(runs / NAME).stat().st_size / 1e6:.1f} MB")
        print(f"{'first list, index made':<24}{cold * 1000:>9.1f} ms{cold / yard:>8.1f}x")
        for name, work in works.items():
            took = best(work)
            print(f"{name:<24}{took * 1000:>9.1f} ms{took / yard:>8.1f}x  goal {GOALS[name]:g}x")


if __name__ == "__main__":
    main()
