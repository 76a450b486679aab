"""The words that start a command inside bubblewrap, from a cage: what it sees of the file system, and nothing else.

Of two paths that lie within each other the longer one decides. Not a place that starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import HarnessError
from harness.sandbox import Cage, places
from harness.sandbox.facts import Facts, facts

Kind = Literal["temporary", "read", "write", "hide"]


@dataclass(frozen=True, slots=True)
class _Mount:
    path: str
    kind: Kind


def argv(
    cage: Cage,
    command: Sequence[str],
    seccomp_fd: int | None,
    machine: Facts | None = None,
    files: Mapping[Path, int] | None = None,
) -> list[str]:
    """`command` inside bubblewrap, its working directory the workspace.

    `seccomp_fd` is a descriptor that the process must inherit, the filter to read in it; None where there is none.
    `files` are descriptors of files of the system that are copied into the cage, the others are mounted.
    Raises `HarnessError` where bubblewrap is not installed.
    """
    machine = machine or facts()
    if machine.bwrap is None:
        raise HarnessError("bubblewrap is not installed", "install the package bubblewrap")
    mounts = _mounts(cage, files or {})
    words = [str(machine.bwrap), *_namespaces(cage, machine)]
    if mounts[0].path == "/":  # the workspace may be all there is; devices and processes are its own even so
        words += _mount(mounts.pop(0))
    else:
        # files before any mount: nothing of the host can be there to be written over
        words += [word for path, fd in (files or {}).items() for word in _file(path, fd)]
        words += _links(cage, mounts)
    words += "--dev", "/dev", "--proc", "/proc"
    for mount in mounts:
        words += _mount(mount)
    for path in _sealed(cage, mounts):
        words += "--remount-ro", path
    if seccomp_fd is not None:
        words += "--seccomp", str(seccomp_fd)
    return [*words, "--chdir", str(cage.workspace), "--", *command]


def _file(path: Path, fd: int) -> list[str]:
    return ["--perms", "0444", "--file", str(fd), str(path)]


def _namespaces(cage: Cage, machine: Facts) -> list[str]:
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--cap-drop", "ALL"]
    if not machine.mounts:
        words.append("--unshare-user")
    if cage.network != "host":
        words.append("--unshare-net")
    return words


def _mounts(cage: Cage, files: Collection[Path]) -> list[_Mount]:
    """What is mounted, parents first. Of two mounts on one path the later here wins."""
    chosen: dict[str, Kind] = {"/tmp": "temporary"}
    chosen[str(cage.workspace)] = "write" if cage.writable else "read"
    system = (path for path in places.system(cage.network == "host") if path not in files)
    for path in (*system, *_existing(cage.protect)):
        chosen[str(path)] = "read"
    for path in _existing(cage.hide):
        chosen[str(path)] = "hide"
    for path in (*_existing(cage.read), *([cage.proxy] if cage.proxy else [])):
        chosen[str(path)] = "read"  # what a call is given by its name is not hidden from it
    for path in (*_existing(cage.write), cage.scratch):
        chosen[str(path)] = "write"
    return _needed([_Mount(path, chosen[path]) for path in sorted(chosen, key=_depth)])


def _depth(path: str) -> tuple[int, str]:
    return (0 if path == "/" else path.count("/")), path


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    """Not links: a mount would fall on what they lead to."""
    return (path for path in paths if not path.is_symlink() and path.exists())


def _needed(mounts: list[_Mount]) -> list[_Mount]:
    """Without those that repeat what the closest mount around them says already: each costs time."""
    kept: dict[str, _Mount] = {}
    for mount in mounts:
        around = _around(mount.path, kept)
        if mount.kind == "hide" or around is None or mount.kind != kept[around].kind:
            kept[mount.path] = mount
    return list(kept.values())


def _around(path: str, mounts: Collection[str]) -> str | None:
    """The closest of the mounts that `path` lies in."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in mounts:
            return path
    return None


def _mount(mount: _Mount) -> list[str]:
    path = mount.path
    if mount.kind == "write":
        return ["--bind", path, path]
    if mount.kind == "read":
        return ["--ro-bind", path, path]
    if mount.kind == "hide" and not Path(path).is_dir():
        return ["--ro-bind", os.devnull, path]  # a device on a mount without devices: it cannot be opened
    return ["--perms", "0555" if mount.kind == "hide" else "1777", "--tmpfs", path]


def _sealed(cage: Cage, mounts: list[_Mount]) -> list[str]:
    """Made read-only last, when every mount point in them exists."""
    covers = [mount.path for mount in mounts if mount.kind == "hide" and Path(mount.path).is_dir()]
    return covers if cage.workspace == Path("/") else [*covers, "/"]


def _links(cage: Cage, mounts: list[_Mount]) -> list[str]:
    """The links of the system, and on the way to the interpreter, that no mount brings along."""
    paths = {mount.path for mount in mounts if mount.kind != "temporary"}
    missing = [pair for pair in places.links(cage.network == "host") if _around(pair[0], paths) is None]
    return [word for link, text in missing for word in ("--symlink", text, link)]
