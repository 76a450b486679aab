"""What a run may call, from the files: a skill's names, a pipeline's stages. Nothing is started."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.graph import Graph
from harness.loop.toolset import Toolset
from harness.skills import Resolved, Skill
from harness.skills.discovery import Catalog, package_folder
from harness.skills.stages import find_tool
from harness.skills.worker import as_tool
from harness.tools import Tool
from harness.tools.discovery import digest
from harness.tools.header import read_tool
from harness.tools.stages import Pipeline, Stage, read_pipeline
from harness.tools.wiring import check_pipeline


def skill_kit(resolved: Resolved, is_open: bool = False) -> Toolset:
    """A skill's closed list, its graph (none where all is open at once), and what must hold at the end."""
    skill = resolved.skill
    return Toolset(
        tools=resolved.tools, workers={name: as_tool(worker, name) for name, worker in resolved.workers.items()},
        listed=skill.allowed, graph=Graph() if is_open else skill.graph,
        requires=skill.requires, verify=skill.verify, stand_in=skill.pipeline, folder=skill.folder,
    )  # fmt: skip


def skill_places(catalog: Catalog, skill: Skill) -> list[Path]:
    """The folders in which a skill's names are looked up, in order."""
    own = [skill.root.bin] if skill.root.bin else []
    return list(dict.fromkeys([catalog.own_bin, *own, skill.folder / "scripts"]))


def file_places(catalog: Catalog, path: Path) -> list[Path]:
    """The folders in which the names of a pipeline outside a skill are looked up, in order."""
    return list(dict.fromkeys([catalog.own_bin, path.resolve().parent, package_folder() / "bin"]))


def run_places(catalog: Catalog, start: Mapping[str, Any]) -> list[Path]:
    """The folders in which the names of a run that was begun like this are looked up, in order."""
    path = Path(start.get("path") or "")
    skill = next((skill for skill in catalog.skills if skill.file == path), None)
    return skill_places(catalog, skill) if skill is not None else file_places(catalog, path)


def pipeline_kit(catalog: Catalog, tool: Tool, places: Sequence[Path], folder: Path | None) -> tuple[Toolset, Pipeline]:
    """A pipeline's stages and the tools they name. Raises HarnessError (exit 2) when it cannot run as written."""
    pipeline = read_pipeline(tool)
    names = dict.fromkeys(stage.run[0].text for stage in pipeline.stages if stage.run and not asks_model(stage))
    tools = {name: found for name in names if (found := find_tool(catalog, places, name)) is not None}
    tools |= queries_of(catalog, places, tools)
    own = next((name for name, found in tools.items() if found.path.resolve() == tool.path.resolve()), None)
    if own is not None:
        what = f"a stage of {tool.name} runs {own}, which is this pipeline itself"
        raise HarnessError(what, "take it out", str(tool.path))
    workers = {
        name: as_tool(skills[0], name) for name in names if name not in tools and (skills := catalog.named(name))
    }  # fmt: skip

    def resolve(name: str) -> Any:
        return tools.get(name) or ("worker" if name in workers else None)

    known = {name for place in places for name in catalog.tools(place, place.name == "scripts")}
    wrong = [f for f in check_pipeline(pipeline, tool, resolve, known) if f.severity == "error"]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise HarnessError(f"{wrong[0].message}{more}", wrong[0].fix, f"{wrong[0].file}:{wrong[0].line}")
    return Toolset(tools=tools, workers=workers, listed=tuple(names), folder=folder), pipeline


def asks_model(stage: Stage) -> bool:
    """Whether a stage is `[harness, prompt, …]`."""
    return stage.run[0].text == "harness"


def tool_kit(catalog: Catalog, tool: Tool) -> Toolset:
    """One tool by itself, and what it asks."""
    asked = queries_of(catalog, [catalog.own_bin, tool.path.parent], {tool.name: tool})
    folder = tool.path.parent.parent if tool.script else None
    return Toolset({tool.name: tool, **asked}, listed=(tool.name,), folder=folder)


def queries_of(catalog: Catalog, places: Sequence[Path], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that these ask when it is not known whether a call of theirs had its effect."""
    names = dict.fromkeys(tool.query[0] for tool in tools.values() if tool.query and tool.query[0] not in tools)
    return {name: found for name in names if (found := find_tool(catalog, places, name)) is not None}


def tool_pins(tools: Mapping[str, Tool]) -> dict[str, str]:
    """SHA-256 of each tool's file; empty for one that cannot be read."""
    found = {}
    for name, tool in tools.items():
        try:
            found[name] = digest(tool.path)
        except HarnessError:
            found[name] = ""
    return found


def file_pin(path: Path) -> str:
    """SHA-256 of a file that a run was begun from."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_pipeline(catalog: Catalog, path: Path) -> tuple[Tool, Toolset, Any]:
    """A pipeline file, its tools and its stages. Raises HarnessError."""
    if not path.is_file():
        raise HarnessError(f"there is no file {path}", "name a pipeline file")
    tool = read_tool(path.resolve(), path.stem, display=str(path))
    if tool.broken is not None:
        raise HarnessError(f"{tool.broken.code} {tool.broken.message}", tool.broken.fix, f"{path}:{tool.broken.line}")
    if not tool.pipeline:
        fix = "its first line must be: #!/usr/bin/env -S harness pipeline"
        raise HarnessError(f"{path} is no pipeline", fix, f"{path}:1")
    kit, pipeline = pipeline_kit(catalog, tool, file_places(catalog, path), None)
    return tool, kit, pipeline
