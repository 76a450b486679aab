"""The self-test: what a level really blocks here, seen by trying it. A level counts only if all it must block was.

Done once for each level in a process. Not a place that chooses a level, and not one that believes a setting.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.events.io import IO
from harness.sandbox import Cage, Level, Machine, Tested, acts, landlock, seccomp
from harness.sandbox.facts import Facts
from harness.sandbox.start import start

ACTS = {
    1: "write in the workspace",
    2: "write outside",
    3: "read a secret file outside",
    4: "read it through a symlink inside",
    5: "hard-link it into the workspace",
    6: "overwrite a git hook",
    7: "TCP to loopback",
    8: "send UDP",
    9: "abstract unix socket",
    10: "read the harness's environment",
    11: "signal the harness",
    12: "open /dev/tty",
    13: "trace the harness",
    14: "create a user namespace",
    15: "write the host's /tmp",
    16: "execute from /usr/bin",
}
MUST_WORK = frozenset({1, 16})
_ALL = frozenset(ACTS) - MUST_WORK
MUST_BLOCK: Mapping[Level, frozenset[int]] = {
    "full": _ALL,
    "landlock": _ALL - {6},  # put back afterwards
    "limits": frozenset({10, 12, 13}),
    "none": frozenset(),
}
AT_LANDLOCK = (
    "at landlock the mode, times and attributes of files outside can be changed (chmod, utime, setxattr)",
    "at landlock protected names are put back after a call, not blocked",
    "at landlock a call that writes can read hidden names",
    "at landlock a tool that may use the network reaches any host",
)
_AS_IT_WAS = "as it was"
_DISCARD = 9
_SIGNALS_SINCE = 6
_TIMEOUT_S = 10.0
_known: dict[tuple[Facts, Level], Tested] = {}
_testing = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Bait:
    """What the acts go for: paths by name, sockets that listen, and the port of the first two."""

    at: Mapping[str, str]
    servers: tuple[socket.socket, ...]
    port: int

    def there(self, name: str) -> bool:
        return os.path.exists(self.at[name])


def test_machine(facts: Facts, scratch: Path, levels: Sequence[Level] = ("landlock", "full")) -> Machine:
    """What each level gives here. `scratch` is a private folder in which a folder for the test can be made."""
    with _testing:
        tested = {level: _test(facts, scratch, level) for level in levels}
    return Machine(tested, _gaps(facts, tested))


def _test(facts: Facts, scratch: Path, level: Level) -> Tested:
    found = _known.get((facts, level))
    if found is None:
        found = _known[facts, level] = _tried(facts, scratch, level)
    return found


def _tried(facts: Facts, scratch: Path, level: Level) -> Tested:
    missing = _missing(facts, level)
    if missing:
        return Tested(level, reason=missing)
    try:
        with _bait(scratch) as bait:
            return judged(level, facts, _effects(bait, _run(level, facts, bait)))
    except (HarnessError, OSError, ValueError) as error:
        return Tested(level, reason=f"the self-test did not run: {error}")


def _missing(facts: Facts, level: Level) -> str:
    """Why there is nothing to test; empty when there is."""
    if level in ("full", "landlock") and facts.system != "Linux":
        return f"not on {facts.system}"
    if level == "landlock" and facts.landlock < landlock.OLDEST:
        found = f"has version {facts.landlock} of Landlock" if facts.landlock else "has no Landlock"
        return f"this kernel {found}, version {landlock.OLDEST} is needed"
    if level == "full" and facts.bwrap is None:
        return "bubblewrap is not installed"
    if level == "full" and not (facts.userns or facts.mounts):
        return "user namespaces are off, and bubblewrap needs them for an ordinary user"
    return ""


def judged(level: Level, facts: Facts, seen: Mapping[int, bool]) -> Tested:
    """The verdict on a level, from act → blocked."""
    blocked = tuple(sorted(act for act, was in seen.items() if was))
    must = MUST_BLOCK[level]
    if level == "landlock" and facts.landlock < _SIGNALS_SINCE:
        must -= {11}
    wrong = sorted(must.difference(blocked) | MUST_WORK.intersection(blocked))
    reason = "; ".join(f"act {act} ({ACTS[act]}) {'fails' if act in MUST_WORK else 'is not blocked'}" for act in wrong)
    return Tested(level, blocked, tuple(sorted(set(seen).difference(blocked))), reason)


@contextmanager
def _bait(scratch: Path) -> Iterator[_Bait]:
    outside = Path(tempfile.mkdtemp(prefix="probe-", dir=scratch)).resolve()
    workspace = outside / "workspace"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    (outside / "work").mkdir()
    at = {
        "workspace": workspace,
        "work": outside / "work",
        "inside": workspace / "new",
        "outside": outside / "new",
        "secret": outside / "secret",
        "link": workspace / "link",
        "hard": workspace / "hard",
        "hook": workspace / ".git" / "hooks" / "pre-commit",
        "temporary": Path("/tmp") / f"{outside.name}-{os.getpid()}",
    }
    for name in ("secret", "hook"):
        at[name].write_text(_AS_IT_WAS, encoding="utf-8")
    at["link"].symlink_to(at["secret"])
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, outside, ignore_errors=True)
        stack.callback(at["temporary"].unlink, missing_ok=True)
        servers = tuple(stack.enter_context(server) for server in _servers(outside.name))
        port = servers[0].getsockname()[1] if servers else _DISCARD
        yield _Bait({**{name: str(path) for name, path in at.items()}, "abstract": outside.name}, servers, port)


def _servers(name: str) -> list[socket.socket]:
    """UDP, TCP and an abstract address; none where this process itself may make none."""
    try:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        tcp, unix = socket.socket(), socket.socket(socket.AF_UNIX)
        tcp.bind(udp.getsockname())
        unix.bind(f"\0{name}")
        for server in (tcp, unix):
            server.listen()
    except OSError:
        return []
    return [udp, tcp, unix]


def _run(level: Level, facts: Facts, bait: _Bait) -> dict[int, bool]:
    """Start the acts at the level; act → it went through, as the script saw it."""
    script = Path(acts.__file__).resolve()
    workspace = Path(bait.at["workspace"])
    protect = (workspace / ".git",)
    cage = Cage(level, workspace, Path(bait.at["work"]), writable=True, read=(script,), protect=protect)
    given = json.dumps({"at": {**bait.at, "born": _born()}, "pid": os.getpid(), "port": bait.port})
    printed = _output(cage, facts, [sys.executable, "-I", "-S", str(script), given])
    try:
        return {int(number): error is None for number, error in json.loads(printed).items()}
    except ValueError:
        raise ValueError(f"it said: {_one_line(printed) or 'nothing'}") from None


def _output(cage: Cage, facts: Facts, command: list[str]) -> bytes:
    """What a command in a cage prints, errors included; it is killed when it takes too long."""
    with ExitStack() as stack:
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        with ExitStack() as childs:
            childs.callback(os.close, writing)
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            childs.callback(os.close, stdin)
            env = {"PATH": "/usr/bin:/bin", "HOME": str(cage.scratch), "TMPDIR": str(cage.scratch)}
            files = (stdin, writing, writing)
            child = start(cage, command, lambda words, fds: IO().spawn(words, cage.workspace, env, *files, fds), facts)
        try:
            return _read(reading)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            with suppress(ChildProcessError):
                while True:  # what bubblewrap left, where this process adopts what its descendants lose
                    os.waitpid(-child.pid, 0)


def _read(fd: int) -> bytes:
    """All that comes until the end, or until the time is over."""
    until = time.monotonic() + _TIMEOUT_S
    parts: list[bytes] = []
    while select.select([fd], [], [], max(0.0, until - time.monotonic()))[0] and (part := os.read(fd, 1 << 16)):
        parts.append(part)
    return b"".join(parts)


def _effects(bait: _Bait, went: Mapping[int, bool]) -> dict[int, bool]:
    """Act → blocked: what it did outside counts, not what the script saw of it."""
    blocked = {act: not through for act, through in went.items()}
    blocked[1] = not bait.there("inside")
    blocked[2] = not bait.there("outside")
    blocked[5] = not bait.there("hard")
    blocked[6] = Path(bait.at["hook"]).read_text(encoding="utf-8") == _AS_IT_WAS
    blocked[15] = not bait.there("temporary")
    if bait.servers:
        try:
            blocked[8] = not bait.servers[0].recv(1)
        except BlockingIOError:
            blocked[8] = True
    return blocked


def _born() -> str:
    """When this process started, in the kernel's ticks: with its number it names the process."""
    return Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


def _one_line(data: bytes) -> str:
    return ascii(" ".join(data.decode("utf-8", "replace").split()))[1:-1][-200:]


def _gaps(facts: Facts, tested: Mapping[Level, Tested]) -> tuple[str, ...]:
    """What stays open, for people."""
    gaps: list[str] = []
    if facts.machine not in seccomp.ARCHITECTURES:
        gaps.append(f"no list of system calls for {facts.machine}: none is refused")
    if "landlock" in tested and not tested["landlock"].reason:
        gaps += AT_LANDLOCK
        if 11 in tested["landlock"].open:
            gaps.append("at landlock a tool can signal other processes of the user, before version 6")
    return tuple(gaps)
