"""Tools on a stage: their effects fall on a ledger that no crash undoes, the shim's part is played step by step.

Everything above the start of a process is real. Each step of a tool is an action of its own, so that a crash can come
before, between and after; what stands for the process itself is one that ends at once.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.journal_disk import Action, Recorder

Ledger = tuple[Action, ...]
KILLED = ["/bin/sh", "-c", "kill -9 $$"]
Blow = tuple[int, int]
"""Which start of a tool is killed with its shim, counted from 0, and where: before the shim's first note, after it,
after what the tool did, after what it printed."""


@cache
def _place() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="ended-")  # removed when the interpreter ends


@cache
def ended(code: int) -> list[str]:
    """A program that ends at once with 0 or 1: a few bytes that need no library, as tens of thousands are started."""
    path, plain = Path(_place().name) / str(code), ["/bin/false" if code else "/bin/true"]
    if platform.machine() != "x86_64":
        return plain
    path.write_bytes(_program(code))
    path.chmod(0o755)
    try:
        return [str(path)] if subprocess.run([str(path)], check=False).returncode == code else plain
    except OSError:  # no program may be started from there
        return plain


def _program(code: int) -> bytes:
    """An ELF file whose one segment holds `exit(code)`."""
    text, head, at = b"\xbf" + struct.pack("<I", code) + b"\xb8\x3c\0\0\0\x0f\x05", 64 + 56, 0x400000
    size = head + len(text)
    sizes = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, at + head, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, at, at, size, size, 4096)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + sizes + segment + text


@dataclass(frozen=True, slots=True)
class Scene:
    """One start of a tool: what it was called with, under which id, what had happened before, how it acts."""

    args: tuple[str, ...]
    op_id: str
    env: Mapping[str, str]
    ledger: Callable[[], Ledger]
    act: Callable[[str], None]

    def seen(self, what: str) -> bool:
        """Whether this happened under the operation's id before."""
        return any(entry[0] == what and entry[-1] == self.op_id for entry in self.ledger())


Part = Callable[[Scene], tuple[int, bytes]]
"""What a tool does: its exit code and what it prints."""


def says(text: str) -> Part:
    """A tool that only prints."""
    return lambda scene: (0, text.encode())


def does(text: str) -> Part:
    """A tool that has its effect each time it is started."""

    def part(scene: Scene) -> tuple[int, bytes]:
        scene.act("effect")
        return 0, text.encode()

    return part


def once(text: str) -> Part:
    """A tool that has its effect once for each operation id, and answers the same each time."""

    def part(scene: Scene) -> tuple[int, bytes]:
        if not scene.seen("effect"):
            scene.act("effect")
        return 0, text.encode()

    return part


def busy_once(text: str) -> Part:
    """Keyed; at first the other side is busy."""

    def part(scene: Scene) -> tuple[int, bytes]:
        if not scene.seen("busy"):
            scene.act("busy")
            return 75, b"busy\n"
        return once(text)(scene)

    return part


def answers(text: str) -> Part:
    """A query: whether the operation it is asked about had its effect, and what that printed."""

    def part(scene: Scene) -> tuple[int, bytes]:
        happened = any(entry[0] == "effect" and entry[-1] == scene.args[0] for entry in scene.ledger())
        return (0, text.encode()) if happened else (1, b"")

    return part


def accepts(answer: str) -> Part:
    """A verifier that wants to read these words."""

    def part(scene: Scene) -> tuple[int, bytes]:
        return (0, b"") if Path(scene.env["HARNESS_ANSWER"]).read_text() == answer else (1, b"no\n")

    return part


_Shim = tuple[int, int, bytes]
"""The descriptors of `started` and `rc`, and what the shim writes into the first."""


class _Killed(Exception):
    """The shim and its tool are no more."""


class Stage(Recorder):
    """The disk's recorder, with tools that are played. `ledger` is what happened before, in earlier processes too."""

    blows: tuple[Blow, ...] = ()

    def __init__(self, root: Path, parts: Mapping[str, Part], ledger: Ledger = ()) -> None:
        super().__init__(root)
        self.parts, self._before = parts, ledger
        self._ended = ended(0), ended(1)  # here, where no thread starts one while another writes it
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._null)

    @property
    def ledger(self) -> Ledger:
        """All that ever happened."""
        now = (a[3:] if a[:1] == ("tool",) and a[2] == "effect" else a for a in list(self.trace))
        return (*self._before, *(a for a in now if a and a[0] in ("effect", "busy", "request")))

    def spawn(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, stdout: int, stderr: int,
        pass_fds: Sequence[int] = (), placed: Mapping[int, int] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        fds = list((placed or {}).values()) or list(pass_fds)[-2:]
        shim = (fds[0], fds[1], b"r" if any("printf r " in word for word in argv) else b".") if fds else None
        words = list(argv)[list(argv).index("harness-shim") + 5 :] if "harness-shim" in argv else list(argv)
        with self._mutex:
            key = len(self.trace)
            number = sum(action[0] == "spawn" for action in self.trace)
            self.trace.append(("spawn", env["HARNESS_OP_ID"], Path(words[0]).name))
        last = min((step for which, step in self.blows if which == number), default=None)
        try:
            program = self._ended[min(self._play(key, words, env, stdout, shim, last), 1)]
        except _Killed:
            program = KILLED
        null = self._null
        return super(Recorder, self).spawn(program, cwd, {}, null, null, null)

    def _play(
        self, key: int, words: Sequence[str], env: Mapping[str, str], stdout: int, shim: _Shim | None, last: int | None
    ) -> int:  # fmt: skip
        """Let the tool and its shim do what they do; the exit of the process that stands for them: 0 or 1.

        With `last` they are killed there. Raises _Killed.
        """
        name, op_id = Path(words[0]).name, env["HARNESS_OP_ID"]

        def lives(step: int) -> None:
            if step == last:
                raise _Killed

        def act(what: str) -> None:
            with self._mutex:
                self.trace.append(("tool", key, "effect", what, name, *words[1:], op_id))

        scene = Scene(tuple(words[1:]), op_id, env, lambda: self.ledger, act)
        lives(0)
        if shim:
            self._tool_write(key, shim[0], shim[2])
        lives(1)
        code, out = self.parts[name](scene)
        lives(2)
        if not shim:
            os.write(stdout, out)
            lives(3)
            return code
        self._tool_write(key, stdout, out)
        lives(3)
        self._tool_write(key, shim[1], b"%03d\n" % code, over=True)
        return 0

    def _tool_write(self, key: int, fd: int, data: bytes, over: bool = False) -> None:
        """One write of the shim or the tool, which the platter need not have."""
        if not data:
            return
        with self._mutex:
            os.write(fd, data)
            kind = ("overwrite", fd, data) if over else ("write", fd, data)
            self.trace.append(("tool", key, *kind))
