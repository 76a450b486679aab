"""A run as text from its events alone: tree, answer, verdicts, spending, what waits; one event; the graph.

Writes nothing and draws nothing: every function returns text. Children are shown as far as their events are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.view import Event, Reader
from harness.view.closing import first_line, last_lines
from harness.view.fold import abandon, apply
from harness.view.results import fetch
from harness.view.rows import Run, Tree, failing
from harness.view.text import STATE_STYLE, Glyphs, Line, ansi, escape, fit, json_text, one_line, painter, wrap
from harness.view.tree import Look, Stages, turn_lines, turns

Child = tuple[str, Sequence[Event]]
"""A child run's folder name and its events."""


def tree_of(events: Iterable[Event], run: str, children: Iterable[Child] = (), owned: bool = False) -> Tree:
    """The tree of a run and its children. `owned`: a process has the run; else what is open is shown as stopped."""
    tree = Tree()
    for event in events:
        apply(tree, event, run, 0)
    for name, inner in children:
        for event in inner:
            apply(tree, event, name, 1)
    if not owned:
        for each in tree.runs.values():
            if each.end is None and each.park is None:
                abandon(each)
    return tree


def show(
    events: Sequence[Event],
    run: str,
    read: Reader,
    glyphs: Glyphs,
    width: int | None = None,
    colour: bool = False,
    owned: bool = False,
    children: Iterable[Child] = (),
    stages: Stages | None = None,
) -> str:
    """The whole view of one run. `width` None (a pipe) cuts nothing; `owned` False: no process has the run."""
    tree = tree_of(events, run, children, owned)
    look = Look(width, glyphs, read, tree.main.at, stages=stages)
    head = first_line(tree.main, glyphs, width)
    parts = [[ansi(((head, "bold"),), colour)], _goal(tree.main, look), _tree(tree, look, colour)]
    parts += [_answer(tree.main, look), _verdict(tree.main, look, colour)]
    parts.append(last_lines(tree, glyphs, width, owned))
    return "\n".join("\n".join(part) for part in parts if part) + "\n"


def _goal(run: Run, look: Look) -> list[str]:
    goal = fetch(run.start.get("goal"), run.name, look.read)
    return _labelled("goal", goal, look) if goal and goal.strip() else []


def _labelled(label: str, text: str, look: Look) -> list[str]:
    """`label: text`, wrapped on a terminal; a text of several lines stands indented below its label."""
    lines = wrap(escape(text.strip()), (look.width or 10_000) - 2)
    if len(lines) == 1 and len(label) + len(lines[0]) + 2 <= (look.width or 10_000):
        return [f"{label}: {lines[0]}"]
    return [f"{label}:", *(f"  {line}" for line in lines)]


def _tree(tree: Tree, look: Look, colour: bool) -> list[str]:
    lines: list[Line] = []
    for turn in turns(tree.main) or ([0] if look.stages else []):
        lines += turn_lines(tree, tree.main, turn, look, True)
    return [ansi(line, colour) for line in lines]


def _answer(run: Run, look: Look) -> list[str]:
    """The answer of a run that passed; of another the one proposed last, said to be not accepted."""
    ended = run.end or {}
    accepted = ended.get("stop") == "passed"
    value = ended.get("answer") if accepted else ended.get("unaccepted") or (run.verdict or {}).get("answer")
    text = fetch(value, run.name, look.read) if value is not None else None
    if not text:
        return []
    return _labelled("answer" if accepted else "not accepted", text, look)


def _verdict(run: Run, look: Look, colour: bool) -> list[str]:
    verdict = run.verdict
    if verdict is None:
        return []
    failed = {str(check.get("name")) for check in failing(verdict)}
    lines = []
    for check in verdict.get("checks") or ():
        state = "failed" if str(check.get("name")) in failed else "ok"
        lines.append(_mark(look, state, f"verifier {check.get('name')}: exit {check.get('exit')}"))
    for item in verdict.get("missing") or ():
        lines.append(_mark(look, "failed", f"missing {item.get('name')}: {item.get('why')}"))
    question = fetch(verdict.get("question"), run.name, look.read)
    if question:
        lines.append(_mark(look, "waiting", f"asks: {question}"))
    return [ansi(line, colour) for line in lines]


def _mark(look: Look, state: str, words: str) -> Line:
    line: Line = ((look.glyphs.mark(state), STATE_STYLE[state]), (f" {one_line(words)}", ""))
    return fit(line, look.width, look.glyphs.cut) if look.width is not None else line


def show_event(events: Iterable[Event], seq: int, run: str, folder: str, read: Reader) -> str | None:
    """One event whole, texts unfolded, then the folder of its operation; None when there is no such number."""
    for event in events:
        if event["seq"] == seq:
            return _event_text(event, run, folder, read)
    return None


def _event_text(event: Event, run: str, folder: str, read: Reader) -> str:
    data = dict(event["data"])
    texts = {key: text for key, value in data.items() if (text := _long_text(value, run, read)) is not None}
    head = {key: value for key, value in event.items() if key not in ("data", "crc")}
    shown = {**head, "data": {key: value for key, value in data.items() if key not in texts}}
    lines = [json_text(shown, indent=2)]
    for key, text in texts.items():
        lines += [f"{one_line(key)}:", *(f"  {line}" for line in escape(text).rstrip("\n").split("\n"))]
    if "op" in event:
        lines.append(f"folder: {one_line(folder)}/ops/{event['op']}/{data.get('try') or 1}")
    return "\n".join(lines) + "\n"


def _long_text(value: Any, run: str, read: Reader) -> str | None:
    """A text that reads better as lines than inside JSON."""
    if isinstance(value, dict) and "blob" in value:
        return fetch(value, run, read)
    return value if isinstance(value, str) and "\n" in value else None


def show_graph(
    layers: Sequence[Sequence[str]],
    states: Mapping[str, str],
    glyphs: Glyphs,
    needs: Mapping[str, Sequence[str]] | None = None,
    colour: bool = False,
) -> str:
    """Layers of names with their states (`ok failed stale waiting …`), one line a name: `1  ✓ check-pods  ok`."""
    paint = painter(colour)
    size = max((len(name) for layer in layers for name in layer), default=0)
    lines = []
    for number, layer in enumerate(layers, 1):
        for at, name in enumerate(layer):
            state = states.get(name, "new")
            known = state if state in STATE_STYLE else "new"
            after = ", ".join((needs or {}).get(name, ()))
            words = "not yet" if state == "new" else state
            line = f"{number if at == 0 else '':>2}  {paint(glyphs.mark(known), STATE_STYLE[known])} "
            line += one_line(name).ljust(size) + f"  {one_line(words)}"
            lines.append(line + (f"  {glyphs.source} {one_line(after)}" if after else ""))
    return "\n".join(lines) + "\n" if lines else ""


def states(tree: Tree) -> dict[str, str]:
    """The newest state of each tool or stage of the top run, by name."""
    return {row.name: row.state for _, row in sorted(tree.main.rows.items()) if row.verb in ("run", "stage", "verify")}
