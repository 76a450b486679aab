"""Golden runs: folders that real runs left, kept for ever, and what every version of harness must read out of them.

As a program (`python -m tests.golden_runs`) it makes those that are not there yet, and touches none that is. With
`texts` it writes down anew what requests hold, which may change in one case only: a text of the prompt has a new
version in its id. What is folded out of a journal may never change.

A case is a folder with the project that the runs were made in, `project/`, the runs themselves, `runs/`, and
`expected.json`. What differs between machines (the project's path, host, boot, pid) is made equal in every line, whose
checksum is made anew.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.events.fold import fold
from harness.events.line import parse, with_data
from harness.events.scan import scan
from harness.events.state import State
from harness.prompt import provider_body
from harness.runs.composing import requests
from tests.skill_files import catalog_of

FOLDER = Path(__file__).with_name("golden") / "v1"
PROJECT = "/golden/project"
SAME = {"host": "golden", "boot": "00000000-0000-0000-0000-000000000000", "pid": 4242}
KEPT = ("outcome", "class", "exit", "result")
"""Of the result of an operation."""
ELSEWHERE = ("start", "by_tool")
"""Of the state: the first event itself, and the slots in another order."""


def cases() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.is_dir())


def runs_of(case: Path) -> list[Path]:
    return sorted((case / "runs").iterdir())


def events_of(run: Path) -> list[dict[str, Any]]:
    """The events of a golden run; every line is good, and none is missing."""
    raw = (run / "events.jsonl").read_bytes()
    found = scan(raw, run)
    assert found.good == len(raw) and not found.torn
    return list(found.events)


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The lines as they stand, which a redacted run's readers are told otherwise."""
    return [parse(line) for line in (run / "events.jsonl").read_bytes().splitlines()]


def facts_of(case: Path, place: Path) -> dict[str, Any]:
    """What this version of harness reads out of a case. `place` is an empty folder to work in."""
    project = unpacked(case, place)
    return {run.name: _facts(run, project) for run in runs_of(case)}


def _facts(run: Path, project: Path) -> dict[str, Any]:
    events = events_of(run)
    asked = _requests(project / ".harness/runs" / run.name, project)
    decided = [event for event in events if event["kind"] == "decide"]
    return {"state": _state(fold(events)), "requests": asked,
            "decisions": [[e["op"], e["data"]["verdict"], e["data"].get("code")] for e in decided]}  # fmt: skip


def _requests(run: Path, project: Path) -> list[dict[str, Any]]:
    """Each model call, composed again: what could be called, and digest and length of its canonical bytes."""
    try:
        found = list(requests(run, catalog_of(project)))
    except HarnessError:
        return []
    return [
        {
            "callable": [offer.name for offer in request.prompt.offer], "waiting": list(request.prompt.waiting),
            "body": sha256(provider_body(request.prompt)).hexdigest(), "bytes": len(provider_body(request.prompt)),
            "sent": request.sent, "context": request.prompt.context,
        }
        for request in found
    ]  # fmt: skip


def _state(state: State) -> dict[str, Any]:
    found: dict[str, Any] = plain(state)
    found["slots"] = {key: receipt["op"] for key, receipt in found["slots"].items()}
    found["open_ops"] = sorted(found["open_ops"])
    for op in found["ops"].values():
        op["result"] = {key: op["result"].get(key) for key in KEPT} if op["result"] else None
    return {key: value for key, value in found.items() if key not in ELSEWHERE}


def plain(value: Any) -> Any:
    """Data as JSON has it, in one way only."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=json.dumps)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def unpacked(case: Path, place: Path) -> Path:
    """The project of a case with its runs, where it can be used: only their own path differs."""
    shutil.copytree(case / "project", place, dirs_exist_ok=True)
    shutil.copytree(case / "runs", place / ".harness/runs")
    for run in (place / ".harness/runs").iterdir():
        there = _changed(lines_of(run), lambda text: text.replace(PROJECT, str(place)))
        (run / "events.jsonl").write_bytes(b"".join(there))
    return place


def _changed(events: list[dict[str, Any]], change: Callable[[str], str]) -> Iterator[bytes]:
    for event in events:
        yield with_data(event, _each(event["data"], change))


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def packed(project: Path, case: Path, *, hide: dict[str, str]) -> None:
    """Keep the runs of a project as a case. `hide` names further texts that differ, and what stands for them."""
    def change(text: str) -> str:
        for found, instead in {str(project): PROJECT, **hide}.items():
            text = text.replace(found, instead)
        return text

    for part in ("bin", "skills", "AGENTS.md", "picture.png"):
        if (project / part).is_dir():
            shutil.copytree(project / part, case / "project" / part)
        elif (project / part).exists():
            shutil.copy(project / part, case / "project" / part)
    for run in sorted((project / ".harness/runs").glob("2*")):
        to = case / "runs" / run.name
        to.mkdir(parents=True)
        lines = [{**event, "data": _anywhere(event["data"])} for event in lines_of(run)]
        (to / "events.jsonl").write_bytes(b"".join(_changed(lines, change)))
        if any((run / "blobs").iterdir()):
            shutil.copytree(run / "blobs", to / "blobs")


def _anywhere(data: dict[str, Any]) -> dict[str, Any]:
    return {key: SAME.get(key, value) for key, value in data.items()}


def keep(name: str, made: Callable[[Path], dict[str, str] | None]) -> None:
    """Make a case and write down what it is, unless it is there."""
    case = FOLDER / name
    if case.exists():
        return
    with tempfile.TemporaryDirectory() as place:
        project, fresh = Path(place).resolve() / "p", Path(place).resolve() / name
        packed(project, fresh, hide=made(project) or {})
        facts = facts_of(fresh, Path(place).resolve() / "again")
        for path in fresh.rglob("*"):
            assert place.encode() not in (path.read_bytes() if path.is_file() else b""), path
        (fresh / "expected.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
        shutil.copytree(fresh, case)
    print(f"{name}: {', '.join(sorted(facts))}", file=sys.stderr)


def with_new_texts(case: Path) -> None:
    """Write down anew what the requests of a case hold, and nothing else."""
    wanted = json.loads((case / "expected.json").read_text())
    with tempfile.TemporaryDirectory() as place:
        for run, facts in facts_of(case, Path(place).resolve() / "p").items():
            for then, now in zip(wanted[run]["requests"], facts["requests"], strict=True):
                then |= {key: now[key] for key in ("body", "bytes")}
    (case / "expected.json").write_text(json.dumps(wanted, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    from tests.golden_cases import CASES

    for case in cases() if sys.argv[1:] == ["texts"] else ():
        with_new_texts(case)
    for name, made in CASES.items():
        keep(name, made)
