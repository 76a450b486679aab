"""A run as text from its events alone: tree, answer, verdicts, spending, what waits; and one event whole.

Writes nothing and draws nothing: every function returns text. Child runs are shown as far as the tree has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.events.state import LABEL
from harness.view import Event, Reader
from harness.view.closing import first_line, last_lines
from harness.view.fold import abandon
from harness.view.results import fetch
from harness.view.rows import ASKS, Run, Tree, failing
from harness.view.text import STATE_STYLE, Line, ansi, escape, fit, json_text, one_line, plural, wrap
from harness.view.tree import Look, turn_lines, turns


def show(tree: Tree, look: Look, colour: bool = False, owned: bool = False) -> str:
    """The whole view of a run. A `look` without width (a pipe) cuts nothing; `owned` False: no process has the run."""
    run = tree.main
    if not owned:
        for each in tree.runs.values():
            if each.end is None and each.park is None:
                abandon(each)
    head: Line = ((first_line(run, look.glyphs, look.width), "bold"),)
    parts = [[ansi(head, colour), *_origin(run)], _goal(run, look), _tree(tree, look, colour), _answer(run, look)]
    parts += [_leaks(tree, look), _verdict(run, look, colour), last_lines(tree, look.glyphs, look.width, owned)]
    return "\n".join("\n".join(part) for part in parts if part) + "\n"


def _origin(run: Run) -> list[str]:
    """Where a fork comes from, and what was used up to there."""
    fork, spent = run.start.get("fork"), run.inherited
    if not fork:
        return []
    parts = [f"fork of {fork.get('run')}@{fork.get('seq')}"]
    if spent is not None:
        parts += [f"inherited {plural(spent.turns, 'turn')}", spent.cost]
    return [one_line(", ".join(parts))]


def _goal(run: Run, look: Look) -> list[str]:
    goal = fetch(run.start.get("goal"), run.name, look.read)
    return _labelled("goal", goal, look) if goal and goal.strip() else []


def _labelled(label: str, text: str, look: Look) -> list[str]:
    """`label: text`, wrapped on a terminal; a text of several lines stands below its label, ready to be copied."""
    lines = wrap(escape(text.strip()), look.width or 10_000)
    if len(lines) == 1 and len(label) + len(lines[0]) + 2 <= (look.width or 10_000):
        return [f"{label}: {lines[0]}"]
    return [f"{label}:", *lines]


def _tree(tree: Tree, look: Look, colour: bool) -> list[str]:
    lines: list[Line] = []
    for turn in turns(tree.main) or ([0] if look.stages else []):
        lines += turn_lines(tree, tree.main, turn, look, True)
    return [ansi(line, colour) for line in lines]


def _answer(run: Run, look: Look) -> list[str]:
    """The answer of a run that passed; of another the one proposed last, said to be not accepted."""
    ended = run.end or {}
    text = fetch(ended.get("answer") or (run.verdict or {}).get("answer"), run.name, look.read)
    if not text or not text.strip():
        return []
    text = f"{LABEL}\n\n{text}" if run.demonstration else text
    return _labelled("answer" if ended.get("stop") == "passed" else "not accepted", text, look)


def _leaks(tree: Tree, look: Look) -> list[str]:
    """Which secrets were masked, and where they would have shown; the runs below included."""
    places: dict[str, dict[str, None]] = {}
    for leak in (leak for run in tree.runs.values() for leak in run.leaks):
        number = f" #{leak['op']}" if leak["op"] else ""
        places.setdefault(str(leak["name"]), {})[f"{leak['sink']} of {leak['tool']}{number}"] = None
    told = [(f"masked {name}", ", ".join(found)) for name, found in sorted(places.items())]
    return [line for label, where in told for line in _labelled(label, where, look)]


def _verdict(run: Run, look: Look, colour: bool) -> list[str]:
    verdict = run.verdict
    if verdict is None:
        return []
    failed = {str(check.get("name")) for check in failing(verdict)}
    lines = []
    for check in verdict.get("checks") or ():
        state = "failed" if str(check.get("name")) in failed else "ok"
        state = "waiting" if check.get("exit") == ASKS else state
        lines.append(_mark(look, state, f"verifier {check.get('name')}: exit {check.get('exit')}"))
    for item in verdict.get("missing") or ():
        lines.append(_mark(look, "failed", f"missing {item.get('name')}: {item.get('why')}"))
    question = fetch(verdict.get("question"), run.name, look.read)
    if question:
        lines.append(_mark(look, "waiting", f"asks: {' '.join(question.split())}"))
    return [ansi(line, colour) for line in lines]


def _mark(look: Look, state: str, words: str) -> Line:
    line: Line = ((look.glyphs.mark(state), STATE_STYLE[state]), (f" {one_line(words)}", ""))
    return fit(line, look.width, look.glyphs.cut) if look.width is not None else line


def event_text(event: Event, folder: Path, read: Reader) -> str:
    """One event whole, its texts as lines, then the folder of its attempt if there is one. Escaped."""
    data = dict(event["data"])
    texts = {key: text for key, value in data.items() if (text := _long_text(value, folder.name, read)) is not None}
    head = {key: value for key, value in event.items() if key not in ("data", "crc")}
    lines = [json_text({**head, "data": {key: value for key, value in data.items() if key not in texts}}, indent=2)]
    for key, text in texts.items():
        lines += [f"{one_line(key)}:", *(f"  {line}" for line in escape(text).rstrip("\n").split("\n"))]
    attempt = folder / "ops" / str(event.get("op")) / str(data.get("try") or 1)
    if attempt.is_dir():
        lines.append(f"folder: {one_line(str(attempt))}")
    return "\n".join(lines) + "\n"


def _long_text(value: Any, run: str, read: Reader) -> str | None:
    """A text that reads better as lines than inside JSON."""
    if isinstance(value, dict) and "blob" in value:
        return fetch(value, run, read)
    return value if isinstance(value, str) and "\n" in value else None
