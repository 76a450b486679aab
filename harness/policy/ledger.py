"""Approvals that are remembered beyond their run: `grants.jsonl` in the state directory, one a line, 0600.

Only commands of the person's write it; nothing that lies in a project is read as one. Data alone: what a grant is worth
is said in `granting` and `decide`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, near_text
from harness.events.io import IO, make_private
from harness.policy import LEVELS, Grant
from harness.policy.alone import alone
from harness.policy.files import check_place, check_private
from harness.policy.pins import copy_of, forget_copies, keep_copies, pin
from harness.tools.regular import read_regular

MAX_BYTES = 4 * 1024 * 1024
_Mark = tuple[int, int, int]
Change = Callable[[tuple[Grant, ...]], tuple[Grant, ...]]


class Ledger:
    """What a person's state directory remembers. Read again only where the file is another one than before."""

    def __init__(self, state: Path, home: Path, workspace: Path | None, io: IO) -> None:
        self.state, self._home, self._workspace, self._io = state, home, workspace, io
        self._read: tuple[_Mark | None, tuple[Grant, ...]] = (None, ())

    @property
    def file(self) -> Path:
        return self.state / "grants.jsonl"

    @property
    def copies(self) -> Path:
        """Where the files of the tools are kept as they were, to show what changed."""
        return self.state / "grants"

    def grants(self) -> tuple[Grant, ...]:
        """All that were given, whether they still stand or not. Raises HarnessError where the file cannot be used."""
        try:
            at = self.file.lstat()
            mark = (at.st_ino, at.st_mtime_ns, at.st_size)
            if self._read[0] != mark:
                self._read = (mark, self._load())
        except (FileNotFoundError, NotADirectoryError):
            self._read = (None, ())
        except (OSError, RuntimeError) as error:
            raise self._unusable(getattr(error, "strerror", None) or str(error)) from error
        return self._read[1]

    def add(self, grant: Grant, tool: Path) -> None:
        """Remember one, in place of an earlier one for the same; the tool's file is copied. Raises HarnessError."""
        seen = {tool: grant.pin} if grant.pin else {}
        self._change(lambda held: (*(one for one in held if one.id != grant.id), grant), seen)

    def drop(self, name: str) -> Grant:
        """Take one back, by its id or the beginning of it. Raises HarnessError where that names none, or several."""
        found = [one for one in self.grants() if one.id.removeprefix("g-").startswith(name.removeprefix("g-") or " ")]
        if not found:
            near = near_text(name, [one.id for one in self.grants()])
            raise HarnessError(f"{name or 'an empty text'} is no grant{near}", "name one of: harness policy grants")
        if len(found) > 1:
            raise HarnessError(f"{name} begins several: {' '.join(one.id for one in found)}", "write more of it")
        self._change(lambda held: tuple(one for one in held if one.id != found[0].id), {})
        return found[0]

    def copy(self, grant: Grant) -> bytes | None:
        """The tool's file as it was, where a copy of it is kept."""
        return copy_of(self.copies, grant.pin) if grant.pin else None

    def _change(self, change: Change, seen: dict[Path, str]) -> None:
        try:
            make_private(self.state)
            check_private(self.state)
            with alone(self.state / "grants.lock", self._io, "what is remembered"):
                held = change(self.grants())
                self.copies.mkdir(mode=0o700, exist_ok=True)
                keep_copies(self.copies, self._io, seen)
                self._io.put(self.file, b"".join(map(_line, held)))
                forget_copies(self.copies, self._io, [one.pin for one in held if one.pin])
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            what = f"an approval cannot be remembered: {reason}"
            raise HarnessError(what, "make it writable", str(self.state)) from error

    def _load(self) -> tuple[Grant, ...]:
        check_private(self.state)
        check_place(self.file, {os.geteuid(), 0}, self._workspace, self._home)
        if self.file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise HarnessError("can be read by other users", f"run: chmod 600 {self.file}", str(self.file))
        data = read_regular(self.file, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise self._unusable(f"over {MAX_BYTES // 1024 // 1024} MiB")
        return tuple(self._parsed(data))

    def _parsed(self, data: bytes) -> Iterator[Grant]:
        for number, line in enumerate(data.splitlines(), 1):
            try:
                yield _grant(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise self._unusable(f"line {number} is damaged ({type(error).__name__}: {error})") from error

    def _unusable(self, reason: str) -> HarnessError:
        fix = f"mend it; or forget all of it, and be asked again: rm {self.file}"
        return HarnessError(f"what is remembered cannot be read: {reason.lower()}", fix, str(self.file))


def pin_of(tool: Path) -> str:
    """What a copy of the tool's file is kept under; nothing where there can be none."""
    try:
        return pin(tool)
    except HarnessError:
        return ""


def _line(grant: Grant) -> bytes:
    return (json.dumps(asdict(grant), ensure_ascii=True) + "\n").encode()


def _grant(given: Any) -> Grant:
    values = {name: _texts(texts) for name, texts in _is(given["values"], dict).items()}
    level = _is(given["level"], str)
    if level not in LEVELS:
        raise ValueError(f"{level!r} is no level")
    texts = {name: _is(given[name], str) for name in ("id", "tool", "digest", "cwd", "path", "by", "pin")}
    if not texts["id"].startswith("g-") or not texts["digest"]:
        raise ValueError(f"{texts['id']!r} is no grant")
    since, until = (float(_is(given[name], float)) for name in ("since", "until"))
    return Grant(**texts, values=values, level=level, hosts=_texts(given["hosts"]), since=since, until=until)


def _texts(given: Any) -> tuple[str, ...]:
    return tuple(_is(text, str) for text in _is(given, list))


def _is(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
