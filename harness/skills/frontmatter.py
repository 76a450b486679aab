"""From the bytes of a `SKILL.md` to its front matter, its body and what is odd about them. Knows no field's meaning.

What can be mended is mended and said; what cannot is refused, with the line in the file on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.documents import Document, Node, YamlBomb, YamlError, read_yaml, walk
from harness.errors import Finding, Severity

MAX_FILE = 1 << 20
MAX_FRONT = 64 << 10
OUR_KEYS = ("tool-dependencies", "requires", "verify", "budget", "model", "pipeline", "agents-md", "inputs")

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_KEY = re.compile(r"([^\W\d][\w.-]*):(?:[ \t]+(.*))?$")
_NOT_MENDED = ("metadata", "allowed-tools")


@dataclass(slots=True)
class FrontMatter:
    """A file as read: `root` is the mapping (None when refused), `text` its YAML from line `line` of the file on.

    `body` has no CR and begins at line `body_line`; `marks` are the two marker lines as written, without line end.
    """

    root: Node | None = None
    text: str = ""
    line: int = 1
    body: str = ""
    body_line: int = 1
    marks: tuple[str, str] = ("", "")
    findings: list[Finding] = field(default_factory=list)


class _Refused(Exception):
    def __init__(self, code: str, line: int, message: str, fix: str) -> None:
        self.code, self.line, self.message, self.fix = code, line, message, fix


def read_front_matter(data: bytes, file: str) -> FrontMatter:
    """Read a whole file (at most MAX_FILE + 1 bytes are needed to refuse a larger one). Never raises."""
    front = FrontMatter()
    try:
        lines = _lines(front, data, file)
        _split(front, lines, file)
        _parse(front, file)
    except _Refused as refusal:
        front.root = None
        front.findings.append(Finding(refusal.code, "refused", file, refusal.line, refusal.message, refusal.fix))
    return front


def _add(front: FrontMatter, file: str, severity: Severity, code: str, line: int, message: str, fix: str) -> None:
    front.findings.append(Finding(code, severity, file, line, message, fix))


def _lines(front: FrontMatter, data: bytes, file: str) -> list[str]:
    if len(data) > MAX_FILE:
        raise _Refused("too-big", 1, "the file is over 1 MiB", "move what is rarely needed to references/")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
        _add(front, file, "warning", "bom", 1, "the file starts with a byte order mark", "save it as UTF-8 without one")
    text = _decoded(data)
    nul = text.find("\0")
    if nul >= 0:
        raise _Refused("control-character", text.count("\n", 0, nul) + 1, "holds a NUL", "remove it")
    if not text.isascii():
        _check_hidden(front, text, file)
    if not text.strip():
        raise _Refused("empty", 1, "nothing is in the file", "write front matter and a body, or delete the folder")
    return text.split("\n")


def _decoded(data: bytes) -> str:
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} in line {line} is not UTF-8"
        raise _Refused("not-utf8", line, found, "save the file as UTF-8") from error


def _check_hidden(front: FrontMatter, text: str, file: str) -> None:
    found = _HIDDEN.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        message = f"holds U+{ord(found[0]):04X}, which hides or reorders what a reader sees"
        _add(front, file, "warning", "hidden-text", line, message, "remove it")


def _split(front: FrontMatter, lines: list[str], file: str) -> None:
    start = _opening(lines)
    if start > 0:
        message = f"the front matter begins in line {start + 1}, after other text"
        _add(front, file, "warning", "text-before", 1, message, "make --- the first line")
    end = next((at for at in range(start + 1, len(lines)) if lines[at].startswith("---")), None)
    if end is None:
        message = f"the front matter opened in line {start + 1} is never closed"
        raise _Refused("not-closed", start + 1, message, "put a line --- after it")
    front.line, front.text = start + 2, "\n".join(lines[start + 1 : end]) + "\n"
    front.marks = (lines[start], lines[end])
    glued = lines[end].lstrip("-").strip(" \t")
    if lines[end].rstrip(" \t") != "---":
        message = f"the front matter is closed by {lines[end][:20]!r} instead of ---"
        _add(front, file, "warning", "closing-marker", end + 1, message, "make that line exactly ---")
    rest = [glued, *lines[end + 1 :]] if glued else lines[end + 1 :]
    front.body, front.body_line = "\n".join(rest), end + (1 if glued else 2)
    if len(front.text.encode()) > MAX_FRONT:
        raise _Refused("too-big", start + 1, "the front matter is over 64 KiB", "move its text to the body")
    _check_control(front.text, front.line)
    if not front.body.strip():
        _add(front, file, "warning", "empty-body", end + 1, "nothing follows the front matter", "write a body")


def _opening(lines: list[str]) -> int:
    """The index of the line `---`, after nothing but blank lines and HTML comments."""
    message = "does not begin with front matter"
    refusal = _Refused("no-frontmatter", 1, message, "begin with ---, a name, a description, ---")
    comment = False
    for at, line in enumerate(lines):
        if not comment and line.rstrip(" \t") == "---":
            return at
        rest = line
        while rest.strip():
            if not comment and not rest.lstrip().startswith("<!--"):
                raise refusal
            _, closed, after = rest.partition("-->")
            rest, comment = (after, False) if closed else ("", True)
    raise refusal


def _check_control(text: str, line: int) -> None:
    found = _CONTROL.search(text)
    if found:
        at = line + text.count("\n", 0, found.start())
        message = f"the front matter holds the control character U+{ord(found[0]):04X}"
        raise _Refused("control-character", at, message, "remove it")


def _parse(front: FrontMatter, file: str) -> None:
    document = _document(front, file)
    root = document.root
    if root is None or not isinstance(root.value, dict):
        message = "the front matter is no mapping of keys to values"
        raise _Refused("not-a-mapping", front.line - 1, message, "write it as lines of `key: value`")
    if "\\" in front.text:
        _check_escapes(front, root, file)
    if document.aliases:
        message = "uses YAML aliases, which other clients may not read"
        _add(front, file, "warning", "yaml-alias", min(document.aliases), message, "write the value out")
    for key, line, ours in _duplicates(root):
        severity: Severity = "error" if ours else "warning"
        _add(front, file, severity, "duplicate-key", line, f"{key} is given twice; the last holds", "keep one of them")
    front.root = root


def _document(front: FrontMatter, file: str) -> Document:
    try:
        try:
            return read_yaml(front.text, front.line)
        except YamlBomb:
            raise
        except YamlError as error:
            return _mended(front, file, error)
    except YamlBomb as bomb:
        raise _Refused("yaml-bomb", bomb.line, f"the front matter is {_bomb(bomb)}", "write it flat") from bomb


def _bomb(bomb: YamlBomb) -> str:
    return bomb.message if bomb.message.startswith("nested") else f"a bomb: {bomb.message}"


def _mended(front: FrontMatter, file: str, error: YamlError) -> Document:
    """The same text with mended lines; raises YamlBomb, or refuses with the first error when mending does not help."""
    tabs: list[int] = []
    quoted: list[tuple[int, str]] = []
    lines = []
    for line, text in enumerate(front.text.split("\n"), front.line):
        lines.append(_quoted(_untabbed(text, line, tabs), line, quoted))
    if not tabs and not quoted:
        raise _unreadable(front, error)
    mended = "\n".join(lines)
    try:
        document = read_yaml(mended, front.line)
    except YamlBomb:
        raise
    except YamlError:
        raise _unreadable(front, error) from error
    front.text = mended
    if tabs:
        _add(front, file, "warning", "tab-indent", tabs[0], "is indented with tabs", "indent with blanks")
    for line, key in quoted:
        message = f"the value of {key} is no YAML unless it is quoted"
        _add(front, file, "warning", "unquoted-value", line, message, "put it in single quotes, or after >-")
    return document


def _untabbed(text: str, line: int, tabs: list[int]) -> str:
    rest = text.lstrip(" \t")
    indent = text[: len(text) - len(rest)]
    if "\t" not in indent or not rest:
        return text
    tabs.append(line)
    return indent.expandtabs(8) + rest


def _quoted(text: str, line: int, quoted: list[tuple[int, str]]) -> str:
    found = _KEY.match(text)
    if not found or not found[2] or found[1] in _NOT_MENDED or found[2][0] in "|>'\"":
        return text
    value = found[2].rstrip(" \t")
    try:
        root = read_yaml(value).root
        if root is None or not isinstance(root.value, dict) or root.flow:
            return text
    except YamlBomb:
        raise
    except YamlError:
        pass
    quoted.append((line, found[1]))
    return f"{found[1]}: '" + value.replace("'", "''") + "'"


def _unreadable(front: FrontMatter, error: YamlError) -> _Refused:
    if not any(_KEY.match(line.replace('"', "")) for line in front.text.split("\n")):
        message = "what stands between the --- lines is no front matter"
        return _Refused("no-frontmatter", 1, message, "begin with ---, a name, a description, ---")
    message = f"line {error.line}, column {error.column}: {error.message}"
    return _Refused("yaml-error", error.line, message, "correct it; a value with `: ` or `#` needs quotes")


def _check_escapes(front: FrontMatter, root: Node, file: str) -> None:
    """What a quoted value spells with backslashes is held to the rules of what is written plainly."""
    for node in walk(root):
        for text in _texts(node):
            found = _CONTROL.search(text)
            if found:
                message = f"a value holds the control character U+{ord(found[0]):04X}"
                raise _Refused("control-character", node.line, message, "remove it")
            hidden = _HIDDEN.search(text)
            if hidden and not any(finding.code == "hidden-text" for finding in front.findings):
                message = f"a value holds U+{ord(hidden[0]):04X}, which hides or reorders what a reader sees"
                _add(front, file, "warning", "hidden-text", node.line, message, "remove it")


def _texts(node: Node) -> list[str]:
    if isinstance(node.value, str):
        return [node.value]
    return list(node.value) if isinstance(node.value, dict) else []


def _duplicates(root: Node) -> Iterator[tuple[str, int, bool]]:
    """Keys given twice, with their line, and whether they are, or lie in, what we act on."""
    assert isinstance(root.value, dict)
    metadata = root.value.get("metadata")
    ours = [node for key, node in root.value.items() if key == "allowed-tools"]
    for key, line in root.duplicates:
        yield key, line, key in ("allowed-tools", "metadata")
    if metadata and isinstance(metadata.value, dict):
        ours += [node for key, node in metadata.value.items() if key in OUR_KEYS]
        for key, line in metadata.duplicates:
            yield key, line, key in OUR_KEYS
    deep = {id(node) for top in ours for node in walk(top)}
    for node in walk(root):
        if node is not root and node is not metadata:
            for key, line in node.duplicates:
                yield key, line, id(node) in deep
