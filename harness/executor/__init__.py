"""Runs one attempt of a tool: argv in, exit code and output out. The one place that starts a tool.

It gives a built environment, limits, a deadline, an end of the whole process tree, and captured output. Not a place
that decides whether something may run, and not one that writes the journal.
"""

from harness.executor.environment import environment
from harness.executor.outcome import Cancel, Job, Outcome
from harness.executor.process import run
from harness.executor.tree import kill_tree, survivors

__all__ = [
    "Cancel",
    "Job",
    "Outcome",
    "environment",
    "kill_tree",
    "run",
    "survivors",
]
