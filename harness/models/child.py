"""A process that is asked in JSON lines over its standard input and output, and ends when the former does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from harness.events.io import IO
from harness.models.decoding import decoded

POLL = 0.05
PATIENCE = 180.0
"""Seconds without a word before a child counts as dead."""
LEAVING = 2.0
"""Seconds that a child which closed its output has to end."""
MOST = 1 << 20
"""Bytes of one answer."""
QUIET = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Read when the library is loaded. Without them its threads wait by turning, and busy cores starve it."""
PASSED = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Gone(Exception):
    """The child ended, or said nothing for too long. `final`: it said itself that another one would not do better."""

    def __init__(self, why: str, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


class Child:
    """A started process and our ends of its pipes. `first` is its first order, which it answers once."""

    def __init__(self, command: tuple[str, ...], first: Mapping[str, Any]) -> None:
        theirs_in, self._in = os.pipe()
        self._out, theirs_out = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        env = {name: os.environ[name] for name in PASSED if name in os.environ} | QUIET
        try:
            self._process = IO().spawn(command, Path("/"), env, theirs_in, theirs_out, self._errors.fileno())
        except OSError:
            os.close(self._in)
            os.close(self._out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._numbers, self._rest, self._is_ready = count(1), b"", False
        self._send(first)

    @property
    def pid(self) -> int:
        """The process, for whoever wants to see it end."""
        return int(self._process.pid)

    def ask(self, order: Mapping[str, Any], stops: Callable[[], bool]) -> dict[str, Any] | None:
        """The answer to an order, or `{"error"}`; None when `stops`, which is asked again and again, says so.

        Raises Gone.
        """
        if not self._is_ready:
            first = self._line(stops)
            if first is None:
                return None
            if not first.get("ready"):
                raise Gone(str(first.get("error") or "it did not say that it is ready"), final=True)
            self._is_ready = True
        number = next(self._numbers)
        self._send({"id": number, **order})
        while (said := self._line(stops)) is not None:
            if said.get("id") == number:
                return said
        return None

    def kill(self) -> None:
        """End the process; whoever waits for its answer hears so at once."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        """End it and give our ends of its pipes back. Not while another thread asks it."""
        self.kill()
        for fd in (self._in, self._out):
            os.close(fd)
        self._errors.close()

    def _send(self, value: Mapping[str, Any]) -> None:
        rest = memoryview(json.dumps(value).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._in, rest) :]
        except BrokenPipeError:
            pass  # the next answer that does not come says why

    def _line(self, stops: Callable[[], bool]) -> dict[str, Any] | None:
        until = time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            if stops():
                return None
            if time.monotonic() > until:
                raise Gone(f"it said nothing for {PATIENCE:g} s")
            if select.select([self._out], [], [], POLL)[0]:
                self._take(os.read(self._out, 1 << 16))
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            value = decoded(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Gone("it said something that is no JSON object")
        return value

    def _take(self, data: bytes) -> None:
        if not data:
            raise Gone(self._why())
        self._rest += data
        if len(self._rest) > MOST:
            raise Gone(f"its answer is over {MOST >> 20} MiB")

    def _why(self) -> str:
        """How it ended, with the last line it wrote on standard error."""
        try:
            code = self._process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        how = f"exit {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4096))
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"{how}: {lines[-1]}" if lines else how
