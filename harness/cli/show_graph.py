"""`harness show --graph` and `--mermaid`: what waited for what in a run, in layers, with the state of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.cli.options import Globals
from harness.cli.output import flags, print_json
from harness.errors import HarnessError
from harness.events.fold import fold
from harness.events.log import follow
from harness.events.state import Operation, State
from harness.graph import Graph, Need
from harness.graph.draw import layers, mermaid
from harness.graph.fresh import Ground, fresh_receipt, holders
from harness.runs.peek import peek
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file
from harness.tools.header import read_tool
from harness.tools.stages import read_pipeline
from harness.tools.wiring import edges
from harness.view.mode import current
from harness.view.text import STATE_STYLE, escape, glyphs, painter

MOST_DEPTH = 3


def print_graph(said: Globals, catalog: Catalog, folder: Path, as_mermaid: bool) -> int:
    """The graph as it is on disk now, with the states of this run. Raises HarnessError where there is none."""
    peek(folder)
    state = fold(follow(folder))
    graph, names = graph_of(catalog, Path(state.start.get("path") or ""))
    if as_mermaid:
        print(mermaid(graph, names), end="")
    elif said.json:
        print_json(as_object(catalog, folder, state))
    else:
        mode = current(flags(said))
        signs, paint = glyphs(mode.glyphs), painter(mode.out_colour)
        print_layers(as_object(catalog, folder, state), lambda word: paint(signs.mark(word), STATE_STYLE[word]), "")
    return 0


def as_object(catalog: Catalog, folder: Path, state: State, depth: int = 0) -> dict[str, Any]:
    """The layers of a run with the state of each step, and the same of the runs that worked for it."""
    graph, names = graph_of(catalog, Path(state.start.get("path") or ""))
    children = [(op.n, *found) for op in state.ops.values() if depth < MOST_DEPTH and (found := child_of(folder, op))]
    lines = [below for _, _, below in children if not is_skill(below)]
    steps = [[{"name": name, "state": state_of(state, name, lines)} for name in one] for one in layers(graph, names)]
    drawn = [{"op": n, **as_object(catalog, child, below, depth + 1)} for n, child, below in children]
    return {"run": folder.name, "name": state.start.get("skill"), "layers": steps, "children": drawn}


def child_of(folder: Path, op: Operation) -> tuple[Path, State] | None:
    """The run that works for an operation, if it has begun."""
    child = folder.parent / (op.child or "")
    return (child, fold(follow(child))) if op.child and (child / "events.jsonl").is_file() else None


def is_skill(state: State) -> bool:
    return is_skill_file(Path(state.start.get("path") or ""))


def print_layers(drawn: dict[str, Any], sign: Callable[[str], str], indent: str) -> None:
    for number, layer in enumerate(drawn["layers"], 1):
        cells = [f"{sign(mark(step['state']))} {escape(step['name'])} {step['state']}" for step in layer]
        print(f"{indent}{number}  {'   '.join(cells)}")
    for child in drawn["children"]:
        print(f"{indent}#{child['op']} {escape(str(child['name']))}")
        print_layers(child, sign, f"{indent}   ")


def mark(word: str) -> str:
    """A result that no longer holds counts as not there yet."""
    return "new" if word == "stale" else word


def graph_of(catalog: Catalog, path: Path) -> tuple[Graph, list[str]]:
    """What waits for what in the skill or pipeline that a run was begun from."""
    if is_skill_file(path):
        skill = find(catalog, str(path.parent))
        return skill.graph, list(skill.allowed)
    stages = read_pipeline(read_tool(path, path.stem)) if path.is_file() else None
    if stages is None or not stages.stages:
        raise HarnessError(f"there is no graph: {path} is no skill and no pipeline", "look at it: harness show")
    rules = {
        stage.name: tuple(Need(name, "ended" if may_fail else "fresh") for name, may_fail in edges(stages, stage))
        for stage in stages.stages
    }
    return Graph(rules), [stage.name for stage in stages.stages]


def state_of(state: State, name: str, pipelines: Sequence[State] = ()) -> str:
    """The state of a tool's newest call, or of a stage: a word that the view has a mark for.

    What the run itself did not call counts where a stage of one of its `pipelines` did.
    """
    ops = [op for op in state.ops.values() if name in (op.stage, op.tool) and op.verb != "verify"]
    if not ops:
        return next((word for below in reversed(pipelines) if (word := state_of(below, name)) != "new"), "new")
    op = ops[-1]
    if op.waiting:
        return "waiting"
    if op.attempt_open:
        return "running"
    if op.result is None:
        return "skipped" if op.code == "SKIPPED" else "refused" if op.closed else "new"
    if op.result.get("class") != "OK":
        return "failed"
    ground = Ground(state, state.at)
    return "ok" if not holders(ground, name) or fresh_receipt(ground, name) else "stale"
