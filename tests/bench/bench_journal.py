"""What the journal costs: `python tests/bench/bench_journal.py` prints a table. Ratios, because machines differ.

Limits: a reply with one call is at most 5 lines and 900 bytes beyond what the model and the tool said; an event applied
at the 10,000th costs at most 1.5 times one at the 100th; folding 3,000 steps at most 2.5 times parsing their lines;
3,000 steps take at most 40 MiB of memory.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.events.clock import Clock
from harness.events.fold import apply, fold
from harness.events.io import IO
from harness.events.line import at_text, parse
from harness.events.log import create, follow, open_log
from harness.events.state import State
from tests.journal_lines import RUN, steps

AT = at_text(1_796_039_123.0)
ROUNDS = 7


def best(work: Callable[[], object]) -> float:
    """The median of some rounds, in seconds."""
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def per_event(state: State, events: Sequence[dict[str, Any]]) -> float:
    """Seconds an event when these are applied to a copy of nothing: the state goes on."""
    began = time.perf_counter()
    for event in events:
        apply(state, event)
    return (time.perf_counter() - began) / len(events)


def flatness(events: Sequence[dict[str, Any]]) -> float:
    """The cost of an event around the 10,000th over that around the 100th."""
    ratios = []
    for _ in range(ROUNDS):
        state = fold(events[:51])
        early = per_event(state, events[51:151])
        fold(events[151:9_951], state)
        ratios.append(per_event(state, events[9_951:10_051]) / early)
    return statistics.median(ratios)


def memory(pieces: Sequence[bytes]) -> int:
    """Bytes that the events of a run and its state take."""
    tracemalloc.start()
    events = [parse(piece) for piece in pieces]
    state = fold(events)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.seq == len(pieces)
    return used


def appends(folder: Path, sync: bool) -> float:
    """Seconds for one event, with a sync after each if asked for."""
    log = create(folder, IO(), Clock())
    log.append("run.start", RUN)
    count = 200 if sync else 2_000
    began = time.perf_counter()
    for number in range(count):
        log.append("note", {"why": "warning", "text": f"number {number} " * 20})
        if sync:
            log.sync()
    took = time.perf_counter() - began
    log.close()
    return took / count


def takeover(folder: Path) -> float:
    def work() -> None:
        open_log(folder, IO(), Clock()).close()

    return best(work)


def main() -> None:
    lines = steps(3_000)
    pieces = [line[:-1] for line in lines]
    events = [parse(piece) for piece in pieces]
    parsing, folding = best(lambda: [parse(piece) for piece in pieces]), best(lambda: fold(events))
    with tempfile.TemporaryDirectory() as place:
        plain, synced = appends(Path(place) / "plain", False), appends(Path(place) / "synced", True)
        log = create(Path(place) / "long", IO(), Clock())
        log.close()
        (Path(place) / "long" / "events.jsonl").write_bytes(b"".join(lines))
        owned, followed = takeover(Path(place) / "long"), best(lambda: follow(Path(place) / "long"))
    rows = [
        ("apply, 10,000th event over 100th", f"{flatness(events):.2f}", "<= 1.5"),
        ("fold of 3,000 steps over parsing", f"{folding / parsing:.2f}", "<= 2.5"),
        (f"parse {len(lines)} lines", f"{parsing * 1000:.0f} ms", ""),
        ("append", f"{plain * 1e6:.0f} us", ""),
        ("append and sync", f"{synced * 1000:.2f} ms", ""),
        ("memory of 3,000 steps", f"{memory(pieces) / 2**20:.1f} MiB", "<= 40"),
        ("own 3,000 steps: lock, judge", f"{owned * 1000:.0f} ms", ""),
        ("read 3,000 steps", f"{followed * 1000:.0f} ms", ""),
    ]
    for name, value, limit in rows:
        print(f"{name:40} {value:>10}  {limit}")


if __name__ == "__main__":
    main()
