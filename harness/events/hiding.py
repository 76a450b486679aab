"""What of an event may hold a secret, masked before it becomes a line. What is looked for is passed in; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Hide = Callable[[bytes, set[str]], bytes]
"""Masks secrets in bytes, and adds the names of those that were in them; the same object where there are none."""

WORDS = frozenset(
    {"run", "kind", "verb", "verdict", "outcome", "stop", "class", "code", "what", "effect", "repeat", "level", "role"}
    | {"until", "op", "id", "child", "stage", "verifier", "tool", "skill", "name", "budget", "limit", "usage", "spent"}
    | {"blob", "digest", "digests", "result", "sha256", "body", "prefix", "parts", "mark", "boot", "confine"}
)
"""Words of the format itself, names of files that stay, figures and digests."""
FREE = frozenset({"inputs", "arguments", "content", "value"})
"""Values whose inner keys are nobody's but the person's and the model's."""
KEPT = WORDS | {"path", "cwd", "argv", "call", "calls", "inputs"}
"""What is left as it is: the format's own, paths, and the words of calls, which were masked when they were taken."""


def as_they_are(raw: bytes, found: set[str]) -> bytes:
    """Hides nothing."""
    return raw


def hidden(data: dict[str, Any], hide: Hide, found: set[str]) -> dict[str, Any]:
    """The data of an event with every secret masked; the same object where there is none."""
    texts: list[str] = []
    _gather(data, texts)
    whole = "\n".join(texts).encode("utf-8", "surrogatepass")
    if hide(whole, set()) is whole:
        return data
    return {key: value if key in KEPT else _masked(value, hide, found, key in FREE) for key, value in data.items()}


def masked(value: Any, hide: Hide, found: set[str]) -> Any:
    """A value of a person or a model, all of it: texts, names of keys, and numbers long enough to be a secret."""
    return _masked(value, hide, found, True)


def masked_text(text: str, hide: Hide, found: set[str]) -> str:
    """A text."""
    raw = text.encode("utf-8", "surrogatepass")
    made = hide(raw, found)
    return text if made is raw else made.decode("utf-8", "surrogatepass")


def _gather(value: Any, texts: list[str]) -> None:
    """All texts in a value, keys and numbers too. Every event passes here: a list is cheaper than a generator."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        texts += value
        for item in value.values():
            _gather(item, texts)
    elif isinstance(value, list | tuple):
        for item in value:
            _gather(item, texts)
    elif value is not None and not isinstance(value, bool):
        texts.append(str(value))


def _masked(value: Any, hide: Hide, found: set[str], free: bool) -> Any:
    if isinstance(value, str):
        return masked_text(value, hide, found)
    if isinstance(value, list | tuple):
        return [_masked(item, hide, found, free) for item in value]
    if isinstance(value, dict) and free:
        return {masked_text(key, hide, found): _masked(item, hide, found, True) for key, item in value.items()}
    if isinstance(value, dict):
        return {key: item if key in KEPT else _masked(item, hide, found, key in FREE) for key, item in value.items()}
    if not free or value is None or isinstance(value, bool):
        return value
    text = masked_text(str(value), hide, found)
    return value if text == str(value) else text
