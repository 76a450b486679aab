"""Which view, colours and signs fit the terminal we are on, decided once by one pure function. Draws nothing.

`rich` is told the result and never asked: it would take a forced colour for a terminal and keep repainting in a pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TextIO

from harness.view.text import UNICODE

LEAST_WIDTH, LEAST_HEIGHT = 40, 8


@dataclass(frozen=True, slots=True)
class Flags:
    """What the person chose, by flag or configuration file."""

    plain: bool = False
    quiet: bool = False
    no_color: bool = False
    no_input: bool = False
    output: Literal["text", "json", "stream-json"] = "text"
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream as it is: a terminal or not, and what it can write."""

    tty: bool
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Mode:
    """How to show things. `colour`, `width` are stderr's, `out_…` stdout's; `out_width` None: piped, cut nothing."""

    view: Literal["live", "plain"]
    colour: bool
    glyphs: Literal["unicode", "ascii"]
    width: int
    can_ask: bool
    out_colour: bool
    out_width: int | None


def mode(
    flags: Flags, env: Mapping[str, str], terminal: bool, stdout: Stream, stderr: Stream, size: tuple[int, int]
) -> Mode:
    """The mode for these facts. `terminal`: the controlling terminal opens and we are its foreground process group.

    `size` is columns and lines. An empty variable counts as unset.
    """
    is_plain = flags.plain or bool(env.get("HARNESS_PLAIN"))
    ci = env.get("CI", "") not in ("", "false")
    live = (
        stderr.tty
        and env.get("TERM", "") not in ("", "dumb")
        and not (ci or is_plain or flags.quiet)
        and size[0] >= LEAST_WIDTH
        and size[1] >= LEAST_HEIGHT
        and not (flags.output != "text" and stdout.tty)
    )
    return Mode(
        view="live" if live else "plain",
        colour=_colour(flags, env, is_plain, stderr),
        glyphs=_glyphs(flags, env, is_plain, stderr),
        width=size[0],
        can_ask=terminal and not flags.no_input and not ci,
        out_colour=flags.output == "text" and _colour(flags, env, is_plain, stdout),
        out_width=size[0] if stdout.tty else None,
    )


def _colour(flags: Flags, env: Mapping[str, str], is_plain: bool, stream: Stream) -> bool:
    if is_plain or flags.no_color or env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return stream.tty and env.get("TERM") != "dumb"


def _glyphs(flags: Flags, env: Mapping[str, str], is_plain: bool, stream: Stream) -> Literal["unicode", "ascii"]:
    wanted = env.get("HARNESS_GLYPHS") or flags.glyphs
    if wanted in ("unicode", "ascii"):
        return "unicode" if wanted == "unicode" else "ascii"
    if is_plain or env.get("TERM") == "linux":
        return "ascii"
    return "unicode" if _can_write(stream.encoding) else "ascii"


def _can_write(encoding: str) -> bool:
    signs = "".join(str(getattr(UNICODE, name)) for name in UNICODE.__slots__)
    try:
        signs.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def current(flags: Flags) -> Mode:
    """The mode for this process, here and now."""
    out, err = _stream(sys.stdout), _stream(sys.stderr)
    return mode(flags, os.environ, foreground(), out, err, terminal_size())


def _stream(stream: TextIO | None) -> Stream:
    try:
        return Stream(bool(stream and stream.isatty()), (stream and stream.encoding) or "ascii")
    except ValueError:  # closed
        return Stream(False)


def foreground(path: str = "/dev/tty") -> bool:
    """True when the controlling terminal opens and we are in its foreground group, so that a read cannot stop us."""
    try:
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def terminal_size() -> tuple[int, int]:
    """Columns and lines of the terminal at stderr, else stdout, else stdin; 80 x 24 where there is none."""
    for descriptor in (2, 1, 0):
        try:
            columns, lines = os.get_terminal_size(descriptor)
        except (OSError, ValueError):
            continue
        if columns and lines:
            return columns, lines
    return 80, 24
