"""Where runs may live: on a disk of this machine, whose locks hold and whose syncs reach it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "auristorfs", "ceph", "coda", "lustre", "beegfs"}
    | {"gfs", "gfs2", "ocfs2", "gpfs", "orangefs", "pvfs2", "glusterfs", "davfs", "acfs", "panfs", "vboxsf", "vmhgfs"}
)
"""Types whose locks and syncs another machine answers for."""

FUSE = re.compile(r"fuse(blk)?(\..*)?|virtiofs")
MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")
FIX = "set runs.dir to a folder on a local disk"


def file_system(mountinfo: str, path: str) -> str:
    """The type of the file system an absolute, resolved path is on; empty where the table does not say.

    The deepest mount above the path counts; of several at one place the one that was made last.
    """
    kind, deepest = "", -1
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4]).rstrip("/")
        if len(point) >= deepest and (path == point or path.startswith(f"{point}/")):
            kind, deepest = right.split(" ")[0], len(point)
    return kind


def refused(kind: str, allowed: Sequence[str]) -> str | None:
    """How to go on where runs may not live on such a file system; None where they may."""
    if kind in NETWORK:
        return FIX
    if FUSE.fullmatch(kind) and kind not in allowed:
        return f"{FIX}, or allow this one in your own config.yaml: runs.allow_fs: [{kind}]"
    return None


def check_place(folder: Path, allowed: Sequence[str], mounts: Path = MOUNTS) -> None:
    """Raises HarnessError (exit 2) where the folder, which need not exist yet, is on a file system of no use.

    Where the system has no such table of mounts nothing is refused.
    """
    try:
        table = mounts.read_bytes().decode("utf-8", "replace")
    except OSError:
        return
    kind = file_system(table, os.path.realpath(folder))
    fix = refused(kind, allowed)
    if fix is not None:
        what = f"runs cannot be kept on a file system of the type {kind}: its locks may hold nobody off"
        raise HarnessError(what, fix, str(folder))
