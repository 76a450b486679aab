"""A run as text from its events alone, and the event lines verbatim."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

from harness.view.fold import apply, replay
from harness.view.show import event_text, show
from harness.view.stream import Lines
from harness.view.text import ASCII, UNICODE, width
from harness.view.tree import Look
from tests.view_events import CHILD, HOSTILE, RUN, SHOWN, Journal, call, no_blobs, triage


def shown(events, columns=None, glyphs=ASCII, **more):
    return show(replay(events, RUN), Look(columns, glyphs, no_blobs), **more)


def test_a_run_that_passed():
    assert shown(triage().events, 80, UNICODE).splitlines() == [
        "oncall-triage k3v9  $0.50 · 20 turns · landlock",
        "goal: why",
        "✓ 1  read skill:references/batch.md      0.0s  12 lines                   $0.01",
        "✗ 2  check-pods --ns shop                2.0s  FAILED exit 1            unknown",
        "     cannot reach",
        "     the cluster",
        "     full: harness show k3v9 --event 15",
        "   ✓ search-logs --service api           0.5s  3 pods, 1 not ready",
        "✓ 3  finish                                    accepted                   $0.01",
        "answer: because",
        "passed in 14s · 3 turns · 3k tokens · $0.02 + 1 unpriced · harness show k3v9",
    ]


def test_a_dead_owner_is_stopped_and_a_live_one_runs():
    events = triage().events[:11]
    dead = shown(events, 80)
    assert "stopped in" in dead and "  next: harness resume k3v9" in dead and "* " not in dead
    alive = shown(events, 80, owned=True)
    assert "running in" in alive and "* 2  check-pods" in alive


def test_piped_nothing_is_cut():
    log = Journal()
    log.start()
    log.reply(1, [call(1, "look", "--path", "x" * 300)])
    log.end(1, 1, json.dumps({"summary": "y" * 300}))
    text = shown(log.events)
    assert "x" * 300 in text and "y" * 300 in text
    assert all(width(line) <= 60 for line in shown(log.events, 60).splitlines())


def test_children_stand_below_the_call_they_work_for():
    log, child = Journal(), Journal(CHILD)
    log.reply(1, [call(1, "diagnose-batch")])
    log.begin(1, "diagnose-batch", child=CHILD)
    child.start("diagnose-batch")
    child.add("decide", 1, 1, verdict="allow", effect="read", by="rule", call={"stage": "classify"})
    child.begin(1, "classify", role="stage")
    child.end(1, 2, '{"summary":"oom"}')
    stages = {"diagnose-batch": [("classify", ()), ("summarise", ("classify",))]}
    tree = replay(log.events, RUN)
    for event in child.events:
        apply(tree, event, CHILD, 1)
    lines = show(tree, Look(80, UNICODE, no_blobs, stages=stages.get), owned=True).splitlines()
    at = next(number for number, line in enumerate(lines) if "diagnose-batch" in line)
    assert lines[at + 1].startswith("   ✓ classify") and lines[at + 1].endswith("oom")
    assert lines[at + 2].startswith("   · summarise") and lines[at + 2].endswith("← classify")


def test_what_was_not_accepted_is_shown_with_its_verdicts():
    log = Journal()
    log.start()
    log.add("verify", 1, answer="a guess", ok=False, checks=[{"name": "check-report", "op": 2, "exit": 1}],
            missing=[{"name": "write-report", "why": "never run"}], try_=3)  # fmt: skip
    log.finish("failed", 1, answer="a guess", unaccepted=True)
    lines = shown(log.events).splitlines()
    assert "not accepted: a guess" in lines
    assert "x verifier check-report: exit 1" in lines
    assert "x missing write-report: never run" in lines


def test_one_event_whole_with_its_folder(tmp_path):
    (tmp_path / "ops/2/1").mkdir(parents=True)
    text = event_text(triage().events[14], tmp_path, no_blobs)
    assert '"class": "FAILED"' in text
    assert "err:\n  cannot reach\n  the cluster\n" in text
    assert text.endswith(f"folder: {tmp_path}/ops/2/1\n")
    assert "folder" not in event_text(triage().events[0], tmp_path, no_blobs)


def test_hostile_text_is_escaped_everywhere():
    log = Journal()
    log.start(HOSTILE)
    log.reply(1, [call(1, HOSTILE, HOSTILE)])
    log.end(1, 1, HOSTILE + "\n", 1, err=HOSTILE + "\nx\n", class_=HOSTILE)
    log.finish("passed", 0, answer=HOSTILE)
    texts = shown(log.events)
    assert texts.count(SHOWN) == 6
    event = event_text(log.events[2], Path(HOSTILE), no_blobs)
    assert r"\u001b]52;c;aGk=\u0007b\rc\u202ed\u200b[red]e" in event
    assert all(char.isprintable() or char == "\n" for char in texts + event)


def test_stream_lines_are_those_of_the_journal_and_of_the_run_itself():
    out = io.BytesIO()
    view = Lines(out, lambda event: json.dumps(event).encode() + b"\n")
    log = triage()
    for event in log.events:
        view.event(event, RUN, 0)
        view.event(event, CHILD, 1)
    assert out.getvalue() == b"".join(json.dumps(event).encode() + b"\n" for event in log.events)


def test_only_a_drawn_frame_loads_the_drawing_library():
    code = (
        "import sys, io\n"
        "from harness.view import ask, closing, fold, frame, live, mode\n"
        "from harness.view import plain, results, rows, show, stream, text, tree\n"
        "from tests.view_events import triage, RUN, no_blobs\n"
        "view = plain.Plain(io.StringIO(), no_blobs, text.ASCII)\n"
        "[view.event(event, RUN, 0) for event in triage().events]\n"
        "show.show(fold.replay(triage().events, RUN), tree.Look(None, text.ASCII, no_blobs))\n"
        "print([name for name in ('rich', 'typer', 'anthropic', 'yaml') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
