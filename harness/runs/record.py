"""A run's replies as a script: replayed with the same tools and data it gives the same events, but for time and ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.log import follow
from harness.events.scan import blob_text
from harness.events.texts import texts_of
from harness.models.body import prefix_digest
from harness.models.failures import REASONS, UNASKED
from harness.models.script import MADE_WITH, STOPS
from harness.models.scripted import DIALECT, beginning
from harness.runs.composing import Request, requests
from harness.skills.discovery import Catalog
from harness.skills.reading import is_skill_file

Hide = Callable[[str], str]
COUNTS = ("input", "out", "cached", "written", "written_1h", "thinking")


def script_of(folder: Path, catalog: Catalog, hide: Hide = str) -> str:
    """The script of a run, one reply a line; the journal it is taken from holds no secret value.

    Raises HarnessError where no model was asked, or where a reply was taken out of the run.
    """
    own = list(_replies(folder, catalog, hide))
    if not own:
        raise HarnessError("no model replied in this run", f"harness show {folder.name}")
    lines = ["harness-script: 1", *_made_with(folder, catalog, hide), "replies:"]
    lines += [f"- {_line(reply)}" for reply in own]
    workers = list(_workers(folder, catalog, hide))
    if workers:
        lines.append("skills:")
    first: dict[str, Path] = {}
    for name, child, _ in workers:
        first.setdefault(name, child)
    for name, child in first.items():
        made = (f"    {line}" for line in _made_with(child, catalog, hide))
        lines += [f"  {json.dumps(name)}:", *made, "    replies:"]
        lines += [f"    - {_line(reply)}" for of, _, reply in workers if of == name]
    return "\n".join(lines) + "\n"


def _made_with(folder: Path, catalog: Catalog, hide: Hide) -> list[str]:
    """What stood before every turn, so that a replay which does not fit can say what changed."""
    first = next(requests(folder, catalog, hide))
    return [f"{MADE_WITH}: {_line(beginning(first.prompt))}"] if first.sent else []


def _line(reply: Mapping[str, Any]) -> str:
    return json.dumps(reply, ensure_ascii=True)


def _replies(folder: Path, catalog: Catalog, hide: Hide) -> Iterator[dict[str, Any]]:
    """One entry for each request that was answered, be it by a failure."""
    answers = {event["seq"]: event for event in follow(folder) if event["kind"] in ("model.reply", "model.fail")}
    for request in requests(folder, catalog, hide):
        event = request.event if not request.sent else _answer(request, answers)
        if event is None:
            continue
        entry = _reply(folder, event["data"]) if event["kind"] == "model.reply" else _failure(folder, event["data"])
        if entry is not None:
            yield {"expect": _expected(request), **entry}


def _answer(request: Request, answers: Mapping[int, Any]) -> Any:
    """What came of a request: the next answer in the journal, unless another request came before it."""
    after = [seq for seq in answers if seq > request.event["seq"]]
    return answers[min(after)] if after and answers[min(after)]["data"]["turn"] == request.prompt.turn else None


def _expected(request: Request) -> dict[str, Any]:
    """What a replay must find again. An agent is told the goal by its own client, so its prefix is no model's."""
    offered = [offer.name for offer in request.prompt.offer]
    prefix = {"prefix": prefix_digest(request.prompt)[:12]} if request.sent else {}
    return {"turn": request.prompt.turn, "callable": offered, **prefix}


def _reply(folder: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    content = data["content"]
    content = json.loads(blob_text(folder, content)) if isinstance(content, dict) and "blob" in content else content
    if not isinstance(content, list):
        raise HarnessError("a reply was taken out of this run", "it cannot be replayed")
    if data.get("dialect") != DIALECT:
        content = _blocks(folder, content, data)
    entry: dict[str, Any] = {"content": content}
    errors = {call["id"]: call["error"] for call in _calls(folder, data) if call["id"] and call.get("error")}
    if errors:  # what was no JSON stands in no block
        entry["errors"] = errors
    if data.get("stop") in STOPS:
        entry["stop"] = data["stop"]
    return entry | _usage(data)


def _usage(data: Mapping[str, Any]) -> dict[str, Any]:
    used = data.get("usage")
    return {"usage": {key: used[key] for key in COUNTS if used.get(key)}} if used else {}


def _calls(folder: Path, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = data["calls"]
    found: list[dict[str, Any]] = calls if isinstance(calls, list) else json.loads(blob_text(folder, calls))
    return found


def _blocks(folder: Path, content: list[Any], data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A reply of another dialect in the one that scripts are written in."""
    said = "\n".join(text for text in texts_of(content) if text)
    made: list[dict[str, Any]] = [{"type": "text", "text": said}] if said else []
    for call in _calls(folder, data):
        if not call.get("implicit"):
            given = {key: _value(folder, value) for key, value in (call.get("arguments") or {}).items()}
            made.append({"type": "tool_use", "id": call["id"], "name": call["verb"], "input": given})
    return made


def _value(folder: Path, value: Any) -> Any:
    """An argument as the model gave it, out of its blob where it is kept in one."""
    if not (isinstance(value, dict) and "blob" in value):
        return value
    text = blob_text(folder, value)
    return json.loads(text) if text.startswith("[") else text


def _failure(folder: Path, data: Mapping[str, Any]) -> dict[str, Any] | None:
    reason, message = data["reason"], blob_text(folder, data.get("message", ""))
    if reason in STOPS:
        return {"stop": reason, "message": message, **_usage(data)}
    if reason in UNASKED or reason not in REASONS:
        return None
    return {"fail": {"reason": reason, "retry_after": 0, "message": message}}


def _workers(folder: Path, catalog: Catalog, hide: Hide) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """The replies of the skills that worked for a run, below it too, each with its run, in the order they began."""
    for event in follow(folder):
        child = folder.parent / str(event["data"].get("child", "")) if event["kind"] == "tool.start" else None
        if child is None or child == folder.parent or not (child / "events.jsonl").is_file():
            continue
        start = follow(child)[0]["data"]
        if is_skill_file(Path(start.get("path") or "")):
            yield from ((str(start["skill"]), child, reply) for reply in _replies(child, catalog, hide))
        yield from _workers(child, catalog, hide)
