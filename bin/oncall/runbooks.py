"""Markdown runbooks → their sections, ranked, each with its first command."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from oncall.output import MISSING, clip, emit, plural, stop

MOST_BYTES = 1 << 20
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{2,}")
_FENCE = re.compile(r"\s*(?:```|~~~)")


def run(options: argparse.Namespace) -> None:
    """Look up, and print one object."""
    sections = [section for path in _paths(options) for section in _sections(path)]
    wanted = set(_words(options.query)) | (set() if options.service == "all" else {options.service.lower()})
    for section in sections:
        section["score"] = _score(section, wanted)
    found = [section for section in sections if section["score"] or not wanted]
    found.sort(key=lambda section: (-section["score"], section["path"], section["line"]))
    shown = found[:max(1, min(options.limit, 50))]
    emit({
        "summary": f"{plural(len(found), 'runbook section')}" if found else "no runbook fits",
        "looked": bool(sections), "sections": len(found),
        "evidence": [{"id": f"E{n}", "source": f"{one['path']}#L{one['line']}-L{one['end']}",
                      "text": clip(f"{one['title']}: {one['text']}", 300)} for n, one in enumerate(shown, 1)],
        "runbooks": [{"evidence": f"E{n}", "title": one["title"], "command": one["command"]}
                     for n, one in enumerate(shown, 1)],
    })


def _paths(options: argparse.Namespace) -> list[str]:
    folders = [os.path.join(options.wiki, "runbooks")]
    if options.source:
        if not os.path.isdir(options.source):
            stop(MISSING, f"no such folder: {options.source}", "name a folder that holds runbooks/, logs/ and the like")
        folders.insert(0, os.path.join(options.source, "runbooks"))
    return [os.path.join(folder, name) for folder in folders if os.path.isdir(folder)
            for name in sorted(os.listdir(folder)) if name.endswith(".md") and name != "index.md"]


def _sections(path: str) -> list[dict[str, Any]]:
    """The sections of one page: a heading with the lines up to the next; front matter is no section."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            lines = stream.read(MOST_BYTES).splitlines()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    fenced, page = False, ""
    for number, line in enumerate(lines, 1):
        fence = bool(_FENCE.match(line))
        if line.startswith("#") and not fenced:
            title = line.lstrip("# ").strip()
            page = page or title
            found.append({"path": path, "line": number, "end": number, "text": "", "command": "",
                          "title": title if title == page else f"{page} / {title}"})
        elif found and line.strip():
            found[-1]["end"] = number
            if fenced and not fence:
                found[-1]["command"] = found[-1]["command"] or line.strip().removeprefix("$ ")
            elif not fence:
                found[-1]["text"] = f"{found[-1]['text']} {line.strip()}".strip()
        fenced = fenced != fence
    return [section for section in found if section["text"] or section["command"]]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _score(section: dict[str, Any], wanted: set[str]) -> int:
    title = set(_words(section["title"]))
    body = set(_words(section["text"] + " " + section["command"]))
    return 3 * len(wanted & title) + len(wanted & body)
