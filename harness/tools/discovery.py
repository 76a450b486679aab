"""Finding the tools of a folder: names, links, modes. Reads the start of each file and runs nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import Finding, HarnessError
from harness.tools import Tool
from harness.tools.block import TAGS, read_block
from harness.tools.header import read_head, read_tool
from harness.tools.links import second_name

MAX_SEGMENTS = 4
RESERVED = ("read", "run", "ask", "finish")
_SEGMENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SKIPPED = ("~", ".bak", ".orig", ".swp")


@dataclass(frozen=True, slots=True)
class _File:
    """An entry that may be a tool. `shown` is its name in findings; `links` say what is odd about where it leads."""

    name: str
    path: Path
    shown: str
    links: tuple[Finding, ...] = ()


def read_bin(folder: Path, base: Path | None = None, script: bool = False) -> tuple[dict[str, Tool], list[Finding]]:
    """The tools below `folder` by name, and the findings that belong to no tool (a tool keeps its own).

    `base` is the project: findings name files relative to it, and links that leave it are reported. A folder that is
    not there holds no tools.
    """
    loose: list[Finding] = []
    files = sorted(_walk(folder, "", base, loose, (_real(folder),)), key=lambda file: file.name)
    twins = _twins([file.name for file in files])
    tools: dict[str, Tool] = {}
    for file in files:
        extra = [*file.links]
        if other := twins.get(file.name):
            extra.append(_confusable(file, other))
        if wrong := _name_finding(file):
            loose += [wrong, *extra]
            continue
        tool = read_tool(file.path, file.name, script=script, display=file.shown)
        tools[file.name] = replace(tool, findings=(*extra, *tool.findings)) if extra else tool
    return tools, sorted(loose, key=lambda finding: (finding.file, finding.line, finding.code))


def static_findings(tool: Tool) -> list[Finding]:
    """What a check adds to the findings a tool was read with. Looks for the interpreter, starts nothing."""
    try:
        block = read_block(read_head(tool.path), tool.file)
    except OSError:
        return []  # the tool says so itself
    found: list[Finding] = []
    if not block.binary and block.shebang is None:
        message = "the first line is not #!INTERPRETER, so it cannot be started"
        found.append(Finding("no-shebang", "error", tool.file, 1, message, "begin with #!/usr/bin/env INTERPRETER"))
    elif block.shebang is not None and not tool.pipeline and (why := _no_interpreter(block.shebang)):
        found.append(Finding("no-interpreter", "error", tool.file, 1, why, "correct the first line, or install it"))
    if not tool.header:
        message = "no header, so it takes any arguments, and each call asks"
        found.append(Finding("no-header", "note", tool.file, 1, message, "add # @describe and what it takes"))
    elif not tool.describe:
        message = "the header does not say what the tool does"
        found.append(Finding("no-describe", "warning", tool.file, 1, message, "add # @describe TEXT"))
    if tool.header and not tool.effect_declared and not tool.pipeline and tool.broken is None:
        message = "no effect is declared, so each call counts as external and asks"
        found.append(Finding("no-effect", "note", tool.file, 1, message, "add # @meta effect read, or what it does"))
    return found


def _no_interpreter(shebang: str) -> str | None:
    """Why the kernel could not start what the first line names, or None."""
    import shutil  # loads compression libraries; only checks need it

    words = shebang.split()
    if not words or not words[0].startswith("/"):
        return "the interpreter after #! is not an absolute path"
    if not os.access(words[0], os.X_OK):
        return f"{_text(words[0])} is not here"
    if words[0].rsplit("/", 1)[-1] != "env" or len(words) == 1:
        return None
    if len(words) > 2 and not words[1].startswith("-"):
        return "env is given all that follows as one word; write env -S"
    plain = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if plain and shutil.which(plain[0]) is None:
        return f"{_text(plain[0])} is not found on PATH"
    return None


def digest(path: Path) -> str:
    """SHA-256, in hex, of the bytes that `path` leads to. Raises HarnessError."""
    import hashlib  # loads a library; only needed where something is pinned or spawned

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HarnessError(f"cannot read it: {_why(error)}", "make the file readable", str(path)) from error


def folder_digest(path: Path, name: str) -> str:
    """The same over all files of a skill's `scripts/`, of which `path` is the tool called `name`."""
    import hashlib

    folder = path
    for _ in name.split("/"):
        folder = folder.parent
    found = hashlib.sha256()
    for one in sorted(folder.rglob("*")):
        if one.is_file() and "__pycache__" not in one.parts:
            found.update(f"{one.relative_to(folder)}\0{digest(one)}\n".encode())
    return found.hexdigest()


def digest_of(tool: Tool) -> str:
    """SHA-256 of what a call of the tool starts: its file, of a skill's script all of the skill's scripts.

    Empty where it cannot be read.
    """
    try:
        return folder_digest(tool.path, tool.name) if tool.script else digest(tool.path)
    except HarnessError:
        return ""


def _walk(
    folder: Path, prefix: str, base: Path | None, loose: list[Finding], above: tuple[str, ...]
) -> Iterator[_File]:
    """Regular files below `folder`; `above` are the real folders being walked, so that a link back is not followed."""
    for entry in _entries(folder, base, loose):
        if entry.startswith(".") or entry.endswith(_SKIPPED) or entry == "__pycache__":
            continue
        name, path = prefix + entry, folder / entry
        shown = _shown(path, base)
        try:
            status = path.stat()
        except OSError as error:
            loose.append(_not_there(path, shown, error))
            continue
        if stat.S_ISDIR(status.st_mode):
            real = _real(path)
            if real not in above and name.count("/") < MAX_SEGMENTS:
                yield from _walk(path, name + "/", base, loose, (*above, real))
        elif stat.S_ISREG(status.st_mode):
            links = tuple(_links(path, shown, base, status.st_nlink, above[0]))
            yield from _regular(_File(name, path, shown, links), status.st_mode, loose)


def _entries(folder: Path, base: Path | None, loose: list[Finding]) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        message = f"the folder cannot be read: {_why(error)}"
        loose.append(Finding("unreadable", "error", _shown(folder, base), 1, message, "make it readable"))
        return []


def _not_there(path: Path, shown: str, error: OSError) -> Finding:
    if path.is_symlink():
        message = f"the link leads nowhere: {_why(error)}"
        return Finding("broken-link", "warning", shown, 1, message, "correct or remove the link")
    return Finding("unreadable", "error", shown, 1, f"cannot be read: {_why(error)}", "make it readable")


def _regular(file: _File, mode: int, loose: list[Finding]) -> Iterator[_File]:
    if mode & 0o111:
        yield file
    elif _looks_like_tool(file):
        message = "has a header or a #! line, but is not executable, so it is no tool"
        loose.append(Finding("not-executable", "warning", file.shown, 1, message, f"chmod +x {file.shown}"))


def _looks_like_tool(file: _File) -> bool:
    try:
        block = read_block(read_head(file.path), file.shown)
    except OSError:
        return False
    tagged = any(text.lstrip(" \t").startswith(tuple(f"@{tag} " for tag in TAGS)) for _, text in block.lines)
    return block.shebang is not None or tagged


def _name_finding(file: _File) -> Finding | None:
    segments = file.name.split("/")
    fix = "rename it: lower-case letters, digits, . _ and -"
    if len(segments) > MAX_SEGMENTS:
        message = f"{_text(file.name)} lies more than {MAX_SEGMENTS} levels deep, so it is no tool"
        return Finding("bad-name", "error", file.shown, 1, message, "move it up")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment):
            return Finding("bad-name", "error", file.shown, 1, f"{_text(segment)} cannot be part of a tool's name", fix)
    if file.name in RESERVED:
        message = f"{file.name} is one of the harness's own verbs, so no tool can have that name"
        return Finding("reserved-name", "error", file.shown, 1, message, "rename it")
    return None


def _twins(names: list[str]) -> dict[str, str]:
    """Each name that reads like another one, with the first such other."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold().replace("_", "-"), []).append(name)
    return {
        name: next(other for other in group if other != name)
        for group in groups.values()
        if len(group) > 1
        for name in group
    }


def _confusable(file: _File, other: str) -> Finding:
    message = f"{_text(file.name)} reads like {_text(other)}"
    return Finding("confusable-name", "error", file.shown, 1, message, "rename one of them")


def _links(path: Path, shown: str, base: Path | None, names: int, root: str) -> Iterator[Finding]:
    """A warning if the file lies outside the project, however many links lead there; an error for a second name."""
    if base is None:
        return
    real, real_base = _real(path), _real(base)
    if not _inside(real, real_base):
        message = f"the link leads out of the project, to {_text(real)}"
        yield Finding("link-outside", "warning", shown, 1, message, "copy the file into the project")
    is_plain = path.is_relative_to(base) and real == os.path.join(real_base, path.relative_to(base))
    if (names > 1 or not is_plain) and (second := second_name(path, shown, names, root, real_base)):
        yield second


def _inside(path: str, base: str) -> bool:
    return path == base or path.startswith(base.rstrip("/") + "/")


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _shown(path: Path, base: Path | None) -> str:
    """The path for findings: relative to `base` where it lies below it."""
    if base is not None and path.is_relative_to(base):
        return _text(str(path.relative_to(base)))
    return _text(str(path))


def _text(name: str) -> str:
    """A file name as printable text: bytes that are no UTF-8, and control characters, escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name)


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
