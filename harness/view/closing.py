"""The first line and the last lines of a run, and what a stop means. Every stop has a sentence and a command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.events.origins import origins
from harness.events.state import LABEL
from harness.view.meaning import meaning
from harness.view.rows import ASKS, Row, Run, Spent, Tree, account_of, short
from harness.view.text import Glyphs, count, cut, duration, one_line, plural, width, wrap
from harness.view.typed import labelled

LONGEST = 400
"""Columns of a call or a question in the last lines; `show` and the prompt of `approve` have all of it."""
AGENTS_TURN = "the agent's next step"
"""What a run parks with whose model is another agent: without `--agent` a resume only parks it again."""
SETTLED = ("happened", "did-not-happen", "unknown")
"""What a person can say of a call whose outcome nobody else knows."""
COMMANDS = {
    "needs-approval": (("approve", ""),),
    "needs-answer": (("answer", " TEXT"),),
    "unknown-outcome": tuple(("settle", f" {word}") for word in SETTLED),
}
"""The commands for what waits, and what follows the number of the call."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that waits for a person: the run it is in, its number there (0: not known), the call or the question.

    `commands` are those that speak of it, each with what follows the number. `why` it asks; `heard` is the word on it
    that was given and not acted on yet.
    """

    run: str
    op: int
    said: str
    commands: tuple[tuple[str, str], ...]
    why: str = ""
    heard: str = ""


HEARD = "your word is there, and counts when the run goes on"


def first_line(run: Run, glyphs: Glyphs, columns: int | None = None) -> str:
    """`oncall-triage k3v9  $0.50 · 20 turns · landlock`, escaped; limits that do not fit are left out."""
    start = run.start
    level = (start.get("confine") or {}).get("level")
    parts = [*limits(start.get("budget") or {}), "confinement none" if level == "none" else level or ""]
    head = one_line(f"{start.get('skill') or 'run'} {short(run.name)}")
    facts = [one_line(part) for part in parts if part]
    while facts:
        line = f"{head}  {f' {glyphs.dot} '.join(facts)}"
        if columns is None or width(line) <= columns:
            return line
        facts.pop(max(0, len(facts) - 2))  # the confinement stays longest
    return head


def limits(budget: dict[str, Any]) -> list[str]:
    """A budget in words, the two that matter most: money and turns."""
    words = []
    if budget.get("usd") not in (None, "none"):
        words.append(f"${float(budget['usd']):.2f}")
    if budget.get("turns") is not None:
        words.append(plural(int(budget["turns"]), "turn"))
    return words


def stop_of(run: Run, owned: bool = True) -> str:
    """The stop a run has, `stopped` where its owner is gone without one, else `running`."""
    ended = run.end or run.park
    return str(ended["stop"]) if ended else "running" if owned else "stopped"


def last_lines(tree: Tree, glyphs: Glyphs, columns: int | None = None, owned: bool = True) -> list[str]:
    """How the run ended: one line if it passed, else also the stop's meaning and the next commands. Escaped.

    With `columns`, what matters least is left out so that the first line fits; commands are never cut.
    """
    run = tree.main
    stop = stop_of(run, owned)
    show = f"harness show {short(run.name)}"
    told = [f"  {LABEL}"] if run.demonstration else []
    if stop in ("passed", "running"):
        handled = (run.end or {}).get("error")
        lines = [f"  handled: {one_line(str(handled))}"] if handled else []
        return [_account(tree, stop, show, glyphs, columns), *told, *lines]
    lines = [_account(tree, stop, "", glyphs, columns), *told]
    is_heard = _all_heard(waits(tree, run, stop)) and not _is_blocked(tree, run)
    for line in (HEARD if is_heard else meaning(run, stop)).split("\n"):
        lines += wrap(one_line(line), columns or 10_000, "  ")
    for line in _particulars(tree, run, stop):
        lines += wrap(cut(one_line(line), LONGEST, glyphs.cut), columns or 10_000, "  ")
    for command in next_commands(tree, stop, columns is not None):
        lines += labelled("next", one_line(command), columns)
    return lines


def _particulars(tree: Tree, run: Run, stop: str) -> list[str]:
    """The calls and the questions themselves: who approves or answers must not have to look for them. Not escaped."""
    if run.redacted:
        return ["something was removed from it (redact): it can be shown, and not gone on with"]
    found = waits(tree, run, stop) if stop in ("needs-approval", "needs-answer") else []
    return [line for wait in found if wait.said for line in _told(wait, found)]


def _told(wait: Wait, among: Sequence[Wait]) -> list[str]:
    """A call or a question, and why it is asked about, or what was said to it."""
    first, *more = f"{_own(wait, among)}#{wait.op} {wait.said}".split("\n")
    more = [f"   {line}" for line in more]
    if wait.heard:
        return [f"{first} ({wait.heard})", *more]
    return [first, *more, *([f"   why: {wait.why}"] if wait.why else [])]


def _all_heard(found: Sequence[Wait]) -> bool:
    return bool(found) and all(wait.heard for wait in found)


def _is_blocked(tree: Tree, run: Run) -> bool:
    """Whether the runs below cannot go on, whatever was said in them: the park is no child's, and has its own cause."""
    below = [child for row in unknown(run) if (child := tree.child(row)) is not None]
    hint = (run.park or {}).get("hint")
    return bool(below) and all((child.park or {}).get("hint") != hint for child in below)


def _account(tree: Tree, stop: str, command: str, glyphs: Glyphs, columns: int | None) -> str:
    spent = totals(tree, tree.main)
    parts = {
        "stop": f"{stop} in {duration(spent.seconds)}",
        "turns": plural(spent.turns, "turn") if spent.turns else "",
        "tokens": f"{count(spent.tokens)} tokens" if spent.tokens else "",
        "cost": spent.cost if spent.turns else "",
        "command": command,
    }
    for least in ("", "tokens", "turns", "cost"):
        parts.pop(least, None)
        line = one_line(f" {glyphs.dot} ".join(filter(None, parts.values())))
        if columns is None or width(line) <= columns:
            break
    return line


def next_commands(tree: Tree, stop: str, is_terminal: bool = False) -> list[str]:
    """What to type next, most useful first; some of it does its work at a terminal only. Not escaped."""
    run, name = tree.main, short(tree.top)
    if run.redacted:
        return [f"harness show {name}"]
    found = waits(tree, run, stop)
    if _all_heard(found):
        return [f"harness resume {name}"]
    asked = _words([wait for wait in found if not wait.heard], name, is_terminal)
    if asked:
        return asked
    hint = str((run.park or {}).get("hint") or "")
    if hint.startswith("harness "):
        return [hint]
    if stop == "budget":
        return [f"harness resume {name}{more_of((run.end or {}).get('limit'))}"]
    if stop in ("interrupted", "waiting", "stopped", "unknown-outcome"):
        return [f"harness resume {name}{' --agent' if hint == AGENTS_TURN else ''}"]
    speaks = (run.start.get("model") or {}).get("ref")
    if stop == "failed" and (speaks == "none" or any(row.verb == "stage" for row in run.rows.values())):
        return [f"harness resume {name}", f"harness resume {name} --set {_argument(tree, run)}", f"harness show {name}"]
    if stop in ("no-progress", "declined", "failed") and speaks:
        return [f"harness resume {name} MESSAGE", f"harness show {name}"]
    return [f"harness show {name}"]


def _argument(tree: Tree, run: Run) -> str:
    """Which argument another try may need: `PIPELINE/STAGE.PARAM=VALUE`, of the stage that failed."""
    failed = [row for row in run.rows.values() if row.state == "failed" and row.verb in ("run", "stage")]
    for row in failed:
        below = tree.runs.get(row.child or "")
        if below is not None and any(one.verb == "stage" for one in below.rows.values()):
            return f"{below.start.get('skill') or row.name}/{_argument(tree, below)}"
    stage = next((row.name for row in failed if row.verb == "stage"), "STAGE")
    return f"{stage}.PARAM=VALUE"


def more_of(limit: object) -> str:
    """The flag without which a run whose `limit` is used up ends again at once; none gives a model more room."""
    if limit == "context":
        return ""
    key = limit if isinstance(limit, str) and limit.isidentifier() else "usd"
    return f" -b {key}=N"


def unknown(run: Run) -> list[Row]:
    """The rows that the run parked for because only a person can tell what became of them."""
    return [run.rows[n] for n in (run.park or {}).get("ops") or () if n in run.rows]


def waiting(run: Run) -> list[Row]:
    """The rows that wait for a person, in call order; an answer waits by the verifier that asks."""
    rows = [row for row in run.rows.values() if row.state == "waiting"]
    asks = any(row.verb == "verify" for row in rows)
    return [row for row in rows if not (asks and row.verb == "finish")]


def waits(tree: Tree, run: Run, stop: str) -> list[Wait]:
    """What waits for a person in a run and in those below it, in call order."""
    found = []
    for row in unknown(run) if stop == "unknown-outcome" else waiting(run):
        child = tree.child(row)
        found += waits(tree, child, stop) if child else [_wait(tree, run, row, stop)]
    return found


def _wait(tree: Tree, run: Run, row: Row, stop: str) -> Wait:
    if row.child:  # what waits has a number in a run that was not looked into; the command finds it
        return Wait(run.name, 0, "", COMMANDS.get(stop, ()))
    if stop == "unknown-outcome":
        return Wait(run.name, row.op, "", COMMANDS[stop], heard=row.said)
    if row.verb in ("ask", "verify", "finish"):
        question = row.question if row.verb == "ask" else (run.verdict or {}).get("question")
        said = f"asks: {question}" if isinstance(question, str) else ""
        op = row.op if row.verb != "finish" else next(iter(asking(run)), row.op)
        return Wait(run.name, op, said, COMMANDS["needs-answer"], heard=run.rows[op].said if op in run.rows else "")
    by_agent = (tree.main.start.get("model") or {}).get("ref") == "agent"  # it must not say yes by itself
    anywhere = row.digest and not by_agent and row.level not in ("none", "limits")  # else at a terminal only
    digest = f" --digest {row.digest[:8]}" if anywhere else ""
    said = shlex.join((row.name, *row.argv)) if row.verb in ("run", "stage") else ""
    commands = (("approve", digest),) if stop == "needs-approval" else ()
    return Wait(run.name, row.op, said, commands, _why(row), row.said)


def _why(row: Row) -> str:
    """Why a call is asked about: what the decision says, what it would be given, where its values are from."""
    secrets = [name for name in row.asked.get("secrets") or () if not any(name in reason for reason in row.reasons)]
    parts = [*row.reasons, *([f"it would get {' '.join(secrets)}"] if secrets else [])]
    sources = origins(row.asked.get("sources") or {})
    parts += [f"{what} from {', '.join(whose)}" for what, whose in sources if whose]
    return "; ".join(parts)


def _own(wait: Wait, among: Sequence[Wait]) -> str:
    """The id of its own run, where its number alone would mean another one, too: two workers count from 1 each."""
    same = any(wait.op == other.op and wait.run != other.run for other in among)
    return f"{short(wait.run)} " if same and wait.op else ""


def _words(found: Sequence[Wait], name: str, is_terminal: bool) -> list[str]:
    """The commands for each call that waits for a person, those of child runs under the top run's name if they can.

    Where several wait for a yes, the first is the one that puts them all at a terminal, one after another.
    """
    commands = list[str]()
    if is_terminal and sum(command == "approve" for wait in found for command, _ in wait.commands) > 1:
        commands.append(f"harness approve {name}")
    for wait in found:
        number = f" {wait.op}" if wait.op else ""
        for command, rest in wait.commands:
            commands.append(f"harness {command} {_own(wait, found).rstrip() or name}{number}{rest}")
    return list(dict.fromkeys(commands))


def asking(run: Run) -> list[int]:
    """The verifiers whose question a person must answer."""
    checks = (run.verdict or {}).get("checks") or ()
    return [check["op"] for check in checks if check.get("exit") == ASKS and "op" in check]


def totals(tree: Tree, run: Run) -> Spent:
    """What a run used, with what its children used as far as they were seen; a run's own account where it gave one."""
    parts = [run.spent]
    for row in run.rows.values():
        child = tree.child(row)
        if row.op > run.seam and (child or row.end.get("spent")):
            parts.append(totals(tree, child) if child else account_of(row.end["spent"]))
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("tokens", "nanos", "unpriced", "unmetered")}
    account = (run.end or {}).get("spent") or {}
    if account:
        return replace(account_of(account), unmetered=sums["unmetered"])
    return Spent(turns=run.spent.turns, seconds=run.spent.seconds, **sums)
