"""Protected names around a call: what a tool changed of them is put back, and its version kept for a person to see.

Meant for every call that could write them. Not a place that decides what is protected, nor what becomes of the call.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.policy.names import folded
from harness.sandbox import names
from harness.sandbox.record import (
    Entry,
    Moving,
    Picture,
    content,
    copies,
    look,
    moving,
    open_below,
    open_folder,
    record,
)

What = Literal["created", "deleted", "changed", "replaced", "mode", "moved"]


@dataclass(frozen=True, slots=True)
class Change:
    """One protected path that a call changed. `kept` is the tool's version of it.

    `restored` is False for what could not be put back, and for what is only reported: `moved` is the repository's
    index, references and objects, and the logs of runs.
    """

    path: Path
    what: What
    restored: bool
    kept: Path | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The protected names of a workspace before a call; what `restore` needs."""

    workspace: Path
    roots: tuple[Path, ...]
    unprotected: frozenset[str]
    protect: tuple[str, ...]
    keep: Path
    picture: Picture
    moving: Moving


def snapshot(
    workspace: Path, roots: Iterable[Path], keep: Path, unprotected: Collection[str] = (), protect: Collection[str] = ()
) -> Snapshot:
    """Remember the protected names of a real path `workspace` before a call.

    `roots` are the folders of tools and skills and on the tool's `PATH`; `unprotected` names this call may change,
    `protect` more that it may not. `keep` is the attempt's folder, where the tool's version of what it changed will go.
    """
    fixed, more = tuple(roots), tuple(protect)
    found = names.find(workspace, fixed, unprotected, protect=more).protect
    before = record(workspace, found, keep=True)
    return Snapshot(workspace, fixed, frozenset(unprotected), more, keep, before, moving(workspace))


def restore(before: Snapshot, free: Collection[str] = ()) -> list[Change]:
    """Put the protected names back as they were; what had changed, in order of paths. Nothing of the call may run.

    What lies below a name in `free` stays as it is: a call may have changed it.
    """
    found = names.find(before.workspace, before.roots, before.unprotected, protect=before.protect).protect
    now = record(before.workspace, found, keep=False, before=before.picture).entries
    paths = [path for path in sorted({*before.picture.entries, *now}) if not _is_free(path, free)]
    different = [(path, what) for path in paths if (what := _different(before, now, path))]
    changes: list[Change] = []
    if different:
        with _Mender(before) as mender:
            changes = [mender.mend(path, what) for path, what in _outermost(different)]
    return [*changes, *_moved(before)]


def _is_free(path: str, free: Collection[str]) -> bool:
    return any(folded(part) in free for part in path.split("/")) if free else False


def _different(before: Snapshot, now: dict[str, Entry], path: str) -> What | None:
    old, new = before.picture.entries.get(path), now.get(path)
    if old is None:
        return "created"
    if new is None:
        return "deleted"
    if old.kind != new.kind:
        return "replaced"
    if (old.kind == "link" and old.link != new.link) or (old.kind == "file" and _rewritten(before, path, old, new)):
        return "changed"
    return "mode" if old.kind != "link" and old.mode != new.mode else None


def _rewritten(before: Snapshot, path: str, old: Entry, new: Entry) -> bool:
    """Read it only when it was touched, or could have been without a trace."""
    if old.stamp == new.stamp and not old.fresh:
        return False
    if old.copy is None:
        return old.stamp != new.stamp
    parts = path.split("/")
    folder = open_folder(before.workspace, parts[:-1])
    try:
        return content(folder, parts[-1]) != copies().get(old.copy)
    finally:
        os.close(folder)


def _outermost(different: list[tuple[str, What]]) -> Iterator[tuple[str, What]]:
    """Without what lies in something created: that goes as a whole."""
    gone = "\0"
    for path, what in different:
        if not path.startswith(f"{gone}/"):
            yield path, what
            gone = path if what == "created" else gone


def _moved(before: Snapshot) -> Iterator[Change]:
    now = moving(before.workspace)
    seen: set[Path] = set()
    git = str(before.workspace / ".git")
    for path, old in before.moving.items():
        new = now.get(path)
        log = not path.startswith(git)
        if new == old or (log and new is not None and new[0] == old[0] and new[1] > old[1]):
            continue  # a log grows by itself
        group = Path(path) if log else Path(git, Path(path).relative_to(git).parts[0])
        if group not in seen:
            seen.add(group)
            yield Change(group, "moved", restored=False)


class _Mender:
    """Puts paths back one by one, through descriptors: a link that a tool put in the way leads nowhere."""

    def __init__(self, before: Snapshot) -> None:
        self.before = before
        self.place = before.keep / f"put-back-{secrets.token_hex(4)}"
        self.kept = -1
        with suppress(OSError):  # a tool may have filled the disk
            self.place.mkdir(mode=0o700)
            self.kept = open_folder(self.place, ())
        self.count = 0
        self.modes: dict[tuple[str, ...], int] = {}

    def __enter__(self) -> _Mender:
        return self

    def __exit__(self, *_: object) -> None:
        if self.kept >= 0:
            os.close(self.kept)
        for parts, mode in sorted(self.modes.items(), reverse=True):  # last: nothing could be put into some of them
            with suppress(OSError):
                folder = open_folder(self.before.workspace, parts)
                os.fchmod(folder, mode)
                os.close(folder)
        with suppress(OSError):
            self.place.rmdir()  # nothing was kept

    def mend(self, path: str, what: What) -> Change:
        """Put one path back."""
        full, parts, old = self.before.workspace / path, path.split("/"), self.before.picture.entries.get(path)
        try:
            return Change(full, what, *self._mend(parts, old, what))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                return Change(full, what, restored=False)
        shutil.rmtree(self.place, ignore_errors=True)  # what was is worth more than what the tool made of it
        with suppress(OSError):
            return Change(full, what, self._mend(parts, old, "deleted")[0])
        return Change(full, what, restored=False)

    def _mend(self, parts: list[str], old: Entry | None, what: What) -> tuple[bool, Path | None]:
        folder = self._parent(parts[:-1])
        try:
            if old is None:
                return True, self._aside(folder, parts[-1])
            if old.kind == "other" or (old.kind == "file" and old.copy is None):
                return False, None  # there is no copy of it
            if old.kind == "folder":
                self.modes[tuple(parts)] = old.mode
                os.close(self._enter(folder, parts[-1]))
                return True, None
            kept = self._aside(folder, parts[-1]) if what != "deleted" else None
            _put(folder, parts[-1], old)
            return True, kept
        finally:
            os.close(folder)

    def _parent(self, parts: list[str]) -> int:
        """The folder a path lies in, made anew where the tool removed it or put something else there."""
        folder = open_folder(self.before.workspace, ())
        for part in parts:
            try:
                below = self._enter(folder, part)
            finally:
                os.close(folder)
            folder = below
        mode = stat.S_IMODE(os.fstat(folder).st_mode)
        if mode & 0o300 != 0o300:
            self.modes.setdefault(tuple(parts), mode)
            os.fchmod(folder, mode | 0o700)
        return folder

    def _enter(self, folder: int, part: str) -> int:
        """A folder in a folder, whatever the tool made of it."""
        try:
            return open_below(folder, part)
        except PermissionError:
            open_up(folder, part)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=folder)
        except OSError:  # no folder
            self._aside(folder, part)
            os.mkdir(part, 0o755, dir_fd=folder)
        return open_below(folder, part)

    def _aside(self, folder: int, name: str) -> Path | None:
        """Move the tool's version out of the way; None when there was no room for it and it is gone."""
        self.count += 1
        target = f"{self.count}-{name}"
        try:
            try:
                os.rename(name, target, src_dir_fd=folder, dst_dir_fd=self.kept)
            except PermissionError:  # a folder can only be moved by who may write it
                open_up(folder, name)
                os.rename(name, target, src_dir_fd=folder, dst_dir_fd=self.kept)
        except OSError:
            return self._copied(folder, name, target)
        return self.place / target

    def _copied(self, folder: int, name: str, target: str) -> Path | None:
        """To another file system: a file that is not too large goes there, anything else goes."""
        data = content(folder, name)
        if data is None and is_folder(folder, name):
            shutil.rmtree(name, dir_fd=folder)
            return None
        kept = None
        if data is not None:
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with os.fdopen(os.open(target, flags, 0o600, dir_fd=self.kept), "wb") as file:
                    file.write(data)
                kept = self.place / target
        os.unlink(name, dir_fd=folder)
        return kept


def is_folder(folder: int, name: str) -> bool:
    there = look(folder, name, keep=False)
    return there is not None and there.kind == "folder"


def open_up(folder: int, name: str) -> None:
    """Let the owner enter a folder again; a link is not followed."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    # a descriptor can be had without the right to enter, and what it names can be changed by its path
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{fd}").chmod(0o700)
    finally:
        os.close(fd)


def _put(folder: int, name: str, old: Entry) -> None:
    """A link or a file as it was, where nothing is now."""
    if old.kind == "link" or old.copy is None:
        os.symlink(old.link, name, dir_fd=folder)
        return
    aside = f".put-back-{secrets.token_hex(4)}"
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(copies().get(old.copy))
        file.flush()
        with suppress(OSError):
            os.fchown(fd, *old.owner)
        os.fchmod(fd, old.mode)
        os.utime(fd, ns=(old.modified, old.modified))
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
