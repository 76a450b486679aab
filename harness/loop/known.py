"""What a run knows, filed as it goes along: what a value must be found in that the model may not make up.

The model's own words are nowhere in it: not its texts, nor its questions, nor what it asked a worker to do, nor the
answer that a worker's model gave. What a worker's tools found is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from harness.events.receipt import argv_in
from harness.events.scan import blob_text
from harness.events.state import Operation, State
from harness.loop.made import said_in
from harness.loop.run import Run
from harness.policy.grounding import MAX_TEXT, Found, Known, Source, joined, occurs
from harness.prompt.texts import GUIDES
from harness.tools.regular import read_regular

Text = Callable[[object], str]


def known_of(run: Run) -> Known:
    """All that the run knows by now. Each text is read once, when it is first there."""
    for kind, label, texts in (
        ("user", "the user's words", [*run.words_above(), *run.state.said]), ("input", "the input", run.state.given),
    ):  # fmt: skip
        for text in _new(run, kind, texts):
            run.known.file(Source(kind, label), run.text(text))
    _file_receipts(run, run.state, run.text)
    return run.known


def file_pipeline(run: Run) -> None:
    """The words of a pipeline's own file: its author wrote them, and no model chooses among them."""
    for path in _new(run, "pipeline", [str(run.state.start.get("path", ""))]):
        run.known.file(Source("skill", "the pipeline"), read_regular(Path(path), MAX_TEXT).decode("utf-8", "replace"))


def _new(run: Run, key: str, items: Collection[Any]) -> list[Any]:
    """The items that were not there when they were last asked for."""
    before, run.filed[key] = run.filed.get(key, 0), len(items)
    return list(islice(items, before, None))


def _file_receipts(run: Run, state: State, text: Text, below: str = "") -> None:
    """File what operations brought, in their order. `below` is the folder of the run below that they are of."""
    for n in _new(run, f"receipts {below}", state.receipts):
        op, label = state.ops[n], f" of {below}" if below else ""
        if op.child is not None:
            _file_child(run, op)
        elif op.result is not None and not _is_own(run, op):
            source = Source("file" if op.verb == "read" else f"tool:{op.tool}", f"{_name(op)} #{n}{label}")
            said = (*argv_in(op, text), *said_in(op.result, text))
            for part in ("out", "err"):
                run.known.file(source, _stored(op.result.get(part), text), said)
        if op.effect != "read":
            run.known.wrote(argv_in(op, text), f"{_name(op)} #{n}{f' of {below}' if below else ''}")


def _name(op: Operation) -> str:
    return str(op.arguments.get("path", "")) if op.verb == "read" else op.tool


def _is_own(run: Run, op: Operation) -> bool:
    """What tells nothing about the world: a model's answer, the skill's own text, and what this run wrote down."""
    if op.verb in ("finish", "ask") or op.tool == "harness":
        return True
    if op.verb != "read":
        return False
    path = str(op.arguments.get("path", ""))
    if path.startswith(("skill:", "run:", "op:")):
        return True  # of an operation the text is filed already, with the words that it came from
    full = (run.project / path).resolve()
    own = run.toolset.folder.resolve() if run.toolset.folder is not None else None
    return full.name in GUIDES or (own is not None and own in full.parents)


def _stored(value: object, text: Text) -> str:
    return text(value)[:MAX_TEXT] if isinstance(value, str) or (isinstance(value, dict) and "blob" in value) else ""


def _file_child(run: Run, op: Operation) -> None:
    """What the tools of a run below found; its model's answer is nobody's knowledge."""
    folder = run.folder.parent / str(op.child)
    state = run.world.child_receipts(folder)
    if state is not None:
        _file_receipts(run, state, partial(blob_text, folder), folder.name)


def passed_on(run: Run, words: Iterable[str], value: str) -> tuple[Source, ...]:
    """Where this run has a value from that stands in the words of a call, for the run that the call begins."""
    return sources_of(run, value) if occurs(joined([value]), joined(words)) else ()


def sources_of(run: Run, value: str) -> tuple[Source, ...]:
    """Where a value is from: from what this run knows, or from above where it was passed on."""
    return known_of(run).sources(value) or run.known_above(value)


def look_up(run: Run, value: str) -> Found:
    """The sources of a value; where it has none, the known values near it and where it stands all the same."""
    found = sources_of(run, value)
    if found:
        return Found(found)
    known = known_of(run)
    label, written = known.echo(value)
    if written:
        echo = f"was said by {label} before anything made it known, so what holds it since may repeat that call"
    elif label:
        echo = f"stands in what {label} brought only because its own call said it"
    elif label := _no_source(run, value):
        echo = f"stands in {label}, which makes nothing known"
    else:
        echo = ""
    return Found((), known.near(value), echo, written)


def _no_source(run: Run, value: str) -> str:
    """Which text holds a value though it is no source: what a model wrote, the skill's own files, our own notes."""
    sought, folder = joined([value]), run.toolset.folder
    for n in run.state.receipts:
        op = run.state.ops[n]
        if (op.child is not None or (op.result is not None and _is_own(run, op))) and occurs(
            sought, joined([_stored((op.result or {}).get("out"), run.text)])
        ):
            return f"{_name(op) or op.verb} #{n}"
    if folder is None or not (folder / "SKILL.md").is_file():
        return ""
    body = read_regular(folder / "SKILL.md", MAX_TEXT).decode("utf-8", "replace")
    return "the skill's own text" if occurs(sought, joined([body])) else ""
