"""The first plain paragraph of a Markdown body, for a skill that does not describe itself. Not a Markdown parser."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INDENTED = re.compile(r" {4}| {0,3}\t")
_LIST = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_OTHER = re.compile(r" {0,3}(?:#{1,6}(?:[ \t]|$)|>|\||</?[A-Za-z][\w-]*(?:[\s/>]|$)|<[!?]|\[[^\]]+\]:[ \t])")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
MAX_IMAGES = 4096
_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
_LINKED = re.compile(r"\[[ \t]*\](?:\([^)]*\)|\[[^\]]*\])")


def first_paragraph(body: str) -> str:
    """Its text on one line, or nothing when there is no heading-free, list-free, code-free paragraph at all."""
    for block in _blocks(body):
        if not _is_other(block):
            return " ".join(" ".join(block).split())
    return ""


def _blocks(body: str) -> list[list[str]]:
    """Groups of lines between blank ones; fenced code and comments left out, and what is indented below a list."""
    blocks: list[list[str]] = [[]]
    close, in_list = "", False
    for line in body.split("\n"):
        if close:
            if _closes(line, close):
                close = ""
            continue
        close = _opens(line)
        if close or not line.strip():
            blocks.append([])
        elif not blocks[-1] and in_list and line[0] in " \t":
            continue
        else:
            in_list = bool(_LIST.match(line)) or (in_list and bool(blocks[-1]))
            _append(blocks, line)
    return [block for block in blocks if block]


def _append(blocks: list[list[str]], line: str) -> None:
    """A heading, an underline and the start of a list end the paragraph they stand in."""
    if _is_heading(line):
        blocks += [[line], []]
    elif blocks[-1] and _UNDERLINE.match(line):
        blocks[-1].append(line)
        blocks.append([])
    elif blocks[-1] and _LIST.match(line):
        blocks.append([line])
    else:
        blocks[-1].append(line)


def _opens(line: str) -> str:
    fence = _FENCE.match(line)
    if fence:
        return fence[1]
    text = line.lstrip()
    return "-->" if text.startswith("<!--") and "-->" not in text else ""


def _closes(line: str, close: str) -> bool:
    if close == "-->":
        return close in line
    text = line.strip()
    return text.startswith(close) and not text.strip(close[0])


def _is_heading(line: str) -> bool:
    return bool(re.match(r" {0,3}#{1,6}(?:[ \t]|$)", line))


def _is_other(block: list[str]) -> bool:
    first = block[0]
    if _INDENTED.match(first) or _LIST.match(first) or _RULE.match(first) or _OTHER.match(first):
        return True
    if len(block) > 1 and (_UNDERLINE.match(block[-1]) or _is_table(first, block[1])):
        return True
    text = " ".join(block)
    return len(text) < MAX_IMAGES and not _LINKED.sub("", _IMAGE.sub("", text)).strip()


def _is_table(head: str, line: str) -> bool:
    return "|" in head and "-" in line and set(line) <= set("|:- \t")
