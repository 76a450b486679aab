"""Batches in logs: which lines belong to one, which other ones there are, and which of these went well.

A batch is whatever an id names: a job, a task, a block, a request. Ids of the same shape (letters and separators equal,
numbers any) are batches of the same kind. A line of a part is a line of the whole: what names `attempt_1445_0020_m_1_0`
speaks of the task `task_1445_0020_m_1` and of the job `job_1445_0020`, too.
"""

from __future__ import annotations

import os
import re

from oncall import clock, groups, records, severity, templates
from oncall.output import MISSING, clip, emit, plural, stop
from oncall.records import Record

KINDS = {
    "memory": r"out ?of ?memory|\boom|heap space|cannot allocate|memory (?:limit|exhausted)|beyond .{0,20}memory",
    "disk": r"no space left|disk (?:is )?full|quota exceeded|read-only file system|input/output error|disk error",
    "network": r"no route|unreachable|connection (?:was )?(?:refused|reset|lost|timed out)|retrying connect|"
               r"unknown host|address change|failed to renew lease|in contacting|broken pipe|could not connect",
    "permission": r"permission denied|access (?:is )?denied|unauthori[sz]ed|forbidden|credential|login fail",
    "missing": r"no such file|file ?not ?found|does not exist|is missing\b|no such (?:table|key|object)",
    "data": r"malformed|corrupt|checksum|pars(?:e|ing) (?:error|fail)|invalid (?:record|value|format|date)",
    "timeout": r"timed? ?-?out|deadline exceeded|took too long",
    "killed": r"\bkilled\b|preempt|evicted|sigkill|sigterm|aborted by",
    "exception": r"exception|traceback|assert|segfault|core dumped|\bpanic",
}
"""Kinds of failures and the words that tell them, the more telling kind first."""
_KINDS = {name: re.compile(words, re.I) for name, words in KINDS.items()}
_ID = re.compile(r"[A-Za-z0-9][\w.-]*\d[\w.-]*|\d[\w-]*")
_NUMBERS = re.compile(r"(?<![A-Za-z0-9])\d.*")
_DONE = re.compile(r"succe(?:eded|ss)|\b(?:completed?|finished|done|committed|closed)\b", re.I)
MANY = 200
LONG = 8
"""Digits of an id that is no other's by chance."""
SHORTEST = 3
ALL, LAST = "all", "last"
MOST = 12
"""Templates of each kind that a comparison shows."""


class Logs:
    """All records of a log or a folder of logs, and how many lines there were."""

    def __init__(self, path: str) -> None:
        self.notes: list[str] = []
        self.found: list[Record] = []
        self.lines, left = 0, records.MOST_BYTES
        self.paths, notes = records.files(path)
        self.notes += notes
        for one in self.paths:
            if left > 0:
                more, count = records.read(one, one == path, left, self.notes)
                self.found += more
                self.lines += count
                left -= os.path.getsize(one)
            else:
                self.notes.append(f"{one}: not read, over {records.MOST_BYTES >> 20} MB in all")

    def batch(self, name: str) -> list[Record]:
        """The lines of a batch: those that name it, and failures meanwhile that name no other; of ALL, every line.

        An id that no line names ends the tool.
        """
        if name == ALL:
            return self.found
        own = [record for record in self.found if _names(record, name)]
        if not own:
            near = ", ".join(sorted(self.ids(shape(name)))[:5])
            fix = f"there are: {near}" if near else "check the id and --logs"
            stop(MISSING, f"no line names the batch {name}", fix)
        first, last = _span(own)
        kind, taken = shape(name), {id(record) for record in own}

        def is_around(record: Record) -> bool:
            inside = record.time is not None and first is not None and last is not None and first <= record.time <= last
            return inside and _is_bad(record) and not any(shape(word) == kind for word in _words(record))

        return [record for record in self.found if id(record) in taken or is_around(record)]

    def ids(self, kind: str) -> dict[str, list[Record]]:
        """The batches of a shape, each with the lines that name it."""
        found: dict[str, list[Record]] = {}
        for record in self.found:
            for word in set(_words(record)):
                if shape(word) == kind:
                    found.setdefault(word, []).append(record)
        return found

    def _others(self, name: str) -> dict[str, list[Record]]:
        """The batches of the same kind, with the lines of their parts where there are not too many of them."""
        found = self.ids(shape(name))
        if _core(name) == name or len(found) > MANY:
            return found
        return {other: [record for record in self.found if _names(record, other)] for other in found}

    def last_good(self, name: str) -> str:
        """The batch of the same kind without a failing line that ended last before this one did; empty for none.

        One that says it succeeded goes before one that says nothing of its end, which may hang.
        """
        own = self.batch(name)
        _, end = _span(own)
        good = []
        for other, lines in self._others(name).items():
            closed = _span(lines)[1]
            is_whole = 2 * len(lines) >= sum(_names(record, name) for record in own)
            if other != name and is_whole and not any(map(_is_bad, lines)):
                before = closed is not None and end is not None and closed <= end
                good.append((any(map(_is_done, lines)), before, closed or 0.0, other))
        return max(good)[3] if good else ""


def shape(name: str) -> str:
    """An id with its numbers taken out: `job_0020_m_1` and `job_0007_m_12` are of one shape."""
    return re.sub(r"-?\d+", "#", name)


def _words(record: Record) -> list[str]:
    return [word for text in _texts(record) for word in _ID.findall(text) if len(word) >= SHORTEST]


def _texts(record: Record) -> tuple[str, ...]:
    """All that a record says: many a log names the batch where others name the component."""
    return (record.component or "", record.message, *record.more)


def _names(record: Record, name: str) -> bool:
    core = _core(name)
    return any(core in text and any(_is_of(word, name, core) for word in _ID.findall(text)) for text in _texts(record))


def _core(name: str) -> str:
    """What a part's id holds of it: its numbers, where these are long enough to be no other's."""
    found = _NUMBERS.search(name)
    return found[0] if found is not None and sum(map(str.isdigit, found[0])) >= LONG else name


def _is_of(word: str, name: str, core: str) -> bool:
    """Whether an id is this one, or that of a part of it."""
    before, found, after = word.partition(core)
    whole = bool(found) and after[:1] in ("", "_", "-", ".") and before[-1:] in ("", "_", "-", ".")
    return word == name or (core != name and whole)


def _is_done(record: Record) -> bool:
    return bool(_DONE.search(groups.said(record)))


def _is_bad(record: Record) -> bool:
    return severity.grade(record.level, groups.said(record)) >= severity.FAILURE


def _span(found: list[Record]) -> tuple[float | None, float | None]:
    times = [record.time for record in found if record.time is not None]
    return (min(times), max(times)) if times else (None, None)


def kind_of(found: list[groups.Group]) -> tuple[str, list[groups.Group]]:
    """The kind of failure that weighs most, and the groups that tell it; `none` without a failing line."""
    failing = [group for group in found if group.grade >= severity.FAILURE]
    telling: dict[str, list[groups.Group]] = {}
    for group in failing:
        words = f"{group.text} {group.message}"
        kind = next((name for name, pattern in _KINDS.items() if pattern.search(words)), "unknown")
        telling.setdefault(kind, []).append(group)
    if not telling:
        return "none", []
    order = [*KINDS, "unknown"]
    best = max(telling, key=lambda kind: (sum(group.score for group in telling[kind]), -order.index(kind)))
    return best, telling[best]


def reference(group: groups.Group) -> str:
    """Where a group begins, as reports cite it."""
    end = f"-L{group.first_end}" if group.first_end > group.first else ""
    return f"{group.path}#L{group.first}{end}"


def classify(logs: str, batch: str) -> None:
    """Print which kind of failure it was."""
    found = Logs(logs)
    kind, telling = kind_of(groups.build(found.batch(batch)))
    shown = telling[:5]
    emit({
        "summary": f"class {kind}", "class": kind, "batch": batch, "lines": found.lines, "notes": found.notes[:10],
        "evidence": [_evidence(n, group) for n, group in enumerate(shown, 1)],
    })  # fmt: skip


def fetch(logs: str, batch: str, most: int) -> None:
    """Print a batch's lines: failing ones first to be kept, then the newest, in their order."""
    found = Logs(logs)
    own = found.batch(batch)
    bad = [record for record in own if _is_bad(record)]
    kept = {id(record) for record in [*bad[:most // 2], *own[-(most - min(len(bad), most // 2)):]]}
    shown = [record for record in own if id(record) in kept]
    first, last = _span(own)
    emit({
        "summary": f"{plural(len(own), 'line')}, {len(bad):,} failing", "batch": batch, "lines": len(own),
        "failures": len(bad), "left_out": len(own) - len(shown), "from": clock.show(first, True) or None,
        "to": clock.show(last, True) or None, "notes": found.notes[:10],
        "evidence": [{"id": f"E{n}", "source": f"{record.path}#L{record.first}", "text": clip(groups.said(record), 220)}
                     for n, record in enumerate(shown, 1)],
    })  # fmt: skip


def compare(logs: str, batch: str, good: str) -> None:
    """Print which templates a batch has that a good one has not, and the other way round."""
    found = Logs(logs)
    own = groups.build(found.batch(batch))
    name, theirs = _good(found, batch, good)
    if theirs is None:
        why = "no batch of the same kind went well" if batch != ALL else "there is no good one: give --good"
        emit({"summary": why, "looked": False, "batch": batch, "new": [], "gone": [], "evidence": []})
        return
    ours, others = set(map(_template, own)), set(map(_template, theirs))
    new = [group for group in own if _template(group) not in others][:MOST]
    gone = [group for group in theirs if _template(group) not in ours][:MOST]
    items = [*new, *gone]
    against = clip(os.path.basename(name), 12)
    emit({
        "summary": f"{len(new)} new, {len(gone)} missing against {against}", "batch": batch,
        "good": name, "evidence": [_evidence(n, group) for n, group in enumerate(items, 1)],
        "new": [{"evidence": f"E{n}", "count": group.count} for n, group in enumerate(new, 1)],
        "gone": [{"evidence": f"E{n}", "count": group.count} for n, group in enumerate(gone, len(new) + 1)],
    })  # fmt: skip


def _good(found: Logs, batch: str, good: str) -> tuple[str, list[groups.Group] | None]:
    """What to compare with: a log of its own, a named batch, or the last that went well."""
    if good != LAST and os.path.exists(good):
        return good, groups.build(Logs(good).found)
    name = good if good != LAST else found.last_good(batch) if batch != ALL else ""
    return name, groups.build([record for record in found.found if _names(record, name)]) if name else None


def _template(group: groups.Group) -> str:
    """What a group says whatever batch it speaks of: within one batch its id looks like a part of the message."""
    return " ".join(templates.words(group.message, {}))


def _evidence(n: int, group: groups.Group) -> dict[str, str]:
    return {"id": f"E{n}", "source": reference(group), "text": clip(f"{group.text} ({group.count:,}x)", 220)}
