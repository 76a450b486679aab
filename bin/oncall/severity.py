"""How bad a message is, from its level and from the words of failure in any log. Pure; general words only.

0 nothing, 1 a hint (a retry, a failure word at level info), 2 a warning, 3 a failure, 4 fatal. Words that are negated
("no error", "0 failed", "without errors") do not count, and an explicit level info or debug keeps words below 3.
"""

from __future__ import annotations

import re

NOTHING, HINT, WARNING, FAILURE, FATAL = range(5)
_NEGATED = re.compile(
    r"\b(?:no|non|zero|without|w/o|not an?|any|never)\s+(?:\w+\s+){0,2}?(?:errors?|failures?|failed|exceptions?|"
    r"faults?|warnings?|problems?|issues?|timeouts?|retries|loss|crash(?:es)?)\b"
    r"|(?<![\w.])0\s+(?:\w+\s+){0,2}?(?:errors?|failures?|failed|exceptions?|faults?|timeouts?|retries|lost|dropped)\b"
    r"|\b[\w.-]*(?:errors?|failures?|failed|faults?|exceptions?|err|lost|dropped|retries|timeouts?|denied)\s*[=:]\s*"
    r"[\"']?(?:0|none|null|nil|false|no|ok|-|\[\])(?![\w.])"
    r"|\b(?:error|failure|exception|fault)[-_ ](?:handl\w+|log\w*|rate|count\w*|reporting|tolerance|budget|page|"
    r"code 0)\b"
    r"|\b(?:corrected|recovered from|recover(?:ed)?)\b[^.;]{0,40}\b(?:errors?|failures?|faults?)\b"
    r"|\b(?:errors?|failures?|faults?)\b[^.;]{0,20}\b(?:corrected|recovered|resolved|cleared)\b", re.I)
_STRONG = re.compile(
    r"\bfatal|\bpanic|\bcrash|out ?of ?memory|\boom[- ]?kill|\boomkilled|\bkilled\b|exceptions?\b|\btraceback\b|"
    r"segfault|segmentation fault|core dumped|corrupt|\bdata loss\b|no space left|disk full|deadlock|\bcritical\b|"
    r"stack ?overflow|\bassert(?:ion)? ?fail|machine check|\bunrecoverable|\babort(?:ed|ing)?\b|\bsevered\b", re.I)
_MEDIUM = re.compile(
    r"\bfail(?:s|ed|ing|ure|ures)?\b|[a-z]error\b|\berrors?\b|refused|timed[- ]?out|\btimeouts?\b|time-out\b|"
    r"unreachable|unavailable|\bdenied\b|\blost\b|broken pipe|no route|not responding|"
    r"\breset by\b|\brejected\b|cannot\b|can't\b|unable to|could ?n[o']t\b|unauthori[sz]ed|forbidden|"
    r"\bdead\b|\bdown\b(?! ?to\b|load|stream|grade)|\bexpired\b|\boverflow|exhaust|\bexceeded\b|\bover limit|"
    r"\bbreak-?in\b|back-?off|(?:\" |\bstatus(?: code)?[=: ]+|\bhttp[ /=:])5\d\d(?=[ ,;]|$)", re.I)
_WEAK = re.compile(
    r"\bretry|\bretries|\bre-?connect|\bdisconnect|\bslow\b|\bmissing\b|not found|\binvalid\b|\bunknown\b|"
    r"\bskip(?:ped|ping)?\b|\bdelay(?:ed)?\b|\bstale\b|\bdropp(?:ed|ing)\b|\bwarning\b|\bdegraded\b|\bunexpected|"
    r"\bbad\b|\bdid not\b|\bdeprecated\b|\bno such\b|\bkill", re.I)
_ACCESS = re.compile(r'"(?:GET|POST|PUT|DELETE|HEAD|PATCH|OPTIONS) [^"]*"|https?://\S+')


def grade(level: str | None, message: str) -> int:
    """NOTHING to FATAL for one message."""
    words = vocabulary(message)
    if level == "fatal":
        return FATAL
    if level == "error":
        return FAILURE
    if level == "warn":
        return FAILURE if words >= 2 else WARNING
    if level in ("info", "debug"):
        return WARNING if words == 3 else HINT if words else NOTHING
    return FAILURE if words >= 2 else HINT if words else NOTHING


def weight(level: str | None, message: str) -> int:
    """How much one line counts among failures: what a program itself calls an error outweighs words of failure."""
    if level == "fatal":
        return 9
    if level == "error" or (level is None and vocabulary(message) == 3):
        return 3
    return 1


def vocabulary(message: str) -> int:
    """0 to 3: no, weak, medium or strong words of failure. Requested URLs are not words."""
    text = _NEGATED.sub(" ", _ACCESS.sub('"', message))
    return 3 if _STRONG.search(text) else 2 if _MEDIUM.search(text) else 1 if _WEAK.search(text) else 0
