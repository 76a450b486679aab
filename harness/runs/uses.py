"""What a run would use: its skills, tools, verifiers, pipelines and workers, all that these use, and whose it is.

Read from the files that say so, before anything of them is started.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.policy.pins import pin, skill_files
from harness.policy.settings import PROJECT_FILE as POLICY
from harness.policy.trust import Book, Standing, standing
from harness.policy.vouching import SETTINGS, Fact, Scope, Trust, said_in
from harness.prompt.texts import GUIDES
from harness.runs.kit import asks_model, file_places, queries_of, skill_places
from harness.runs.peek import whole_start
from harness.skills import Resolved, Skill
from harness.skills.check import resolve
from harness.skills.discovery import Catalog
from harness.skills.names import find
from harness.skills.reading import is_skill_file
from harness.skills.stages import find_tool
from harness.skills.worker import as_tool
from harness.tools import Tool
from harness.tools.header import read_tool
from harness.tools.stages import read_pipeline


@dataclass(slots=True)
class Uses:
    """Everything that one run would use. `what` says in words what is to be run, `key` which file that is.

    `verifiers` are names of tools that judge answers. `guided`: the project's own words would reach a model.
    `is_foreign`: a run goes on that nobody began here.
    """

    what: str
    key: str
    skills: dict[Path, Resolved] = field(default_factory=dict)
    tools: dict[Path, Tool] = field(default_factory=dict)
    verifiers: set[str] = field(default_factory=set)
    guided: bool = False
    is_foreign: bool = False


@dataclass(slots=True)
class _Search:
    """One walk from what is to be run to all that it uses."""

    catalog: Catalog
    uses: Uses
    seen: set[tuple[Path, tuple[Path, ...]]] = field(default_factory=set)

    def skill(self, skill: Skill) -> None:
        if skill.folder in self.uses.skills:
            return
        found = self.uses.skills[skill.folder] = resolve(self.catalog, skill)
        self.uses.verifiers |= {words[0] for words in skill.verify}
        self.uses.guided |= skill.agents_md
        self.all(found.tools.values(), skill_places(self.catalog, skill))
        for worker in found.workers.values():
            self.skill(worker)

    def all(self, tools: Iterable[Tool], places: Sequence[Path]) -> None:
        for tool in tools:
            self.tool(tool, places)

    def tool(self, tool: Tool, places: Sequence[Path]) -> None:
        if (tool.path, tuple(places)) in self.seen:
            return
        self.seen.add((tool.path, tuple(places)))
        self.uses.tools[tool.path] = tool
        self.all(queries_of(self.catalog, places, {tool.name: tool}).values(), places)
        for name in stage_names(tool) if tool.pipeline else ():
            found = find_tool(self.catalog, places, name)
            if found is not None:
                self.tool(found, places)
            for worker in self.catalog.named(name)[:1] if found is None else ():
                self.skill(worker)


def stage_names(tool: Tool) -> list[str]:
    """The tools and workers that the stages of a pipeline name."""
    stages = [stage for stage in read_pipeline(tool).stages if stage.run and not asks_model(stage)]
    return list(dict.fromkeys(stage.run[0].text for stage in stages))


def skill_uses(catalog: Catalog, skill: Skill) -> Uses:
    """What a run of a skill would use."""
    search = _Search(catalog, Uses(f"skill {skill.name}", str(skill.file)))
    search.skill(skill)
    return search.uses


def file_uses(catalog: Catalog, path: Path, name: str = "") -> Uses:
    """What a run of a pipeline file would use, or that of one tool."""
    path = path.resolve()
    tool = read_tool(path, name or path.stem)
    search = _Search(catalog, Uses(f"pipeline {tool.name}", str(path)))
    search.tool(tool, file_places(catalog, path))
    return search.uses


def tool_uses(catalog: Catalog, tool: Tool) -> Uses:
    """What a run of one call would use; of a skill's script, the skill."""
    search = _Search(catalog, Uses(f"tool {tool.name}", str(tool.path)))
    search.tool(tool, [catalog.own_bin, tool.path.parent])
    for skill in (*catalog.skills, *catalog.shadowed) if tool.script else ():
        if tool.path.is_relative_to(skill.folder / "scripts"):
            search.uses.skills[skill.folder] = Resolved(skill)
    return search.uses


def run_uses(catalog: Catalog, folder: Path) -> Uses:
    """What going on with a run would use. Raises HarnessError where it is not there any more."""
    start = whole_start(folder)
    path = Path(start.get("path") or "")
    if start.get("question"):
        return question_uses()
    if is_skill_file(path):
        return skill_uses(catalog, find(catalog, str(path.parent)))
    tool = read_tool(path, str(start["skill"]))
    return file_uses(catalog, path, tool.name) if tool.pipeline else tool_uses(catalog, tool)


def question_uses() -> Uses:
    """A question to a model uses no tool: of a project at most what its settings say of models."""
    return Uses("a question to a model", "prompt")


def all_uses(catalog: Catalog) -> Uses:
    """Everything of the project that some run could use."""
    search = _Search(catalog, Uses("everything here", ""))
    for skill in (*catalog.skills, *catalog.shadowed):
        if skill.root.origin in ("project", "config") and not skill.refused:
            search.skill(skill)
    for root in catalog.roots:
        if root.bin is not None and root.origin in ("project", "config"):
            search.all(catalog.tools(root.bin).values(), [catalog.own_bin, root.bin])
    return search.uses


def by_name(uses: Uses) -> Mapping[str, Tool]:
    """The tools of what would be used, and its workers as tools."""
    workers = {found.skill.name: as_tool(found.skill, found.skill.name) for found in uses.skills.values()}
    return {**workers, **{tool.name: tool for tool in uses.tools.values()}}


def files_of(uses: Uses, scope: Scope) -> Mapping[Path, tuple[Path, ...]]:
    """The files that somebody must trust, by the folder whose they are. Raises HarnessError for what cannot be seen.

    A project's settings and policy count always, its words where anything of it is used.
    """
    found: dict[Path, dict[Path, None]] = {}
    for folder, resolved in uses.skills.items():
        owner = scope.owner(resolved.skill.file)
        if owner is not None and not resolved.skill.refused:
            found.setdefault(owner, {}).update(dict.fromkeys(skill_files(folder)))
    for path in uses.tools:
        if (owner := scope.owner(path)) is not None:
            found.setdefault(owner, {})[path] = None
    if (said := said_by(scope.project)) or scope.project in found:
        words = [scope.project / name for name in GUIDES] if uses.guided else []
        found.setdefault(scope.project, {}).update(dict.fromkeys((*said, *filter(Path.is_file, words))))
    return {owner: tuple(paths) for owner, paths in found.items()}


def said_by(project: Path) -> list[Path]:
    """The project's own settings and its policy, as far as they are there and say anything."""
    found = [] if said_in(project) == {} else [project / SETTINGS]
    policy = project / POLICY
    return [*found, policy] if policy.is_symlink() or policy.exists() else found


@dataclass(frozen=True, slots=True)
class Part:
    """What a run would use of one folder, and how that stands to the record. Of one's own work nothing is pinned."""

    owner: Path
    key: str
    paths: tuple[Path, ...]
    pins: Mapping[str, str]
    standing: Standing

    @property
    def is_settled(self) -> bool:
        """Whether nobody needs to be asked about it."""
        return self.standing.word in ("own", "trusted", "once")


def parts_of(uses: Uses, scope: Scope, book: Book, run: str = "") -> list[Part]:
    """What is used of each folder that needs trust. Raises HarnessError for what cannot be read."""
    found = []
    for owner, paths in files_of(uses, scope).items():
        entry, key = book.of(owner), name_of(owner, Path(uses.key)) if uses.key.startswith("/") else uses.key
        pins = {} if entry is not None and entry.own else {name_of(owner, path): pin(path) for path in paths}
        found.append(Part(owner, key, paths, pins, standing(entry, key, pins, run)))
    return found


def digest_of(parts: Iterable[Part], project: Path) -> str:
    """SHA-256 over all that is pinned, wherever the project lies: elsewhere it names what a person has looked at."""
    plain = sorted([str(Path() if part.owner == project else part.owner), sorted(part.pins.items())] for part in parts)
    return hashlib.sha256(json.dumps(plain, separators=(",", ":")).encode()).hexdigest()


def trust_in(parts: Iterable[Part], scope: Scope, book: Book) -> Trust:
    """Which files may act, as the record has it."""
    files: dict[str, Fact] = {}
    for part in parts:
        entry = book.of(part.owner)
        for path in part.paths:
            name = name_of(part.owner, path)
            if part.standing.word == "once":
                files[str(path)] = "once"
            elif entry is not None and part.pins and entry.files.get(name) == part.pins[name]:
                files[str(path)] = "trusted"
    owners = [scope.project, *(part.owner for part in parts)]
    own = tuple(str(owner) for owner in owners if (entry := book.of(owner)) is not None and entry.own)
    return Trust(files, own, scope.spared)


def name_of(owner: Path, path: Path) -> str:
    """A file as the record names it."""
    return str(path.relative_to(owner)) if path.is_relative_to(owner) else str(path)
