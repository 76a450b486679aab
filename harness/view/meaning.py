"""What a stop means, in one sentence, by what its event says and what is known of the run's calls."""

from __future__ import annotations

from harness.view.rows import Run

MEANING = {
    "failed": "the answer was not accepted",
    "declined": "a required tool was never run",
    "denied": "policy denied a required tool",
    "budget": "a budget is used up",
    "no-progress": "the last turns brought nothing new",
    "interrupted": "it was stopped before its end",
    "error": "it could not go on",
    "needs-approval": "a call waits for your approval",
    "needs-answer": "a question waits for your answer",
    "unknown-outcome": "a call may or may not have had its effect; only a person can tell",
    "waiting": "it waits, and can be resumed later",
    "stopped": "its process is gone; nothing is lost",
}
FORKED = "a fork, and nobody has gone on with it yet"


def meaning(run: Run, stop: str) -> str:
    """One sentence on a stop, with the particulars that the event gives. Not escaped."""
    ended = run.end or run.park or {}
    if stop == "budget" and ended.get("limit") not in (None, "context"):
        return f"the budget is used up: {ended['limit']}"
    if ended.get("error") and stop != "passed":
        return str(ended["error"])
    hint = str(ended.get("hint") or "")
    if hint and not hint.startswith("harness "):
        return hint
    sentence = _sentence(run, stop)
    unmet = ", ".join(f"{item.get('name')} #{item.get('op')}" for item in ended.get("unmet") or ())
    return f"{sentence}; left open: {unmet}" if unmet else sentence


def _sentence(run: Run, stop: str) -> str:
    """What the word means, by what is known of the run's calls."""
    rows = run.rows.values()
    if stop == "stopped" and (run.start.get("fork") or {}).get("seq") == run.seq:
        return FORKED
    doubt = [f"{row.name} #{row.op}" for row in rows if row.state == "running" and row.repeat not in ("", "pure")]
    if stop == "stopped" and doubt:
        return f"its process is gone; what became of {', '.join(doubt)} is looked at before it goes on"
    if stop == "denied" and any(row.state == "refused" and row.asked.get("via") for row in rows):
        return "a person said no to a required tool"
    return MEANING.get(stop, stop)
