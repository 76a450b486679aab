"""A path as a call would reach it: links resolved, then compared with the roots and with protected and hidden names.

It looks at the file system and changes nothing. What happens between this look and the call is confinement's part.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.policy.names import DRAFTS, folded, is_hidden, is_protected, lies_in
from harness.policy.request import CheckedPath

Mode = Literal["read", "write"]
DEPTH = 4
"""A name is looked for in the workspace itself and in folders down to this many components."""
_CLOSED = frozenset({".git", ".harness"})  # what lies in these is looked at by whoever needs it
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})(?=/|$)")


@dataclass(frozen=True, slots=True)
class Area:
    """Where calls may go. All paths are absolute and real, but for `workspace`'s own spelling.

    `read` and `write` are the roots of each mode. No tool reads what lies in `hidden`, except in `own`; none writes
    what lies in `protected`. `hide` and `protect` are the person's own names, folded; one with a slash is absolute.
    """

    workspace: Path
    read: tuple[str, ...]
    write: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


def is_path_like(text: str) -> bool:
    """Whether a text would lead out if a tool took it for a path: absolute, `~…`, or with a `..` in it."""
    return text.startswith(("/", "~")) or ".." in text.split("/")


def has_variable(text: str) -> bool:
    """Whether it begins with `$NAME` or `${NAME}` as a whole component, which some tools expand."""
    return _VARIABLE.match(text) is not None


def check(option: str, text: str, mode: Mode, area: Area, unprotected: Collection[str] = ()) -> CheckedPath:
    """Where `text` leads from the workspace, and what stands against it. `unprotected` are folded names."""
    spelled = os.path.join(area.workspace, _expanded(text, area.environ))
    lexical = _rooted(os.path.normpath(spelled))
    try:
        real, plain = _rooted(os.path.realpath(spelled)), _rooted(os.path.realpath(lexical))
    except OSError:  # a link that may not be looked at, as another process's root: nobody knows where it leads
        return CheckedPath(option, text, lexical, mode, inside=False)
    ways = tuple(dict.fromkeys((lexical, real, plain)))
    roots = (*(area.write if mode == "write" else area.read), *area.own)
    found = _look(real)
    twins = found if found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None
    hidden = _hidden(ways, area) or (_hidden_twin(twins, area) if twins is not None and mode == "read" else "")
    return CheckedPath(
        option, text, real, mode, inside=all(any(lies_in(way, root) for root in roots) for way in ways[1:] or ways),
        exists=found is not None, protected=_protected(ways, area, unprotected), hidden=hidden,
        linked=twins is not None and mode == "write",
    )  # fmt: skip


def _rooted(path: str) -> str:
    """With one slash in front: two are kept as they are, and mean the same."""
    return f"/{path.lstrip('/')}"


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    if text.startswith("~"):
        name, slash, rest = text[1:].partition("/")
        home = _home(name, environ)
        return text if home is None else f"{home}{slash}{rest}"
    found = _VARIABLE.match(text)
    value = environ.get(found[1] or found[2], "") if found else ""
    return f"{value}{text[found.end() :]}" if found and value.startswith("/") else text


def _home(name: str, environ: Mapping[str, str]) -> str | None:
    if not name and environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwnam(name).pw_dir if name else pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def _look(real: str) -> os.stat_result | None:
    try:
        return os.lstat(real)
    except (OSError, ValueError):
        return None


def _parts(path: str, area: Area) -> tuple[str, ...]:
    """The folded components below the innermost root; what lies above a root is nobody's name."""
    inside = [root for root in (str(area.workspace), *area.read, *area.write, *area.own) if lies_in(path, root)]
    root = max(inside, key=len, default="/")
    return tuple(folded(part) for part in path[len(root.rstrip("/")) :].split("/") if part)


def _protected(ways: tuple[str, ...], area: Area, unprotected: Collection[str]) -> str:
    """What forbids to write it: a name on the way, as it is spelled or as it resolves, or a folder of the harness's."""
    names = [one for one in area.protect if "/" not in one]
    places = [one for one in area.protect if "/" in one]
    for path in ways:
        parts = _parts(path, area)
        is_draft = parts[: len(DRAFTS)] == DRAFTS and lies_in(path, f"{area.workspace}/{'/'.join(DRAFTS)}")
        for part in parts[len(DRAFTS) :] if is_draft else parts:
            if is_protected(part, unprotected, names):
                return part
        if place := _in_area(path, places if is_draft else (*places, *area.protected)):
            return place
    return ""


def _hidden(ways: tuple[str, ...], area: Area) -> str:
    names = [one for one in area.hide if "/" not in one]
    places = [*area.hidden, *(one for one in area.hide if "/" in one)]
    for path in ways:
        if name := next((part for part in _parts(path, area) if is_hidden(part, names)), ""):
            return name
        if (place := _in_area(path, places)) and not any(lies_in(path, own) for own in area.own):
            return place
    return ""


def _hidden_twin(file: os.stat_result, area: Area) -> str:
    """The name of a hidden file that is this very file; looked for only where a file has more than one name."""
    below = (path for root in {str(area.workspace), *area.read} for _, path in entries_below(root))
    hidden = (path for path in below if _hidden((path,), area))
    places = (one for one in (*area.hidden, *area.hide) if "/" in one)
    for path in (*places, *hidden):
        if (found := _look(path)) is not None and os.path.samestat(found, file):
            return f"{Path(path).name} (the same file)"
    return ""


def entries_below(folder: str, depth: int = DEPTH) -> Iterator[tuple[str, str]]:
    """Folded name and path of all in a folder to a depth; no link is followed, what cannot be listed is empty."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = folded(entry.name)
            yield name, entry.path
            if depth > 1 and entry.is_dir(follow_symlinks=False) and name not in _CLOSED:
                yield from entries_below(entry.path, depth - 1)


def _in_area(path: str, areas: Collection[str]) -> str:
    low = folded(path)
    return next((one for one in areas if lies_in(low, folded(one))), "")
