"""What an image is, by its first bytes: kind, width and height. Nothing is decoded."""

from __future__ import annotations

import hashlib
from typing import Any

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
MAX_SHOWN = 5 * 1024 * 1024
MAX_SIDE = 8_000
"""Pixels of a side: providers refuse larger images, and a whole request with them."""
_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""JPEG segments numbered like frames that are none."""


def media_of(raw: bytes, dropped: int, shows: bool) -> dict[str, Any] | None:
    """An image for a `tool.end`: {"kind", "width"?, "height"?, "bytes", "sha256"?, "shown"?}; None for what is none.

    `dropped` bytes of it were not taken; `shows` says whether the model that speaks takes images.
    """
    kind = "png" if raw.startswith(PNG) else "jpeg" if raw.startswith(JPEG) else None
    if kind is None:
        return None
    sides = _png_sides(raw) if kind == "png" else _jpeg_sides(raw)
    media: dict[str, Any] = {"kind": kind}
    if sides is not None:
        media |= {"width": sides[0], "height": sides[1]}
    media["bytes"] = len(raw) + dropped
    if not dropped:
        media["sha256"] = hashlib.sha256(raw).hexdigest()
    fits = sides is not None and min(sides) > 0 and max(sides) <= MAX_SIDE and len(raw) + dropped <= MAX_SHOWN
    return media | ({"shown": True} if shows and fits else {})


def _png_sides(raw: bytes) -> tuple[int, int] | None:
    if len(raw) < 24 or raw[12:16] != b"IHDR":
        return None
    return int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])


def _jpeg_sides(raw: bytes) -> tuple[int, int] | None:
    """From the first segment that begins a frame."""
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker == 0xFF:  # a byte that only fills
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return int.from_bytes(raw[at + 7 : at + 9]), int.from_bytes(raw[at + 5 : at + 7])
        else:
            at += 2 + int.from_bytes(raw[at + 2 : at + 4])
    return None
