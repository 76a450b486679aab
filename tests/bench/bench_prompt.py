"""What a model is sent, in tokens: the first turn with 10 to 1,000 tools and skills installed, and how much of 40 turns
is read from the provider's cache. Counts, not times: a token is taken for 4.1 bytes, the cache is the strict fake's.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.command import events, harness, newest
from tests.fake_anthropic import COUNTED, Answer, FakeAnthropic, finishes, runs, thinks
from tests.run_files import add_skill, add_tool, make_project, script
from tests.test_cli_show_model import installed

BYTES_A_TOKEN = 4.1
GOAL, TURNS = 700, 40


def main() -> None:
    """Print one table: installed, bytes, tokens, goal; then the shares of 40 turns."""
    print(f"{'first turn, a skill of 6 tools':<42}{'bytes':>9}{'tokens':>9}{'goal':>9}")
    sizes = list(first_turns())
    for count, size in sizes:
        print(f"{f'{count} tools and {count} skills installed':<42}{size:>9}{size / BYTES_A_TOKEN:>9.0f}{GOAL:>8} ≤")
    slope = (sizes[-1][1] - sizes[0][1]) / (sizes[-1][0] - sizes[0][0])
    print(f"{'bytes for each further tool and skill':<42}{slope:>9.2f}{'':>9}{0:>9}")
    usage = used()
    read, written, plain = (f"{usage[key] / usage['input']:.1%}" for key in ("cached", "written", "plain"))
    print(f"{TURNS} turns, {usage['input']:.0f} tokens of input: {read} read from the cache, {written} written, "
          f"{plain} neither; {usage['cost']:.4f} USD, without a cache {usage['bare']:.4f}")  # fmt: skip


def first_turns() -> Iterator[tuple[int, int]]:
    """(how many are installed, bytes of the first request without the skill's text)."""
    for count in (10, 100, 1_000):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "p"
            installed(folder, count)
            harness("run", "six", "why", "-m", script(folder, {"stop": "refusal"}), cwd=folder)
            shown = json.loads(harness("show", "--prompt", "1", "--json", cwd=folder).stdout)
            yield count, shown["bytes"] - len("Do it.\n")


def used() -> dict[str, float]:
    """The tokens of a run of 40 turns, by what was paid for them, and its cost in USD."""
    with tempfile.TemporaryDirectory() as place:
        folder = make_project(Path(place) / "p")
        add_tool(folder, "show", 'seq -f "line %g of $2" 1 200')
        add_skill(folder, "long", "show")
        turns = [Answer([thinks(), runs(n, "show", "--x", str(n))], usage=COUNTED) for n in range(TURNS - 1)]
        with FakeAnthropic(*turns, finishes(TURNS)) as fake:
            words = ("run", "long", "x", "-m", "anthropic:claude-haiku-5-5", "-b", "turns=50 calls=50")
            done = harness(*words, cwd=folder, **fake.env)
        assert done.returncode == 0 and not fake.refused, (done.stderr, fake.refused)
        replies = [event["data"] for event in events(newest(folder), "model.reply")][:-1]
    found = {key: sum(reply["usage"].get(key, 0) for reply in replies) for key in ("input", "cached", "written", "out")}
    found["plain"] = found["input"] - found["cached"] - found["written"]
    return found | {"cost": sum(reply["cost"] for reply in replies),
                    "bare": (found["input"] * 0.10 + found["out"] * 0.50) / 1e6}  # fmt: skip


if __name__ == "__main__":
    main()
