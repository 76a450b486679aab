"""The folder a trial works in, made from its fixture, and what graders find there. Nothing leads in or out of it.

A suite may come with anybody's repository, and a trial's tools may leave anything: no link is followed here.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HarnessError

BESIDE = ".trial"
"""The folder of the workspace where graders find the answer and the figures."""
OWN = ("bin", "skills", ".harness")
"""What a fixture does not bring: a trial's tools and settings are those that the person trusts."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def fill(workspace: Path, fixture: Path | None, suite: Path) -> None:
    """Make the workspace, a project of its own. Raises HarnessError (exit 2) for a fixture that is no plain folder."""
    workspace.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if fixture is None:
        workspace.mkdir()
    else:
        check_plain(fixture, suite)  # again: it may have changed since the suite was read
        shutil.copytree(fixture, workspace, symlinks=True)
    (workspace / ".harness").mkdir()


def check_plain(fixture: Path, suite: Path) -> None:
    """Raises HarnessError for a fixture that is or holds a link or a special file, or brings tools."""
    fix = "give it plain files and folders"
    if fixture.resolve() != suite.resolve() / fixture.relative_to(suite) or not fixture.is_dir():
        raise HarnessError("a fixture is a folder of the suite, and no link", fix, str(fixture))
    for at, folders, names in os.walk(fixture):
        for name in (*folders, *names):
            mode = os.lstat(os.path.join(at, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise HarnessError("a fixture holds a link or a special file", fix, os.path.join(at, name))
    for name in OWN:
        if os.path.lexists(fixture / name):
            raise HarnessError(f"a fixture brings no {name}/: tools are the project's", fix, str(fixture / name))


def lay_out(workspace: Path, texts: Mapping[str, str]) -> None:
    """Put files into the folder that graders look at, whatever a tool left in its place. Raises OSError."""
    beside = workspace / BESIDE
    if beside.is_dir() and not beside.is_symlink():
        shutil.rmtree(beside)  # which follows no link either
    elif os.path.lexists(beside):
        beside.unlink()
    beside.mkdir()
    folder = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name, text in texts.items():
            with os.fdopen(os.open(name, NEW, 0o644, dir_fd=folder), "wb") as file:
                file.write(text.encode("utf-8", "replace"))
    finally:
        os.close(folder)
