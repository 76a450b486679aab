"""The log search: files → records → groups → the answer object."""

from __future__ import annotations

import argparse
import os
import re

from oncall import clock, groups, records, severity
from oncall.output import MISSING, clip, emit, plural, stop

_NAMES = ("nothing", "hint", "warning", "failure", "fatal")


def run(options: argparse.Namespace) -> None:
    """Search, and print one object."""
    notes: list[str] = []
    found, lines, paths = _read(_roots(options), notes)
    tell(_narrow(found, options), lines, paths, notes, options.limit, _is_narrowed(options))


def summarise(logs: str, batch: str, limit: int) -> None:
    """The same of one batch's lines."""
    from oncall.batches import ALL, Logs

    found = Logs(logs)
    own = found.batch(batch)
    tell(own, len(own) if batch != ALL else found.lines, found.paths, found.notes, limit)


def tell(
    found: list[records.Record], lines: int, paths: list[str], notes: list[str], limit: int, narrowed: bool = False
) -> None:
    """Print the groups of what was found; `narrowed` where that is not all there was."""
    ordered = groups.build(found)
    shown = _choose(ordered, max(1, min(limit, 100)))
    failing = sum(group.count for group in ordered if group.grade >= severity.FAILURE)
    warned = sum(group.count for group in ordered if group.grade == severity.WARNING)
    times = [record.time for record in found if record.time is not None]
    emit({
        "summary": _summary(lines, len(found), failing, narrowed),
        "lines": lines, "matching": len(found), "files": paths[:50],
        "from": clock.show(min(times), True) if times else None, "to": clock.show(max(times), True) if times else None,
        "failures": failing, "warnings": warned, "templates": len(ordered), "notes": notes[:10],
        "evidence": [{"id": f"E{n}", "source": _reference(group), "text": clip(group.text, 220)}
                     for n, group in enumerate(shown, 1)],
        "groups": [_facts(f"E{n}", group) for n, group in enumerate(shown, 1)],
    })


def _choose(ordered: list[groups.Group], limit: int) -> list[groups.Group]:
    """The groups to print: failures, what hints at trouble, then a few of the rest, so that no kind is left out."""
    failing = [group for group in ordered if group.grade >= severity.FAILURE]
    hinting = [group for group in ordered if severity.NOTHING < group.grade < severity.FAILURE]
    rest = [group for group in ordered if group.grade == severity.NOTHING]
    first = failing[:limit if not hinting else max(1, limit * 2 // 3)]
    first += hinting[:limit - len(first)]
    return first + rest[:min(5, limit - len(first))]


def _summary(lines: int, matching: int, failing: int, narrowed: bool) -> str:
    if not lines:
        return "the log is empty"
    if not narrowed:
        return clip(f"{plural(lines, 'line')}, {failing:,} failing", 40)
    return clip(f"{matching:,} of {plural(lines, 'line')} match, {failing:,} failing", 40)


def _is_narrowed(options: argparse.Namespace) -> bool:
    return bool(options.service != "all" or options.request_id or options.match or options.since)


def _roots(options: argparse.Namespace) -> list[str]:
    roots = [options.logs] if options.logs else []
    if options.source:
        if not os.path.isdir(options.source):
            stop(MISSING, f"no such folder: {options.source}", "name a folder that holds logs/, pods.json and the like")
        logs = os.path.join(options.source, "logs")
        if os.path.isdir(logs):
            roots.append(logs)
        elif not roots:
            stop(MISSING, f"{options.source} holds no logs/ folder", "give the logs with --logs PATH")
    return roots


def _read(roots: list[str], notes: list[str]) -> tuple[list[records.Record], int, list[str]]:
    found: list[records.Record] = []
    paths: list[str] = []
    lines, budget = 0, records.MOST_BYTES
    for root in roots:
        here, left_out = records.files(root)
        notes += left_out
        for path in here:
            if budget <= 0:
                notes.append(f"{path}: not read, over {records.MOST_BYTES >> 20} MB in all")
                continue
            more, count = records.read(path, root == path, budget, notes)
            found += more
            lines += count
            budget -= os.path.getsize(path) if os.path.exists(path) else 0
            paths.append(path)
    return found, lines, paths


def _narrow(found: list[records.Record], options: argparse.Namespace) -> list[records.Record]:
    if options.service != "all":
        found = [record for record in found if _is_of(record, options.service)]
    if options.request_id:
        found = _holding(found, re.compile(rf"(?<![\w-]){re.escape(options.request_id)}(?![\w-]|\.\w)"))
    if options.match:
        found = _holding(found, re.compile(re.escape(options.match)))
    if options.since:
        try:
            back = clock.span(options.since)
        except ValueError:
            stop(2, f"--since {options.since} is no duration", "write 90, 30m, 2h or 1d12h")
        newest = max((record.time for record in found if record.time is not None), default=0.0)
        found = [record for record in found if record.time is None or record.time >= newest - back]
    return found


def _holding(found: list[records.Record], wanted: re.Pattern[str]) -> list[records.Record]:
    return [record for record in found if any(map(wanted.search, (record.message, *record.more)))]


def _is_of(record: records.Record, service: str) -> bool:
    name = os.path.basename(record.path)
    return name == service or name.startswith((f"{service}.", f"{service}-")) or record.component == service


def _reference(group: groups.Group) -> str:
    end = f"-L{group.first_end}" if group.first_end > group.first else ""
    return f"{group.path}#L{group.first}{end}"


def _facts(name: str, group: groups.Group) -> dict[str, object]:
    facts: dict[str, object] = {
        "evidence": name, "count": group.count, "grade": _NAMES[group.grade], "level": group.level,
        "weight": group.weight, "last": f"{group.last_path}#L{group.last}",
        "start": clock.show(group.start, True) or None, "end": clock.show(group.end, True) or None,
        "onset": clock.show(group.onset, True) or None, "peak": group.peak,
    }
    if group.endpoint:
        facts["endpoint"] = group.endpoint
    if group.component:
        facts["component"] = group.component
    return facts
