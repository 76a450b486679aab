"""Whether an answer is a triage report: form, and that what it cites was found in the run."""

from __future__ import annotations

import os
import re

from oncall import evidence

_NUMBER = re.compile(r"(?<![\w/.#-])([a-z0-9][\w-]*(?:/[\w-]+)*)\.(E\d+)\b")
_LINES = re.compile(r"([^\s\[\](){}<>\"'`,;]+)#L(\d+)(?:-L?(\d+))?")
_COMMAND = re.compile(r"[\w./~$-]+")
_ADVICE = frozenset((
    "check", "look", "investigate", "ask", "contact", "restart", "review", "verify", "the", "a", "an", "you", "we",
    "please", "try", "see", "consider", "find", "make", "none", "nothing", "unknown", "todo", "tbd", "n/a", "wait",
    "monitor", "fix", "ensure", "examine", "inspect", "roll", "scale", "increase", "should", "then"))
_VAGUE = frozenset(["unknown", "none", "todo", "tbd", "n/a", "unclear", "?", "-"])


def reasons(text: str, run: str) -> list[str]:
    """Why the answer is refused; empty when it is accepted."""
    lines = text.strip().splitlines()
    if not lines:
        return ["the answer is empty: its first line must be `Cause: …`, its second `Next: COMMAND`"]
    found = _form(lines)
    numbers, places = set(_NUMBER.findall(text)), set(_LINES.findall(text))
    if not numbers and not places and not _is_clear(lines[0]):
        found.append("no evidence is cited: name what the tools gave, like [search-logs.E1] or app.log#L12")
    if run and os.path.exists(os.path.join(run, "events.jsonl")):
        found += [] if _has_looked(run) else ["nothing was looked at: give -i logs=PATH or -i source=DIR"]
        found += _missing(run, numbers, places)
    return found


def _has_looked(run: str) -> bool:
    """Whether some tool of the run had anything to look at: an answer about nothing is no answer."""
    return any(result.data.get("looked") is not False for result in evidence.of_run(run))


def _form(lines: list[str]) -> list[str]:
    found = []
    why = _after(lines[0], "cause")
    if why is None:
        found.append("the first line must be the cause: `Cause: what is wrong`")
    elif len(why.split()) < 2 or why.lower().rstrip(".") in _VAGUE:
        found.append(f"the first line names no cause: {lines[0][:80]}")
    then = _after(lines[1], "next") if len(lines) > 1 else None
    if then is None:
        found.append("the second line must be the next command: `Next: COMMAND`")
    elif not _is_command(then):
        found.append(f"the second line is no command that can be run: {lines[1][:80]}")
    return found


def _after(line: str, word: str) -> str | None:
    plain = line.replace("*", "").replace("`", "").strip().lstrip("# ")
    head, colon, rest = plain.partition(":")
    return rest.strip() if colon and head.strip().lower() == word else None


def _is_command(text: str) -> bool:
    first = text.split()[0] if text.split() else ""
    return bool(_COMMAND.fullmatch(first)) and first.lower() not in _ADVICE


def _is_clear(line: str) -> bool:
    return "nothing" in line.lower()


def _missing(run: str, numbers: set[tuple[str, str]], places: set[tuple[str, str, str]]) -> list[str]:
    """What is cited and was not found: numbers as the report gives them, or as `OPERATION.E1`; lines by path."""
    given, spots = _given(run)
    found = [f"no such evidence in this run: {tool}.{own}" for tool, own in sorted(numbers)
             if (tool, own) not in given and not _is_file(tool, own)]
    found += [f"{tool}.{own} may be of {len(ops)} calls: cite one, as {ops[-1]}.{own}, or as write-report numbers it"
              for (tool, own), ops in sorted(_several(run).items()) if (tool, own) in numbers]
    for path, first, last in sorted(places):
        if not any(_covers(spot, path, int(first), int(last or first)) for spot in spots):
            found.append(f"no tool of this run gave {path}#L{first}")
    return found


def _several(run: str) -> dict[tuple[str, str], list[int]]:
    """The numbers that several calls of one tool gave, and which; a report tells them apart by numbers of its own."""
    calls: dict[tuple[str, str], list[int]] = {}
    reported: set[tuple[str, str]] = set()
    for op, tool, _, out in evidence.outputs(run):
        data = evidence.parsed(out) or {}
        items = data.get("evidence")
        for n, item in enumerate(items if isinstance(items, list) else (), 1):
            if isinstance(item, dict):
                calls.setdefault((tool, str(item.get("id", f"E{n}"))), []).append(op)
        if tool == "write-report":
            reported |= set(_NUMBER.findall(out))
    return {key: ops for key, ops in calls.items() if len(ops) > 1 and key not in reported}


def _given(run: str) -> tuple[set[tuple[str, str]], list[tuple[str, int, int]]]:
    given: set[tuple[str, str]] = set()
    spots: list[tuple[str, int, int]] = []
    for result in evidence.of_run(run):
        given |= {(result.tool, f"E{result.offset + n}") for n in range(1, len(result.items) + 1)}
        facts = [item for item in result.data.get("groups") or [] if isinstance(item, dict)]
        for source in [item.get("source") for item in result.items] + [fact.get("last") for fact in facts]:
            spots += [(path, int(first), int(last or first)) for path, first, last in _LINES.findall(str(source))]
    for op, tool, _, out in evidence.outputs(run):
        data = evidence.parsed(out)
        items = data.get("evidence") if data else None
        own = [item.get("id", f"E{n}") for n, item in enumerate(items, 1) if isinstance(item, dict)] if isinstance(
            items, list) else []
        given |= {(str(op), str(name)) for name in own}
        if tool == "write-report":
            given |= set(_NUMBER.findall(out))
    return given, spots


def _is_file(tool: str, own: str) -> bool:
    """`core.E1` may be a word of the text; only names that tools have are numbers of evidence."""
    return not ("-" in tool or tool.isdigit())


def _covers(spot: tuple[str, int, int], path: str, first: int, last: int) -> bool:
    known, start, end = spot
    same = known == path or known.endswith("/" + path)
    return same and start <= last and first <= end
