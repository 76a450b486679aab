"""A real terminal for the tests of the views: one tmux server a test, with a player in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLAYER = Path(__file__).with_name("view_player.py")
TMUX = shutil.which("tmux")


class Terminal:
    """A window of `columns` x `lines` that runs a scene of the player, step by step."""

    def __init__(self, folder: Path, columns: int, lines: int = 24) -> None:
        self.folder, self.columns, self.lines = folder, columns, lines

    def tmux(self, *words: str) -> str:
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        env = {name: value for name, value in env.items() if name not in ("TMUX", "CI")}
        command = [str(TMUX), "-S", str(self.folder / "tmux"), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False).stdout

    def play(self, scene: str) -> None:
        command = f"'{sys.executable}' '{PLAYER}' {scene} '{self.folder}'; echo rc=$?; exec sleep 100"
        self.tmux("new-session", "-d", "-x", str(self.columns), "-y", str(self.lines), command)

    def resize(self, columns: int, lines: int | None = None) -> None:
        self.columns, self.lines = columns, lines or self.lines
        self.tmux("resize-window", "-x", str(columns), "-y", str(self.lines))

    def screen(self, history: bool = True, joined: bool = False) -> list[str]:
        """The lines shown; `joined`: those that the terminal wrapped, as one."""
        words = ["capture-pane", "-p", *(["-S", "-"] if history else []), *(["-J"] if joined else [])]
        return [line.rstrip() for line in self.tmux(*words).rstrip("\n").split("\n")]

    def wraps(self) -> list[str]:
        """Lines that did not fit on one line of the terminal."""
        lines = self.screen()
        return [line for line in self.screen(joined=True) if line not in lines]

    def until(self, shown: str | Callable[[str], bool]) -> list[str]:
        """Wait for a text on the screen, or for what a function finds there."""
        limit = time.monotonic() + 20
        while time.monotonic() < limit:
            text = "\n".join(self.screen(joined=True))
            if shown in text if isinstance(shown, str) else shown(text):
                return self.screen()
            time.sleep(0.05)
        raise AssertionError(f"{shown!r} never came:\n" + "\n".join(self.screen()))

    def step(self, name: str, shown: str | Callable[[str], bool]) -> list[str]:
        """Wait for a text, then let the player go on after the step called `name`."""
        lines = self.until(shown)
        self.go(name)
        return lines

    def go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    def cursor_visible(self) -> bool:
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def close(self) -> None:
        self.tmux("kill-server")
