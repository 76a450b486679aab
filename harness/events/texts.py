"""The words of a reply among what its provider sent, whatever the dialect. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def texts_of(content: Any) -> Iterator[str]:
    """The texts among a provider's blocks, whatever its dialect."""
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            yield block
        elif isinstance(block, Mapping):
            text = block.get("text") if block.get("type", "text") == "text" else None
            yield text if isinstance(text, str) else str(block["content"]) if _is_message(block) else ""


def _is_message(block: Mapping[str, Any]) -> bool:
    return isinstance(block.get("content"), str) and "type" not in block
