"""The long crash tests: `python tests/torture.py` prints how many crashes were tried and how many broke a promise.

Each violation is printed with the seed and the point that show it again. Exit 1 when there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.journal_disk import Disk
from tests.torture_matrix import Matrix, playground
from tests.torture_site import wide_site

Work = tuple[str, int, int]
Done = tuple[int, list[str]]


def singles(matrix: Matrix, part: int, parts: int) -> Done:
    """Every crash of the reference run whose number falls to this part."""
    count, wrong = 0, []
    for number, (n, cut, how) in enumerate(matrix.singles()):
        if number % parts == part:
            count += 1
            try:
                matrix.check(Disk(), matrix.trace, (n, cut), how)
            except Exception:  # noqa: BLE001 - a violation is counted, and the next crash tried
                wrong.append(f"single crash at {n}, cut {cut}, {how}\n{traceback.format_exc(limit=-4)}")
            if count % 200 == 0:
                matrix.forget()
    return count, wrong


def doubles(matrix: Matrix, seed: int, wanted: int) -> Done:
    """Crashes of recoveries from random first crashes, at each of their actions."""
    chance, count, wrong = random.Random(seed), 0, list[str]()
    while count < wanted:
        first = chance.choice(matrix.singles())
        try:
            count += matrix.doubles(first, chance, 0)
        except Exception:  # noqa: BLE001
            count += 1
            wrong.append(f"seed {seed}, double crash after {first}\n{traceback.format_exc(limit=-4)}")
    return count, wrong


def work(given: Work) -> Done:
    kind, part, amount = given
    with playground() as place:
        matrix = Matrix(place, wide_site(place / "project"))
        return (singles if kind == "single" else doubles)(matrix, part, amount)


def report(kind: str, todo: list[Work], cores: int) -> int:
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        found = pool.map(work, todo, chunksize=1)
    wrong = [text for _, texts in found for text in texts]
    for text in wrong[:20]:
        print(text)
    count, took = sum(count for count, _ in found), time.monotonic() - began
    print(f"{count} {kind} crashes, {len(wrong)} violations ({took:.0f} s on {cores} processes)", flush=True)
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--doubles", type=int, default=24_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=multiprocessing.cpu_count())
    given = parser.parse_args()
    parts = given.cores * 2
    wrong = report("single", [("single", part, parts) for part in range(parts)], given.cores)
    share = -(-given.doubles // parts)
    wrong += report("double", [("double", given.seed + part, share) for part in range(parts)], given.cores)
    return min(1, wrong)


if __name__ == "__main__":
    sys.exit(main())
