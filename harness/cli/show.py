"""`harness show`: one run from its file, as it stands; nothing is opened for writing."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags, print_json
from harness.cli.place import Place, catalog, place, runs_dir
from harness.errors import HarnessError
from harness.events.messages import read_message, waiting_files
from harness.events.scan import blob_bytes, journal_bytes, never_started, reading, scan
from harness.runs.deliver import said_on, waiting_in
from harness.runs.find import find_run
from harness.runs.list import is_owned
from harness.runs.peek import read_state
from harness.view.closing import stop_of, waiting
from harness.view.fold import apply
from harness.view.mode import current
from harness.view.results import fetch
from harness.view.rows import Run, Tree
from harness.view.show import event_text
from harness.view.show import show as show_tree
from harness.view.text import escape, glyphs
from harness.view.tree import Look

MOST_DEPTH = 3
VIEWS = "--event, --graph, --mermaid, --prompt, --cost, --as-script, --verify and -F"
PAUSE = 0.3


@manual(
    "harness show",
    "harness show k3v9 --graph",
    "harness show k3v9 --prompt 3",
    "harness show k3v9 --cost",
    "harness show last --verify",
    "harness show last -F",
    codes=(0, 1, 2, 3),
    notes=("With -F the code is the run's; Ctrl-C ends it with 0.", "1: with --verify, it is not proven unchanged."),
    streams=True,
)
def show(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[RUN]", help="a run's folder, part of its id, or last")] = None,
    event: Annotated[str | None, typer.Option("--event", metavar="N", help="one event whole")] = None,
    graph: Annotated[bool, typer.Option("--graph", help="the layers of its graph with their states")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="the graph as Mermaid")] = False,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="N", help="what model call N held")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="tokens and money by model call, tool and worker")] = False,
    script: Annotated[bool, typer.Option("--as-script", help="its replies as a script that replays it")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="whether its journal is as it was written")] = False,
    follow: Annotated[bool, typer.Option("-F", "--follow", help="go on until the run ends or waits")] = False,
) -> int:
    """Its steps, the answer, what it used, what waits."""
    said = globals_of(ctx)
    views = (event is not None, graph, mermaid, prompt is not None, cost, script, verify, follow)
    if sum(views) > 1:
        raise HarnessError(f"{VIEWS} are different views", "give one of them")
    at = place(said)
    folder = named_run(at, name)
    if verify:
        from harness.cli.show_verify import print_verdicts

        return print_verdicts(said, folder)
    if event is not None:
        return print_event(folder, event)
    if graph or mermaid:
        from harness.cli.show_graph import print_graph

        return print_graph(said, catalog(at), folder, mermaid)
    if prompt == "":
        raise HarnessError("--prompt names no model call", "give its number")
    if prompt is not None or cost or script:
        from harness.cli import show_model

        if cost:
            return show_model.print_cost(said, folder)
        return show_model.print_prompt(said, at, folder, prompt) if prompt else show_model.print_script(at, folder)
    if follow:
        return followed(said, at, folder)
    return print_lines(folder) if said.output == "stream-json" else print_run(said, at, folder)


def named_run(at: Place, name: str | None) -> Path:
    """The folder of a run of the project, or one that is named by its path, as a trial's. Raises HarnessError."""
    path = Path(name or "")
    return path if "/" in (name or "") and (path / "events.jsonl").is_file() else find_run(runs_dir(at), name)


def print_lines(folder: Path) -> int:
    """The journal itself on stdout."""
    with reading(folder):
        raw = journal_bytes(folder)
    sys.stdout.buffer.write(raw)
    return 0


def read_events(folder: Path) -> tuple[dict[str, Any], ...]:
    """The events of a journal that somebody else may be writing. Raises JournalError where they cannot be read."""
    with reading(folder):
        events = scan(journal_bytes(folder), folder, blobs=False).events
    if not events or events[0]["kind"] != "run.start":
        raise never_started(folder)
    return events


def load_tree(folder: Path) -> Tree:
    """A run and, three levels deep, the runs that worked for it."""
    tree = Tree()
    add(tree, folder, 0)
    for name, run in tree.runs.items():
        _hear(run, folder.parent / name)
    return tree


def _hear(run: Run, folder: Path) -> None:
    """Mark what a person said and nobody acted on yet, and the results that are said to be stale."""
    state = read_state(folder)
    if state is None:
        return
    for one in waiting_in(folder, state):
        if one.op.n in run.rows:
            run.rows[one.op.n].said = said_on(one)
    messages = [message for path in waiting_files(folder) if (message := read_message(path))]
    values = [message.get("value") or () for message in messages if message.get("what") == "stale"]
    for slot in [*(tuple(slot) for value in values for slot in value), *state.stale]:
        if slot in state.slots and state.slots[slot].op in run.rows:
            run.rows[state.slots[slot].op].stale = True


def add(tree: Tree, folder: Path, depth: int) -> None:
    for event in read_events(folder):
        apply(tree, event, folder.name, depth)
    run = tree.runs.get(folder.name)
    for row in list(run.rows.values()) if run and depth < MOST_DEPTH else ():
        child = folder.parent / str(row.child)
        if row.child and (child / "events.jsonl").is_file():
            add(tree, child, depth + 1)


def print_run(said: Globals, at: Place, folder: Path) -> int:
    """The whole run on stdout."""
    tree, owned = load_tree(folder), is_owned(folder)
    if said.json:
        print_json(as_object(folder, tree.main, owned))
        return 0
    mode = current(flags(said))
    look = Look(mode.out_width, glyphs(mode.glyphs), reader(folder), now=time.time(), numbers=True)
    print(show_tree(tree, look, mode.out_colour, owned), end="")
    print(f"folder: {escape(str(folder))}")
    return 0


def reader(folder: Path) -> Any:
    """Blobs of a run and of those that worked for it."""
    runs = folder.parent
    return lambda run, sha: blob_bytes(runs / run, sha)


def as_object(folder: Path, run: Run, owned: bool) -> dict[str, Any]:
    """A run as one object; `steps` are its operations in order."""
    last = run.end or run.park or {}
    answer = fetch(last.get("answer"), folder.name, reader(folder)) or None
    steps = [
        {"op": row.op, "verb": row.verb, "tool": row.name, "argv": row.argv, "state": row.state, "class": row.code,
         "ms": row.ms, "turn": row.turn, "run": row.child, "by": row.end.get("by"),
         "said": row.said or None, "stale": row.stale, "seq": row.end_seq or None}
        for _, row in sorted(run.rows.items())
    ]  # fmt: skip
    return {
        "run": run.name, "skill": run.start.get("skill"), "stop": stop_of(run, owned), "code": last.get("exit"),
        "answer": None if last.get("unaccepted") else answer, "unaccepted": answer if last.get("unaccepted") else None,
        "spent": last.get("spent"), "limits": run.start.get("budget"), "verdicts": (run.verdict or {}).get("checks"),
        "waiting": [row.op for row in waiting(run)], "steps": steps, "folder": str(folder),
        "fork": run.start.get("fork"), "leaks": run.leaks, **({"demonstration": True} if run.demonstration else {}),
        "inherited": asdict(run.inherited) if run.inherited is not None else None,
    }  # fmt: skip


def print_event(folder: Path, number: str) -> int:
    """One event as it was written, laid out, and the folder of its attempt."""
    events = read_events(folder)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(events)):
        raise HarnessError(f"{folder.name} has no event {number}", f"give a number from 1 to {len(events)}")
    event = events[int(number) - 1]
    print(event_text(event, folder, lambda run, sha: blob_bytes(folder, sha)), end="")
    return 0


def followed(said: Globals, at: Place, folder: Path) -> int:
    """Plain lines on stdout (or the journal's own) as they come; ends with the run's code, by Ctrl-C with 0."""
    from harness.view.plain import Plain

    mode = current(flags(said))
    view = Plain(sys.stdout, reader(folder), glyphs(mode.glyphs), mode.out_colour)
    seen = 0
    last: dict[str, Any] = {}
    try:
        while True:
            owned, events = is_owned(folder), read_events(folder)
            for event in events[seen:]:
                show_one(said, folder, view, event)
                last = last if event["kind"] == "amend" else event  # which follows an end, and leaves it as it is
            seen = len(events)
            if last.get("kind") in ("run.end", "park") or not owned:
                break
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return 0
    if said.output != "stream-json":
        view.close()
    return int((last.get("data") or {}).get("exit") or 0)


def show_one(said: Globals, folder: Path, view: Any, event: dict[str, Any]) -> None:
    if said.output != "stream-json":
        view.event(event, folder.name, 0)
        return
    lines = journal_bytes(folder).split(b"\n")
    sys.stdout.buffer.write(lines[event["seq"] - 1] + b"\n")
    sys.stdout.buffer.flush()
