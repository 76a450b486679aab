"""Many runs of one skill by a local model, each with a seed of its own: `python tests/local_seeds.py MODEL [COUNT]`.

Prints a line a run and counts; exits 1 when a choice lay outside the offer, or an answer had no label.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.events.state import LABEL
from tests.local_world import incident
from tests.loop_world import Ran

GOAL = "why is the payments batch late; see table orders or payments"


def outside(ran: Ran) -> int:
    """Calls that were not offered, or not well formed."""
    wrong = [code for code in ran.codes() if code != "allow"]
    broken = [call for event in ran.of("model.reply") for call in event["data"]["calls"] if call.get("error")]
    return len(wrong) + len(broken)


def main(model: str, count: int = 30) -> int:
    bad, stops = 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        project = incident(Path(folder))
        for seed in range(count):
            ran = project.run(model, "triage", GOAL)
            stops[ran.stop.name] += 1
            answer = ran.folder / "answer.md"
            labelled = not answer.exists() or answer.read_text().split("\n", 1)[0] == LABEL
            bad += outside(ran) + (not labelled)
            print(f"{seed:>2}  {ran.stop.name:<12} {len(ran.spawned)} calls  {outside(ran)} outside the offer")
    print(f"{count} runs: {dict(stops)}; {bad} choices outside the offer or answers without the label")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30))
