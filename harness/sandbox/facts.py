"""What this machine has that confinement is made of. Not what it really gives: only a self-test tells that."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.sandbox import kernel
from harness.sandbox.thread import in_thread

_CREATE_RULESET, _ASK_VERSION = 444, 1
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_USER_NAMESPACES = {
    "/proc/sys/user/max_user_namespaces": b"0",
    "/proc/sys/kernel/unprivileged_userns_clone": b"0",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """One machine, one user.

    `system` and `machine` are named as by `os.uname`. `landlock` is the version of its interface, 0 for none. `bwrap`
    is the program of bubblewrap. `userns` says that an ordinary user may make user namespaces, `mounts` that this
    process needs none to make the others, `pids` that what it starts below full gets a PID namespace of its own.
    """

    system: str
    machine: str
    landlock: int
    bwrap: Path | None
    userns: bool
    mounts: bool
    pids: bool = False


@cache
def facts() -> Facts:
    """What is true of this machine, found once."""
    system, machine = os.uname().sysname, os.uname().machine
    if system != "Linux":
        return Facts(system, machine, 0, None, False, False)
    return Facts(system, machine, landlock_version(), _bwrap(), _user_namespaces(), kernel.may_mount(), _pids())


def landlock_version() -> int:
    """The version of Landlock that the kernel offers now; 0 when it has none or has it switched off."""
    try:
        return kernel.syscall(_CREATE_RULESET, 0, 0, _ASK_VERSION)
    except OSError:
        return 0


def _bwrap() -> Path | None:
    """Only where the system keeps programs: what a user's PATH names first may be anything."""
    return next((path for place in _PLACES if os.access(path := Path(place, "bwrap"), os.X_OK)), None)


def _pids() -> bool:
    """Tried, because more than a capability can forbid it."""
    try:
        in_thread(kernel.new_pids, lambda: None)
    except OSError:
        return False
    return True


def _user_namespaces() -> bool:
    for name, off in _USER_NAMESPACES.items():
        try:
            if Path(name).read_bytes().strip() == off:
                return False
        except OSError:
            continue  # a kernel without this switch
    return os.path.exists("/proc/self/ns/user")
