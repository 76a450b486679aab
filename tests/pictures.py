"""Small images, made by hand."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 3, height: int = 2, more: bytes = b"") -> bytes:
    """A real PNG of one colour."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x7f\x00\x20" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", rows), *([chunk(b"tEXt", more)] if more else []), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg(width: int = 640, height: int = 480) -> bytes:
    """The segments of a JPEG up to its frame."""
    app = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
    table = b"\xff\xc4" + struct.pack(">H", 5) + b"abc"  # numbered like a frame, and none
    frame = b"\xff\xff\xc2" + struct.pack(">HBHH", 11, 8, height, width) + b"\x01\x01\x11\0"
    return b"\xff\xd8" + app + table + frame + b"\xff\xd9"
