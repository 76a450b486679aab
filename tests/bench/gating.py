"""What a graph is worth to a small model: one task, its tools released one after another or open all at once.

`python tests/bench/gating.py local:NAME [RUNS]`. A measurement, not a test. In the gated arm the order holds by
construction: a tool that waits is not among the choices, so nothing but its arguments and its length is measured there.
The open arm is the same skill without its graph and without what it requires; the harness still takes a tool that has
a fresh result out of the offer, which helps that arm.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.loop_world import Project, Ran

GOAL = (
    "The batch payments-eod failed last night, and lag of the topic settlements is high. "
    "Find the cause in the cluster batch and report it; the severity is high."
)
NEEDS = {
    "lookup-runbook": (), "check-pods": (), "check-lag": (),
    "search-logs": ("lookup-runbook", "check-pods", "check-lag"),
    "replay-request": ("search-logs",), "write-report": ("search-logs", "replay-request"),
}  # fmt: skip
TOOLS = {  # name → (what it does, its parameter, what that may be, what is right, what it prints)
    "lookup-runbook": ("Steps for a service in trouble", "service", "[payments-eod|orders|ledger]", "payments-eod",
                       "look at pods and lag, then at the logs"),
    "check-pods": ("Pods of a cluster that are not well", "cluster", "[batch|web|infra]", "batch",
                   "worker-7 restarts: out of memory"),
    "check-lag": ("Lag of the consumers of a topic", "topic", "[settlements|invoices|clicks]", "settlements",
                  "settlements 48210 behind since 02:10"),
    "search-logs": ("Log lines of a service, grouped", "service", "[payments-eod|orders|ledger]", "payments-eod",
                    "OutOfMemory in settle, 41 times"),
    "replay-request": ("Send one failed request of a service again", "service", "[payments-eod|orders|ledger]",
                       "payments-eod", "accepted"),
    "write-report": ("The report, with its severity", "severity", "[low|medium|high]", "high",
                     "cause: worker-7 has too little memory"),
}  # fmt: skip
DEPENDENCIES = """search-logs: lookup-runbook check-pods check-lag
replay-request: search-logs
write-report: search-logs replay-request"""
BUDGET = "turns=20 seconds=600"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: complete means that it passed, with every tool once done, each after what it needs."""

    complete: bool
    violations: int
    right: int
    calls: int
    steps: int
    seconds: float


def main(model: str, runs: int = 30) -> None:
    """Print a line a run, then one table."""
    with tempfile.TemporaryDirectory() as folder:
        project = incident(Path(folder))
        arms: dict[str, list[Outcome]] = {"gated": [], "open": []}
        for number in range(1, runs + 1):
            for arm, seen in arms.items():
                began = time.monotonic()
                seen.append(judged(project.run(model, arm, GOAL, budget=BUDGET), time.monotonic() - began))
                print(f"{number:>3} {arm:<6}{seen[-1]}", file=sys.stderr, flush=True)
    header = f"{'arm':<7}{'complete runs':<24}{'order violations':<18}{'right arguments':<24}{'steps':>6}{'seconds':>9}"
    print(header)
    for arm, seen in arms.items():
        print(row(arm, seen))
    print("intervals: Wilson, 95 %; steps and seconds: medians of a run")
    print("in the gated arm the order holds by construction")


def incident(path: Path) -> Project:
    """The tools, and one skill with the graph and one without."""
    project = Project(path)
    for name, (what, parameter, values, _, printed) in TOOLS.items():
        head = f"@option --{parameter}!{values}  which {parameter}\n@meta effect read"
        file = project.tool(name, f"echo '{printed}'", head)
        file.write_text(file.read_text().replace(f"@describe {name}", f"@describe {what}"))
    project.skill("gated", " ".join(TOOLS), DEPENDENCIES, requires="write-report")
    project.skill("open", " ".join(TOOLS))
    return project


def judged(ran: Ran, seconds: float) -> Outcome:
    """Count what was called, in which order, and with what."""
    done: list[str] = []
    violations = right = calls = 0
    replies = [event["data"]["calls"] for event in ran.of("model.reply")]
    for made in (one for reply in replies for one in reply if one["verb"] == "run"):
        tool, words = made["arguments"]["tool"], made["arguments"]["args"]
        calls += 1
        right += words == [f"--{TOOLS[tool][1]}", TOOLS[tool][3]]
        violations += any(need not in done for need in NEEDS[tool])
        done.append(tool)
    complete = ran.stop.name == "passed" and not violations and set(done) == set(TOOLS)
    return Outcome(complete, violations, right, calls, len(replies), seconds)


def row(arm: str, seen: Sequence[Outcome]) -> str:
    """An arm's line of the table."""
    violations = sum(one.violations for one in seen)
    whole = share(sum(one.complete for one in seen), len(seen))
    right = share(sum(one.right for one in seen), sum(one.calls for one in seen))
    steps, seconds = (statistics.median(getattr(one, name) for one in seen) for name in ("steps", "seconds"))
    return f"{arm:<7}{whole:<24}{violations:<18}{right:<24}{steps:>6g}{seconds:>9.1f}"


def share(good: int, every: int) -> str:
    """`27/30 90 % [74, 97]`."""
    low, high = wilson(good, every)
    return f"{good}/{every} {100 * good / max(every, 1):.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def wilson(good: int, every: int, z: float = 1.96) -> tuple[float, float]:
    """The interval that holds a share with 95 % confidence."""
    if not every:
        return 0.0, 1.0
    p, scale = good / every, 1 + z * z / every
    middle = (p + z * z / (2 * every)) / scale
    half = z * math.sqrt(p * (1 - p) / every + z * z / (4 * every * every)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30)
