"""How well lines are grouped by template, ours beside drain3, on logs labelled by people. Not a test: prints a table.

    python tests/bench/grouping.py FOLDER      FOLDER holds NAME.log and NAME.csv (columns Content and EventId)

Accuracy is that of the literature: the share of lines whose group holds exactly the lines of one label.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bin"))

from oncall import headers, templates

Grouper = Callable[[list[str]], Sequence[Hashable]]


def accuracy(found: Sequence[Hashable], truth: Sequence[str]) -> float:
    """The share of lines whose found group has the same members as their labelled group."""
    def members(labels: Sequence[Hashable]) -> dict[Hashable, frozenset[int]]:
        lists: dict[Hashable, list[int]] = {}
        for line, label in enumerate(labels):
            lists.setdefault(label, []).append(line)
        return {label: frozenset(lines) for label, lines in lists.items()}

    right = set(members(truth).values())
    return sum(len(lines) for lines in members(found).values() if lines in right) / len(truth)


def by_drain3(messages: list[str]) -> list[int]:
    """drain3 with its defaults, and the masks for addresses and numbers that its documentation recommends."""
    from drain3 import TemplateMiner
    from drain3.masking import MaskingInstruction
    from drain3.template_miner_config import TemplateMinerConfig

    config = TemplateMinerConfig()
    config.masking_instructions = [
        MaskingInstruction(r"((?<=[^A-Za-z0-9])|^)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})((?=[^A-Za-z0-9])|$)", "IP"),
        MaskingInstruction(r"((?<=[^A-Za-z0-9])|^)([\-\+]?\d+)((?=[^A-Za-z0-9])|$)", "NUM"),
    ]
    miner = TemplateMiner(config=config)
    added = [miner.add_log_message(message)["cluster_id"] for message in messages]
    return [int(cluster) for cluster in added]


def by_drain3_plain(messages: list[str]) -> list[int]:
    """drain3 with its defaults, nothing masked."""
    from drain3 import TemplateMiner
    from drain3.template_miner_config import TemplateMinerConfig

    miner = TemplateMiner(config=TemplateMinerConfig())
    return [int(miner.add_log_message(message)["cluster_id"]) for message in messages]


def raw(path: Path) -> list[str]:
    """The messages of a log as our own header reading finds them."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return [headers.split(line)[3] for line in lines if line]


def main(folder: Path) -> None:
    columns: list[tuple[str, Grouper, bool]] = [
        ("ours", templates.assign, False), ("ours, raw lines", templates.assign, True)]
    try:
        import drain3  # noqa: F401
    except ImportError:
        print("drain3 is not installed: its columns are left out", file=sys.stderr)
    else:
        columns += [("drain3", by_drain3_plain, False), ("drain3 masked", by_drain3, False),
                    ("drain3 masked, raw", by_drain3, True)]
    sums = [0.0] * len(columns)
    spent = [0.0] * len(columns)
    print(f"{'log':<12}" + "".join(f"{name:>20}" for name, _, _ in columns))
    files = sorted(folder.glob("*.csv"))
    for file in files:
        with file.open(newline="", encoding="utf-8", errors="replace") as stream:
            rows = list(csv.DictReader(stream))
        truth = [row["EventId"] for row in rows]
        logs = {False: [row["Content"] for row in rows], True: raw(file.with_suffix(".log"))}
        cells = []
        for index, (_, grouper, lines) in enumerate(columns):
            start = time.perf_counter()
            score = accuracy(grouper(logs[lines]), truth) if len(logs[lines]) == len(truth) else float("nan")
            spent[index] += time.perf_counter() - start
            sums[index] += score
            cells.append(f"{score:>20.3f}")
        print(f"{file.stem:<12}" + "".join(cells))
    print(f"{'mean':<12}" + "".join(f"{total / len(files):>20.3f}" for total in sums))
    print(f"{'ms a log':<12}" + "".join(f"{1000 * total / len(files):>20.0f}" for total in spent))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/bench/grouping.py FOLDER")
    main(Path(sys.argv[1]))
