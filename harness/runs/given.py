"""What a run is begun with beside its task: a trusted project's own words, and the files that a person points to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.loop.made import is_made
from harness.loop.paths import hidden_reason, open_beneath
from harness.loop.run import World
from harness.prompt.texts import GUIDES, ContextFile, ProjectText
from harness.skills import Skill

GUIDE_LIMIT = 4 * 1024  # bytes of a project's own words
MOST_FILES = 10


def guide(world: World, project: Path, skill: Skill) -> dict[str, Any] | None:
    """What the project says of itself, as `run.start` keeps it: {"path", "text", "bytes"}; None where it has no say.

    What a call of some run wrote there is a tool's word, and no model is told it as the project's.
    """
    for name in GUIDES if skill.agents_md else ():
        if world.trust.of(project / name) != "trusted":
            continue
        with suppress(OSError), os.fdopen(open_beneath(project, name), "rb") as file:
            raw, size = file.read(GUIDE_LIMIT), os.fstat(file.fileno()).st_size
            text = _first_lines(raw, size).decode("utf-8", "replace")
            file.seek(0)
            if text.strip() and not is_made(world.words, hashlib.file_digest(file, "sha256").hexdigest()):
                return {"path": name, "text": text, "bytes": size}
    return None


def _first_lines(raw: bytes, size: int) -> bytes:
    """Whole lines, unless the first one is longer than all that is taken."""
    return raw if size <= len(raw) else raw[: raw.rfind(b"\n") + 1] or raw.decode(errors="ignore").encode()


def pointed_to(world: World, project: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """The files of `--context`, as `run.start` keeps them: [{"path", "bytes", "verdict"?}]. Raises HarnessError."""
    paths = [(name, os.path.relpath(world.here / name, project)) for name in names]
    found = {path: _file(world, project, name, path) for name, path in paths}
    if len(found) > MOST_FILES:
        raise HarnessError(f"--context names {len(found)} files; a run takes {MOST_FILES}", "name fewer")
    return list(found.values())


def _file(world: World, project: Path, name: str, path: str) -> dict[str, Any]:
    parts = Path(path).parts
    why = "it lies outside the project" if ".." in parts else hidden_reason(parts, "")
    if why:
        raise HarnessError(f"--context {name}: {why}", "name a file that a run may read")
    try:
        with os.fdopen(open_beneath(project, path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        fix = "name a file; a run can read the others by itself"
        raise HarnessError(f"--context {name}: {error.strerror or error}", fix) from error
    verdict = world.page_verdict(project / path)
    return {"path": path, "bytes": size} | ({"verdict": verdict} if verdict else {})


def project_of(start: Mapping[str, Any], text: str) -> ProjectText | None:
    """The project's own words of a run that began like this; `text` is their text as the journal has it."""
    kept = start.get("project")
    return ProjectText(str(kept["path"]), text, int(kept["bytes"])) if kept else None


def context_of(start: Mapping[str, Any]) -> tuple[ContextFile, ...]:
    """The files that a person pointed to when a run began like this."""
    return tuple(ContextFile(f["path"], f["bytes"], f.get("verdict", "")) for f in start.get("context") or ())
