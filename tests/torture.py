"""The long crash tests: `python tests/torture.py` prints how many crashes were tried and how many broke a promise.

Each violation is printed with the seed and the point that show it again. Exit 1 when there is one.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import resource
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.journal_disk import Disk
from tests.torture_matrix import Matrix, playground
from tests.torture_site import SHORT, wide_site

Work = tuple[str, int, int]
Done = tuple[int, list[str]]
WIDE_PART = 10
"""One double crash in so many is one of the whole reference run, the others are of the short one."""


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
            count += matrix.doubles(first, chance, 0, wanted - count)
        except Exception:  # noqa: BLE001
            count += 1
            wrong.append(f"seed {seed}, double crash after {first}\n{traceback.format_exc(limit=-4)}")
    return count, wrong


def work(given: Work) -> Done:
    kind, part, amount = given
    with playground() as place:
        site = wide_site(place / "project", *([SHORT] if kind == "double" else []))
        matrix = Matrix(place, site)
        gc.freeze()  # what stays need not be looked through again and again
        gc.set_threshold(100_000)
        return (singles if kind == "single" else doubles)(matrix, part, amount)


def report(kind: str, todo: list[Work], cores: int) -> int:
    began, before = time.monotonic(), cpu_seconds()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        found = pool.map(work, todo, chunksize=1)
        pool.close()
        pool.join()  # else what it used is not counted
    wrong = [text for _, texts in found for text in texts]
    for text in wrong[:20]:
        print(text)
    took, used = time.monotonic() - began, cpu_seconds() - before
    how = f"{took:.0f} s, {used:.0f} s of the processor, {cores} processes"
    print(f"{sum(count for count, _ in found)} {kind} crashes, {len(wrong)} violations ({how})", flush=True)
    return len(wrong)


def cpu_seconds() -> float:
    """What the processes that this one waited for used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--doubles", type=int, default=24_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=multiprocessing.cpu_count())
    given = parser.parse_args()
    parts = given.cores * 2
    wrong = report("single", [("single", part, parts) for part in range(parts)], given.cores)
    many, some = (-(-given.doubles * share // WIDE_PART // parts) for share in (WIDE_PART - 1, 1))
    todo: list[Work] = [("double", given.seed + part, many) for part in range(parts)]
    todo += [("wide", given.seed + parts + part, some) for part in range(parts)]
    wrong += report("double", todo, given.cores)
    return min(1, wrong)


if __name__ == "__main__":
    sys.exit(main())
