"""Text for terminals: escaping, display widths, columns, glyphs, colour. Never asks a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import is_seen

Span = tuple[str, str]
"""A piece of a line and its style: one of STYLES, or "" for none."""
Line = tuple[Span, ...]

STYLES = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "dim": "2", "bold": "1"}


def escape(text: str) -> str:
    """`text` made harmless for a terminal and honest to the eye; newline and tab stay.

    Control characters become `\\x1b`, what is invisible, reorders or is unassigned becomes `\\u202e`.
    """
    if text.isprintable() and text.isascii():
        return text
    return "".join(char if _plain(char) else _shown(char) for char in text)


def _plain(char: str) -> bool:
    return char in "\n\t" or is_seen(char)


def _shown(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON for a terminal: what `escape` would show is written as `\\u` escapes, the rest as it is."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return "".join(char if _plain(char) else _json_escaped(char) for char in text)


def _json_escaped(char: str) -> str:
    pair = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))


def one_line(text: str) -> str:
    """Escaped, and on one line: newlines and tabs are shown as `\\n` and `\\t`."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_argv(argv: Iterable[str]) -> str:
    """An argument list as a person would type it, on one line, escaped."""
    import shlex

    return " ".join(one_line(shlex.quote(part)) for part in argv)


def width(text: str) -> int:
    """Terminal columns of escaped text on one line."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(char: str) -> int:
    if char == "\ufe0f":  # asks for the wide form of the character before it
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int, ellipsis: str = "…") -> str:
    """`text` in at most `columns` columns; what does not fit is replaced by the ellipsis."""
    if width(text) <= columns:
        return text
    room = columns - width(ellipsis)
    if room < 0:
        return ellipsis[: max(0, columns)]
    return _head(text, room) + ellipsis


def _head(text: str, columns: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:at]
    return text


def pad(text: str, columns: int) -> str:
    """`text` filled with blanks to `columns` columns."""
    return text + " " * max(0, columns - width(text))


def wrap(text: str, columns: int, indent: str = "") -> list[str]:
    """Escaped text broken between words (a word that is too long, inside it); own line breaks are kept."""
    lines: list[str] = []
    for paragraph in text.replace("\t", "    ").split("\n"):
        lines.extend(indent + line for line in _fold(paragraph, max(1, columns - width(indent))))
    return lines


def _fold(paragraph: str, columns: int) -> list[str]:
    lines: list[str] = []
    line: str | None = None  # blanks at the start are words too, and stay
    for word in paragraph.split(" "):
        joined = word if line is None else f"{line} {word}"
        if width(joined) <= columns:
            line = joined
            continue
        if line and line.strip():
            lines.append(line)
        while width(word) > columns:
            head = _head(word, columns) or word[0]
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line or ""]


def columns(
    rows: Sequence[Sequence[str]],
    width_: int | None,
    header: Sequence[str] | None = None,
    gap: int = 2,
    ellipsis: str = "…",
) -> list[str]:
    """Cells as aligned lines. With a width, columns are dropped from the right until the rest fits and the last is cut.

    Without a width (a pipe) nothing is dropped or cut. Cells are escaped here.
    """
    table = [[one_line(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    if not table:
        return []
    sizes = [max(width(row[at]) for row in table if at < len(row)) for at in range(max(map(len, table)))]
    shown = len(sizes) if width_ is None else _fitting(sizes, width_, gap)
    lines = []
    for row in table:
        cells = [pad(cell, size) for cell, size in zip(row[:shown], sizes[:shown], strict=False)]
        line = (" " * gap).join(cells).rstrip()
        lines.append(line if width_ is None else cut(line, width_, ellipsis))
    return lines


def left_out(rows: Sequence[Sequence[str]], width_: int | None, header: Sequence[str], gap: int = 2) -> list[str]:
    """The names of the columns that `columns` drops at this width."""
    sizes = [max(width(one_line(row[at])) for row in (header, *rows) if at < len(row)) for at in range(len(header))]
    return [] if width_ is None else list(header[_fitting(sizes, width_, gap) :])


def _fitting(sizes: list[int], limit: int, gap: int, least: int = 12) -> int:
    """How many columns to show: all whose start leaves room for themselves or for `least` columns of text."""
    used, shown = 0, 0
    for size in sizes:
        if shown and used + min(size, least) > limit:
            break
        shown, used = shown + 1, used + size + gap
    return shown


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Marks of the states, and the few other signs that are not ASCII."""

    ok: str
    failed: str
    waiting: str
    running: str
    new: str
    refused: str
    fresh: str
    source: str
    cut: str
    minus: str
    dot: str
    spinner: str

    def mark(self, state: str) -> str:
        """The mark of a row's state."""
        same = {"stopped": "failed", "unknown": "waiting", "skipped": "refused"}
        return str(getattr(self, same.get(state, state)))


UNICODE = Glyphs("✓", "✗", "?", "●", "·", "⊘", "↷", "←", "…", "−", "·", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
ASCII = Glyphs("+", "x", "?", "*", ".", "!", "~", "<-", "...", "-", "-", "-\\|/")

STATE_STYLE = {
    "ok": "green", "fresh": "green", "failed": "red", "refused": "red", "stopped": "red",
    "waiting": "yellow", "unknown": "yellow", "running": "cyan", "new": "dim", "skipped": "dim",
}  # fmt: skip


def glyphs(name: str) -> Glyphs:
    """The set called `unicode` or `ascii`."""
    return UNICODE if name == "unicode" else ASCII


def painter(colour: bool) -> Callable[[str, str], str]:
    """`(text, style) -> text` with ANSI colour, or without."""
    if not colour:
        return lambda text, style: text
    return lambda text, style: f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text else text


def ansi(line: Line, colour: bool) -> str:
    """A line's spans as one string."""
    paint = painter(colour)
    return "".join(paint(text, style) for text, style in line).rstrip()


def plain(line: Line) -> str:
    """A line's text without its styles."""
    return "".join(text for text, _ in line).rstrip()


def fit(line: Line, limit: int, ellipsis: str = "…") -> Line:
    """The line cut to `limit` columns, styles kept."""
    if sum(width(text) for text, _ in line) <= limit:
        return line
    kept: list[Span] = []
    left = limit
    for text, style in line:
        if width(text) >= left:
            kept.append((cut(text + " ", left, ellipsis), style))
            break
        kept.append((text, style))
        left -= width(text)
    return tuple(kept)


def trim(line: Line) -> Line:
    """The line without blanks at its end."""
    while line and not line[-1][0].rstrip():
        line = line[:-1]
    return (*line[:-1], (line[-1][0].rstrip(), line[-1][1])) if line else ()


def duration(seconds: float) -> str:
    """`0.4s`, `14s`, `3m 05s`, `2h 07m`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def money(nanos: int, unpriced: int = 0, unmetered: int = 0) -> str:
    """Nano-dollars as text; replies of no known price, and those of an agent that drives, are counted, never zero."""
    more = "".join(f" + {n} {what}" for n, what in ((unpriced, "unpriced"), (unmetered, "not metered")) if n)
    if more and not nanos:
        return "unknown" if unpriced else "not metered"
    return dollars(nanos) + more


def dollars(nanos: int) -> str:
    """A known amount: two decimals, more where these would show nothing."""
    if 0 < nanos < 100_000:
        return "<$0.0001"
    amount = nanos / 1e9
    return f"${amount:.4f}".rstrip("0") if 0 < nanos < 10_000_000 else f"${amount:.2f}"


def count(number: int) -> str:
    """`950`, `18k`, `1.2M`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"


def size(number: int) -> str:
    """Bytes as `0 B`, `812 B`, `4.1 kB`, `2.0 MB`."""
    if number < 1000:
        return f"{number} B"
    return f"{number / 1000:.1f} kB" if number < 999_950 else f"{number / 1e6:.1f} MB"


def plural(number: int, word: str) -> str:
    """`1 line`, `3 lines`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
