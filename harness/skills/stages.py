"""Whether the pipelines that are named somewhere could run from there: their stages, and those of the ones they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import Finding
from harness.skills.discovery import Catalog
from harness.tools import Tool
from harness.tools.stages import read_pipeline
from harness.tools.wiring import check_pipeline


def find_tool(catalog: Catalog, places: Iterable[Path], name: str) -> Tool | None:
    """The first tool of that name in these folders."""
    return next((t for place in places if (t := catalog.tools(place, place.name == "scripts").get(name))), None)


def stage_findings(catalog: Catalog, tools: Iterable[Tool], places: Sequence[Path]) -> Iterator[Finding]:
    """Every `bad-pipeline` in those of the tools that are pipelines, and in those that their stages run.

    `places` are the folders in which a stage's tool is looked for, in order.
    """

    def resolve(name: str) -> Tool | Literal["worker"] | None:
        return find_tool(catalog, places, name) or ("worker" if catalog.named(name) else None)

    known = [name for place in places for name in catalog.tools(place, place.name == "scripts")]
    todo, seen = list(tools), set[Path]()
    while todo:
        tool = todo.pop(0)
        if not tool.pipeline or tool.broken or tool.path in seen:
            continue
        seen.add(tool.path)
        pipeline = read_pipeline(tool)
        yield from check_pipeline(pipeline, tool, resolve, known)
        found = (find_tool(catalog, places, stage.run[0].text) for stage in pipeline.stages if stage.run)
        todo += [one for one in found if one is not None]
