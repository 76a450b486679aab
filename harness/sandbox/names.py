"""The names in a workspace that no tool may change, and those that no tool may read, as they exist now.

Not a place that guards them: confinement does that where it can, putting back does the rest.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.policy.names import is_hidden, is_protected
from harness.policy.paths import DEPTH, entries_below
from harness.skills.reading import links_in


@dataclass(frozen=True, slots=True)
class Names:
    """Existing paths, parents before children, links not followed."""

    protect: tuple[Path, ...]
    hide: tuple[Path, ...]


def find(
    workspace: Path, roots: Iterable[Path], unprotected: Collection[str] = (), depth: int = DEPTH,
    protect: Collection[str] = (), hide: Collection[str] = (),
) -> Names:  # fmt: skip
    """The protected and the hidden paths of a workspace, given as a real path.

    `roots` are the folders of tools and skills, what links in them end at, and what a tool's `PATH` names; those
    outside the workspace do not count. `unprotected` are names that this call may change, such as `.git`. `protect` and
    `hide` are the person's own: folded names, and absolute places if they hold a slash.
    """
    closed = [path for path in own_roots(workspace, roots) if path.exists()]
    closed += [path for path in _places(protect) if workspace in path.parents and path.exists()]
    unseen = [path for path in _places(hide) if path.exists()]
    names, hidden = _names(protect), _names(hide)
    for name, path in entries_below(str(workspace), depth):
        if is_protected(name, unprotected, names):
            closed.append(Path(path))
        if is_hidden(name, hidden):
            unseen.append(Path(path))
    return Names(_in_order(closed), _in_order(unseen))


def _names(entries: Iterable[str]) -> list[str]:
    return [one for one in entries if "/" not in one]


def _places(entries: Iterable[str]) -> list[Path]:
    return [Path(one) for one in entries if "/" in one]


def _in_order(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(set(paths), key=lambda path: (len(path.parts), path)))


def with_links(roots: Iterable[Path]) -> list[Path]:
    """These folders, links resolved, and what the links in them end at: who changed that would change a tool."""
    found = [root.resolve() for root in roots]
    return list(dict.fromkeys([*found, *(Path(link).resolve() for root in found for link in links_in(str(root)))]))


def own_roots(workspace: Path, roots: Iterable[Path]) -> set[Path]:
    """The roots inside the workspace, and the interpreter's folder if it is there: tools find programs in it."""
    return {path for path in (*roots, Path(sys.executable).parent) if workspace in path.parents}


def git_folders(workspace: Path) -> tuple[Path, ...]:
    """Where the repository of a linked work tree lies, so that it can be read: nothing for an ordinary one.

    Its `.git` is a file with a path in it, which anybody may have written: it counts only if that place points back.
    """
    link = workspace / ".git"
    try:
        if not stat.S_ISREG(link.lstat().st_mode):
            return ()
        word, _, text = link.read_text(encoding="utf-8").strip().partition(" ")
        folder = (workspace / text).resolve()
        back = Path((folder / "gitdir").read_text(encoding="utf-8").strip())
        if word != "gitdir:" or back.resolve() != link:
            return ()
        return folder, (folder / (folder / "commondir").read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):
        return ()
