"""Settings: flags > environment > project > user > defaults, each value with its origin. Policy has files of its own.

A file is read strictly: what is unknown, given twice or of the wrong form is refused with its line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.config.keys import KEYS
from harness.config.values import folders
from harness.errors import HarnessError, near_text, nearest
from harness.tools.regular import read_regular

MAX_BYTES = 256 * 1024
Layer = Literal["flag", "env", "project", "user", "default"]
Folder = Path | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, the layer it came from and the place in words: `flag -m`, `env NAME`, `path:line` or `default`."""

    value: Any
    layer: Layer
    origin: str


SWITCHES = {"HARNESS_PLAIN": ("view", "plain"), "NO_COLOR": ("color", "never")}
"""Variables that set one fixed value by being there at all."""

SET_FOR_TOOLS = ("RUN", "OUT", "OP_ID", "DEPTH", "SKILL", "ANSWER", "REPLY", "WIKI")
"""Variables `HARNESS_…` that are set for tools, or read elsewhere, and configure nothing here."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one command. `warnings` are for stderr, once; `own` is what the user's file alone says."""

    settings: Mapping[str, Setting]
    warnings: tuple[str, ...] = ()
    own: Mapping[str, Setting] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        return self.settings[key].value

    def origin(self, key: str) -> str:
        return self.settings[key].origin


def user_file(env: Mapping[str, str]) -> Path:
    """Where a user's own settings are."""
    home = Path(env.get("HOME") or Path.home())
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "harness" / "config.yaml"


def load(
    project: Folder, flags: Mapping[str, tuple[str, str]] | None = None, env: Mapping[str, str] | None = None
) -> Config:
    """Read all layers. `flags` maps a key to (text, flag as typed). Raises HarnessError, exit 2, naming the line."""
    env = os.environ if env is None else env
    found = {name: Setting(key.default, "default", "default") for name, key in KEYS.items()}
    own = read_file(user_file(env), "user", None)
    found |= own
    if project is not None:
        for name, setting in read_file(project / ".harness" / "config.yaml", "project", project).items():
            if KEYS[name].project != "lower" or setting.value < found[name].value:
                found[name] = setting
    found |= from_environment(env)
    for name, (given, flag) in (flags or {}).items():
        found[name] = setting_of(name, given, "flag", f"flag {flag}")
    return Config(found, unknown_variables(env), own)


def setting_of(name: str, given: Any, layer: Layer, origin: str) -> Setting:
    try:
        return Setting(KEYS[name].read(given), layer, origin)
    except ValueError as error:
        raise HarnessError(f"{name} wants {error}", f"correct {name}", origin) from error


def from_environment(env: Mapping[str, str]) -> dict[str, Setting]:
    """What variables set; an empty one counts as unset."""
    given = {switch: fixed for switch, fixed in SWITCHES.items() if env.get(switch)}
    found = {name: Setting(value, "env", f"env {switch}") for switch, (name, value) in given.items()}
    for name, key in KEYS.items():
        if key.variable and env.get(key.variable):
            found[name] = setting_of(name, env[key.variable], "env", f"env {key.variable}")
    return found


def unknown_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    known = [key.variable for key in KEYS.values() if key.variable] + [s for s in SWITCHES if s.startswith("HARNESS_")]
    ours = {f"HARNESS_{word}" for word in SET_FOR_TOOLS}.union(known)
    odd = sorted(name for name in env if name.startswith("HARNESS_") and name not in ours and env[name])
    close = {name: nearest(name[8:], [word[8:] for word in known]) for name in odd}
    near = {name: f"; near: {', '.join(f'HARNESS_{word}' for word in words)}" for name, words in close.items() if words}
    return tuple(f"{name} is set and means nothing here{near.get(name, '')}" for name in odd)


def read_file(path: Path, layer: Literal["user", "project"], project: Folder) -> dict[str, Setting]:
    """The settings of one file; none where there is no file."""
    try:
        data = read_regular(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise HarnessError(f"cannot read settings: {error.strerror}", "make it a readable file", str(path)) from error
    if len(data) > MAX_BYTES:
        raise HarnessError(f"over {MAX_BYTES // 1024} KiB", "keep settings only in it", str(path))
    from harness.documents import YamlError, read_yaml  # many commands find no file to read

    try:
        document = read_yaml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HarnessError("not UTF-8", "save it as UTF-8", f"{path}:{line}") from error
    except YamlError as error:
        raise HarnessError(f"no YAML: {error.message}", "correct it", f"{path}:{error.line}") from error
    if document.aliases:
        raise HarnessError("anchors and aliases are not read here", "write it out", f"{path}:{document.aliases[0]}")
    if document.root is None or document.root.value == "":
        return {}
    return _Reader(path, layer, project).read(document.root, "")


class _Reader:
    """Walks one file and collects its settings; its state is where they go."""

    def __init__(self, path: Path, layer: Literal["user", "project"], project: Folder) -> None:
        self.path, self.layer, self.project = path, layer, project
        self.found: dict[str, Setting] = {}

    def read(self, node: Any, prefix: str) -> dict[str, Setting]:
        if not isinstance(node.value, dict):
            raise self.error(f"{prefix or 'the file'} wants `key: value` lines", "write them one a line", node.line)
        for key, line in node.duplicates:
            raise self.error(f"{prefix}{key} is given twice", "keep one of them", line)
        for key, child in node.value.items():
            self.take(f"{prefix}{key}", child, node.key_lines[key])
        return self.found

    def take(self, name: str, node: Any, line: int) -> None:
        if any(known.startswith(f"{name}.") for known in KEYS):
            self.read(node, f"{name}.")
        elif name in KEYS:
            self.found[name] = self.setting(name, node.plain(), line)
        elif name != "version" or node.value != "1":
            raise self.error(f"unknown key {name}{near_text(name, KEYS)}", "correct the key or take it out", line)

    def setting(self, name: str, given: object, line: int) -> Setting:
        if self.layer == "project" and KEYS[name].project == "no":
            raise self.error(f"a project may not set {name}", f"set it in {user_file(os.environ)}", line)
        made = setting_of(name, given, self.layer, f"{self.path}:{line}")
        if KEYS[name].read is not folders:
            return made
        return Setting(tuple(str(self.folder(name, item, line)) for item in made.value), made.layer, made.origin)

    def folder(self, name: str, item: str, line: int) -> Path:
        """A folder of a list as an absolute path."""
        path = Path(item).expanduser() if self.project is None else self.project / item
        if self.project is None and not path.is_absolute():
            raise self.error(f"{name}: {item} is no absolute path", "begin it with / or ~/", line)
        if self.project is not None and not path.resolve().is_relative_to(self.project.resolve()):
            raise self.error(f"{name}: {item} is outside the project", "name a folder inside it", line)
        return path

    def error(self, message: str, fix: str, line: int) -> HarnessError:
        return HarnessError(message, fix, f"{self.path}:{line}")
