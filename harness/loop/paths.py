"""Which files are never read, and opening one that surely lies below a root, whatever links are swapped meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from harness.policy.names import folded, is_hidden

MAX_LINKS = 40


def hidden_reason(parts: tuple[str, ...], prefix: str) -> str:
    """Why these path components are never read, or an empty text."""
    for part in parts:
        if is_hidden(folded(part)):
            return f"{part} is never read"
    if prefix == "skill" and parts[:1] == ("evals",):
        return "a skill's evals are never read"
    low_parts = [p.lower() for p in parts]
    if prefix == "" and low_parts[:2] in ([".harness", "runs"], [".harness", "evals"]):
        return "other runs are never read; this one is run:FILE"
    if prefix == "" and "skills" in low_parts and "evals" in low_parts[low_parts.index("skills") :]:
        return "a skill's evals are never read"
    return ""


def open_beneath(root: Path, path: str) -> int:
    """A descriptor of a regular file below `root`, whatever links are swapped meanwhile. Raises OSError.

    Each component is opened from the descriptor of the one before it, without following links; a link that stays
    below the root is followed by its own components, one that leaves it is refused.
    """
    fds = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    todo = list(reversed(PurePosixPath(path).parts))
    links = 0
    try:
        while todo:
            part = todo.pop()
            if part == "..":
                if len(fds) == 1:
                    raise OSError(errno.EACCES, "leads out of its root")
                os.close(fds.pop())
                continue
            fd = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fds[-1])
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                links += 1
                to = _link_target(fd, links)
                if to.is_absolute():
                    while len(fds) > 1:
                        os.close(fds.pop())
                    to = _inside(root, to)
                todo += reversed(to.parts)
                continue
            fds.append(fd)
        return _reopen(fds[-1])
    finally:
        for fd in fds:
            os.close(fd)


def _link_target(fd: int, links: int) -> PurePosixPath:
    to = PurePosixPath(os.readlink("", dir_fd=fd))
    os.close(fd)
    if links > MAX_LINKS:
        raise OSError(errno.ELOOP, "too many links")
    return to


def _inside(root: Path, to: PurePosixPath) -> PurePosixPath:
    """The same link from the root on; by the root's name as it was given, or as it is."""
    for start in (root, os.path.realpath(root)):
        if to.is_relative_to(start):
            return to.relative_to(start)
    raise OSError(errno.EACCES, "leads out of its root")


def _reopen(fd: int) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(os.fstat(fd).st_mode) else errno.EINVAL, "is no regular file")
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
