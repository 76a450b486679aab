"""Secrets by name, and the plain variables a tool is given: who gets which, and how they are handed over at the spawn.

A secret's value is read when a call that was allowed to have it is started, and goes into that process's variables or
into files of its scratch; never into an argv, a text or a record. `masker` says what must not show in what comes back.
"""

from __future__ import annotations

import os
import secrets as random
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HarnessError
from harness.events.io import IO
from harness.policy.confinement import is_provider_key
from harness.policy.files import check_place, config_folder
from harness.policy.layer import SecretRule
from harness.policy.settings import Settings, user_file
from harness.secrets.masker import Masker
from harness.tools import EnvVar, Tool

MIN_LENGTH, MAX_BYTES = 8, 64 * 1024
_KEYS = ("KEY", "TOKEN")
PREFIX = ".secret-"
"""How the files of secrets in a scratch begin, by which they are found again after a crash."""


class Secret:
    """A value that shows itself to nobody who does not ask for it by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> str:
        raise TypeError("a secret is not copied into a file")


@dataclass(frozen=True, slots=True)
class Released:
    """What a tool's `@env` names come to: `values` it gets, `missing` without a value.

    `ungranted` have a value that the person's policy does not give to the tool: a person is asked before it gets them.
    `problems` are the reasons why a call cannot be made, one for each name that it must have, because its header or
    the person's policy says so: the call ends `NEEDS_AUTH`.
    """

    values: Mapping[str, Secret] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    ungranted: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passed:
    """Plain variables of a tool, and the paths they make readable. `withheld` are paths that hold the secrets' own."""

    variables: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()
    withheld: tuple[Path, ...] = ()


def store(env: Mapping[str, str]) -> Path:
    """The folder of secret files: no tool may read it."""
    return config_folder(env) / "secrets"


def released(
    tool: Tool, settings: Settings, env: Mapping[str, str], workspace: Path | None = None,
    keys: frozenset[str] = frozenset(), yes: bool = False,
) -> Released:  # fmt: skip
    """Look up the secrets of a tool. `env` is the harness's own environment.

    A name that the user's policy passes to the tool as a plain variable is no secret, and needs no rule. `keys` are
    names of model providers' keys beside the usual ones; `yes` is a person's word on what the policy does not give.
    Raises HarnessError for a value or a file that may not be used as a secret; the value is never in its text.
    """
    values: dict[str, Secret] = {}
    missing, ungranted, problems = [], [], []
    plain = passed(tool, settings, env).variables
    for variable in tool.env:
        name, rule = variable.name, settings.secrets.get(variable.name)
        if name in plain:
            continue
        closed = is_provider_key(name) or name in keys
        value = None if closed else _value(name, rule, env, workspace)
        listed = rule is not None and tool.name in rule.tools
        if value is None:
            missing.append(name)
            is_needed = variable.required or (listed and not closed)
            problems += [_why_not(tool, variable, rule, env, closed)] if is_needed else []
        elif listed or yes:
            values[name] = Secret(value)
        if value is not None and not listed:
            ungranted.append(name)
    return Released(values, tuple(missing), tuple(ungranted), tuple(problems))


def masker(
    settings: Settings, env: Mapping[str, str], workspace: Path | None = None, keys: Iterable[str] = ()
) -> Masker:
    """What must show nowhere: the secrets that the policy names or that are kept, and the keys of model providers.

    `keys` are names of such keys beside the usual ones. A secret that may not be used as one is left out: no tool is
    given it either.
    """
    values = {name: text for name, text in env.items() if is_provider_key(name) and name.upper().endswith(_KEYS)}
    for name in dict.fromkeys((*settings.secrets, *keys, *_stored(env))):
        with suppress(HarnessError):
            values[name] = _value(name, settings.secrets.get(name), env, workspace) or ""
    return Masker(values)


def _stored(env: Mapping[str, str]) -> list[str]:
    """The names of what is kept in files."""
    try:
        return sorted(path.name for path in store(env).iterdir())
    except OSError:
        return []


def _why_not(tool: Tool, variable: EnvVar, rule: SecretRule | None, env: Mapping[str, str], closed: bool) -> str:
    """Why a secret that must be there is not, and what to do about it."""
    name, place = variable.name, store(env) / variable.name
    if closed:
        return f"{tool.name} needs {name}, which is a model provider's and goes to no tool"
    if rule is None or tool.name not in rule.tools:
        tools = ", ".join((*rule.tools, tool.name)) if rule else tool.name
        line = f"{name}: {{tools: [{tools}], from: {rule.source if rule else 'env'}}}"
        return f"{tool.name} needs {name}, which is not given to it; put `{line}` under secrets in {user_file(env)}"
    fix = f"set {name} where harness is started" if rule.source == "env" else f"write its value to {place}, mode 0600"
    more = "" if variable.required else f"; or take {tool.name} out of its tools in {user_file(env)}"
    return f"{tool.name} needs {name}, which has no value; {fix}{more}"


def _value(name: str, rule: SecretRule | None, env: Mapping[str, str], workspace: Path | None) -> str | None:
    """The value from where the policy says, else from where one is kept."""
    value = env.get(name) if rule is None or rule.source == "env" else None
    if not value and (rule is None or rule.source == "file"):
        value = _from_file(store(env) / name, env, workspace)
    if not value:
        return None
    if "\0" in value:
        raise HarnessError(f"the value of {name} holds NUL", "write it anew, as text")
    if len(value) < MIN_LENGTH:
        fix = f"use a longer one, or pass it as a plain variable under env in {user_file(env)}"
        raise HarnessError(f"the value of {name} is shorter than {MIN_LENGTH} characters", fix)
    return value


def held(name: str, env: Mapping[str, str]) -> str | None:
    """The value kept under a name for the harness's own use: in its environment, else in the file of that name.

    Raises HarnessError for a file that may not be used as a secret.
    """
    return env.get(name) or _from_file(store(env) / name, env, None)


def _from_file(path: Path, env: Mapping[str, str], workspace: Path | None) -> str | None:
    """The text of a secret's file without its last line end; None where there is no file."""
    home = Path(env.get("HOME") or Path.home()).absolute()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HarnessError("cannot read a secret", "make it a regular file of your own", str(path)) from error
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > MAX_BYTES:
            raise HarnessError("is no small file of your own", f"write the value to it anew: {path}", str(path))
        if found.st_mode & 0o077:
            raise HarnessError("can be read by other users", f"run: chmod 600 {path}", str(path))
        check_place(path, {os.geteuid(), 0}, workspace, home)
        data = file.read(MAX_BYTES + 1)
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise HarnessError("is not UTF-8", "write the value as text", str(path)) from None


def passed(tool: Tool, settings: Settings, env: Mapping[str, str]) -> Passed:
    """The plain variables that the user passes to this tool. `env` is the harness's own environment.

    A variable whose value is an absolute path, or several apart by colons, makes what is there readable.
    """
    names = [name for name in settings.env.get(tool.name, ()) if not is_provider_key(name)]
    variables = {name: env[name] for name in names if name in env}
    found = [path for value in variables.values() for path in _paths(value)]
    closed = config_folder(env).resolve()
    return Passed(
        variables,
        tuple(dict.fromkeys(path for path in found if not _touches(path, closed))),
        tuple(dict.fromkeys(path for path in found if _touches(path, closed))),
    )


def _paths(value: str) -> list[Path]:
    parts = [value] if os.path.lexists(value) else value.split(os.pathsep)
    if "\0" in value or not all(part.startswith("/") for part in parts):
        return []
    return [Path(part).resolve() for part in parts if Path(part).exists()]


def _touches(path: Path, closed: Path) -> bool:
    return path.is_relative_to(closed) or closed.is_relative_to(path)


@contextmanager
def placed(tool: Tool, values: Mapping[str, Secret], scratch: Path, io: IO) -> Iterator[dict[str, str]]:
    """The variables that hand secrets to one attempt; their files lie in its scratch until this ends.

    `scratch` is the attempt's own folder, mode 0700. Raises HarnessError when a file cannot be written.
    """
    variables = {}
    try:
        for variable in tool.env:
            if variable.name in values:
                text = values[variable.name].reveal()
                variables[variable.name] = str(_written(variable.name, text, scratch, io)) if variable.file else text
        yield variables
    finally:
        remove(scratch, io)


def _written(name: str, text: str, scratch: Path, io: IO) -> Path:
    path = scratch / f"{PREFIX}{name}-{random.token_hex(8)}"
    try:
        fd = io.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            rest = text.encode()
            while rest:
                rest = rest[io.write(fd, rest) :]
        finally:
            os.close(fd)
    except OSError as error:
        message = f"cannot hand over {name}: {(error.strerror or 'unknown').lower()}"
        raise HarnessError(message, "make room for the run's folder", str(scratch)) from None
    return path


def remove(scratch: Path, io: IO) -> None:
    """Take the files of secrets out of a scratch, after the attempt or after a crash. Follows no link."""
    with suppress(OSError):
        for entry in list(scratch.iterdir()):
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    io.unlink(entry)
