"""One closed call as text: cleaned, cut, and framed so that nothing in it can pass for the harness or the person.

Nothing here knows what a result means for the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from harness.events.state import Operation

RESULT_LIMIT = 8 * 1024  # bytes of one result, frames included
TURN_LIMIT = 32 * 1024  # bytes of all results of one turn
ERR_LIMIT = 1024  # bytes of stderr told after a failure

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
# Invisible characters go too (zero width, direction, tags): they could split a word that is looked for below.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = re.compile(r"<(?=\s*/?\s*(?:data|task|project)\b)", re.IGNORECASE)
# What chat templates mark a speaker's turn with: a server that reads them in a text would give it another voice.
_ROLE = re.compile(
    r"<(?=[|｜][^\s|｜<>]{1,40}[|｜]>|/?(?:start|end)_of_turn>|/?s>|<\s*/?SYS>>)|\[(?=/?INST\])", re.IGNORECASE
)


def clean(text: str) -> str:
    """Without ANSI sequences and control characters; half pairs become U+FFFD. The number of lines stays."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", " ")
    return _SURROGATE.sub("�", _CONTROL.sub("", _ANSI.sub("", text)))


def neutral(text: str, mark: str) -> str:
    """Cleaned text that holds neither the run's mark nor anything that reads like a frame or a speaker's turn."""
    text = _TAG.sub("&lt;", _ROLE.sub(lambda found: "&lt;" if found[0] == "<" else "&#91;", clean(text)))
    return re.sub(re.escape(mark), "[mark]", text, flags=re.IGNORECASE) if mark else text


def line(text: str, mark: str) -> str:
    """Neutral text on one line: nothing in it begins a line of its own."""
    return " ".join(neutral(text, mark).splitlines())


def attribute(text: str, mark: str) -> str:
    """Text for a frame's header line: one line, no quote."""
    return neutral(text, mark).replace("\n", " ").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, limit: int, pointer: str) -> str:
    """At most `limit` bytes: two thirds head, one third tail, on line ends, and what is gone."""
    if len(text.encode()) <= limit:
        return text
    room = max(0, limit - len(f"\n[cut: characters {len(text)}-{len(text)} of {len(text)}; read {pointer}]\n"))
    head = _on_line_end(_first_bytes(text, room * 2 // 3))
    tail = _on_line_start(_last_bytes(text, room // 3))
    if head.endswith("\n") and text[len(text) - len(tail) - 1] == "\n":
        total = text.count("\n") + (not text.endswith("\n"))
        first, last = head.count("\n") + 1, total - tail.count("\n") - (not text.endswith("\n") and bool(tail))
        return f"{head}[cut: lines {first}-{last} of {total}; read {pointer}]\n{tail}"
    gone = f"characters {len(head) + 1}-{len(text) - len(tail)} of {len(text)}"
    return f"{head}\n[cut: {gone}; read {pointer}]\n{tail}"


def last(text: str, limit: int, pointer: str) -> str:
    """The end of a text, at most `limit` bytes, on a line start where that keeps enough."""
    if len(text.encode()) <= limit:
        return text
    return f"[cut: the end only; read {pointer}]\n{_on_line_start(_last_bytes(text, limit))}"


def _first_bytes(text: str, size: int) -> str:
    return text[:size].encode()[:size].decode(errors="ignore")


def _last_bytes(text: str, size: int) -> str:
    return text[len(text) - size :].encode()[-size:].decode(errors="ignore") if size else ""


def _on_line_end(head: str) -> str:
    """Back to the last line end, unless that loses more than half: then the line is too long to be whole."""
    end = head.rfind("\n") + 1
    return head[:end] if end * 2 >= len(head) else head


def _on_line_start(tail: str) -> str:
    start = tail.find("\n") + 1
    return tail[start:] if start > 0 and start * 2 <= len(tail) else tail


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an operation: its whole text, its bytes as produced, and the digest of these bytes if known."""

    text: str
    size: int
    sha: str | None

    @property
    def binary(self) -> bool:
        """True for what is no text: a NUL, or over a tenth of its beginning is undecodable or control."""
        start = self.text[:8192]
        if "\0" in start:
            return True
        bare = _ANSI.sub("", start)
        odd = bare.count("�") + len(_SURROGATE.findall(bare)) + len(re.findall("[\x01-\x08\x0e-\x1f]", bare))
        return odd * 10 > len(bare)

    def described(self) -> str:
        """What is said instead of binary bytes."""
        digest = self.sha or sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()
        return f"binary, {self.size} bytes, sha256 {digest}\n"


def output(value: object, blob: Callable[[object], str]) -> Output:
    """Read `out` or `err` of a `tool.end`: text, a blob reference, or nothing."""
    if isinstance(value, Mapping):
        sha = value.get("blob")
        size = value.get("bytes", value.get("redacted", 0))
        return Output("" if sha is None else blob(value), int(size), sha)
    text = value if isinstance(value, str) else ""
    return Output(text, len(text.encode("utf-8", "surrogatepass")), None)


def length(value: object) -> int:
    """Bytes of an `out` or `err` as it stands in a journal. No blob is read."""
    if isinstance(value, Mapping):
        return int(value.get("bytes", 0)) if "blob" in value else 0
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 0


def error_class(op: Operation) -> str:
    """The class a closed call ended with; `OK` for success."""
    if op.error is not None:
        return "INVALID_INPUT"
    if op.code is not None:
        return op.code
    if op.verb == "ask" and op.result is None:
        return "OK"  # a person's words closed it
    result = op.result or {}
    plain = "OK" if result.get("outcome") == "done" and not result.get("exit") else "FAILED"
    return str(result.get("class") or plain)


def header(attributes: Mapping[str, Any], mark: str) -> str:
    """The first line of a frame: the attributes that have a value."""
    given = (f'{key}="{attribute(str(value), mark)}"' for key, value in attributes.items() if value is not None)
    return f"<data {' '.join(given)}>"


def frame(attributes: Mapping[str, Any], body: str, mark: str) -> str:
    """Framed data. `body` is neutral and ends its own lines."""
    return f"{header(attributes, mark)}\n{body}{'' if not body or body.endswith(chr(10)) else chr(10)}</data>"
