"""Runs `python -m harness …` as a person would, in a folder of its own, with nothing of this machine's settings."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.io import IO
from harness.policy.files import state_folder
from harness.policy.trust import fresh, read_book, update
from harness.skills.discovery import find_project

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "harness"]
PATIENCE = 30.0


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """An environment with a home of its own, without CI, colours or HARNESS_ variables."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(ROOT), "TERM": "dumb", **more}


def home_of(project: Path) -> Path:
    """A home beside the project, so that nothing of the person's own is read or written; the project is their own.

    Its policy lets tools run without confinement: the tools of these tests leave marks wherever a test looks for them.
    """
    home = project.parent / f"{project.name}-home"
    config = home / ".config" / "harness"
    if not config.is_dir():
        config.mkdir(parents=True, mode=0o700)
        (config / "policy.yaml").write_text("version: 1\nsandbox: {require: none}\n")
    return owning(home, project)


def confined(project: Path) -> Path:
    """The project, whose calls run at landlock: below it only a word at a terminal counts."""
    (home_of(project) / ".config" / "harness" / "policy.yaml").write_text("version: 1\nsandbox: {require: landlock}\n")
    return project


def owning(home: Path, project: Path) -> Path:
    """The home of somebody whose own work the project is, as `harness trust --own` notes it."""
    entry = replace(fresh(find_project(project)), own=True)
    state = state_folder({"HOME": str(home)})
    with contextlib.suppress(HarnessError):  # a test may have spoiled the state directory
        if read_book(state, home).of(Path(entry.path)) is None:
            update(state, home, IO(), lambda book: book.put(entry))
    return home


def harness(
    *arguments: str, cwd: Path, stdin: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """One command to its end, without a terminal. Standard input is an open, silent pipe unless given."""
    if can_fork(arguments, stdin, env):
        return forked(arguments, cwd, clean_env(home_of(cwd), **env), stdin)
    read, write = os.pipe()
    try:
        given: dict[str, Any] = {"stdin": read} if stdin is None else {"input": stdin}
        return subprocess.run(
            [*COMMAND, *arguments], cwd=cwd, env=clean_env(home_of(cwd), **env), capture_output=True, text=True,
            timeout=60, start_new_session=True, **given,
        )  # fmt: skip
    finally:
        os.close(read)
        os.close(write)


SMALL = 32_000
"""Bytes that a socket and a pipe take at once."""
_zygote: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []


def can_fork(arguments: tuple[str, ...], stdin: str | None, env: dict[str, str]) -> bool:
    """Whether a fork of a loaded process is the same: the interpreter itself is told nothing, and nothing is large.

    One command at a time is forked: what a test does at once in threads takes processes of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    told = any(name.startswith(("PYTHON", "LC_", "LANG")) for name in env)
    size = sum(map(len, arguments)) + len(stdin or "") + sum(map(len, env.values()))
    return not told and size < SMALL


def forked(
    arguments: tuple[str, ...], cwd: Path, env: dict[str, str], stdin: str | None
) -> subprocess.CompletedProcess[str]:
    """The same by a process that has loaded everything already (`tests/zygote.py`)."""
    if not _zygote:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            command = [sys.executable, str(ROOT / "tests" / "zygote.py")]
            _zygote.append((here, subprocess.Popen(command, stdin=there, env=clean_env(ROOT))))
    other = _zygote[0][0]
    read, write = os.pipe()
    if stdin is not None:
        os.write(write, stdin.encode())
        os.close(write)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked = json.dumps({"words": arguments, "cwd": str(cwd), "env": env}).encode()
        socket.send_fds(other, [asked], [read, out.fileno(), err.fileno()])
        os.close(read)
        try:
            code = _ended(other, [*COMMAND, *arguments])
        finally:
            if stdin is None:
                os.close(write)
        out.seek(0)
        err.seek(0)
        said, told = (io.TextIOWrapper(file).read() for file in (out, err))
    return subprocess.CompletedProcess([*COMMAND, *arguments], code, said, told)


def _ended(other: socket.socket, command: list[str]) -> int:
    other.settimeout(60)
    pid = int(other.recv(64))
    try:
        return int(other.recv(64))
    except TimeoutError:
        os.killpg(pid, signal.SIGKILL)
        other.recv(64)
        raise subprocess.TimeoutExpired(command, 60) from None


def start(*arguments: str, cwd: Path, **env: str) -> subprocess.Popen[str]:
    """One command in a session of its own, left running."""
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, env=clean_env(home_of(cwd), **env), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def shell(line: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A line for bash in which `harness` is our command."""
    script = f'harness() {{ "{sys.executable}" -m harness "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, env=clean_env(home_of(cwd), **env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, start_new_session=True,
    )  # fmt: skip


def waits(what: Callable[[], Any]) -> Any:
    """The first true value of `what`, asked again and again. Raises AssertionError when none comes."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        with contextlib.suppress(OSError, ValueError):
            if found := what():
                return found
        time.sleep(0.02)
    raise AssertionError("it never came")


def newest(project: Path) -> Path:
    """The folder of the run that was begun last and is nobody's child."""
    runs = [path for path in (project / ".harness/runs").glob("2*") if '"parent":{' not in first_line(path)]
    return max(runs, key=lambda path: json.loads(first_line(path))["at"])


def first_line(run: Path) -> str:
    return (run / "events.jsonl").read_text().split("\n", 1)[0]


def events(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """A run's events, or those of one kind."""
    lines = (run / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if kind in ("", event["kind"])]


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal and may go on."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


class AtTerminal:
    """A command at a terminal of its own: what it wrote there, and keys for it. Its stdout is a pipe if wanted."""

    def __init__(self, *command: str, cwd: Path, columns: int = 120, **env: str) -> None:
        self.fd, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.seen = b""
        self.process = subprocess.Popen(
            command, cwd=cwd, env=clean_env(home_of(cwd), **env), stdin=other, stdout=other, stderr=other,
            preexec_fn=lambda: _own_terminal(other),
        )  # fmt: skip
        os.close(other)

    def until(self, text: str, count: int = 1) -> str:
        """Read until a text was seen so often."""
        limit = time.monotonic() + PATIENCE
        while self.seen.count(text.encode()) < count:
            if time.monotonic() > limit or not self._read(0.1):
                raise AssertionError(f"{text!r} never came:\n{self.seen.decode()}")
        return self.seen.decode()

    def _read(self, wait: float) -> bool:
        if not select.select([self.fd], [], [], wait)[0]:
            return True
        try:
            data = os.read(self.fd, 65_536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def keys(self, text: str, after: float = 0.4) -> None:
        """Type, once the moment is over in which a new question takes no keys."""
        time.sleep(after)
        os.write(self.fd, text.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the command; its exit code and all that was seen."""
        limit = time.monotonic() + PATIENCE
        while self._read(0.05) and time.monotonic() < limit:
            if self.process.poll() is not None and not select.select([self.fd], [], [], 0.1)[0]:
                break
        code = self.process.wait(PATIENCE)
        os.close(self.fd)
        return code, self.seen.decode()

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self.fd)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _own_terminal(fd: int) -> None:
    os.setsid()
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
