"""Times as logs write them, turned into seconds. Not a calendar: no zone but an explicit offset is known.

A moment is seconds since 1970 as a float. A time without a year counts from 1972, one without a date from 1970-01-01:
good for order and distance within one log, and `dated` says whether it can be compared with another source.
"""

from __future__ import annotations

import re

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MON = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"(?P<{0}h>\d\d?(?=:)|\d\d):?(?P<{0}m>\d\d?(?=:)|\d\d):?(?P<{0}s>\d\d?(?=:)|\d\d)(?P<{0}f>[.,:]\d+)?"
_ISO = (r"(?P<isoY>\d{4})[-/.](?P<isoM>\d\d)[-/.](?P<isoD>\d\d)[ T_-](?P<isoh>\d\d)[:.](?P<isom>\d\d)[:.]"
        r"(?P<isos>\d\d)(?P<isof>[.,]\d+)?(?P<isoz> ?(?:Z|[+-]\d\d:?\d\d)\b)?")
_CAL = (rf"\b(?:[A-Z][a-z]{{2}},? )?(?P<calM>{_MON}) +(?P<calD>\d\d?),? "
        r"(?P<calh>\d\d):(?P<calm>\d\d):(?P<cals>\d\d)(?P<calf>[.,]\d+)?(?: (?P<calY>(?:19|20)\d\d)\b)?")
_WEB = (rf"(?P<webD>\d\d)/(?P<webM>{_MON})/(?P<webY>\d{{4}}):(?P<webh>\d\d):(?P<webm>\d\d):(?P<webs>\d\d)"
        r"(?P<webz> [+-]\d{4})?")
_FORMS = (
    ("iso", _ISO),
    ("day", r"(?P<dayY>\d{4})(?P<dayM>\d\d)(?P<dayD>\d\d)[ T-]" + _CLOCK.format("day")),
    ("cal", _CAL),
    ("web", _WEB),
    ("two", r"(?P<twoY>\d\d)/?(?P<twoM>\d\d)/?(?P<twoD>\d\d) " + _CLOCK.format("two")),
    ("mon", r"(?P<monM>\d\d)[-.](?P<monD>\d\d) " + _CLOCK.format("mon")),
    ("klog", r"[IWEF](?P<klogM>\d\d)(?P<klogD>\d\d) " + _CLOCK.format("klog")),
    ("unix", r"(?P<unixn>1\d{9}(?:\d{3})?(?:\.\d+)?)(?=[\s,\]|]|$)"),
    ("date", r"(?P<dateY>\d{4})[-/.](?P<dateM>\d\d)[-/.](?P<dateD>\d\d)(?=[\s,\]|]|$)"),
    ("hour", r"(?P<hourh>\d\d):(?P<hourm>\d\d):(?P<hours>\d\d)(?P<hourf>[.,]\d+)?"),
)
TIME = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS))


_YEARLESS = 63072000
"""1972-01-01, from where times without a year count."""


def days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar."""
    year -= month <= 2
    era, of_month = year // 400, (month + 9) % 12
    of_era = year - era * 400
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * of_month + 2) // 5 + day - 1 - 719468


def seconds(match: re.Match[str]) -> float | None:
    """The moment a TIME match names, None when it is no possible time."""
    form = match.lastgroup or ""
    if form == "unix":
        number = float(match["unixn"])
        return number / 1000 if number > 9e11 else number
    part = {key[len(form):]: text for key, text in match.groupdict().items() if text and key.startswith(form)}
    year = int(part["Y"]) if "Y" in part else (1972 if "M" in part else 1970)
    month_text = part.get("M", "1")
    month = int(month_text) if month_text.isdigit() else MONTHS.index(month_text.lower()) + 1
    day, hour, minute = int(part.get("D", 1)), int(part.get("h", 0)), int(part.get("m", 0))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    whole = days(year + (2000 if year < 100 else 0), month, day) * 86400 + hour * 3600 + minute * 60
    return whole + int(part.get("s", 0)) + _fraction(part.get("f")) - _offset(part.get("z"))


def _fraction(text: str | None) -> float:
    return float("0." + text[1:]) if text else 0.0


def _offset(text: str | None) -> int:
    digits = (text or "").strip().replace(":", "")
    if len(digits) != 5:
        return 0
    return (1 if digits[0] == "+" else -1) * (int(digits[1:3]) * 3600 + int(digits[3:]) * 60)


def parse(text: str) -> float | None:
    """The first time in a text, such as an RFC 3339 stamp."""
    match = TIME.search(text)
    return seconds(match) if match else None


def dated(moment: float | None) -> bool:
    """Whether the moment has a year of its own."""
    return moment is not None and moment > 126230400


def show(moment: float | None, date: bool = False) -> str:
    """`HH:MM:SS` in UTC, with as much of the date as is known before it on request; empty for None."""
    if moment is None:
        return ""
    import time

    known = "%Y-%m-%d " if dated(moment) else "%m-%d " if moment >= _YEARLESS else ""
    form = (known if date else "") + "%H:%M:%S"
    return time.strftime(form, time.gmtime(moment))


def span(text: str) -> float:
    """Seconds of a duration such as `90`, `2h` or `1d12h`; ValueError when it is none."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(text)
    return sum(float(number) * units[unit or "s"] for number, unit in parts)
