"""Which skill a name means: a folder's name, a declared name, its slug, or a path. Reads only what a path names."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from pathlib import Path

from harness.errors import HarnessError, near_text, nearest
from harness.skills import Root, Skill
from harness.skills.discovery import Catalog
from harness.skills.reading import entries, is_folder, is_inside, is_skill_file, read_skill, shown, skill_file


def find(catalog: Catalog, name: str, cwd: Path | None = None) -> Skill:
    """The skill that `harness run NAME` means. A name with `/` is a path from `cwd`. Raises HarnessError."""
    if "/" in name:
        return _by_path(catalog, (cwd or Path.cwd()) / name)
    wanted = slug(name)
    steps = (
        catalog.named(name),
        [skill for skill in catalog.skills if wanted and slug(skill.declared_name or skill.name) == wanted],
    )
    for matches in steps:
        if len(matches) == 1:
            return matches[0]
        if matches:
            both = " and ".join(skill.shown for skill in matches)
            raise HarnessError(f"{name!r} means several skills: {both}", "name one by its path, with a /")
    raise _unknown(catalog, name)


def slug(name: str) -> str:
    """NFKC, lower case, each run of other than letters and digits as one dash."""
    return re.sub(r"[\W_]+", "-", unicodedata.normalize("NFKC", name).lower()).strip("-")


def _unknown(catalog: Catalog, name: str) -> HarnessError:
    known = [word for s in catalog.skills for word in (s.name, s.declared_name, *s.aliases) if word]
    folders = [shown(root.skills, catalog.project) for root in catalog.roots if root.skills.is_dir()]
    places = list(dict.fromkeys(folders))
    where = f"looked in {', '.join(places)}" if places else f"looked in {catalog.project}"
    close = nearest(name, known)
    fix = f"harness run {close[0]}" if close else "harness skills lists them; harness skills new NAME makes one"
    return HarnessError(f"no skill is called {name!r}{near_text(name, known)}", fix, where)


def _by_path(catalog: Catalog, path: Path) -> Skill:
    folder = path.parent if is_skill_file(path) and not path.is_dir() else path
    real = os.path.realpath(folder)
    if is_inside(real, os.path.realpath(catalog.project / ".harness" / "drafts")):
        where = shlex.quote(shown(folder, catalog.project))
        fix = f"look at it, then: mkdir -p skills && mv {where} skills/"
        raise HarnessError(f"{folder.name!r} is a draft, and drafts are not run", fix, str(folder))
    for skill in [*catalog.skills, *catalog.shadowed]:
        if os.path.realpath(skill.folder) == real:
            return skill
    name = skill_file([entry.name for entry in entries(real) if not is_folder(entry)])
    if name is None:
        raise HarnessError(f"no skill is in {str(path)!r}", "name a folder that holds a SKILL.md", str(path))
    return read_skill(Path(real), name, _root(catalog, Path(real)), catalog.project)


def _root(catalog: Catalog, folder: Path) -> Root:
    """The place of a skill that was found in none: its parent, with the `bin/` beside it if it is a `skills/`."""
    parent = folder.parent
    origin = "project" if is_inside(str(folder), os.path.realpath(catalog.project)) else "path"
    return Root(parent, parent.parent / "bin" if parent.name == "skills" else None, origin)
