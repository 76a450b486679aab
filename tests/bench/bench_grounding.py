"""What it costs to ask whether a value is known: `python tests/bench/bench_grounding.py` prints ratios.

Limit: a look-up after 2,000 receipts costs at most twice one after 20, whether the value is known or not.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.policy.grounding import Known, Source

FEW, MANY, ASKED, ROUNDS = 20, 2_000, 200, 9
LINES = 40


def filled(receipts: int) -> Known:
    """A run that looked at logs again and again: common words in every receipt, ids of its own in each."""
    known = Known()
    for n in range(receipts):
        lines = [f"12:00 payments-eod prod request r-{n}-{line} failed on host web-{line}" for line in range(LINES)]
        known.file(Source("tool:search-logs", f"search-logs #{n}"), "\n".join(lines), ("--service", f"s-{n}"))
    return known


def seconds(known: Known, values: Sequence[str]) -> float:
    began = time.perf_counter()
    for value in values:
        known.sources(value)
    return (time.perf_counter() - began) / len(values)


def main() -> int:
    few, many, worst = filled(FEW), filled(MANY), 0.0
    ids = [f"r-{n % FEW}-{n % LINES}" for n in range(ASKED)]
    for what, values in (("known", ids), ("unknown", [f"{value}-x9" for value in ids])):
        ratios = [seconds(many, values) / seconds(few, values) for _ in range(ROUNDS)]
        ratio, micro = statistics.median(ratios), seconds(many, values) * 1e6
        print(f"look-up, {what}: {micro:.0f} us after {MANY} receipts, {ratio:.2f} of one after {FEW} (limit 2)")
        worst = max(worst, ratio)
    return int(worst > 2)


if __name__ == "__main__":
    sys.exit(main())
