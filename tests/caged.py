"""Starts a command in a cage as the harness does, as root or as an ordinary user: for tests.

A process of its own stands for the harness (`python caged.py JSON`), so that a test can give up its user and make it
undumpable without doing so to the process that runs the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.events.io import IO  # noqa: E402
from harness.executor import Cancel, Job, Outcome, environment, prepare, run, run_shim  # noqa: E402
from harness.executor.limits import wrapped  # noqa: E402
from harness.sandbox import Cage, kernel, landlock, protect  # noqa: E402
from harness.sandbox.facts import facts  # noqa: E402
from harness.sandbox.start import hooks, start  # noqa: E402

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Done:
    """What came of a command. `changes` are what was put back of the protected names, path → what."""

    code: int
    out: str
    err: str
    changes: dict[str, tuple[str, bool]]
    harness: int

    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


@dataclass(frozen=True)
class Place:
    """A workspace with its scratch folder, and things outside that are not for tools."""

    user: str
    workspace: Path
    scratch: Path
    outside: Path

    @property
    def secret(self) -> Path:
        return self.outside / "secret"

    def own(self) -> None:
        """Give everything to the user who plays."""
        if self.user == "ordinary" and os.getuid() == 0:
            for path in (self.outside, *self.outside.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(self, level: str, command: Sequence[str], guard: bool = False, **cage: Any) -> Done:
        """Run a command in a write call at a level; `guard` puts protected names back afterwards."""
        self.own()
        given = {"level": level, "workspace": self.workspace, "scratch": self.scratch, "writable": True, **cage}
        request = {"cage": given, "command": list(command), "user": self.user, "guard": guard}
        text = json.dumps(request, default=str)
        done = subprocess.run([_python(self.user), "-B", __file__, text], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return Done(**json.loads(done.stdout))

    def python(self, level: str, script: str, *args: object, **more: Any) -> Done:
        """Run a Python script in a write call at a level."""
        words = [_python(self.user), "-I", "-S", "-B", "-c", script, *map(str, args)]
        return self.run(level, words, **more)


def as_user(user: str, script: str, *args: object) -> Any:
    """What a script in the place of the harness prints, as JSON; it is given its user and `sys.argv`."""
    become_user = _BECOME.format(test=str(ROOT / "tests"), user=user)
    words = [_python(user), "-B", "-c", f"{become_user}{script}", *map(str, args)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def attempt(cage: Cage, way: str, *argv: str) -> Outcome:
    """One attempt in a cage, by the process that stands for the harness: `way` is shim or direct."""
    folder = cage.scratch.parent
    op_id = f"test-{os.getpid()}/1"
    env = environment(op_id=op_id, run=folder, out=cage.scratch, depth=0, passed={}, skill=None)
    job = Job(argv, folder, env, 30, op_id)
    with ExitStack() as stack:
        entry = hooks(cage, facts(), stack)
        if way == "direct":
            return run(job, IO(), Cancel(), None, wrapped(entry, job), entry.start, entry.pass_fds)
        (folder / "attempt").mkdir()
        made = prepare(folder / "attempt", job, IO())
        return run_shim(job, made, IO(), Cancel(), entry.wrap, entry.start, entry.pass_fds)


_BECOME = """
import json, os, sys
sys.path.insert(0, {test!r})
import caged
caged.become({user!r})
"""


def become(user: str) -> None:
    """Be the user from now on, and undumpable as the harness is."""
    if user == "ordinary" and os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    kernel.set_undumpable()


@contextmanager
def place(user: str, parent: str = "/tmp") -> Iterator[Place]:
    """A fresh one; on a path that the user can reach."""
    outside = Path(tempfile.mkdtemp(prefix="caged-", dir=parent)).resolve()
    try:
        made = Place(user, outside / "workspace", outside / "run" / "work", outside)
        for folder in (made.workspace, made.scratch, made.workspace / "bin"):
            folder.mkdir(parents=True)
        made.secret.write_text("the secret")
        outside.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(outside, ignore_errors=True)


def lacking(level: str) -> str:
    """Why a level cannot be tested here; empty when it can."""
    here = facts()
    if level == "landlock" and here.landlock < landlock.OLDEST:
        return "landlock: the kernel has none of version 3 or newer"
    if level == "full" and not (here.bwrap and (here.userns or here.mounts)):
        return "full: no bubblewrap, or no namespaces for it"
    return ""


def users() -> list[str]:
    """Who can be played here."""
    if os.getuid() != 0:
        return ["ordinary"]
    return ["root", "ordinary"] if _recent(SYSTEM_PYTHON) else ["root"]


def _python(user: str) -> str:
    """Root's own interpreter may lie where others cannot go."""
    return SYSTEM_PYTHON if user == "ordinary" and os.getuid() == 0 else sys.executable


def _recent(python: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    return Path(python).exists() and subprocess.run([python, "-c", check]).returncode == 0


def _cage(given: dict[str, Any]) -> Cage:
    for name in ("workspace", "scratch"):
        given[name] = Path(given[name])
    for name in ("read", "write", "protect", "hide"):
        given[name] = tuple(map(Path, given.get(name, ())))
    if "proxy" in given:
        given["proxy"] = Path(given["proxy"])
    return Cage(**given)


def _main(request: dict[str, Any]) -> Done:
    become(request["user"])
    cage = _cage(request["cage"])
    keep = cage.scratch.parent
    roots = (cage.workspace / "bin", cage.workspace / "skills")
    before = protect.snapshot(cage.workspace, roots, keep) if request["guard"] else None
    words = [word.replace("{harness}", str(os.getpid())) for word in request["command"]]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as null:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(cage.scratch), "HARNESS_OP_ID": "test/1"}
        files = (null.fileno(), out.fileno(), err.fileno())
        child = start(cage, words, lambda argv, fds: IO().spawn(argv, cage.workspace, env, *files, fds))
        code = child.wait(timeout=50)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # as after every attempt
        printed = [(file.seek(0), file.read().decode("utf-8", "replace"))[1] for file in (out, err)]
    changes = {str(one.path): (one.what, one.restored) for one in protect.restore(before)} if before else {}
    return Done(code, printed[0], printed[1], changes, os.getpid())


if __name__ == "__main__":
    print(json.dumps(asdict(_main(json.loads(sys.argv[1])))))
