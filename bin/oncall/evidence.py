"""What the tools of a run found: read from its journal, or from files that hold their outputs. Order plays no part.

Results are sorted by tool and arguments and their evidence is numbered in that order (`search-logs.E3`), so the same
results give the same numbers whichever ran first.
"""

from __future__ import annotations

import json
import os
from typing import Any

from oncall.output import BAD_DATA, MISSING, stop

DEEPEST = 4


class Result:
    """One tool's answer: `data` is its JSON object, `key` places it among the results of the same tool."""

    __slots__ = ("data", "key", "offset", "tool")

    def __init__(self, tool: str, key: str, data: dict[str, Any]) -> None:
        self.tool, self.key, self.data, self.offset = tool, key, data, 0

    @property
    def items(self) -> list[dict[str, Any]]:
        found = self.data.get("evidence")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def name(self, own: str) -> str:
        """The number in the report of an item that the tool itself calls `own`."""
        for place, item in enumerate(self.items, 1):
            if item.get("id", f"E{place}") == own:
                return f"{self.tool}.E{self.offset + place}"
        return ""


def of_run(run: str) -> list[Result]:
    """The newest success of each read and its arguments in a run and its child runs, numbered."""
    found: dict[tuple[str, str], Result] = {}
    for result in _walk(run, 0):
        found[result.tool, result.key] = result
    return _numbered(list(found.values()))


def of_files(paths: list[str]) -> list[Result]:
    """The same from files, each one tool's output."""
    found: dict[tuple[str, str], Result] = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, UnicodeDecodeError) as error:
            stop(MISSING, f"cannot read {path}: {error}", "name a file with the output of a tool")
        data = parsed(text)
        if data is None:
            stop(BAD_DATA, f"{path} holds no JSON object", "give the output of check-pods, search-logs and the like")
        tool = str(data.get("tool") or os.path.basename(path).split(".")[0])
        found[tool, text] = Result(tool, text, data)
    return _numbered(list(found.values()))


def _numbered(results: list[Result]) -> list[Result]:
    results.sort(key=lambda result: (result.tool, result.key))
    counts: dict[str, int] = {}
    for result in results:
        result.offset = counts.get(result.tool, 0)
        counts[result.tool] = result.offset + len(result.items)
    return results


def events(run: str) -> list[dict[str, Any]]:
    """The whole lines of a run's journal; none when there is no journal."""
    try:
        with open(os.path.join(run, "events.jsonl"), encoding="utf-8", errors="replace") as stream:
            lines = [parsed(line) for line in stream]
    except OSError:
        return []
    return [line for line in lines if line is not None]


def outputs(run: str, depth: int = 0) -> list[tuple[int, str, dict[str, Any], str]]:
    """(operation, tool, decision, stdout) of every success, oldest first, child runs where they were called."""
    tools: dict[int, str] = {}
    decisions: dict[int, dict[str, Any]] = {}
    found: list[tuple[int, str, dict[str, Any], str]] = []
    for event in events(run):
        data, op = event.get("data"), event.get("op")
        if isinstance(data, dict) and event.get("kind") == "model.reply":
            tools |= _called(run, data.get("calls"))
        if not isinstance(data, dict) or not isinstance(op, int):
            continue
        if event.get("kind") == "decide":
            decisions[op] = data
            call = data.get("call")
            tools[op] = str((call.get("tool") if isinstance(call, dict) else None) or tools.get(op, ""))
        elif event.get("kind") == "tool.start":
            tools[op] = str(data.get("tool") or tools.get(op, ""))
            if isinstance(data.get("child"), str) and depth < DEEPEST:
                found += outputs(os.path.join(os.path.dirname(run.rstrip("/")), data["child"]), depth + 1)
        elif event.get("kind") == "tool.end" and data.get("outcome") == "done" and data.get("exit") == 0:
            found.append((op, tools.get(op, ""), decisions.get(op, {}), _content(run, data.get("out"))))
    return found


def _called(run: str, calls: Any) -> dict[int, str]:
    """Operation → tool, as a model's reply names them."""
    if isinstance(calls, dict):
        calls = json.loads(_content(run, calls) or "[]")
    found: dict[int, str] = {}
    for call in calls if isinstance(calls, list) else ():
        given = call.get("arguments") if isinstance(call, dict) else None
        if isinstance(given, dict) and isinstance(given.get("tool"), str):
            found[call.get("op", 0)] = given["tool"]
    return found


def _walk(run: str, depth: int) -> list[Result]:
    results = []
    for _, tool, decision, out in outputs(run, depth):
        data = parsed(out)
        if tool and data is not None and "evidence" in data and decision.get("effect", "read") == "read":
            results.append(Result(tool, json.dumps(decision.get("argv"), ensure_ascii=False), data))
    return results


def _content(run: str, out: Any) -> str:
    """An output as text, from its blob when it lies in one."""
    if isinstance(out, str):
        return out
    name = out.get("blob") if isinstance(out, dict) else None
    if not isinstance(name, str) or not name.isalnum():
        return ""
    try:
        with open(os.path.join(run, "blobs", name), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def parsed(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
