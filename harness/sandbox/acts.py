"""What a hostile tool would try, as a script of its own: run inside a level it tries each act and prints what happened.

It gets the paths and numbers it needs as JSON in its only argument and prints JSON: act → null when it went through,
else the error. Whether an act had an effect outside is judged by whoever started it. It imports nothing of the project.
"""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable

_PTRACE_SEIZE, _NEW_USER = 0x4206, 0x10000000


def acts(at: dict[str, str], pid: int, port: int) -> dict[int, Callable[[], object]]:
    """The acts by number. The last two change this process or another, so they come last."""
    return {
        1: lambda: write(at["inside"]),
        2: lambda: write(at["outside"]),
        3: lambda: read(at["secret"]),
        4: lambda: read(at["link"]),
        5: lambda: os.link(at["secret"], at["hard"]),
        6: lambda: write(at["hook"]),
        7: lambda: connect(socket.AF_INET, ("127.0.0.1", port)),
        8: lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
        9: lambda: connect(socket.AF_UNIX, "\0" + at["abstract"]),
        10: lambda: read(f"/proc/{harness(pid, at['born'])}/environ"),
        11: lambda: os.kill(harness(pid, at["born"]), 0),
        12: lambda: os.close(os.open("/dev/tty", os.O_RDWR)),
        15: lambda: write(at["temporary"]),
        16: lambda: execute("/usr/bin/env"),
        13: lambda: call("ptrace", _PTRACE_SEIZE, harness(pid, at["born"]), 0, 0),
        14: lambda: call("unshare", _NEW_USER),
    }


def write(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("changed")


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()


def connect(family: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(address)


def harness(pid: int, born: str) -> int:
    """Its number. In a namespace of its own the number belongs to nobody, or to somebody else, who was born later."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            other = file.read().rpartition(")")[2].split()[19] != born
    except FileNotFoundError:
        other = os.path.exists("/proc/self")
    except PermissionError:
        other = False  # no telling: the act itself shows
    if other:
        raise ProcessLookupError(3, "no such process")
    return pid


def call(name: str, *args: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def execute(path: str) -> None:
    child = os.posix_spawn(path, [path], {})
    if os.waitpid(child, 0)[1]:
        raise ChildProcessError(path)


def main() -> None:
    """Try all and print."""
    given = json.loads(sys.argv[1])
    seen: dict[int, str | None] = {}
    for number, act in acts(given["at"], given["pid"], given["port"]).items():
        try:
            act()
            seen[number] = None
        except (OSError, AttributeError) as error:
            seen[number] = f"{type(error).__name__}: {error}"
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
