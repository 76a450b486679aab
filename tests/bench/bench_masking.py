"""What masking costs, for fifty secrets, and what is left of six that are given away everywhere. A measurement.

The yardsticks look through the same bytes once: a checksum, and one search for a word that is not there.
"""

from __future__ import annotations

import base64
import os
import random
import string
import sys
import tempfile
import timeit
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from harness.secrets.masker import Masker
from tests.planting import NEEDLES, SECRETS, left_in
from tests.planting_commands import sinks_of

MIB, ROUNDS, GOAL_MS, COUNT = 1 << 20, 15, 60.0, 50


def best(work: Callable[[], object]) -> float:
    """Milliseconds of the fastest of some rounds."""
    return min(timeit.repeat(work, number=1, repeat=ROUNDS)) * 1000


def texts() -> dict[str, bytes]:
    """A MiB of each kind of output."""
    own = b"".join(path.read_bytes() for path in sorted(ROOT.glob("**/*.py")) if ".venv" not in path.parts)
    lines = b"".join(b'{"at":"2026-11-30T11:45:%02d","id":%d,"word":"ok"}\n' % (n % 60, n) for n in range(20_000))
    kinds = {"prose and code": own, "JSON lines": lines, "base64": base64.encodebytes(os.urandom(MIB)),
             "random bytes": os.urandom(MIB), "zeros": bytes(MIB)}  # fmt: skip
    return {name: (raw * (MIB // len(raw) + 1))[:MIB] for name, raw in kinds.items()}


def cost() -> bool:
    dice = random.Random(7)
    letters = string.ascii_letters + string.digits + '-_+/=&"'
    masker = Masker({f"S{n}": "".join(dice.choices(letters, k=dice.randint(8, 64))) for n in range(COUNT)})
    print(f"masking, {COUNT} secrets, a MiB; times in ms, and as multiples of one crc32 and of one find\n")
    print(f"  {'text':<16}{'values':>8}{'+ net':>8}{'crc32':>8}{'find':>8}{'x crc':>8}{'x find':>8}")
    worst = 0.0
    for name, raw in texts().items():
        plain, net = best(lambda raw=raw: masker.raw(raw)), best(lambda raw=raw: masker.raw(raw, net=True))  # type: ignore[misc]
        crc, find = best(lambda raw=raw: zlib.crc32(raw)), best(lambda raw=raw: raw.find(b"qzx7-not-there"))  # type: ignore[misc]
        print(f"  {name:<16}{plain:8.1f}{net:8.1f}{crc:8.2f}{find:8.2f}{net / crc:8.0f}{net / find:8.0f}")
        worst = max(worst, net)
    print(f"\n  worst {worst:.1f} ms a MiB, goal {GOAL_MS:.0f}")
    return worst <= GOAL_MS


def planted() -> bool:
    """The table of what is left, by sink."""
    with tempfile.TemporaryDirectory() as folder:
        sinks = sinks_of(Path(folder))
    print(f"\nplanted: {len(SECRETS)} secrets in {len(NEEDLES) // len(SECRETS)} forms each, looked for in every sink\n")
    print(f"  {'sink':<44}{'bytes':>10}{'masked':>8}{'left':>6}")
    rows = [(name, len(raw), raw.count(b"[secret:"), len(left_in(raw))) for name, raw in sinks.items()]
    for name, size, masked, left in [*rows, ("all", *(sum(row[n] for row in rows) for n in (1, 2, 3)))]:
        print(f"  {name:<44}{size:>10}{masked:>8}{left:>6}")
    return not any(left for *_, left in rows)


if __name__ == "__main__":
    results = [cost(), planted()]
    sys.exit(0 if all(results) else 1)
