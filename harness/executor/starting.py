"""Why a tool cannot be started, in one line; and the hooks with which confinement takes part in a start."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.executor.outcome import Job

Wrap = Callable[[list[str]], list[str]]
"""Puts another command in front of an argv."""
Start = Callable[[Callable[[], "subprocess.Popen[bytes]"]], "subprocess.Popen[bytes]"]
"""Calls what it is given, once, in a thread of its choice, and returns or raises what that did."""


def unwrapped(argv: list[str]) -> list[str]:
    """No command in front."""
    return argv


def here(spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """The start in the calling thread."""
    return spawn()


def obstacle(job: Job) -> str | None:
    """What would keep the tool from starting, seen beforehand, because another command in front of it hides it."""
    tool = Path(job.argv[0])
    try:
        mode = tool.stat().st_mode
        if not job.cwd.is_dir():
            raise FileNotFoundError(errno.ENOENT, "", str(job.cwd))
        if stat.S_ISDIR(mode) or not os.access(tool, os.X_OK):
            raise PermissionError(errno.EACCES, "", str(tool))
        head = _head(tool)
        interpreter = _interpreter(head)
        if interpreter and not Path(interpreter).exists():
            raise FileNotFoundError(errno.ENOENT, "", str(tool))
        if head and b"\0" not in head and not interpreter:  # a text: some programs would hand it to a shell
            raise OSError(errno.ENOEXEC, "", str(tool))
    except (OSError, ValueError) as error:
        return reason(job, error)
    return None


def reason(job: Job, error: OSError | ValueError) -> str:
    """One line on why nothing was started."""
    tool = Path(job.argv[0])
    if not isinstance(error, OSError):
        return f"cannot start {tool.name}: an argument or a variable holds a NUL byte or no text of this system"
    if not job.cwd.is_dir():
        return f"cannot start {tool.name}: no such working directory: {job.cwd}"
    if error.errno != errno.E2BIG and error.filename is not None and os.fspath(error.filename) != job.argv[0]:
        return f"cannot start {tool.name}: {(error.strerror or str(error)).lower()}: {error.filename}"
    return f"cannot start {tool.name}: {_system_reason(tool, error)}"


def _system_reason(tool: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        if not tool.exists():
            return f"no such file: {tool}"
        name = _interpreter(_head(tool))
        return f"its interpreter {ascii(name) if name else '(its loader)'} is missing"
    if error.errno == errno.EACCES:
        if tool.is_dir():
            return "it is a directory"
        return "its interpreter or its place forbids it" if os.access(tool, os.X_OK) else "it is not executable"
    if error.errno == errno.ENOEXEC:
        return "it is neither a script with a `#!` line nor a program for this machine"
    if error.errno == errno.E2BIG:
        return "its arguments and variables are longer than the system takes"
    return (error.strerror or str(error)).lower()


def _head(tool: Path) -> bytes:
    try:
        fd = os.open(tool, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it may be executed, yet not read
        return b""
    try:
        return os.read(fd, 256)
    finally:
        os.close(fd)


def _interpreter(head: bytes) -> str | None:
    """The program that a script names in its first line; None for a binary, whose loader it may then be."""
    found = re.match(rb"#![ \t]*([^ \t\n]+)", head)
    return os.fsdecode(found[1]) if found else None
