"""Policy files on disk: whose they are, where they lie, and their text as plain YAML. Not what they say."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from harness.documents import Node, YamlError, read_yaml
from harness.errors import HarnessError
from harness.tools.regular import read_regular

MAX_BYTES = 256 * 1024
_MAX_LINKS = 40


def config_folder(env: Mapping[str, str]) -> Path:
    """The user's folder of settings, `~/.config/harness`, whether it is there or not."""
    home = Path(env.get("HOME") or Path.home())
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config").absolute() / "harness"


def state_folder(env: Mapping[str, str]) -> Path:
    """What is kept of runs and models outside their projects; a relative one is to be ignored."""
    home, told = Path(env.get("HOME") or Path.home()), Path(env.get("XDG_STATE_HOME") or "")
    return (told if told.is_absolute() else home / ".local" / "state") / "harness"


def steps(path: Path) -> Iterator[Path]:
    """Every directory, link and file that is passed on the way to an absolute path, as far as it exists.

    Raises OSError where one cannot be looked at, and for links that go round.
    """
    at, todo, links = Path("/"), list(path.parts[1:]), 0
    yield at
    while todo:
        name = todo.pop(0)
        at = at.parent if name == ".." else at / name
        yield at
        if stat.S_ISLNK(at.lstat().st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise OSError(f"too many links on the way to {path}")
            target = at.readlink()
            at = at.parent
            if target.is_absolute():
                at = Path("/")
            todo = [part for part in target.parts if part != "/"] + todo


def check_place(path: Path, owners: Collection[int], workspace: Path | None, home: Path | None) -> None:
    """Refuse a file that somebody else, or what is in the workspace, could change; what lies above `home` is trusted.

    `path` exists. Raises HarnessError with the command that mends it, OSError where something cannot be looked at.
    """
    area = workspace.resolve() if workspace else None
    for step in steps(path):
        if area is not None and (step.is_relative_to(area) or _same(step, area)):
            fix = "set XDG_CONFIG_HOME to a folder outside it, or run harness elsewhere"
            if step != path and path.is_symlink():
                fix = f"run: rm {_word(path)} && mv {_word(path.resolve())} {_word(path)}"
            raise HarnessError("lies in the workspace, where a tool could change it", fix, str(path))
        if home is None or step == home or not home.is_relative_to(step):
            _check_step(step, owners)


def check_private(folder: Path) -> None:
    """Refuse a folder of ours that others can look into. Raises HarnessError with the command that mends it."""
    try:
        found = folder.stat()
    except OSError:
        return  # what is not there holds nothing yet
    if found.st_uid not in (os.geteuid(), 0):
        owner = f"run: sudo chown {os.geteuid()} {_word(folder)}"
        raise HarnessError(f"belongs to user {found.st_uid}, not to {_names({os.geteuid()})}", owner, str(folder))
    if found.st_mode & 0o077:
        raise HarnessError("can be looked into by other users", f"run: chmod 700 {_word(folder)}", str(folder))


def _same(step: Path, area: Path) -> bool:
    return os.path.realpath(step) == str(area)


def _check_step(step: Path, owners: Collection[int]) -> None:
    found = step.lstat()
    if found.st_uid not in owners:
        owner = min(owners, key=lambda uid: (uid == 0, uid))
        message = f"belongs to user {found.st_uid}, not to {_names(owners)}"
        raise HarnessError(message, f"run: sudo chown -h {owner} {_word(step)}", str(step))
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & 0o022 and not sticky and not stat.S_ISLNK(found.st_mode):
        raise HarnessError("can be changed by other users", f"run: chmod go-w {_word(step)}", str(step))


def _names(owners: Collection[int]) -> str:
    return " or ".join("root" if uid == 0 else f"user {uid}" for uid in sorted(owners, reverse=True))


def _word(path: Path) -> str:
    return shlex.quote(str(path))


def read_trusted(path: Path, owners: Collection[int], workspace: Path | None, home: Path | None) -> Node | None:
    """The content of a file that may grant, after `check_place`; None where there is no file. Raises HarnessError."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        check_place(path, owners, workspace, home)
        path = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise _unreadable(path, error) from error
    return read(path)


def read(path: Path) -> Node | None:
    """The content of a policy file, whoever owns it; None where there is no file. Raises HarnessError."""
    try:
        data = read_regular(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise HarnessError("is a link to nothing", f"run: rm {_word(path)}", str(path)) from None
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) > MAX_BYTES:
        raise HarnessError(f"over {MAX_BYTES // 1024} KiB", "keep policy only in it", str(path))
    return _parse(data, path)


def _unreadable(path: Path, error: Exception) -> HarnessError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return HarnessError(f"cannot read policy: {reason.lower()}", "make it a readable file, or take it away", str(path))


def _parse(data: bytes, path: Path) -> Node:
    try:
        text = data.decode("utf-8-sig")
        document = read_yaml(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HarnessError("not UTF-8", "save it as UTF-8", f"{path}:{line}") from error
    except YamlError as error:
        raise HarnessError(f"no YAML: {error.message}", "correct it", f"{path}:{error.line}") from error
    _refuse_marks(text, path)
    if document.root is None:
        raise HarnessError("is empty", "begin it with `version: 1`, or take it away", f"{path}:1")
    return document.root


def _refuse_marks(text: str, path: Path) -> None:
    """What makes YAML more than it looks like: a file that grants must read the same to everybody."""
    if not set("!&*%") & set(text):
        return
    import yaml

    marks: dict[type[object], str] = {yaml.AnchorToken: "an anchor", yaml.AliasToken: "an alias"}
    marks |= {yaml.TagToken: "a tag", yaml.DirectiveToken: "a directive"}
    try:
        found = next((token for token in yaml.scan(text, yaml.BaseLoader) if type(token) in marks), None)
    except yaml.YAMLError as error:
        raise HarnessError("no YAML to every reader", "write it out plainly", str(path)) from error
    if found is not None:
        line = found.start_mark.line + 1
        raise HarnessError(f"{marks[type(found)]} is not read here", "write it out plainly", f"{path}:{line}")
