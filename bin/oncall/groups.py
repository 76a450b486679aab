"""Records → groups of one template and severity, weighed, with where and when they occur. Pure but for its input.

A group keeps counts and a few samples, never its records, so the size of the answer does not depend on the log's.
"""

from __future__ import annotations

import re
from collections import Counter

from oncall import severity, templates
from oncall.records import Record

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_ENDPOINT = re.compile(rf"\b([A-Za-z][\w-]*(?:\.[\w-]+)*|{_IP})(?:/{_IP})?:([1-9]\d{{1,4}})\b")
_CONNECTS = re.compile(
    r"connect|contact|refused|unreachable|no route|timed? ?-?out|reset by|not responding|retry", re.I)
_MOST_WORDS = 60


class Group:
    """Lines of one template and severity. Times are seconds or None; `shape` shows what the lines have in common."""

    def __init__(self, record: Record, grade: int, message: str) -> None:
        self.grade, self.level, self.component = grade, record.level, record.component
        self.message, self.shape = message, message.split(None, _MOST_WORDS)
        self.weight = severity.weight(record.level, message)
        self.count = 0
        self.path, self.first, self.first_end, self.last = record.path, record.first, record.last, record.last
        self.last_path = record.path
        self.start = self.end = record.time
        self.minutes: Counter[int] = Counter()
        self.endpoints: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()

    def add(self, record: Record, message: str) -> None:
        """Count one more record of this group."""
        self.count += 1
        self.paths[record.path] += 1
        self.last, self.last_path = record.last, record.path
        if record.time is not None:
            self.start = record.time if self.start is None else min(self.start, record.time)
            self.end = record.time if self.end is None else max(self.end, record.time)
            self.minutes[int(record.time // 60)] += 1
        if self.count > 1 and self.shape:
            self._common(message.split(None, _MOST_WORDS))
        if self.grade >= severity.HINT and _CONNECTS.search(message):
            self.endpoints.update(f"{host}:{port}" for host, port in set(_ENDPOINT.findall(message)))

    def _common(self, words: list[str]) -> None:
        if len(words) == len(self.shape):
            self.shape = [old if old == new else _shared(old, new) for old, new in zip(self.shape, words, strict=True)]

    @property
    def score(self) -> float:
        return self.weight * self.count

    @property
    def endpoint(self) -> str:
        """The one address that most of its lines name, or an empty text."""
        if not self.endpoints:
            return ""
        name, count = min(self.endpoints.items(), key=lambda item: (-item[1], item[0]))
        return name if count * 2 > self.count else ""

    @property
    def peak(self) -> int:
        return max(self.minutes.values(), default=0)

    @property
    def onset(self) -> float | None:
        """When it began in earnest: the first minute with at least a quarter of its peak rate."""
        if not self.minutes:
            return None
        minute = min(when for when, count in self.minutes.items() if count * 4 >= self.peak)
        return max(float(minute * 60), self.start or 0.0)

    @property
    def text(self) -> str:
        text = " ".join(self.shape)
        return re.sub(r"<\*>(?: <\*>)+", "<*>", text)


def build(found: list[Record]) -> list[Group]:
    """All groups, the most telling first: grade, then weight, then place."""
    messages = [said(record) for record in found]
    keys = templates.assign(messages)
    grades: dict[tuple[str | None, str], int] = {}
    groups: dict[tuple[templates.Words, int], Group] = {}
    for record, message, key in zip(found, messages, keys, strict=True):
        graded = (record.level, message)
        grade = grades.get(graded)
        if grade is None:
            grade = grades[graded] = severity.grade(record.level, message)
        group = groups.get((key, grade))
        if group is None:
            group = groups[key, grade] = Group(record, grade, message)
        group.add(record, message)
    return sorted(groups.values(), key=order)


def order(group: Group) -> tuple[int, float, int, str, int]:
    """Failures by weight, then the rest by grade; ties by place."""
    failing = group.grade >= severity.FAILURE
    return (-failing, -group.score if failing else 0, -group.grade, group.path, group.first) if failing else (
        0, -group.grade * 1e9 - group.count, 0, group.path, group.first)


def _shared(old: str, new: str) -> str:
    """What two words have in common: their masked form when it is the same."""
    masked = templates.mask(old)
    return masked if masked == templates.mask(new) else templates.ANY


def said(record: Record) -> str:
    """The record's message; of a stack trace also the exception it ends with."""
    if not record.more:
        return record.message
    if record.message.startswith("Traceback"):
        return next((line for line in reversed(record.more) if line and not line.startswith("File ")), record.message)
    cause = next((line for line in record.more if re.match(r"(?:Caused by: )?[\w.$]*(?:Exception|Error)\b", line)), "")
    return f"{record.message} {cause}" if cause else record.message
