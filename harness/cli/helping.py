"""Help pages on a narrow terminal: lines break between words, and what an option means stands below it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from harness.cli.options import Manual, exit_codes
from harness.view.text import wrap
from harness.view.typed import continued

NARROW, LEAST = 60, 20


def fit(command: Any, ctx: Any) -> None:
    """Let a page be written for the terminal that is there, if it is narrow."""
    columns = shutil.get_terminal_size().columns
    if columns >= NARROW:
        return
    ctx.terminal_width = max(columns, LEAST)
    manual = getattr(command, "manual", None)
    epilog = (command.epilog or "").removeprefix("\b\n")
    command.epilog = narrow_epilog(manual, ctx.terminal_width - 2) if manual else epilog


def definitions(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """A list of names and what they are: beside each other, or below where that is too narrow."""
    if formatter.width >= NARROW - 2:
        formatter.write_dl(rows)
        return
    for name, text in rows:
        lines = [*wrap(name, formatter.width, "  "), *wrap(text or "", formatter.width, "      ")]
        formatter.write("".join(f"{line}\n" for line in lines if line.strip()))


def narrow_epilog(manual: Manual, columns: int) -> str:
    """Examples and exit codes in lines of so many columns; the page indents them."""
    codes, lines = exit_codes(), ["\b", "Examples:"]
    for example in manual.examples:
        lines += continued(example, columns, "  ")
    lines += ["", "\b", "Exit codes:"]
    for text in (*(f"{code}: {codes[code]}" for code in manual.codes), *manual.notes):
        first, *rest = wrap(text, columns - 4)
        lines += [f"  {first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines)
