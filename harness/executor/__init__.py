"""Runs one attempt of a tool: argv in, exit code and output out. The one place that starts a tool.

It gives a built environment, limits, a deadline, an end of the whole process tree, and captured output. A direct
attempt (`run`) ends with the harness; one through the shim (`prepare`, `run_shim`) goes on, and leaves evidence. Not a
place that decides whether something may run, and not one that writes the journal.
"""

from harness.executor.environment import environment
from harness.executor.evidence import Evidence, collect, evidence, has_acted, kill_attempt
from harness.executor.files import cut
from harness.executor.orphans import kill_tree, survivors
from harness.executor.outcome import Cancel, Job, Outcome, not_started
from harness.executor.process import run
from harness.executor.shim import Attempt, prepare, run_shim

__all__ = [
    "Attempt",
    "Cancel",
    "Evidence",
    "Job",
    "Outcome",
    "collect",
    "cut",
    "environment",
    "evidence",
    "has_acted",
    "kill_attempt",
    "kill_tree",
    "not_started",
    "prepare",
    "run",
    "run_shim",
    "survivors",
]
