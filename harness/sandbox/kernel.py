"""System calls that Python has no name for. Most change the calling thread alone, and what it starts afterwards.

Not a place that knows levels: each function is one thing the kernel does. All raise `OSError` when it refuses.
"""

from __future__ import annotations

import os
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_SET_DUMPABLE, _CAPBSET_READ, _CAPBSET_DROP = 4, 23, 24
_SET_SECCOMP, _SECCOMP_FILTER, _SET_NO_NEW_PRIVS = 22, 2, 38
_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION = 0x20080522
_SETPCAP, _SYS_ADMIN = 8, 21
_NEW_PIDS = 0x20000000
_OPENAT2 = 437  # one number on every architecture, as all system calls from 424 on
_AT_FDCWD = -100
_RESOLVE_NO_SYMLINKS = 0x04


@cache
def _libc() -> ctypes.CDLL:
    import ctypes  # only a process that starts tools needs it

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long] * 6
    libc.syscall.restype = ctypes.c_long
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return libc


def _checked(result: int) -> int:
    import ctypes

    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *args: int) -> int:
    """The result of a system call by number, with up to five arguments, addresses included."""
    result: int = _libc().syscall(number, *args, *(0, 0, 0, 0, 0)[len(args) :])
    return result if result >= 0 else _checked(result)


def _prctl(option: int, *args: int) -> int:
    result: int = _libc().prctl(option, *args, *(0, 0, 0, 0)[len(args) :])
    return result if result >= 0 else _checked(result)


def address(data: ctypes.Array[ctypes.c_char]) -> int:
    """Where a buffer lies."""
    import ctypes

    return ctypes.addressof(data)


def buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """A copy of `data` that the kernel can read and write; it lives as long as the returned object."""
    import ctypes

    return ctypes.create_string_buffer(data, len(data))


def set_undumpable() -> None:
    """Let no process without special rights read this one's memory, environment or descriptors. For good.

    Without effect where the system has no such thing.
    """
    if sys.platform.startswith("linux"):
        _prctl(_SET_DUMPABLE, 0)


def no_new_privs() -> None:
    """What the thread starts gains no rights by set-user-id files. For good, as all that follows."""
    _prctl(_SET_NO_NEW_PRIVS, 1)


def capabilities() -> int:
    """The effective capabilities of the calling thread as a bit set; none where there are no such things."""
    if not sys.platform.startswith("linux"):
        return 0
    header, data = buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0)), buffer(bytes(24))
    _checked(_libc().capget(header, data))
    low, _, _, high, _, _ = struct.unpack("=6I", data.raw)
    return int(low | high << 32)


def may_mount() -> bool:
    """True when this process can make namespaces without a user namespace around them."""
    return bool(capabilities() >> _SYS_ADMIN & 1)


def new_pids() -> None:
    """Give what the thread starts a PID namespace of its own.

    The first process is its process 1: no signal ends it but SIGKILL from outside and those it has a handler for, it
    adopts what loses its parent, and with its end, which is told last, the kernel ends all the others.
    """
    _checked(_libc().unshare(_NEW_PIDS))


@cache
def _capability_count() -> int:
    """How many capabilities this kernel knows."""
    for number in range(64):
        try:
            _prctl(_CAPBSET_READ, number)
        except OSError:
            return number
    return 64


def drop_capabilities(bounding: bool) -> None:
    """Give up every capability of the thread.

    `bounding` gives up their return too, which starting a program as root would bring; after `no_new_privs` nothing
    brings them back, and this costs a fifth of a spawn.
    """
    if bounding and capabilities() >> _SETPCAP & 1:
        for number in range(_capability_count()):
            _prctl(_CAPBSET_DROP, number)
    _prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    _checked(_libc().capset(buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0)), buffer(bytes(24))))


def install_filter(program: bytes) -> None:
    """Put a seccomp filter, the bytes of a BPF program, on the thread. `no_new_privs` comes first."""
    code = buffer(program)
    head = buffer(struct.pack("@HP", len(program) // 8, address(code)))
    _prctl(_SET_SECCOMP, _SECCOMP_FILTER, address(head))


def open_real(path: bytes, flags: int) -> int:
    """A close-on-exec descriptor of `path`, no component of which may be a symbolic link."""
    name = buffer(path + b"\0")
    how = buffer(struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS))
    return syscall(_OPENAT2, _AT_FDCWD, address(name), address(how), len(how))
