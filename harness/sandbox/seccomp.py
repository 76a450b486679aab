"""The filter of system calls: which ones a tool never gets, as a BPF program for the kernel.

It refuses what could lead out of the cage by another way than files. Not a place that installs it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false, operand."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_FEW = 3
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24  # of struct seccomp_data; both machines keep the low half first
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | 1, 0x00050000 | 38
_X32 = 0x40000000
_NEW_NAMESPACE = 0x7E020000  # every CLONE_NEW… flag that clone takes
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: both type into somebody's terminal


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the kernel calls a machine, and where its own system calls differ: `compat` is set in foreign numbers."""

    audit: int
    column: int
    compat: int = 0


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0, _X32), "aarch64": Architecture(0xC00000B7, 1)}

NUMBERS: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "ioctl": (16, 29),
    "clone": (56, 220),
    "clone3": (435, 435),
    # another process's memory
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    # does other system calls unseen by this filter
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
}
"""System call → its number on x86-64 and on aarch64."""

_BY_ARGUMENT = ("ioctl", "clone")


@cache
def program(machine: str, networked: bool) -> bytes | None:
    """The filter for a machine, named as `os.uname` does; None where its system calls are not known here."""
    arch = ARCHITECTURES.get(machine)
    if arch is None:
        return None
    numbers = {name: both[arch.column] for name, both in NUMBERS.items()}
    refused = [number for name, number in numbers.items() if name not in ("clone3", *_BY_ARGUMENT)]
    if networked:
        refused.remove(numbers["socket"])
    code = [*_head(arch), (_LOAD, 0, 0, _NUMBER)]
    if arch.compat:
        code += _if(_ANY_BIT, arch.compat, _EPERM)
    code += _argument(numbers["ioctl"], _ARG1, [(_EQUAL, value) for value in _TERMINAL_INPUT])
    code += _argument(numbers["clone"], _ARG0, [(_ANY_BIT, _NEW_NAMESPACE)])
    code += _if(_EQUAL, numbers["clone3"], _ENOSYS)  # its flags lie in memory; programs fall back to clone
    return _assembled([*code, *_refuse(sorted(refused))])


def descriptor(data: bytes) -> int:
    """A close-on-exec descriptor to read a program from, once."""
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _head(arch: Architecture) -> list[Instruction]:
    """Numbers mean something else on another architecture: a program of one dies."""
    return [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch.audit), (_RETURN, 0, 0, _KILL)]


def _if(test: int, operand: int, result: int) -> list[Instruction]:
    return [(test, 0, 1, operand), (_RETURN, 0, 0, result)]


def _refuse(numbers: list[int]) -> list[Instruction]:
    """Halve the list until few are left: the kernel tries a new filter with every number there is."""
    if len(numbers) <= _FEW:
        return [*(line for number in numbers for line in _if(_EQUAL, number, _EPERM)), (_RETURN, 0, 0, _ALLOW)]
    middle = len(numbers) // 2
    low, high = _refuse(numbers[:middle]), _refuse(numbers[middle:])
    return [(_AT_LEAST, len(low), 0, numbers[middle]), *low, *high]


def _argument(number: int, offset: int, tests: Iterable[tuple[int, int]]) -> list[Instruction]:
    """Refuse a system call whose argument passes one of the tests, allow it otherwise.

    The low half of the argument is all that the kernel looks at for these.
    """
    body = [line for test, operand in tests for line in _if(test, operand, _EPERM)]
    body = [(_LOAD, 0, 0, offset), *body, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(body), number), *body]


def _assembled(code: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *line) for line in code)
