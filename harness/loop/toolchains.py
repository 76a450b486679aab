"""The person's own PATH for test runners, and what of the toolchains on it can be read. Nothing else gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.policy.files import config_folder

_BESIDE = ("lib", "lib64", "libexec", "include", "pyvenv.cfg")
"""What lies beside a `bin` and belongs to its programs; not `share`, where a home keeps more than that."""


@dataclass(frozen=True, slots=True)
class Toolchains:
    """A PATH, and the real folders and files that its programs read."""

    path: str
    readable: tuple[Path, ...] = ()


def toolchains(environ: Mapping[str, str]) -> Toolchains:
    """The absolute folders of the person's PATH, and what lies beside those called `bin`."""
    folders = [text for text in environ.get("PATH", "").split(":") if text.startswith("/") and Path(text).is_dir()]
    closed = config_folder(environ).resolve()
    found = [path.resolve() for text in folders for path in (Path(text), *_beside(Path(text))) if path.exists()]
    open_ = [path for path in dict.fromkeys(found) if not (path.is_relative_to(closed) or closed.is_relative_to(path))]
    return Toolchains(":".join(dict.fromkeys(folders)), tuple(open_))


def _beside(folder: Path) -> list[Path]:
    return [folder.parent / name for name in _BESIDE] if folder.name == "bin" else []
