"""What shows a run while it goes on: the view that the terminal and the flags ask for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.cli.options import Globals
from harness.cli.place import Place, find_tool, runs_dir
from harness.errors import HarnessError
from harness.events.scan import blob_bytes
from harness.tools.stages import Pipeline, read_pipeline
from harness.tools.wiring import edges
from harness.view.mode import Mode


def make_view(said: Globals, at: Place, mode: Mode) -> Any:
    """The view that the mode asks for, on stderr."""
    read = blob_reader(runs_dir(at))
    if said.quiet:
        from harness.view.quiet import Quiet

        return Quiet()
    from harness.view.text import glyphs

    if mode.view == "live":
        from harness.view.live import Live

        return Live(sys.stderr, read, glyphs(mode.glyphs), mode.colour, stages=stage_lister(at))
    from harness.view.plain import Plain

    view = Plain(sys.stderr, read, glyphs(mode.glyphs), mode.colour)
    view.keep_ticking()
    return view


def stage_lister(at: Place) -> Callable[[str], Sequence[tuple[str, Sequence[str]]]]:
    """The stages of a pipeline and what each waits for, as the live view lists those that have not begun."""

    @cache
    def stages(name: str) -> Sequence[tuple[str, Sequence[str]]]:
        try:
            tool = find_tool(at, name)
        except HarnessError:
            return ()
        pipeline = read_pipeline(tool) if tool.pipeline else Pipeline()
        return [(stage.name, [need for need, _ in edges(pipeline, stage)]) for stage in pipeline.stages]

    return stages


def blob_reader(runs: Path) -> Callable[[str, str], bytes]:
    def read(run: str, sha: str) -> bytes:
        return blob_bytes(runs / run, sha)

    return read
