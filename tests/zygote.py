"""A process that has loaded `harness` and forks: a command in a test begins in milliseconds, and is a process still.

Started by `tests/command.py` with one end of a socket as its standard input. Each request is a command's words, folder
and environment, with its three streams; the answers are its pid and, once it has ended, how.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import socket
import sys
from importlib import import_module
from typing import Any

import harness
from harness.cli.main import main

HEAVY = ("harness.view.live", "harness.models.anthropic", "harness.models.local", "harness.models.child")
"""What a command loads only where it needs it, and what costs more than a fork saves."""


def preload() -> None:
    for found in pkgutil.walk_packages(harness.__path__, "harness."):
        if not found.name.startswith((*HEAVY, "harness.__main__")):
            import_module(found.name)


def serve(requests: socket.socket) -> None:
    """Fork for each request and wait for its end, until the other side is gone."""
    while True:
        raw, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not raw:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            become(json.loads(raw), streams)
            sys.exit(main())  # and to the end of the interpreter, which waits for threads as it does for any command
        for fd in streams:
            os.close(fd)
        requests.send(b"%d\n" % pid)
        requests.send(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Take on the command's session, streams, folder, environment and words."""
    os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 256)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    sys.argv = ["harness", *request["words"]]


if __name__ == "__main__":
    preload()
    with socket.socket(fileno=os.dup(0)) as other:
        serve(other)
