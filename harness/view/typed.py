"""Commands as a person types them: on a narrow terminal in several lines, which a shell reads as one."""

from __future__ import annotations

import re

from harness.view.text import width, wrap

GOES_ON = " \\"
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
"""A word with its quotes: a line may not end inside them."""


def continued(command: str, columns: int, start: str = "") -> list[str]:
    """The command behind `start`, escaped before, in lines of at most `columns` where its words allow it."""
    lines = [start]
    for word in _WORD.findall(command):
        gap = "" if lines[-1].endswith(" ") or not lines[-1] else " "
        if lines[-1].strip() and width(lines[-1] + gap + word + GOES_ON) > columns and lines[-1] != start:
            lines[-1] += GOES_ON
            lines.append("    ")
            gap = ""
        lines[-1] += gap + word
    return lines


def labelled(label: str, text: str, columns: int | None) -> list[str]:
    """`label: text`, escaped before; broken between words, or as a command where it is one. None breaks nothing."""
    start = f"  {label}: "
    if columns is None or width(start + text) <= columns:
        return [start + text]
    is_command = text.startswith("harness ") and not {",", ";"} & set(text)
    return continued(text, columns, start) if is_command else wrap(f"{label}: {text}", columns, "  ")
