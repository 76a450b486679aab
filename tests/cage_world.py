"""A project whose runs are confined as the command line confines them: own home, own settings, the machine's levels."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from caged import lacking

from harness import config
from harness.cli.guarding import guard_for
from harness.cli.place import Place
from harness.loop.guard import Guard
from harness.loop.run import Said, World
from harness.sandbox.facts import Facts, facts
from harness.skills.discovery import find_roots
from tests.loop_world import Person, Project, Ran, call, finish, reply

NONE = "sandbox: {require: none}\n"
LOOK = "@option --path <PATH>  which file\n@meta effect read"
KEEP = "@option --out <PATH>  which file\n@meta effect write\n@meta writes --out"
HERE = facts()
NO_BWRAP = replace(HERE, bwrap=None)
NO_LANDLOCK = replace(HERE, landlock=0)
NEITHER = replace(HERE, bwrap=None, landlock=0)

needs_landlock = pytest.mark.skipif(bool(lacking("landlock")), reason=lacking("landlock"))
needs_full = pytest.mark.skipif(bool(lacking("full")), reason=lacking("full"))
needs_both = pytest.mark.skipif(bool(lacking("landlock") or lacking("full")), reason="landlock and full are needed")


class Caged(Project):
    """`machine` is what is true of the machine; `sandbox` what `--sandbox` says."""

    def __init__(self, home: Path, path: Path, machine: Facts = HERE) -> None:
        path.mkdir()
        super().__init__(path)
        self.home, self.machine, self.sandbox = home, machine, ""
        self.guard: Guard | None = None
        self.sealed = False

    def policy(self, text: str) -> None:
        """The person's own policy."""
        self.private("policy.yaml", f"version: 1\n{text}\n")

    def private(self, name: str, text: str) -> Path:
        """A file of the person's own settings."""
        path = self.home / ".config" / "harness" / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def world(self) -> World:
        world = super().world()
        at = Place(self.path, config.load(self.path), find_roots(self.path, self.home, ()), trust=self.trust)
        world.guard = self.guard = guard_for(at, self.sandbox or None, self.machine)
        if self.sealed:
            world.seals = self.home / "seals"
            world.seals.mkdir(exist_ok=True, mode=0o700)
        return world

    def calls(self, *calls: Any, **more: Any) -> Ran:
        """A run of a skill that lists all tools of the project, with these calls at once."""
        self.skill(tools=" ".join(sorted(path.name for path in (self.path / "bin").iterdir())))
        return self.run([reply(*calls), finish()], **more)

    def one(self, name: str, *words: str, yes: bool = False, **more: Any) -> Ran:
        """A run with one call; `yes` lets a person approve it."""
        if yes:
            self.person = Person([Said("allow")])
        return self.calls(call(name, *words), **more)

    def python(self, name: str, body: str, head: str = "@meta effect read") -> Path:
        lines = [f"# {line}" for line in (f"@describe {name}", *head.splitlines())]
        return self.file(f"bin/{name}", "\n".join(["#!/usr/bin/env python3", *lines, body, ""]), executable=True)


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Facts = HERE) -> Caged:
    """A fresh one, with a home beside it."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("XDG_", "HARNESS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    return Caged(home, tmp_path / "project", machine)


def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    """One that is not confined, so that policy alone decides, with a tool that shows a file and one that writes one."""
    made = make(tmp_path, monkeypatch)
    made.policy(NONE)
    made.tool("look", 'cat "$2"', LOOK)
    made.tool("keep", 'echo evil > "$2"', KEEP)
    return made


def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    """One whose journals' digests are kept, with a tool that needs a person's word."""
    made = make(tmp_path, monkeypatch)
    made.policy("sandbox:\n  require: none")
    made.sealed = True
    made.tool("send", "echo sent", "@meta effect external")
    return made


def level(ran: Ran, position: int = 0) -> str:
    """The level that an attempt was started at."""
    return str(ran.of("tool.start")[position]["data"]["level"])


def last(ran: Ran, op: int = 1) -> dict[str, Any]:
    """The data of an operation's newest end."""
    found: dict[str, Any] = [event["data"] for event in ran.of("tool.end") if event["op"] == op][-1]
    return found


def printed(ran: Ran, op: int = 1) -> str:
    return ran.text(last(ran, op)["out"])

