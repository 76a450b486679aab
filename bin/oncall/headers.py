"""One log line → its time, level, component and message, whatever program wrote it. Pure, and knows no one product.

Reads from the left what logs put before their message (times, levels, process numbers, brackets, component names) and
stops at the first thing that is none of these. JSON and key=value lines are read by their usual keys.
"""

from __future__ import annotations

import re

from oncall import clock

_LEVELS = {
    "trace": "debug", "verbose": "debug", "fine": "debug", "debug": "debug", "dbg": "debug",
    "info": "info", "information": "info", "notice": "info", "note": "info", "log": "info",
    "warn": "warn", "warning": "warn", "wrn": "warn",
    "error": "error", "err": "error", "severe": "error", "failure": "error",
    "fatal": "fatal", "critical": "fatal", "crit": "fatal", "alert": "fatal", "emerg": "fatal", "panic": "fatal",
}
_WORDS = "|".join(sorted(_LEVELS, key=len, reverse=True))
_UPPER = _WORDS.upper()
_LETTERS = {"V": "debug", "D": "debug", "I": "info", "W": "warn", "E": "error", "F": "fatal"}
_LEVEL = re.compile(
    rf"[\[<(](?:\w+:)?(?P<boxed>(?i:{_WORDS}))[\]>)]:?|(?P<upper>{_UPPER})(?=[\s:|\]]|$)(?::(?=[\w.]+:))?:?"
    rf"|(?P<aligned>(?i:{_WORDS}))(?=:|\s\s|\|):?")
_LEVEL_AHEAD = re.compile(rf"(?:\S*[\d.:\[\]$_]\S* +|[A-Z]{{2,}} +){{1,4}}(?P<upper>{_UPPER})(?=[\s:]) *")
_SPACE = re.compile(r"(?:[\s|,]|-+(?=\s|\|))+")
_BOX = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]:?|\((?:[\w.:-]+)\)(?=\s)")
_NUMBER = re.compile(r"#?\d+(?=[\s|:\]]):?")
_LETTER = re.compile(r"([VDIWEF])[ /](?=\S)")
_STREAM = re.compile(r"std(?:out|err) [FP] ")
_HOST = re.compile(r"\S+ +(?=[A-Za-z_/][\w./@()+-]*(?:\(\d+\))?(?:\[\d+\])?:(?:\s|$))")
_NAMED = re.compile(r"([A-Za-z_/][\w.$/@()+-]*)(?:\[[^\]]*\])?\s?:(?=\s|$)")
_GLUED = re.compile(r"([A-Za-z_][\w.]*):")
_DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[\w$]+)+)(?=\s)")
_DASHED = re.compile(r"([\w.$:/-]+) +-+ (?=\S)")
_ALIGNED = re.compile(r"([A-Za-z]\w*)\s{2,}(?=\S)")
_PIPED = re.compile(r"([\w.-]+)\|")
_PIPED_NUMBER = re.compile(r"\d+\|")
_SOURCE = re.compile(r"[\w./-]+\.\w+:\d+\]\s?")
_PRIORITY = re.compile(r"<\d{1,3}>(?:1 )?")
_SHORT = 160
_KEYS = (("message", "msg", "event", "error", "log", "text"), ("level", "severity", "lvl", "levelname", "log.level"),
         ("time", "ts", "timestamp", "@timestamp", "asctime", "t", "date"),
         ("logger", "component", "service", "module", "name"))
_PAIR = re.compile(r'(?:^|\s)(time|ts|level|lvl|severity|msg|message|err|error)=("(?:[^"\\]|\\.)*"|\S*)')

Parsed = tuple["float | None", "str | None", str, str]
"""Time in seconds or None, level (debug, info, warn, error, fatal) or None, component or "", message."""


def split(line: str) -> Parsed:
    """Take one line apart."""
    if line.startswith("{") and line.rstrip().endswith("}"):
        read = _json(line)
        if read:
            return read
    if "level=" in line or "lvl=" in line:
        read = _pairs(line)
        if read:
            return read
    return _plain(line)


def _plain(line: str) -> Parsed:
    time, level, component, at = None, None, "", 0
    priority = _PRIORITY.match(line)
    if priority:
        at = priority.end()
    jump = _first_time(line, at)
    if jump is not None:
        time, level, at = jump
    dated = time is not None
    while at < len(line):
        space = _SPACE.match(line, at) if dated or level else None
        at = space.end() if space else at
        again = _time_again(line, at) if dated and level is None and not component else None
        if again:
            time, at = (again[0] if clock.dated(again[0]) or not clock.dated(time) else time), again[1]
            continue
        found = _LEVEL.match(line, at) if level is None else None
        if found:
            level = _LEVELS[(found["boxed"] or found["upper"] or found["aligned"]).lower()]
            at = found.end()
            glued = _GLUED.match(line, at) if found.group().endswith(":") else None
            if glued:
                return time, level, glued[1], line[glued.end():].strip()
            continue
        if not dated and level is None:
            break
        step, level, component = _element(line, at, level, component)
        if step is None:
            break
        at = step
    message = line[at:].strip()
    return time, level, component, message or line.strip()


def _element(line: str, at: int, level: str | None, component: str) -> tuple[int | None, str | None, str]:
    """Consume one header element at `at`; (None, …) when the message starts here."""
    for pattern in (_BOX, _SOURCE, _PIPED_NUMBER, _STREAM, _NUMBER)[:3 if component else 5]:
        match = pattern.match(line, at)
        if match:
            return match.end(), level, component
    if component:
        return None, level, component
    letter = _LETTER.match(line, at) if level is None else None
    if letter:
        return letter.end(), _LETTERS[letter[1]], component
    ahead = _LEVEL_AHEAD.match(line, at) if level is None else None
    if ahead:
        return ahead.end(), _LEVELS[ahead["upper"].lower()], component
    for pattern in (_PIPED, _DASHED, _NAMED, *((_DOTTED, _ALIGNED) if level else (_HOST,))):
        match = pattern.match(line, at)
        if match:
            return match.end(), level, match[1] if match.re is not _HOST else component
    return None, level, component


def _first_time(line: str, at: int) -> tuple[float | None, str | None, int] | None:
    """The line's time and where the rest starts; text before the time is dropped only when it looks like a header."""
    match = clock.TIME.search(line, at, at + _SHORT)
    if not match:
        return None
    before = line[at:match.start()].strip("[(<-* ")
    boxed = match.start() > 0 and line[match.start() - 1] == "["
    words = before.split()
    if len(words) > 4 or (words and not boxed and any(word.isalpha() and not word.isupper() for word in words)):
        return None
    if words and match.lastgroup in ("hour", "date"):
        return None
    end = match.end() + (match.end() < len(line) and line[match.end()] in "])")
    level = _LETTERS[match.group()[0]] if match.lastgroup == "klog" else None
    return clock.seconds(match), level, end


def _time_again(line: str, at: int) -> tuple[float | None, int] | None:
    """A second, fuller time here or after one word, as in logs that write the epoch, a host and then the clock."""
    match = clock.TIME.match(line, at)
    if not match:
        space = line.find(" ", at, at + 32)
        match = clock.TIME.match(line, space + 1) if space > at else None
    if not match or match.lastgroup in ("unix", "hour"):
        return None
    return None if match.lastgroup == "date" else clock.seconds(match), match.end()


def _json(line: str) -> Parsed | None:
    import json

    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    message, level, time, component = (_first(data, keys) for keys in _KEYS)
    if message is None:
        return None
    return _moment(time), _level(level), str(component or ""), _text(message)


def _first(data: dict[str, object], keys: tuple[str, ...]) -> object:
    return next((data[key] for key in keys if data.get(key) not in (None, "")), None)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return " ".join(text.split())


def _moment(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value / 1000 if value > 9e11 else float(value)
    return clock.parse(value) if isinstance(value, str) else None


def _level(value: object) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        names = ((60, "fatal"), (50, "error"), (40, "warn"), (30, "info"))
        return next((name for least, name in names if value >= least), "debug")
    return _LEVELS.get(str(value).lower())


def _pairs(line: str) -> Parsed | None:
    found = {key: text.strip('"') for key, text in _PAIR.findall(line)}
    level = _level(found.get("level") or found.get("lvl") or found.get("severity"))
    message = found.get("msg") or found.get("message")
    if level is None or not message:
        return None
    cause = found.get("err") or found.get("error")
    time = _moment(found.get("time") or found.get("ts")) or clock.parse(line[:_SHORT])
    return time, level, "", f"{message}: {cause}" if cause else message
