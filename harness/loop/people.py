"""Where a run needs a person: asked at the terminal if there is one, else the run parks. Decides nothing by itself."""

from __future__ import annotations

from typing import Any

from harness.events.log import follow
from harness.events.receipt import asker_of, options_in
from harness.events.state import Operation
from harness.loop import inbox
from harness.loop.act import Crew
from harness.loop.ending import end, park
from harness.loop.gate import person_decides, use_grants
from harness.loop.run import Run, Stop
from harness.policy.showing import approval, changed


def ask_people(run: Run) -> None:
    """At a terminal, ask for each waiting call in order; `quit` stops before any of them runs."""
    ask, asked = run.world.ask, 0
    use_grants(run, inbox.approvals(run))
    while ask is not None and (waiting := inbox.approvals(run)):
        place = {"n": asked + 1, "of": asked + len(waiting)}
        said = ask.approve(_shown(run, waiting[0]) | place, lambda: _is_elsewhere(run))
        if said.verdict == "quit":
            run.world.cancel.level = max(1, run.world.cancel.level)
        if said.verdict not in ("allow", "deny"):
            return
        person_decides(run, waiting[0], said.verdict, "user", "prompt", said.why or "", word=said.grant)
        use_grants(run, waiting[1:])
        asked += 1


def _shown(run: Run, op: Operation) -> dict[str, Any]:
    tool = run.toolset.tools.get(op.tool)
    path = str(tool.path) if tool is not None else op.tool
    shown = approval(run.state, op, follow(run.folder), run.text, run.name, path, str(run.project))
    return shown | changed(run.world.ledger, op.asked.get("void", ""), path, follow(run.folder), run.text)


def park_for_approval(run: Run) -> Stop | None:
    """Park when a call waits for a yes that nobody here can give."""
    waiting = inbox.approvals(run)
    if not waiting:
        return None
    hint = f"harness approve {run.name} {waiting[0].n}  or  harness deny {run.name} {waiting[0].n}"
    return park(run, "needs-approval", [op.n for op in waiting], hint)


def park_for_child(crew: Crew) -> Stop | None:
    """A child run waits or was interrupted: its stop becomes this run's, unchanged."""
    if not crew.parked:
        return None
    if crew.run.world.cancel.level or any(child.stop.name == "interrupted" for child in crew.parked.values()):
        return end(crew.run, "interrupted")
    child = crew.parked[min(crew.parked)]
    alike = sorted(n for n, other in crew.parked.items() if other.stop.name == child.stop.name)
    return park(crew.run, child.stop.name, alike, child.hint, child.stop.code, child.until)


def ask_question(run: Run) -> Stop | None:
    """Put the first open question to a person, or park until one answers."""
    asking = inbox.questions(run)
    n = asking[0]
    op = run.state.ops[n]
    text = run.text(run.state.question if op.verb == "verify" else op.arguments.get("question", ""))
    options = options_in(op, run.text)
    if run.world.ask is not None:
        said = run.world.ask.question(text, options, lambda: _is_elsewhere(run), asker_of(op))
        if said is not None:
            run.append("user.say", inbox.answer(run, op, said, "user"))
            run.log.sync()
            return None
        if _is_elsewhere(run):
            return None
    return park(run, "needs-answer", asking, f"harness answer {run.name} {n} TEXT")


def _is_elsewhere(run: Run) -> bool:
    """Whether the word came from another process, or the whole run was told to stop."""
    return inbox.has_word(run.folder, run.world.words) or run.world.cancel.level > 0
