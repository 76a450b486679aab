"""Facts → cause, next command, the short answer for a narrow screen, and the Markdown report. Pure."""

from __future__ import annotations

import os
import shlex
import textwrap

from oncall import clock, findings
from oncall.findings import Fact, Facts
from oncall.output import clip, plural

WIDTH = 45
LINE = 90


def cause(facts: Facts) -> str:
    """One sentence: what is wrong, by what the tools found and no more."""
    deploy = findings.suspect(facts)
    after = f" after deploy {deploy['version']}" if deploy else ""
    change = f": {deploy['change']}" if deploy else ""
    if facts.pods:
        pod = facts.pods[0]
        return clip(f"{pod['service']} {pod['reason']}{after}{change}", LINE)
    main = findings.dominating(facts)
    if main and not _thin(facts):
        return _of_logs(facts, main, after)
    growing = [one for one in facts.lag if one.get("trend") == "growing"]
    if growing:
        one = growing[0]
        return clip(f"{one['group']} falls behind on {one['topic']}: lag {one['last']:,.0f}{after}", LINE)
    return _nothing(facts)


def _of_logs(facts: Facts, main: list[Fact], after: str) -> str:
    where = findings.endpoint(main + findings.related(facts, main))
    lead = f"no contact with {where}; " if where else ""
    shown = main[:2]
    room = max(24, (LINE - len(lead) - len(after)) // len(shown) - len(shown) * 4 - 2)
    said = ", ".join(f"{_brief(_plain(group), room)} ({group['count']:,}x)" for group in shown)
    return clip(lead + said + after, LINE + 30)


def _brief(text: str, room: int) -> str:
    """At most `room` characters, cut between words."""
    if len(text) <= room:
        return text
    head = text[:room - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[room // 2:] else head).rstrip(" .,:;") + "…"


def _plain(group: Fact) -> str:
    """A group's text up to its first long gap, without a closing stop: what the lines have in common."""
    text = group["text"].lstrip("<*>:,. ")
    head = text.split(" <*>")[0] if len(text.split(" <*>")[0]) >= 16 else text
    return head.rstrip(" .,:;")


def _thin(facts: Facts) -> bool:
    """A few failing lines among many are not what is going wrong."""
    total = sum(group["count"] for group in facts.failing)
    rare = all(group["count"] <= 3 and group["grade"] != "fatal" for group in facts.failing)
    return rare and 0 < total * 100 <= facts.lines


def _nothing(facts: Facts) -> str:
    if facts.failing:
        group = facts.failing[0]
        total = sum(group["count"] for group in facts.failing)
        text = f"little stands out, {plural(total, 'failing line')} of {facts.lines:,}: {_plain(group)}"
        return _brief(text, LINE + 20)
    if facts.lines:
        return f"nothing abnormal stands out in {plural(facts.lines, 'log line')}"
    looked = sorted(set(facts.looked) - {"lookup-runbook", "search-logs"})
    if facts.logs:
        return "nothing to see: the logs are empty"
    return "nothing abnormal stands out in " + " and ".join(looked) if looked else "nothing was looked at"


def next_command(facts: Facts) -> str:
    """The command to run next: what a runbook says of this trouble, else what follows from its kind."""
    main = findings.dominating(facts) if not _thin(facts) else []
    deploy = findings.suspect(facts)
    if facts.pods:
        pod = facts.pods[0]
        book = findings.runbook(facts, findings.terms(pod["reason"]), 1)
        if book:
            return str(book["command"])
        place = f"-n {shlex.quote(pod['namespace'])}"
        if deploy and deploy.get("service") == pod["service"]:
            return f"kubectl rollout undo deployment/{shlex.quote(pod['service'])} {place}"
        return f"kubectl describe pod {shlex.quote(pod['name'])} {place}"
    book = findings.runbook(facts, {word for group in main for word in findings.terms(group["text"])}, 2)
    if book:
        return str(book["command"])
    where = findings.endpoint(main + findings.related(facts, main))
    if where:
        host, _, port = where.rpartition(":")
        return f"nc -vz {shlex.quote(host)} {port}"
    return _look(facts, main)


def _look(facts: Facts, main: list[Fact]) -> str:
    """Show the place in the log where it begins, or what is most notable."""
    shown = main or facts.failing or [group for group in facts.groups if group.get("grade") == "warning"]
    if shown:
        path, _, lines = shown[0]["source"].partition("#L")
        first = int(lines.split("-")[0] or 1)
        return f"sed -n '{max(1, first - 5)},{first + 15}p' {shlex.quote(path)}"
    if facts.files:
        return f"tail -n 50 {shlex.quote(facts.files[0])}"
    return "harness run oncall-triage -i logs=PATH"


def answer(facts: Facts, why: str, then: str, place: str) -> str:
    """The short form: cause, next command, then what they stand on, at 45 columns but for addresses."""
    lines = [f"Cause: {why}", f"Next: {then}", ""]
    for title, items in _sections(facts):
        lines.append(title)
        for item in items:
            lines += textwrap.wrap(item, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                                   break_on_hyphens=False)
        lines.append("")
    if place:
        lines.append(f"Report: {place}")
    return "\n".join(lines).rstrip() + "\n"


def document(facts: Facts, why: str, then: str) -> str:
    """The whole report as Markdown, with every piece of evidence."""
    lines = ["# Triage report", "", f"**Cause:** {why}", "", f"**Next:** `{then}`", ""]
    for title, items in _sections(facts):
        lines += [f"## {title}", "", *(f"- {item}" for item in items), ""]
    lines += ["## Evidence", ""]
    for result in facts.results:
        for place, item in enumerate(result.items, 1):
            lines.append(f"- `{result.tool}.E{result.offset + place}` {item.get('source', '')}: {item.get('text', '')}")
    return "\n".join(lines).rstrip() + "\n"


def _sections(facts: Facts) -> list[tuple[str, list[str]]]:
    main = findings.dominating(facts)
    deploy = findings.suspect(facts)
    notable = [group for group in facts.groups if group.get("grade") == "warning"][:3]
    found = [
        ("Pods", [f"{pod['text']} [{pod['id']}]" for pod in facts.pods[:4]]),
        ("Deploy before it began", [f"{deploy['text']} [{deploy['id']}]"] if deploy else []),
        ("Lag", [f"{one['text']} [{one['id']}]" for one in facts.lag if one["trend"] != "steady"][:3]),
        ("Few lines that fail" if _thin(facts) else "What dominates the logs", [_line(facts, group) for group in main]),
        ("What kind", [f"{facts.kind}{_why_kind(facts)}"] if facts.kind else []),
        (f"New against {clip(os.path.basename(facts.good), 60)}", [_new(facts, one) for one in facts.new[:6]]),
        ("Together with it", [_line(facts, group) for group in findings.related(facts, main)]),
        ("Most notable, but no failure", [_line(facts, group) for group in notable] if not main else []),
        ("Runbook", [f"{one['title']} [{one['id']}]" for one in _books(facts, main)]),
        ("Note", facts.notes),
        ("Looked at", _looked(facts)),
    ]
    return [(title, items) for title, items in found if items]


def _why_kind(facts: Facts) -> str:
    """What tells the kind of failure."""
    found = next((result for result in facts.results if result.data.get("class") and result.items), None)
    return f" [{found.name(found.items[0].get('id', 'E1'))}]" if found is not None else ""


def _new(facts: Facts, one: Fact) -> str:
    said = " ".join(word if len(word) < 60 else word[:40] + "…" for word in one["text"].split())
    return f"{clip(said, 120)} [{one['id']}] {facts.reference(one['source'])}"


def _books(facts: Facts, main: list[Fact]) -> list[Fact]:
    words = {word for pod in facts.pods for word in findings.terms(pod["reason"])}
    book = findings.runbook(facts, words, 1) if words else None
    book = book or findings.runbook(facts, {word for group in main for word in findings.terms(group["text"])}, 2)
    return [book] if book else []


def _line(facts: Facts, group: Fact) -> str:
    """One group: text, how many, when, whether it goes on, where."""
    said = " ".join(word if len(word) < 60 else word[:40] + "…" for word in group["text"].split())
    text = f"{clip(said, 120).rstrip(' .:')}: {plural(group['count'], 'line')}"
    text += f" ({group['level']})" if group.get("level") else ""
    start, end = clock.parse(group.get("start") or ""), clock.parse(group.get("end") or "")
    if start is not None and end is not None:
        text += f", {_when(start, end)}"
    text += _goes_on(facts, group, end)
    last = group.get("last", "")
    same = last.split("#")[0] == group["source"].split("#")[0]
    until = f" to {last.split('#')[1] if same else facts.reference(last)}" if group["count"] > 1 and last else ""
    return f"{text} [{group['id']}] {facts.reference(group['source'])}{until}"


def _when(start: float, end: float) -> str:
    if end - start < 1:
        return clock.show(start, True)
    return f"{clock.show(start, True)} to {clock.show(end, end - start > 86400 / 2)}"


def _goes_on(facts: Facts, group: Fact, end: float | None) -> str:
    closes = [clock.parse(log.get("to") or "") for log in facts.logs]
    close = max((time for time in closes if time is not None), default=None)
    lasting = group.get("grade") in findings.FAILING and group["count"] > 9
    return ", still going on" if lasting and end is not None and close is not None and close - end < 60 else ""


def _looked(facts: Facts) -> list[str]:
    items = []
    for log in facts.logs:
        period = f", {log['from']} to {log['to']}" if log.get("from") else ""
        files = plural(len(log.get("files", ())), "file")
        lines, matching = log.get("lines", 0), log.get("matching")
        some = f"{matching:,} of " if isinstance(matching, int) and matching != lines else ""
        items.append(f"{some}{plural(lines, 'log line')} in {files}{period}: "
                     f"{log.get('failures', 0):,} failing, {log.get('warnings', 0):,} warning")
        items += [str(note) for note in log.get("notes", ())[:5]]
    others = sorted(set(facts.looked) - {"search-logs"})
    if others:
        items.append("also: " + ", ".join(others))
    if facts.empty:
        items.append("no data for: " + ", ".join(sorted(set(facts.empty))))
    return items
