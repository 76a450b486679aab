"""A run as text from its events alone, and the event lines verbatim."""

from __future__ import annotations

import io
import json
import subprocess
import sys

from harness.view.show import show, show_event, show_graph, states, tree_of
from harness.view.stream import Lines
from harness.view.text import ASCII, UNICODE, width
from tests.view_events import CHILD, HOSTILE, RUN, SHOWN, Journal, call, no_blobs, triage


def test_a_run_that_passed():
    assert show(triage().events, RUN, no_blobs, UNICODE, 80).splitlines() == [
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
    dead = show(events, RUN, no_blobs, ASCII, 80)
    assert "stopped in" in dead and "  next: harness resume k3v9" in dead and "* " not in dead
    alive = show(events, RUN, no_blobs, ASCII, 80, owned=True)
    assert "running in" in alive and "* 2  check-pods" in alive


def test_piped_nothing_is_cut():
    log = Journal()
    log.start()
    log.reply(1, [call(1, "look", "--path", "x" * 300)])
    log.end(1, 1, json.dumps({"summary": "y" * 300}))
    text = show(log.events, RUN, no_blobs, ASCII)
    assert "x" * 300 in text and "y" * 300 in text
    assert all(width(line) <= 60 for line in show(log.events, RUN, no_blobs, ASCII, 60).splitlines())


def test_children_stand_below_the_call_they_work_for():
    log, child = Journal(), Journal(CHILD)
    log.reply(1, [call(1, "diagnose-batch")])
    log.begin(1, "diagnose-batch", child=CHILD)
    child.start("diagnose-batch")
    child.add("decide", 1, 1, verdict="allow", effect="read", by="rule", call={"stage": "classify"})
    child.begin(1, "classify", role="stage")
    child.end(1, 2, '{"summary":"oom"}')
    stages = {"diagnose-batch": [("classify", ()), ("summarise", ("classify",))]}
    text = show(log.events, RUN, no_blobs, UNICODE, 80, owned=True, children=[(CHILD, child.events)], stages=stages.get)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if "diagnose-batch" in line)
    assert lines[at + 1].startswith("   ✓ classify") and lines[at + 1].endswith("oom")
    assert lines[at + 2].startswith("   · summarise") and lines[at + 2].endswith("← classify")


def test_what_was_not_accepted_is_shown_with_its_verdicts():
    log = Journal()
    log.start()
    log.add("verify", 1, answer="a guess", ok=False, checks=[{"name": "check-report", "op": 2, "exit": 1}],
            missing=[{"name": "write-report", "why": "never run"}], try_=3)  # fmt: skip
    log.finish("failed", 1, answer=None, unaccepted="a guess")
    lines = show(log.events, RUN, no_blobs, ASCII).splitlines()
    assert "not accepted: a guess" in lines
    assert "x verifier check-report: exit 1" in lines
    assert "x missing write-report: never run" in lines


def test_one_event_whole_with_its_folder():
    text = show_event(triage().events, 15, RUN, "/runs/r", no_blobs)
    assert '"class": "FAILED"' in text
    assert "err:\n  cannot reach\n  the cluster\n" in text
    assert text.endswith("folder: /runs/r/ops/2/1\n")
    assert show_event(triage().events, 99, RUN, "/runs/r", no_blobs) is None


def test_the_graph_in_layers_with_states():
    log = triage()
    found = states(tree_of(log.events, RUN))
    text = show_graph([["search-logs", "check-pods"], ["write-report"]], found, UNICODE,
                      {"write-report": ["search-logs"]})  # fmt: skip
    assert text.splitlines() == [
        " 1  ✓ search-logs   ok",
        "    ✗ check-pods    failed",
        " 2  · write-report  not yet  ← search-logs",
    ]


def test_hostile_text_is_escaped_everywhere():
    log = Journal()
    log.start(HOSTILE)
    log.reply(1, [call(1, HOSTILE, HOSTILE)])
    log.end(1, 1, HOSTILE + "\n", 1, err=HOSTILE + "\nx\n", class_=HOSTILE)
    log.finish("passed", 0, answer=HOSTILE)
    texts = show(log.events, RUN, no_blobs, UNICODE) + show_graph([[HOSTILE]], {HOSTILE: HOSTILE}, UNICODE)
    assert texts.count(SHOWN) >= 8
    event = show_event(log.events, 3, RUN, HOSTILE, no_blobs)
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
        "from harness.view import ask, closing, frame, live, mode, plain, results, rows, show, stream, text, tree\n"
        "from tests.view_events import triage, RUN, no_blobs\n"
        "view = plain.Plain(io.StringIO(), no_blobs, text.ASCII)\n"
        "[view.event(event, RUN, 0) for event in triage().events]\n"
        "show.show(triage().events, RUN, no_blobs, text.ASCII)\n"
        "print([name for name in ('rich', 'typer', 'anthropic', 'yaml') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
