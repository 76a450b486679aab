"""What is asked of an attempt and what came of it. Data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.sandbox import Limits


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt to make. `argv[0]` is an absolute path; `timeout` is seconds; `stdin` is all the tool can read.

    `digest` is that of what will run, for the record alone. `harmless`: it changes nothing, and may be done twice.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    op_id: str
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    digest: str | None = None
    harmless: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended.

    `exit` is None when nothing was started, or when a later process finds no note of the end; a death by signal n is
    `signal` n and `exit` 128 + n; of one that was not `started` it is the signal that kept it from that. `timed_out`
    and `cancelled` say that we ended it, whatever its exit then was. `out` and `err` are the first bytes of each, as
    many as the limits allow, `dropped` counts the bytes of both beyond that, `ms` is the time until the first process
    of the tool ended. `why` is one line on what the exit does not tell: why it was not started, or which limit it
    met.
    """

    exit: int | None
    signal: int | None
    timed_out: bool
    cancelled: bool
    out: bytes
    err: bytes
    dropped: int
    ms: int
    started: bool
    why: str | None


def not_started(why: str, cancelled: bool = False) -> Outcome:
    """The outcome of an attempt that came to nothing, in one line."""
    return Outcome(None, None, False, cancelled, b"", b"", 0, 0, False, why)


@dataclass(slots=True)
class Cancel:
    """A person's wish to stop. Level 1: start nothing more, let running ones end; 2: kill. Only ever raised.

    Setting `level` is all a signal handler has to do.
    """

    level: int = 0
