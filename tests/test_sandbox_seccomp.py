"""The system call filter, run by a small interpreter of its instructions: for machines that this one is not, too."""

from __future__ import annotations

import struct

import pytest

from harness.sandbox import seccomp

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
MACHINES = pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# numbers from the kernel's own tables: read write openat socketpair execve exit_group
PLAIN = {"x86_64": [0, 1, 257, 53, 59, 231], "aarch64": [63, 64, 56, 199, 221, 94]}
NUMBERS = {
    "x86_64": {"socket": 41, "ioctl": 16, "clone": 56, "clone3": 435, "ptrace": 101, "mount": 165, "unshare": 272},
    "aarch64": {"socket": 198, "ioctl": 29, "clone": 220, "clone3": 435, "ptrace": 117, "mount": 40, "unshare": 97},
}
BY_ARGUMENT = {"ioctl", "clone", "clone3", "socket"}


def decide(machine: str, number: int, *args: int, networked: bool = False, audit: int | None = None) -> int:
    """What the kernel would do with a system call."""
    code = seccomp.program(machine, networked)
    assert code is not None
    assert len(code) % 8 == 0
    lines = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    data = struct.pack("=IIQ6Q", number, AUDIT[machine] if audit is None else audit, 0, *(*args, 0, 0, 0, 0, 0, 0)[:6])
    at, value = 0, 0
    for _ in lines:  # there are no loops
        operation, true, false, operand = lines[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("=I", data, operand)[0]
        elif operation == 0x06:
            return int(operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[operation]
            at += true if holds else false
    raise AssertionError("it ends without a decision")


@MACHINES
def test_ordinary_calls_are_allowed(machine: str) -> None:
    assert {decide(machine, number) for number in PLAIN[machine]} == {ALLOW}


@MACHINES
def test_every_number_of_the_list_is_refused_and_no_other(machine: str) -> None:
    column = seccomp.ARCHITECTURES[machine].column
    listed = {both[column] for name, both in seccomp.NUMBERS.items() if name not in BY_ARGUMENT - {"socket"}}
    refused = {number for number in range(1000) if decide(machine, number) == EPERM}
    assert refused == listed
    assert {NUMBERS[machine][name] for name in ("socket", "ptrace", "mount", "unshare")} <= refused


@MACHINES
def test_socket_is_for_networked_calls(machine: str) -> None:
    number = NUMBERS[machine]["socket"]
    assert decide(machine, number) == EPERM
    assert decide(machine, number, networked=True) == ALLOW
    assert decide(machine, NUMBERS[machine]["ptrace"], networked=True) == EPERM


@MACHINES
@pytest.mark.parametrize("flag", [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)])
def test_clone_makes_no_namespace(machine: str, flag: int) -> None:
    clone = NUMBERS[machine]["clone"]
    assert decide(machine, clone, flag | 17) == EPERM
    assert decide(machine, clone, 0x3D0F00) == ALLOW  # a thread
    assert decide(machine, NUMBERS[machine]["clone3"]) == ENOSYS


@MACHINES
@pytest.mark.parametrize("request_number", [0x5412, 0x541C, 0xFFFFFFFF00005412])
def test_nothing_is_typed_into_a_terminal(machine: str, request_number: int) -> None:
    ioctl = NUMBERS[machine]["ioctl"]
    assert decide(machine, ioctl, 1, request_number) == EPERM
    assert decide(machine, ioctl, 1, 0x5401) == ALLOW  # TCGETS


@MACHINES
@pytest.mark.parametrize("audit", [0x40000003, 0x40000028, 0])
def test_a_program_of_another_architecture_dies(machine: str, audit: int) -> None:
    assert decide(machine, PLAIN[machine][0], audit=audit) == KILL


def test_x32_numbers_are_refused() -> None:
    assert decide("x86_64", 0x40000000 | 1) == EPERM


def test_there_is_none_for_a_machine_without_a_list() -> None:
    assert seccomp.program("riscv64", False) is None
