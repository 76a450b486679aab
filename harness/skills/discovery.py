"""Where skills are found, which of several holds, and which one a name means. Runs nothing and trusts nobody."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Finding
from harness.skills import Root, Skill
from harness.skills.export import KEY
from harness.skills.reading import entries, is_folder, is_inside, read_skill, refuse, shown, skill_file
from harness.tools import Tool
from harness.tools.discovery import read_bin

MAX_DEPTH = 6
MAX_FOLDERS = 2000
SKIPPED = frozenset(("node_modules", "venv", "__pycache__", "dist", "build", "target"))
PARTS = frozenset(("scripts", "references", "assets", "evals"))


@dataclass(slots=True)
class Catalog:
    """Everything found. `skills` are in the order of their places, without the `shadowed` ones.

    `home` is the project whose `bin/` comes first where another folder is worked in.

    `findings` belong to no usable skill: links, limits, shadowed skills. Tools of a folder are read once, on demand.
    """

    project: Path
    roots: tuple[Root, ...] = ()
    skills: list[Skill] = field(default_factory=list)
    shadowed: list[Skill] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    home: Path | None = None
    _bins: dict[Path, dict[str, Tool]] = field(default_factory=dict)
    _names: dict[str, list[Skill]] = field(default_factory=dict)
    _declared: dict[str, list[Skill]] = field(default_factory=dict)

    @property
    def own_bin(self) -> Path:
        """The folder of tools in which a name is looked for first."""
        return (self.home or self.project) / "bin"

    def named(self, name: str) -> list[Skill]:
        """Skills whose folder (or a link to it) is called `name`; when there are none, those that declare that name."""
        if not self._names:
            for skill in self.skills:
                self._declared.setdefault(skill.declared_name, []).append(skill)
                for word in (skill.name, *skill.aliases):
                    self._names.setdefault(word, []).append(skill)
        return self._names.get(name) or (self._declared.get(name, []) if name else [])

    def tools(self, folder: Path, script: bool = False) -> dict[str, Tool]:
        """The tools below a `bin/` or `scripts/` folder, by name."""
        if folder not in self._bins:
            base = self.project if folder.is_relative_to(self.project) else None
            self._bins[folder] = read_bin(folder, base, script)[0] if folder.is_dir() else {}
        return self._bins[folder]


def find_project(cwd: Path) -> Path:
    """The nearest folder upwards with `.harness/`, else with `.git`, else `cwd` itself."""
    upwards = [cwd.resolve(), *cwd.resolve().parents]
    own = [folder for folder in upwards if (folder / ".harness").is_dir()]
    return next(iter(own or [folder for folder in upwards if (folder / ".git").exists()] or upwards))


def package_folder() -> Path:
    """The folder whose `skills/` and `bin/` come with the package: inside it in a wheel, beside it in a repository."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "shipped"
    return inside if inside.is_dir() else package.parent


def find_roots(project: Path, home: Path, paths: Sequence[Path] = (), package: Path | None = None) -> tuple[Root, ...]:
    """All places in their order; `paths` are folders that hold `skills/` and `bin/`, relative ones in the project."""
    own = project / ".harness"
    pairs = [(project, "project"), (own, "project")]
    made = [Root(folder / "skills", folder / "bin", origin) for folder, origin in pairs]
    made += [Root(project / client / "skills", None, "project") for client in (".agents", ".claude")]
    made += [Root(project / path / "skills", project / path / "bin", "config") for path in paths]
    made += [Root(home / client / "skills", None, "user") for client in (".agents", ".claude")]
    shipped = package or package_folder()
    return (*made, Root(shipped / "skills", shipped / "bin", "package"))


def read_catalog(project: Path, home: Path, paths: Sequence[Path] = (), package: Path | None = None) -> Catalog:
    """Read every skill of every place. `project` as `find_project` gives it."""
    catalog = Catalog(project, find_roots(project, home, paths, package))
    search = _Search(catalog)
    for rank, root in enumerate(catalog.roots):
        search.enter(rank, root)
    for rank, path, depth in search.links:
        search.follow(rank, path, depth)
    _settle(catalog, search)
    catalog.findings.sort(key=lambda finding: (finding.file, finding.line, finding.code))
    return catalog


@dataclass(slots=True)
class _Found:
    """A skill, the place it was found in, and the other names that links give it, each with its place."""

    rank: int
    skill: Skill
    aliases: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Search:
    """One walk over all places: real folders first, then links, so that a skill has its real folder's name."""

    catalog: Catalog
    found: dict[str, _Found] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    links: list[tuple[int, str, int]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, code: str, path: str, message: str, fix: str) -> None:
        where = shown(path, self.catalog.project)
        self.catalog.findings.append(Finding(code, "warning", where, 1, message, fix))

    def enter(self, rank: int, root: Root) -> None:
        folder = str(root.skills)
        real = os.path.realpath(folder)
        if real in self.seen or not root.skills.is_dir():
            return
        if self._leaves_project(rank, real):
            message = f"is a link that leads out of the project, to {shown(real, self.catalog.project)}"
            where, fix = shown(folder, self.catalog.project), "copy the folder into the project"
            self.catalog.findings.append(Finding("link-outside", "refused", where, 1, message, fix))
            return
        self._walk(rank, folder, 0)

    def _unreadable(self, folder: str, why: str) -> None:
        self.add("unreadable", folder, f"the folder cannot be read: {why}", "make it readable")

    def _walk(self, rank: int, folder: str, depth: int) -> None:
        real = os.path.realpath(folder)
        if real in self.seen:
            return
        self.seen.add(real)
        if not self._count(rank):
            return
        inside = entries(folder, self._unreadable)
        name = skill_file([entry.name for entry in inside if not is_folder(entry)])
        if depth == 0:
            self._check_loose([entry.name for entry in inside if not is_folder(entry, follow=True)], folder)
        elif name:
            self._read(rank, folder, real, name)
        for entry in inside if depth < MAX_DEPTH else ():
            if entry.name.startswith(".") or entry.name in SKIPPED or (name and depth and entry.name in PARTS):
                continue
            if entry.is_symlink():
                self.links.append((rank, entry.path, depth + 1))
            elif is_folder(entry):
                self._walk(rank, entry.path, depth + 1)

    def _count(self, rank: int) -> bool:
        """Count one more folder of a place; False once there are too many, which is said once."""
        count = self.counts[rank] = self.counts.get(rank, -1) + 1  # the place itself is none
        if count == MAX_FOLDERS + 1:
            message = f"holds more than {MAX_FOLDERS} folders; the rest is not looked at"
            self.add("too-many-folders", str(self.catalog.roots[rank].skills), message, "move other folders away")
        return count <= MAX_FOLDERS

    def _check_loose(self, names: list[str], folder: str) -> None:
        for name in names:
            if name.lower().endswith(".md") and (name.lower() == "skill.md" or _opens(os.path.join(folder, name))):
                message = "stands beside the folders of skills and is ignored"
                self.add("skill-at-root", os.path.join(folder, name), message, "put it into a folder of its own")

    def _read(self, rank: int, folder: str, real: str, name: str) -> None:
        skill = read_skill(Path(folder), name, self.catalog.roots[rank], self.catalog.project)
        metadata = skill.fields.get("metadata")
        if not (isinstance(metadata, dict) and KEY in metadata):
            self.found[real] = _Found(rank, skill)

    def follow(self, rank: int, path: str, depth: int) -> None:
        if not Path(path).is_dir():
            if not os.path.lexists(os.path.realpath(path)):
                self.add("broken-link", path, "the link leads nowhere", "correct or remove the link")
            return
        real, name = os.path.realpath(path), Path(path).name
        known = self.found.get(real)
        if known is not None:
            message = f"is a link to {shown(known.skill.folder, self.catalog.project)}, which is found anyway"
            self.add("linked-duplicate", path, message, "remove the link, or keep it as another name")
            known.aliases.append((rank, shown(name, self.catalog.project)))
        elif self._leaves_project(rank, real):
            self._refuse(rank, path, real)
        elif not is_inside(os.path.realpath(self.catalog.roots[rank].skills), real):
            self._walk(rank, path, depth)

    def _refuse(self, rank: int, path: str, real: str) -> None:
        project, root = self.catalog.project, self.catalog.roots[rank]
        folder = Path(path)
        skill = Skill(shown(folder.name, project), folder, folder / "SKILL.md", root, shown=shown(path, project))
        message = f"is a link that leads out of the project, to {shown(real, project)}"
        self.found[real] = _Found(rank, refuse(skill, "link-outside", message, "copy the folder into the project"))

    def _leaves_project(self, rank: int, real: str) -> bool:
        root, project = self.catalog.roots[rank], os.path.realpath(self.catalog.project)
        written = is_inside(os.path.normpath(root.skills), str(self.catalog.project))
        bound = root.origin == "project" or (root.origin == "config" and written)
        return bound and not is_inside(real, project)


def _opens(path: str) -> bool:
    """Whether a file begins as a skill does."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return file.read(64).removeprefix(b"\xef\xbb\xbf").startswith((b"---\n", b"---\r", b"--- "))
    except OSError:
        return False


def _settle(catalog: Catalog, search: _Search) -> None:
    """Order skills by place and path; of one name in several places the first place holds."""
    everything = sorted(search.found.values(), key=lambda found: (found.rank, str(found.skill.folder)))
    holder: dict[str, tuple[int, Skill]] = {}
    claims = [(rank, name, each) for each in everything for rank, name in [(each.rank, each.skill.name), *each.aliases]]
    for rank, name, each in sorted(claims, key=lambda claim: claim[0]):
        holder.setdefault(name, (rank, each.skill))
    for each in everything:
        rank, first = holder[each.skill.name]
        if rank < each.rank and first is not each.skill:
            catalog.shadowed.append(each.skill)
            message = f"{each.skill.shown} is not used, because {first.shown} has the same name"
            finding = Finding("shadowed", "warning", each.skill.shown, 1, message, "rename one of the two folders")
            catalog.findings.append(finding)
        else:
            names = dict.fromkeys(name for rank, name in each.aliases if holder[name][0] >= rank)
            aliases = tuple(name for name in names if name != each.skill.name)
            catalog.skills.append(dataclasses.replace(each.skill, aliases=aliases) if aliases else each.skill)
