"""The plain view: one line a finished thing, in words."""

from __future__ import annotations

import io
import time

import pytest

from harness.view.plain import Plain
from harness.view.rows import moment
from harness.view.text import ASCII, UNICODE
from tests.view_events import CHILD, HOSTILE, RUN, SHOWN, Journal, ask, call, no_blobs, triage


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def shown(log, glyphs=ASCII, colour=False, close=True):
    stream = io.StringIO()
    view = Plain(stream, no_blobs, glyphs, colour)
    for event in log.events:
        view.event(event, log.run, log.depth)
    if close:
        view.close()
    return stream.getvalue().splitlines()


def test_a_run_from_first_line_to_last():
    assert shown(triage(), UNICODE) == [
        "oncall-triage k3v9  $0.50 · 20 turns · landlock",
        "11:45:24 model.reply scripted:x ok 1.2s turn 1 1 call $0.01",
        "11:45:24 tool.end read #1 ok 0.0s 12 lines",
        "11:45:25 model.reply scripted:x ok 1.2s turn 2 2 calls unknown",
        "11:45:25 tool.end search-logs #3 ok 0.5s 3 pods, 1 not ready",
        "11:45:26 tool.end check-pods #2 will retry in 1.0s 1.0s RETRYABLE",
        "11:45:28 tool.end check-pods #2 failed 2.0s FAILED exit 1",
        "  cannot reach",
        "  the cluster",
        "  full: harness show k3v9 --event 15",
        "11:45:36 model.reply scripted:x ok 1.2s turn 3 1 call $0.01",
        "11:45:37 verify answer ok",
        "passed in 14s · 3 turns · 3k tokens · $0.02 + 1 unpriced · harness show k3v9",
    ]


def test_a_refusal_names_its_reason():
    log = Journal()
    log.reply(1, [call(9, "replay-request")])
    log.add("decide", 1, 9, verdict="deny", code="NOT_RELEASED", reasons=["needs search-logs(--request-id)"],
            effect="external", by="rule")  # fmt: skip
    line = shown(log)[-1]
    assert line == "11:45:24 decide replay-request #9 refused NOT_RELEASED needs search-logs(--request-id)"


def test_a_park_names_the_call_and_the_command_with_its_digest():
    log = Journal()
    log.start()
    log.reply(1, [call(9, "replay-request"), ask(10, "which pod?")], 1)
    log.add("decide", 1, 9, verdict="ask", effect="external", digest="5f3a09c1deadbeef", level="full", by="rule")
    log.add("park", 2, stop="needs-approval", exit=5, ops=[9], hint="")
    assert shown(log)[2:] == [
        "11:45:24 decide replay-request #9 waiting waits for your approval",
        "11:45:25 ask #10 waiting which pod?",
        "needs-approval in 2.0s - 1 turn - 1k tokens - $0.01",
        "  a call waits for your approval",
        "  #9 replay-request",
        "  #10 asks: which pod?",
        "  next: harness approve k3v9 9 --digest 5f3a09c1",
        "  next: harness answer k3v9 10 TEXT",
    ]


@pytest.mark.parametrize(("level", "rest"), [("none", ""), ("limits", ""), ("landlock", " --digest 5f3a09c1")])
def test_a_yes_to_a_call_that_is_not_confined_is_said_at_a_terminal_only(level: str, rest: str):
    log = Journal()
    log.start()
    log.reply(1, [call(9, "replay-request")], 1)
    log.add("decide", 1, 9, verdict="ask", effect="external", digest="5f3a09c1deadbeef", level=level, by="rule")
    log.add("park", 2, stop="needs-approval", exit=5, ops=[9], hint="")
    assert shown(log)[-1] == f"  next: harness approve k3v9 9{rest}"


def test_what_runs_long_is_said_every_30_seconds():
    stream = io.StringIO()
    view = Plain(stream, no_blobs, ASCII)
    log = Journal()
    log.reply(1, [call(1, "slow")])
    log.allow(1)
    start = moment(log.begin(1, "slow", 0)["at"])
    for event in log.events:
        view.event(event, RUN, 0)
    before = len(stream.getvalue())
    for after in (1, 29, 30, 31, 59, 60, 61):
        view.tick(start + after)
    assert stream.getvalue()[before:].splitlines() == [
        "11:45:53 tool.start slow #1 running 30s",
        "11:46:23 tool.start slow #1 running 1m 00s",
    ]
    view.event(log.end(1, 70), RUN, 0)
    before = len(stream.getvalue())
    view.tick(start + 300)
    assert stream.getvalue()[before:] == ""


def test_a_child_names_the_call_it_works_for():
    stream = io.StringIO()
    view = Plain(stream, no_blobs, ASCII)
    log, child = Journal(), Journal(CHILD, 1)
    log.reply(1, [call(7, "diagnose-batch")])
    log.begin(7, "diagnose-batch", child=CHILD)
    child.add("decide", 1, 1, verdict="allow", effect="read", by="rule", call={"stage": "classify", "args": []})
    child.end(1, 2, '{"summary":"oom"}')
    for part in (log, child):
        for event in part.events:
            view.event(event, part.run, part.depth)
    assert stream.getvalue().splitlines()[-1] == "11:45:25 in diagnose-batch #7: tool.end classify #1 ok 0.4s oom"


def test_outside_text_is_escaped_and_model_text_is_not_shown():
    log = Journal()
    log.start(HOSTILE)
    log.reply(1, [call(1, HOSTILE, HOSTILE)], content=[{"type": "text", "text": "secret thoughts"}])
    log.add("decide", 1, 1, verdict="deny", code="DENIED", reasons=[HOSTILE], effect="read", by="rule")
    log.end(1, 2, "", 1, err=HOSTILE, class_="FAILED")
    log.finish("error", 3, error=HOSTILE)
    text = "\n".join(shown(log))
    assert text.count(SHOWN) == 6
    assert "thoughts" not in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_plain_lines_hold_no_control_codes_and_colour_only_where_forced():
    assert "\x1b" not in "".join(shown(triage()))
    coloured = "\n".join(shown(triage(), colour=True))
    assert "\x1b[32mok\x1b[0m" in coloured
    assert "\x1b[2K" not in coloured and "\x1b[?" not in coloured


def test_a_stream_that_cannot_write_a_character_gets_it_escaped():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Plain(stream, no_blobs, ASCII).notice("größe")
    assert raw.getvalue() == b"gr\\xf6\\xdfe\n"


def test_a_closed_stream_ends_the_view_and_not_the_run():
    stream = io.StringIO()
    view = Plain(stream, no_blobs, ASCII)
    stream.close()
    for event in triage().events:
        view.event(event, RUN, 0)
    view.close()
    assert not view.open


def test_the_first_interrupt_says_what_is_waited_for():
    stream = io.StringIO()
    view, log = Plain(stream, no_blobs, ASCII), Journal()
    log.reply(1, [call(1, "slow")])
    log.begin(1, "slow")
    for event in log.events:
        view.event(event, RUN, 0)
    view.interrupt()
    assert stream.getvalue().splitlines()[-1] == "stopping after slow - again to kill it"
