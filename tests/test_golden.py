"""Runs that earlier versions left (L6): each is read as it was when it was made. Format v1 is frozen by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.events.fold import fold
from harness.events.line import KINDS, parse
from tests.command import harness
from tests.golden_runs import cases, events_of, facts_of, lines_of, plain, runs_of, unpacked

CASES = cases()
STOPS = {
    "passed", "failed", "declined", "needs-approval", "needs-answer", "unknown-outcome", "waiting", "denied", "budget",
    "no-progress", "interrupted", "error",
}  # fmt: skip
each = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """What of `wanted` is not so; fields that came later are no difference."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        there = [(key, wanted[key], found[key]) for key in wanted if key in found]
        absent = [f"{where}.{key} is gone" for key in wanted.keys() - found.keys()]
        return absent + [line for key, a, b in there for line in differences(a, b, f"{where}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{where}[{n}]")]
    return [] if wanted == found else [f"{where}: {wanted!r} is now {found!r}"]


# L6: fold, decisions, released set, request bytes.
@each
def test_a_golden_run_is_read_as_it_was(case: Path, tmp_path: Path) -> None:
    wanted = json.loads((case / "expected.json").read_text())
    found = facts_of(case, tmp_path / "p")
    assert wanted.keys() == found.keys()
    assert differences(wanted, json.loads(json.dumps(found))) == []


@each
def test_what_it_asked_its_model_is_composed_to_the_digest_that_was_sent(case: Path) -> None:
    """But for a redacted run, of which a part is not there any more."""
    for run, facts in json.loads((case / "expected.json").read_text()).items():
        is_redacted = facts["state"]["redacted"]
        for request in facts["requests"]:
            assert request["body"].startswith(request["sent"]) or is_redacted, run


@each
def test_a_fold_may_stop_anywhere_and_go_on(case: Path) -> None:
    for run in runs_of(case):
        events = events_of(run)
        whole = plain(fold(events))
        for cut in range(1, len(events), 3):
            assert plain(fold(events[cut:], fold(events[:cut]))) == whole


@each
def test_a_golden_run_can_be_shown(case: Path, tmp_path: Path) -> None:
    project = unpacked(case, tmp_path / "p")
    for run in runs_of(case):
        shown = harness("show", run.name, cwd=project)
        assert shown.returncode == 0 and "Traceback" not in shown.stderr, shown.stderr


def test_they_hold_every_kind_of_event_and_every_stop() -> None:
    events = [event for case in CASES for run in runs_of(case) for event in events_of(run)]
    assert {event["kind"] for event in events} == set(KINDS)
    assert {e["data"]["stop"] for e in events if e["kind"] in ("park", "run.end")} == STOPS
    assert len(CASES) >= 12


def test_they_hold_what_a_line_may_say() -> None:
    """Fields that only some lines have: a golden run that has one keeps its meaning."""
    events = [event for case in CASES for run in runs_of(case) for event in lines_of(run)]
    said = {f"{event['kind']}.{key}" for event in events for key in event["data"]}
    assert said >= {
        "run.start.parent", "run.start.fork", "run.start.project", "run.start.context", "run.start.question",
        "user.say.answers", "user.say.inbox", "model.start.mode", "model.start.try", "model.reply.provider",
        "model.reply.calls_from", "model.reply.request_id", "model.fail.retry_after", "model.fail.status",
        "decide.code", "decide.reasons", "decide.via", "decide.call", "tool.start.needs", "tool.start.child",
        "tool.start.env", "tool.end.media", "tool.end.artifacts", "tool.end.retry", "tool.end.spent", "tool.end.why",
        "verify.missing", "park.until", "resume.repaired", "resume.changes", "context.model", "run.end.limit",
        "run.end.error",
    }  # fmt: skip
    assert {e["data"]["what"] for e in events if e["kind"] == "amend"} >= {"input", "stale", "budget", "redact"}
    assert {e["data"]["dialect"] for e in events if e["kind"] == "model.reply"} >= {"anthropic", "openai", "exec"}
    assert {e["data"]["why"] for e in events if e["kind"] == "context"} >= {"long", "model"}


def test_a_changed_byte_is_noticed() -> None:
    """The frozen lines are good by their own checksums, and by nothing that was written since."""
    line = (runs_of(CASES[0])[0] / "events.jsonl").read_bytes().split(b"\n")[0]
    assert parse(line)["v"] == 1
    with pytest.raises(ValueError):
        parse(line.replace(b'"v":1', b'"v":2', 1))
