"""The forms in which the value of a secret may show: as it is, escaped, encoded. Pure; it looks for nothing."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from harness.secrets.unseen import seen

SHORTEST = 8
"""Bytes of the shortest form that is looked for."""
_URL_SAFE = ("", "/", "!'()*", ";,/?:@&=+$!'()*#")
"""What encoders of URLs leave as it is, beside letters, digits and `_.-~`."""
_FOR_URLS = bytes.maketrans(b"+/", b"-_")


def forms(value: str) -> frozenset[bytes]:
    """Every form of a value, each at least SHORTEST bytes: raw, JSON, URL, HTML, base64 at each alignment, hex."""
    found: set[bytes] = set()
    cleaned = seen(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    for text in {value, value.strip(), cleaned}:
        raw = text.encode("utf-8", "surrogatepass")
        found.update(form.encode("utf-8", "surrogatepass") for form in (text, *_escaped(text), *_for_urls(text)))
        found.update((*_base64(raw), raw.hex().encode(), raw.hex().upper().encode()))
    return frozenset(form for form in found if len(form) >= SHORTEST)


def _escaped(text: str) -> Iterator[str]:
    """As JSON writes it, with the letters of any language or without, and as HTML and Python do."""
    for ascii_only in (True, False):
        quoted = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield quoted
        yield quoted.replace("/", "\\/")
        yield quoted.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    yield html.escape(text)
    yield html.escape(text, quote=False)
    yield repr(text)[1:-1]


def _for_urls(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "surrogatepass")
    found = [quote(raw, safe=safe) for safe in _URL_SAFE] + [quote_plus(raw), "".join(f"%{byte:02X}" for byte in raw)]
    for form in found:
        yield form
        yield _small_digits(form)


def _small_digits(form: str) -> str:
    """The same with hexadecimal digits in small letters: `%2f`."""
    first, *rest = form.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _base64(raw: bytes) -> Iterator[bytes]:
    """The letters that the value alone decides, wherever in a longer text it begins; and the whole of it alone."""
    yield from _both(b64encode(raw))
    for before in range(3):
        letters = b64encode(b"\0" * before + raw)
        yield from _both(letters[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])


def _both(letters: bytes) -> tuple[bytes, bytes]:
    return letters, letters.translate(_FOR_URLS)
