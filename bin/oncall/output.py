"""How the on-call tools answer: one JSON object on stdout, or one clear line on stderr and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

MISSING, UNAVAILABLE, BAD_DATA = 66, 69, 65


def emit(result: dict[str, object]) -> None:
    """Print one object: a key a line, a list item a line, so that people and line-wise readers can follow it."""
    import json
    import os

    result = {"summary": result.get("summary"), "tool": os.path.basename(sys.argv[0])} | result

    def dump(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    parts = []
    for key, value in result.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(dump(item) for item in value)
            parts.append(f"{dump(key)}: [\n  {items}]")
        else:
            parts.append(f"{dump(key)}: {dump(value)}")
    write("{" + ",\n ".join(parts) + "}\n")


def write(text: str) -> None:
    """UTF-8 on stdout whatever the locale; bytes that are no text were replaced on reading."""
    data = text.encode("utf-8", "replace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()


def stop(code: int, message: str, fix: str = "") -> NoReturn:
    """End with one line on stderr: the tool, what is wrong, where, and what to do."""
    import os

    line = f"{os.path.basename(sys.argv[0])}: {message}" + (f"; fix: {fix}" if fix else "")
    print(line, file=sys.stderr)
    sys.exit(code)


def clip(text: str, width: int) -> str:
    """At most `width` characters on one line, control characters replaced."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= width else flat[: width - 1].rstrip() + "…"


def plural(count: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
