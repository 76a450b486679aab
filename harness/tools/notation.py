"""What a notation (`<INT>`, `<DATE>`, …) accepts, its JSON Schema type, and how a value is shown. Values stay text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime

MAX_SHOWN = 80
BUDGET_KEYS = (
    "turns", "calls", "read", "write", "external", "destructive", "money_calls", "tokens", "usd", "seconds", "money",
    "strikes",
)  # fmt: skip
"""What a run may be limited in, in a skill and for a person."""
MOST_STRIKES = 6
"""So many turns without anything new stop a run; a limit only lowers it."""
MAX_DEPTH = 32
"""How deep JSON may nest in a call."""
_DURATION = re.compile(
    r"(?P<sign>-?)(?=[0-9])(?:(?P<bare>[0-9]{1,12})"
    r"|(?:(?P<w>[0-9]{1,12})w)?(?:(?P<d>[0-9]{1,12})d)?(?:(?P<h>[0-9]{1,12})h)?"
    r"(?:(?P<m>[0-9]{1,12})m(?!s))?(?:(?P<s>[0-9]{1,12})s)?(?:(?P<ms>[0-9]{1,12})ms)?)"
)
_SECONDS = {"bare": 1.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_INT = re.compile(r"-?[0-9]{1,19}")
_NUM = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}):([0-9]{2})(?:\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\x00-\x20\x7f]+")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s\x00-\x20\x7f/:@?#\[\]\\]+)(?::([0-9]{1,5}))?")
_EMAIL = re.compile(r"[^\s@\x00-\x20\x7f]+@[^\s@\x00-\x20\x7f]+")
_AMOUNT = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,4})?")
_FIGURE = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,12})?|\.[0-9]{1,12}")
_MONEY = re.compile(rf"({_AMOUNT.pattern}) ?([A-Z]{{3}})")


def parse_duration(text: str) -> float | None:
    """Seconds of `90`, `2h`, `1d12h`, `-5m` (units ms s m h d w, large to small), or None when it is no duration."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    total = sum(int(number) * _SECONDS[unit] for unit, number in found.groupdict().items() if unit != "sign" and number)
    return -total if found["sign"] else total


def parse_money(text: str) -> tuple[str, str] | None:
    """Amount and currency of `50.00 EUR` or `50.00EUR`, or None when it is neither."""
    found = _MONEY.fullmatch(text.strip(" "))
    return (found[1], found[2]) if found else None


def read_limit(key: str, value: str) -> str | None:
    """A limit of one of BUDGET_KEYS in its usual form, or None where the text is no limit above zero."""
    if key == "money":
        money = parse_money(value)
        return " ".join(money) if money is not None and float(money[0]) > 0 else None
    if key == "seconds" and (seconds := parse_duration(value)) is not None:
        value = f"{seconds:.3f}".rstrip("0").rstrip(".")
    if key in ("usd", "seconds"):
        return value if _FIGURE.fullmatch(value) and float(value) > 0 else None
    number = int(value) if re.fullmatch(r"[0-9]{1,18}", value) else 0
    return str(number) if number > 0 and (key != "strikes" or number <= MOST_STRIKES) else None


def json_depth(text: str) -> int:
    """How deep the brackets of a JSON text nest, those in its strings left out."""
    depth = deepest = 0
    in_string = escaped = False
    for letter in text:
        if escaped or letter == "\\":
            escaped = not escaped
        elif letter == '"':
            in_string = not in_string
        elif not in_string and letter in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not in_string and letter in "]}":
            depth -= 1
    return deepest


def is_number(text: str) -> bool:
    """A finite decimal number, with or without exponent."""
    return _NUM.fullmatch(text) is not None and math.isfinite(float(text))


def is_host(text: str) -> bool:
    """`h` or `h:port`."""
    found = _HOST.fullmatch(text)
    return found is not None and (found[1] is None or 0 < int(found[1]) < 65536)


def shown(text: str) -> str:
    """A word for a message: as it is, or quoted and escaped when it would not stand as one word; long ones are cut."""
    cut = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
    return cut if cut and cut.isprintable() and " " not in cut else repr(cut)


def _is_int(text: str) -> bool:
    return _INT.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    second = "59" if found[3] == "60" else found[3]  # a leap second is a time, but not to datetime
    try:
        datetime.fromisoformat(f"{found[1]}T{found[2]}:{second}{found[4].upper()}")
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(word: str) -> object:
    raise ValueError(word)


_ACCEPTED: dict[str, tuple[Callable[[str], bool], str]] = {
    "INT": (_is_int, "a whole number of at most 64 bits"),
    "NUM": (is_number, "a finite decimal number"),
    "DATE": (_is_date, "a date such as 2026-05-01"),
    "TIME": (_is_time, "a time such as 2026-05-01T12:00:00Z"),
    "DURATION": (lambda text: parse_duration(text) is not None, "a duration such as 90, 2h or 1d12h"),
    "PATH": (bool, "a path of a letter or more"),
    "FILE": (bool, "a path of a letter or more"),
    "DIR": (bool, "a path of a letter or more"),
    "URL": (lambda text: _URL.fullmatch(text) is not None, "an address with its scheme, https://host/path"),
    "HOST": (is_host, "a host or host:port"),
    "EMAIL": (lambda text: _EMAIL.fullmatch(text) is not None, "an address with one @"),
    "AMOUNT": (lambda text: _AMOUNT.fullmatch(text) is not None, "up to 12 digits, then at most . and 4 digits"),
    "JSON": (_is_json, "one JSON value"),
}
_SCHEMA = {
    "INT": {"type": "integer"},
    "NUM": {"type": "number"},
    "DATE": {"type": "string", "format": "date"},
    "TIME": {"type": "string", "format": "date-time"},
    "DURATION": {"type": "string", "format": "duration"},
    "URL": {"type": "string", "format": "uri"},
    "HOST": {"type": "string", "format": "hostname"},
    "EMAIL": {"type": "string", "format": "email"},
}


def expected(notation: str | None, text: str) -> str | None:
    """None when `text` is accepted, else what the notation wants. Unknown notations accept any text without NUL."""
    if "\0" in text:
        return "text without NUL"
    accepts, words = _ACCEPTED.get(notation or "", (None, ""))
    return None if accepts is None or accepts(text) else words


def typed(notation: str | None, text: str) -> object:
    """The value to compare, or to put into a schema: a number for INT and NUM, else the text. `text` is accepted."""
    if notation == "INT":
        return int(text)
    return float(text) if notation == "NUM" else text


def schema_type(notation: str | None) -> dict[str, object]:
    """The JSON Schema of one value: `{"type": …}`, with `format` where there is a standard one."""
    return dict(_SCHEMA.get(notation or "", {"type": "string"}))
