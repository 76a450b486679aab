"""Whose words a file holds that a call of any run made: kept by the file's content, outside of what a tool can write.

A run knows what its own calls wrote. This is for the runs to come: what a model once wrote into a file is no finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.events.io import make_private
from harness.events.state import Operation
from harness.loop.run import Run
from harness.prompt.texts import GUIDES

FOLDER = "made"
ROUNDED = 0.01
"""Seconds by which a file system's clock may lie behind."""


def remember(run: Run, op: Operation, artifacts: Iterable[dict[str, str]]) -> list[str]:
    """Keep the words of a call by each file it made; the first maker counts. A lost one only lets a value be known.

    Returns which of the project's own words were changed while it ran: nobody can tell that a person did it.
    """
    if run.world.words is None or op.effect == "read":
        return []
    guides = [name for name in GUIDES if _is_changed(run.project / name, op)]
    found = {artifact["sha256"] for artifact in artifacts}
    found |= {sha for path in (*_written(run, op), *guides) if (sha := run.file_digest(path)) is not None}
    told = json.dumps({"by": f"tool:{op.tool}", "run": run.name, "said": list(run.argv(op))}).encode()
    for sha in found:
        path = run.world.words / FOLDER / sha
        with suppress(OSError):
            make_private(path.parent)
            if not path.exists():
                run.world.io.put(path, told)
    return guides


def _is_changed(path: Path, op: Operation) -> bool:
    with suppress(OSError):  # the time of change, which no tool can set
        return op.started_at is not None and path.stat().st_ctime >= op.started_at - ROUNDED
    return False


def _written(run: Run, op: Operation) -> Iterator[str]:
    """The paths that the header says the call writes."""
    values = run.values(op.tool, run.argv(op))
    for word in run.toolset.tools[op.tool].roles.get("writes", ()):
        yield from values.get(word.removeprefix("--"), ()) if word.startswith("--") else (word,)


def is_made(words: Path | None, sha: str) -> bool:
    """Whether a call of any run made a file of this content."""
    return words is not None and (words / FOLDER / sha).exists()


def maker(run: Run, sha: str) -> dict[str, Any]:
    """{"made": {"by", "said"}} of a file that a call of an earlier run made, as the end of a read keeps it."""
    if run.world.words is None or sha in run.state.written:
        return {}
    try:
        found = json.loads((run.world.words / FOLDER / sha).read_bytes())
        by, said, of = str(found["by"]), "\0".join(map(str, found["said"])), found["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {} if of == run.name else {"made": {"by": by, "said": run.log.fit(said)}}


def said_in(result: dict[str, Any], text: Any) -> tuple[str, ...]:
    """The words of that call, from the end of a read; `text` reads the run's blobs."""
    made = result.get("made")
    return tuple(str(text(made["said"])).split("\0")) if made else ()
