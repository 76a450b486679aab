"""The environment of a tool, from scratch. Not a place for secrets: they are added at the spawn, by their own part."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


def environment(
    *,
    op_id: str,
    run: Path,
    out: Path,
    depth: int,
    passed: Mapping[str, str],
    skill: Path | None,
    tools_path: Sequence[str] = (),
) -> dict[str, str]:
    """Every variable that the tool gets; nothing else is inherited.

    `run` is the run folder, `out` the attempt's private scratch, `skill` the skill's folder when the tool is one of
    its scripts. `passed` are more variables for this call, such as those the user gives to this tool: they win over all
    but the `HARNESS_…` variables made here. `tools_path` are more directories for `PATH`, absolute ones only.
    """
    built = {
        "PATH": _path(tools_path),
        "HOME": str(out),
        "TMPDIR": str(out),
        "LANG": os.environ.get("LANG") or "C.UTF-8",
    }
    if "TZ" in os.environ:
        built["TZ"] = os.environ["TZ"]
    built |= {
        **passed,
        "HARNESS_RUN": str(run),
        "HARNESS_OUT": str(out),
        "HARNESS_OP_ID": op_id,
        "HARNESS_DEPTH": str(depth),
    }
    if skill is not None:
        built["HARNESS_SKILL"] = str(skill)
    return built


def _path(more: Sequence[str]) -> str:
    """The harness's own interpreter comes first, so that `env python3` is one that is recent enough."""
    places = [str(Path(sys.executable).parent), *SYSTEM_PATH, *more]
    return ":".join(dict.fromkeys(place for place in places if place.startswith("/") and ":" not in place))
