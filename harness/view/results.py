"""What one operation's result says in a few words, and the lines a failure or an edit deserves. Decides nothing."""

from __future__ import annotations

import json
from typing import Any

from harness.view import Reader
from harness.view.rows import Row, Run, short
from harness.view.text import Glyphs, duration, one_line, plural, shown_argv, size, width

MOST = 1 << 20
"""Bytes of an output that are looked into; of a longer one only the size is told."""


def fetch(value: Any, run: str, read: Reader) -> str | None:
    """A text of an event, wherever its bytes lie; None when it is absent, too large to look into, or gone."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or "blob" not in value or value.get("bytes", 0) > MOST:
        return None
    try:
        return read(run, value["blob"]).decode("utf-8", "replace")
    except OSError:
        return None


def result_text(out: Any, run: str, read: Reader) -> str:
    """The JSON field `summary` if it is a text, else the number of lines, else the size. Escaped, one line."""
    text = fetch(out, run, read)
    if text is None:
        return size(out.get("bytes", 0)) if isinstance(out, dict) else ""
    if (summary := _summary(text)) is not None:
        return one_line(summary)
    if not text or "\x00" in text:
        return size(out["bytes"] if isinstance(out, dict) else len(text.encode("utf-8", "replace")))
    return plural(len(text.splitlines()), "line")


def _summary(text: str) -> str | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    summary = value.get("summary")
    return summary if isinstance(summary, str) else None


def detail(row: Row, run: Run, read: Reader, glyphs: Glyphs, narrow: bool = False) -> str:
    """The last field of a row: the result, or why there is none. Escaped, one line."""
    if row.said and row.state in ("waiting", "unknown"):
        return f"{row.said}; resume it"
    if row.stale:
        return "stale: a person said so"
    if row.state in ("ok", "fresh"):
        return _good(row, run, read, glyphs, narrow)
    if row.state == "failed":
        return one_line(_bad(row))
    if row.state in ("refused", "skipped"):
        code = row.code if row.state == "refused" else ""
        return one_line(" ".join(part for part in (code, "; ".join(row.reasons)) if part))
    if row.state == "waiting":
        if row.verb == "ask" and isinstance(row.question, str):
            return one_line(f"waits for your answer: {' '.join(row.question.split())}")
        return "waits for your answer" if row.verb in ("ask", "finish", "verify") else "waits for your approval"
    if row.state == "running":
        return f"try {row.attempt}" if row.attempt > 1 else "retries" if row.end.get("retry") else ""
    if row.state == "new":
        return one_line(f"{glyphs.source} {', '.join(row.needs)}") if row.needs else ""
    return row.state


def _good(row: Row, run: Run, read: Reader, glyphs: Glyphs, narrow: bool) -> str:
    if row.verb in ("ask", "finish"):
        return "answered" if row.verb == "ask" else "accepted"
    if row.end.get("changed"):
        words = edit_text(row, run, read, glyphs)[0]
        head, _, path = words.rpartition(" ")
        return f"{head} {path.rsplit('/', 1)[-1]}" if narrow else words
    if row.end.get("by") == "person":
        return one_line(f"supplied by a person: {result_text(row.end.get('out'), run.name, read)}")
    lost = row.end.get("dropped") or 0
    cut = f" (cut: {size(lost)} more were dropped)" if lost else ""
    return result_text(row.end.get("out"), run.name, read) + cut


def _bad(row: Row) -> str:
    if row.verb == "finish":
        return "not accepted: " + "; ".join(row.reasons)
    words = [row.end.get("stop") or row.code or "FAILED"]
    if row.end.get("exit") is not None:
        words.append(f"exit {row.end['exit']}")
    return " ".join(words)


def seconds(row: Row, now: float) -> str:
    """How long a row took, or has been running; nothing where nothing ran."""
    if row.state == "running" and row.started is not None:
        return duration(now - row.started)
    return duration(row.ms / 1000) if row.end or row.ms else ""


def tail(row: Row, run: Run, read: Reader) -> list[str]:
    """What a failure leaves to read: the last 10 lines of stderr and where the whole output is. Not escaped."""
    if row.state != "failed" or row.verb == "finish":
        return []
    said = "out" if row.verb == "verify" and row.end.get("exit") == 1 else "err"  # a rejection's reason is its output
    lines = (fetch(row.end.get(said), run.name, read) or "").rstrip("\n").split("\n")[-10:]
    whole = f"full: harness show {short(run.name)} --event {row.end_seq}"
    return [line for line in lines if line.strip()] + [whole]


def edit_text(row: Row, run: Run, read: Reader, glyphs: Glyphs) -> tuple[str, list[tuple[str, str]]]:
    """`+3 −1 path` for the files an operation changed, and at most 8 changed lines as (sign, text). Text escaped."""
    added, removed, lines = 0, 0, []
    for change in row.end["changed"]:
        pair = [fetch(change.get(side), run.name, read) for side in ("before", "after")]
        signs = _difference(pair[0] or "", pair[1] or "")
        added += sum(1 for sign, _ in signs if sign == "+")
        removed += sum(1 for sign, _ in signs if sign == "-")
        lines.extend(signs)
    paths = [str(change.get("path")) for change in row.end["changed"]]
    where = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    return one_line(f"+{added} {glyphs.minus}{removed} {where}"), [(sign, one_line(text)) for sign, text in lines[:8]]


def _difference(before: str, after: str) -> list[tuple[str, str]]:
    import difflib  # only where something was edited

    pieces = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [(line[0], line[1:]) for line in pieces if line[:3] not in ("---", "+++") and line[:2] != "@@"]


def last_path(argv: tuple[str, ...]) -> str | None:
    """The last path among the arguments, escaped: what is left of them on a narrow terminal."""
    for part in reversed(argv):
        value = part.partition("=")[2] if part.startswith("--") else part
        if "/" in value:
            return one_line(value)
    return None


def title(row: Row, room: int | None = None) -> str:
    """The arguments as shown beside the name, escaped. In `room` columns: the last path, or its name."""
    path = last_path(row.argv) if room is not None else None
    if path is None or room is None:
        return shown_argv(row.argv)
    return path if width(path) <= room else path.rsplit("/", 1)[-1]
