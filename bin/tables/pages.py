"""What the wiki says of tables: a paragraph that names one in backticks describes it. Follows no links."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from oncall.output import MISSING, stop

from tables.schema import Table

_TICKED = re.compile(r"`([^`\n]{1,200})`")
_MOST_PAGES, _MOST_BYTES, _MOST_WORDS = 2000, 1 << 20, 4000


def described(tables: Sequence[Table], wiki: str | None) -> list[Table]:
    """The tables with what the pages below `wiki` say of them, at most 4,000 characters each."""
    if not wiki:
        return list(tables)
    if not os.path.isdir(wiki):
        stop(MISSING, f"no such folder: {wiki}", "name a folder of Markdown pages with --wiki")
    said: dict[str, list[str]] = defaultdict(list)
    names = {name for table in tables for name in (table.name.lower(), table.path.lower())}
    for paragraph in _paragraphs(wiki):
        for name in {found.lower() for found in _TICKED.findall(paragraph)} & names:
            said[name].append(paragraph)
    return [table.described(_joined(said, table)) for table in tables]


def _joined(said: dict[str, list[str]], table: Table) -> str:
    found = [*said.get(table.path.lower(), ()), *said.get(table.name.lower(), ())]
    return " ".join(dict.fromkeys(" ".join(text.split()) for text in found))[:_MOST_WORDS]


def _paragraphs(wiki: str) -> Iterator[str]:
    for path in _pages(wiki):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from re.split(r"\n\s*\n|\n(?=[-*] )", file.read(_MOST_BYTES))


def _pages(wiki: str) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(wiki):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (os.path.join(folder, name) for name in sorted(files) if name.endswith(".md"))
        found += [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
        if len(found) >= _MOST_PAGES:
            break
    return found[:_MOST_PAGES]
