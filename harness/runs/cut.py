"""What of an event goes when a person has something taken out of a run, and what stays. It reads blobs only."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.events.hiding import FREE, WORDS
from harness.events.line import to_json, told, tombstone
from harness.events.scan import blob_bytes

VALUES: dict[str, tuple[str, ...]] = {
    "run.start": ("goal", "inputs", "project"), "user.say": ("text",), "note": ("text",),
    "model.reply": ("content", "calls"), "model.fail": ("message", "content"), "decide": ("argv", "reasons", "call"),
    "tool.end": ("out", "err", "changed", "artifacts", "why", "made"), "verify": ("answer", "question"),
    "amend": ("value",), "park": ("hint",), "run.end": ("answer", "error"), "context": ("dropped",),
}  # fmt: skip
"""The values of each kind of event that `--seq` takes out."""

CHUNK = 1 << 20
MIN_NUMBER = 4
"""Digits from which on a number is taken for what a text names."""


Meant = Callable[[Any, bool], bool]


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall go, one of three: a blob by its SHA-256 or the beginning of it, the values of an event, a text."""

    blob: str | None = None
    seq: int | None = None
    text: str | None = None

    @property
    def target(self) -> str:
        """What was named, as the journal may say it: never the text."""
        return f"blob {self.blob}" if self.blob else f"event {self.seq}" if self.seq is not None else "text"


@dataclass(slots=True)
class Cut:
    """One event on its way: where values are put aside, and what they held. `folder` is the run's."""

    wish: Wish
    folder: Path
    held: list[bytes] = field(default_factory=list)

    def data(self, event: dict[str, Any]) -> dict[str, Any]:
        """The data of an event without what shall go: the same object where nothing of it does."""
        data: dict[str, Any] = event["data"]
        if self.wish.seq is None:
            is_meant = meant(self.wish, self.folder)
            return {key: self._kept(key, value, is_meant, False) for key, value in data.items()}
        names = VALUES.get(event["kind"], ()) if event["seq"] == self.wish.seq else ()
        every = _is_value
        return {key: self._kept(key, value, every, False) if key in names else value for key, value in data.items()}

    def _kept(self, key: str, value: Any, is_meant: Meant, free: bool) -> Any:
        """What is below a key. The smallest part that holds what is meant becomes a tombstone."""
        if key in WORDS and not free:
            return value
        return self._without(value, is_meant, free or key in FREE)

    def _without(self, value: Any, is_meant: Meant, free: bool) -> Any:
        if _is_tombstone(value):
            return value
        if is_blob(value) or not isinstance(value, list | dict):
            return self._buried(value) if is_meant(value, free) else value
        if isinstance(value, list):
            return [self._without(item, is_meant, free) for item in value]
        if free and any(is_meant(key, False) for key in value) and is_meant is not _is_value:
            return self._buried(value)
        return {key: self._kept(key, item, is_meant, free) for key, item in value.items()}

    def _buried(self, value: Any) -> dict[str, int]:
        if is_blob(value):
            self.held.append(blob_bytes(self.folder, value["blob"]))
            return tombstone(value["bytes"])
        raw = (value if isinstance(value, str) else to_json(value)).encode()
        self.held.append(raw)
        return tombstone(len(raw))


def _is_value(value: Any, free: bool) -> bool:
    """Whether there is anything in it that could be taken out."""
    return value not in ("", None) and not isinstance(value, bool)


def meant(wish: Wish, folder: Path) -> Meant:
    """Whether a single value holds what shall go; a number only where it is the person's or the model's (`free`)."""
    if wish.text is None:
        return lambda value, free: is_blob(value) and value["blob"] == wish.blob
    words, text = spellings(wish.text), wish.text
    needles = needles_of(text)

    def holds(value: Any, free: bool) -> bool:
        if is_blob(value):
            return holds_bytes(folder / "blobs" / value["blob"], needles)
        if isinstance(value, str):
            return holds_any(value, words)
        return free and len(text) >= MIN_NUMBER and not isinstance(value, bool) and to_json(value) == text

    return holds


def spellings(text: str) -> list[str]:
    """A text as it may be written: with its accents in one piece or in two, and inside JSON."""
    forms = {text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}
    quoted = {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (True, False)}
    return sorted(forms | quoted)


def holds_any(value: str, words: Sequence[str]) -> bool:
    return any(word in value for word in words)


def needles_of(text: str) -> list[bytes]:
    """The same as bytes."""
    return [word.encode("utf-8", "surrogateescape") for word in spellings(text)]


def is_blob(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 2 and isinstance(value.get("blob"), str) and "bytes" in value


def _is_tombstone(value: Any) -> bool:
    return isinstance(value, dict) and told(value) != value and isinstance(told(value), str)


def holds_bytes(path: Path, needles: list[bytes]) -> bool:
    """Whether a file holds one of the needles. One that cannot be read may."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return False
    overlap = max(map(len, needles)) - 1
    try:
        with path.open("rb") as file:
            before = b""
            while piece := file.read(CHUNK):
                if any(needle in before + piece for needle in needles):
                    return True
                before = piece[-overlap:] if overlap else b""
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
