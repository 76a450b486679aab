"""Printing for commands that look: tables, findings, JSON. stdout carries the answer, stderr what is said about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from harness.cli.options import Globals
from harness.errors import Finding, HarnessError
from harness.view.mode import Flags, current
from harness.view.text import columns, escape, left_out, wrap


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=True, default=str))


def say(said: Globals, text: str) -> None:
    """A line about the answer, on stderr; not with -q."""
    if not said.quiet:
        print(escape(text), file=sys.stderr)


def flags(said: Globals) -> Flags:
    """The global options as the view takes them."""
    output, glyphs = cast(Any, said.output or "text"), cast(Any, said.glyphs)
    return Flags(said.plain, said.quiet, said.no_color, said.no_input, output, glyphs)


def confirmed(said: Globals, question: str, flag: str, look: str = ", or look first: -n", code: int = 5) -> bool:
    """Ask before our own files are touched. Raises HarnessError (exit `code`) where nobody can be asked."""
    if not current(flags(said)).can_ask:
        raise HarnessError(f"{question} There is nobody to ask", f"say {flag}{look}", code=code)
    from harness.view.ask import ask_own

    return ask_own(question)


def print_table(said: Globals, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns: fitted to a terminal, uncut in a pipe."""
    mode = current(flags(said))
    for line in columns(rows, mode.out_width, header, ellipsis="…" if mode.glyphs == "unicode" else "..."):
        print(line)
    if gone := left_out(rows, mode.out_width, header):
        told = f"too narrow for {', '.join(gone)}: a pipe or --json shows all"
        for line in wrap(told, mode.out_width or len(told)):
            say(said, line)


def print_paths(said: Globals, paths: Sequence[Path]) -> None:
    """Files that were written, as seen from here."""
    shown = [os.path.relpath(path) for path in paths]
    if said.json:
        print_json({"paths": shown})
    else:
        print("\n".join(escape(path) for path in shown))


def print_findings(said: Globals, findings: Iterable[Finding], checked: str, strict: bool) -> int:
    """The findings by file, line and code; 1 if one of them is an error, with `strict` also a warning."""
    found = sorted(findings, key=lambda one: (one.file, one.line, one.code))
    if said.json:
        print_json([asdict(one) for one in found])
    else:
        for one in found:
            print(escape(one.text()))
    bad = ("refused", "error", "warning") if strict else ("refused", "error")
    failed = sum(one.severity in bad for one in found)
    say(said, f"checked {checked}: {failed or 'no'} {'error' if failed == 1 else 'errors'}")
    return 1 if failed else 0
