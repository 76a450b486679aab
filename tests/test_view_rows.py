"""The fold from events to rows, and what a result says in a few words."""

from __future__ import annotations

import pytest

from harness.view.closing import SETTLED, first_line, last_lines, totals
from harness.view.fold import apply, replay
from harness.view.results import detail, result_text
from harness.view.rows import CLOSED, Tree, short
from harness.view.text import ASCII, UNICODE, width
from tests.view_events import CHILD, RUN, Journal, ask, call, finish, no_blobs, triage


def rows(log):
    return replay(log.events, RUN).main.rows


def state(log, op=1):
    return rows(log)[op].state


def test_parallel_rows_are_closed_by_their_own_ends_in_any_order():
    log = Journal()
    log.reply(1, [call(1, "a"), call(2, "b")])
    for op in (1, 2):
        log.allow(op)
        log.begin(op, "tool")
    log.end(2, 1)
    assert (state(log, 1), state(log, 2)) == ("running", "ok")
    log.end(1, 2, exit_=1)
    assert (state(log, 1), state(log, 2)) == ("failed", "ok")


@pytest.mark.parametrize(
    "more",
    [{"retry": {"after": 1}, "exit_": 75, "class_": "RETRYABLE"}, {"outcome": "cut"}, {"outcome": "not-started"}],
)
def test_only_the_last_attempt_closes_a_row(more):
    log = Journal()
    log.reply(1, [call(1, "a")])
    log.allow(1)
    log.begin(1, "a")
    log.end(1, 1, **more)
    assert state(log) == "running"
    log.begin(1, "a", 2, try_=2)
    log.end(1, 3)
    assert state(log) == "ok" and rows(log)[1].attempt == 2


@pytest.mark.parametrize(("effect", "repeat", "left"), [("read", "pure", "stopped"), ("write", "opaque", "unknown")])
def test_what_is_open_at_the_end_is_stopped_or_unknown(effect, repeat, left):
    log = Journal()
    log.reply(1, [call(1, "a"), call(2, "b")])
    log.allow(1, effect=effect, repeat=repeat)
    log.begin(1, "a")
    log.finish("interrupted", 130)
    assert (state(log, 1), state(log, 2)) == (left, "stopped")
    assert all(row.closed for row in rows(log).values())


def test_a_park_leaves_what_waits_and_names_what_is_unknown():
    log = Journal()
    log.reply(1, [call(1, "a"), call(2, "b"), ask(3, "which?")])
    log.add("decide", 1, 1, verdict="ask", effect="external", by="rule")
    log.allow(2, effect="write", repeat="opaque")
    log.begin(2, "b")
    log.add("park", 2, stop="unknown-outcome", exit=11, ops=[2], hint="")
    assert [state(log, op) for op in (1, 2, 3)] == ["waiting", "unknown", "waiting"]
    log.epoch = 2
    log.add("resume", 9, by="user")
    log.add("user.say", 9, text="x", by="user", answers=3)
    assert state(log, 3) == "ok"


def test_refused_skipped_and_broken_calls():
    log = Journal()
    log.reply(1, [call(1, "a"), call(2, "b"), call(3, "c") | {"error": "args must be a list", "arguments": None}])
    log.add("decide", 1, 1, verdict="deny", code="NOT_RELEASED", reasons=["needs b"], effect="read", by="rule")
    log.add("decide", 1, 2, verdict="deny", code="SKIPPED", effect="read", by="rule")
    found = rows(log)
    assert [found[op].state for op in (1, 2, 3)] == ["refused", "skipped", "refused"]
    assert detail(found[1], replay(log.events, RUN).main, no_blobs, ASCII) == "NOT_RELEASED needs b"


def test_stages_and_verifiers_have_rows_of_their_own():
    log = Journal()
    log.add("decide", 0, 1, verdict="allow", effect="read", by="rule", call={"stage": "classify", "args": ["--x"]})
    log.add("decide", 0, 2, verdict="allow", effect="read", by="rule", call={"verifier": "check-report"})
    found = rows(log)
    assert (found[1].verb, found[1].name, found[1].argv) == ("stage", "classify", ("--x",))
    assert (found[2].verb, found[2].name) == ("verify", "check-report")


def test_a_stage_that_was_not_run_again_is_fresh_and_one_that_was_has_one_row():
    log = Journal()
    for op, name in ((1, "demand"), (2, "radius"), (3, "price")):
        log.add("decide", 0, op, verdict="allow", effect="read", by="rule", call={"stage": name})
        log.begin(op, name, role="stage")
        log.end(op, 1)
    log.epoch = 2
    log.add("resume", 9, by="user")
    log.add("decide", 9, 4, verdict="allow", effect="read", by="rule", call={"stage": "radius"})
    log.begin(4, "radius", 9, role="stage")
    log.end(4, 9)
    log.finish("passed", 0, 10)
    assert {row.name: row.state for row in rows(log).values()} == {"demand": "fresh", "radius": "ok", "price": "fresh"}


def test_a_child_is_found_below_its_call_and_its_spending_counts_once():
    log, child = Journal(), Journal(CHILD, 1)
    log.reply(1, [call(1, "worker")])
    log.begin(1, "worker", child=CHILD)
    child.reply(1, [call(1, "look")], cost=0.02)
    tree = Tree()
    for part in (log, child):
        for event in part.events:
            apply(tree, event, part.run, part.depth)
    assert tree.child(tree.main.rows[1]).rows[1].name == "look"
    assert totals(tree, tree.main).nanos == 30_000_000
    log.end(1, 2, "", 10, stop="needs-answer", class_="FAILED")
    apply(tree, log.events[-1], RUN, 0)
    assert tree.main.rows[1].state == "failed"


def test_a_child_run_that_was_interrupted_took_its_time_and_is_not_counted_twice():
    log = Journal()
    log.reply(1, [call(1, "worker")])
    log.allow(1)
    log.begin(1, "worker", 2, child=CHILD)
    log.finish("interrupted", 130, 5)
    assert (rows(log)[1].state, rows(log)[1].ms) == ("stopped", 3000)
    log.epoch = 2
    log.add("resume", 60, by="user")
    log.end(1, 64, ms=7000, by="child")
    assert rows(log)[1].ms == 7000


def test_a_stage_that_was_decided_on_before_and_ran_now_is_not_fresh():
    log = Journal()
    log.add("decide", 0, 1, verdict="allow", effect="read", by="rule", call={"stage": "demand"})
    log.epoch = 2
    log.add("resume", 9, by="user")
    log.begin(1, "demand", 9, role="stage")
    log.end(1, 9)
    log.finish("passed", 0, 10)
    assert rows(log)[1].state == "ok"


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ('{"summary":"3 pods, 1 not ready"}', "3 pods, 1 not ready"),
        ('{"summary":7}\n', "1 line"),
        ("a\nb\n", "2 lines"),
        ("", "0 B"),
        ("\x00\x01", "2 B"),
        ({"blob": "aa", "bytes": 5000}, "5.0 kB"),
        ({"blob": "there", "bytes": 5000}, "3 lines"),
        ({"blob": "picture", "bytes": 4}, "4 B"),
        ({"blob": "there", "bytes": 5_000_000}, "5.0 MB"),
        (None, ""),
    ],
)
def test_a_result_in_a_few_words(out, said):
    def read(run, sha):
        known = {"there": b"1\n2\n3\n", "picture": b"\x89P\x00\xff"}
        return known[sha] if sha in known else no_blobs(run, sha)

    assert result_text(out, RUN, read) == said


STOPS = {
    "failed": 1, "declined": 9, "denied": 7, "budget": 6, "no-progress": 8, "interrupted": 130, "error": 3,
}  # fmt: skip
PARKS = {"needs-approval": 5, "needs-answer": 10, "unknown-outcome": 11, "waiting": 75}


@pytest.mark.parametrize("stop", [*STOPS, *PARKS])
def test_every_stop_has_a_sentence_and_a_command(stop):
    log = Journal()
    log.start()
    log.reply(1, [call(1, "a")])
    if stop in STOPS:
        log.finish(stop, STOPS[stop])
    else:
        log.add("park", 2, stop=stop, exit=PARKS[stop], ops=[1], hint="")
    lines = last_lines(replay(log.events, RUN), ASCII)
    assert lines[0].startswith(f"{stop} in ")
    assert len(lines[1].split()) > 3
    command = next(line for line in lines if line.startswith("  next: harness "))
    assert "k3v9" in command


@pytest.mark.parametrize("columns", [200, 66, 59, 45, 40])
def test_first_and_last_line_fit_the_terminal(columns):
    tree = replay(triage().events, RUN)
    lines = last_lines(tree, UNICODE, columns)
    assert len(lines) == 1 and width(lines[0]) <= columns
    assert lines[0].startswith("passed in 14s") and lines[0].endswith("harness show k3v9")
    assert width(first_line(tree.main, UNICODE, columns)) <= columns
    assert first_line(tree.main, UNICODE, columns).endswith("landlock")


def test_a_finish_that_is_not_accepted_says_why():
    log = Journal()
    log.reply(1, [finish(1)])
    log.add("verify", 1, answer="x", ok=False, checks=[{"name": "check-report", "op": 2, "exit": 1}],
            missing=[{"name": "write-report", "why": "never run"}], try_=1)  # fmt: skip
    found = replay(log.events, RUN)
    words = detail(found.main.rows[1], found.main, no_blobs, ASCII)
    assert words == "not accepted: write-report never run; check-report exit 1"


def test_every_closed_state_has_a_mark_and_a_colour():
    from harness.view.text import STATE_STYLE

    assert set(STATE_STYLE) >= CLOSED
    assert all(glyphs.mark(name) for glyphs in (ASCII, UNICODE) for name in STATE_STYLE)
    assert all(glyphs.mark(name).isascii() for glyphs in (ASCII,) for name in STATE_STYLE)


def test_a_run_is_named_by_four_characters_of_its_id():
    assert short(RUN) == "k3v9"


@pytest.mark.parametrize(
    ("stop", "commands"),
    [
        ("needs-approval", ["harness approve k3v9"]),
        ("needs-answer", ["harness answer k3v9 TEXT"]),
        ("unknown-outcome", [f"harness settle k3v9 {word}" for word in SETTLED]),
    ],
)
def test_what_waits_in_a_child_that_was_not_read_is_not_given_its_callers_number(stop, commands):
    log = Journal()
    log.start()
    log.reply(1, [call(1, "triage")])
    log.allow(1)
    log.begin(1, "triage", child=CHILD)
    log.add("park", 2, stop=stop, exit=PARKS[stop], ops=[1], hint="")
    lines = last_lines(replay(log.events, RUN), ASCII)
    assert [line for line in lines if "next:" in line] == [f"  next: {command}" for command in commands]


def test_the_call_that_waits_and_the_question_are_in_the_last_lines():
    log = Journal()
    log.start()
    log.reply(1, [call(1, "send", "--to", "a b"), ask(2, "which pod?")])
    log.add("decide", 1, 1, verdict="ask", effect="external", digest="5f3a09c1deadbeef", by="rule")
    log.add("park", 2, stop="needs-approval", exit=5, ops=[1, 2], hint="")
    lines = last_lines(replay(log.events, RUN), ASCII)
    assert lines[2:4] == ["  #1 send --to 'a b'", "  #2 asks: which pod?"]
    log = Journal()
    log.start()
    log.reply(1, [call(1, "send", "--to", "x" * 2000)])
    log.add("park", 2, stop="needs-approval", exit=5, ops=[1], hint="")
    assert max(map(len, last_lines(replay(log.events, RUN), ASCII))) < 500


def test_a_call_that_waits_says_why_it_asks_and_several_are_put_by_one_command():
    log = Journal()
    log.start()
    log.reply(1, [call(1, "send", "--to", "eve"), call(2, "pay")])
    log.add("decide", 1, 1, verdict="ask", effect="external", digest="5f3a09c1deadbeef", by="rule", level="full",
            reasons=["effect external: --to eve is not in your words"], secrets=["TOKEN"],
            sources={"--to": ["file:notes.txt#3"]})  # fmt: skip
    log.add("decide", 1, 2, verdict="ask", effect="money", digest="6f3a09c1deadbeef", by="rule", level="full",
            reasons=["effect money"])  # fmt: skip
    log.add("park", 2, stop="needs-approval", exit=5, ops=[1, 2], hint="")
    tree = replay(log.events, RUN)
    assert last_lines(tree, ASCII)[2:] == [
        "  #1 send --to eve",
        "     why: effect external: --to eve is not in your words; it would get TOKEN; --to from file:notes.txt#3",
        "  #2 pay",
        "     why: effect money",
        "  next: harness approve k3v9 1 --digest 5f3a09c1",
        "  next: harness approve k3v9 2 --digest 6f3a09c1",
    ]
    narrow = last_lines(tree, ASCII, 45)
    assert all(width(line) <= 45 for line in narrow if "--digest" not in line)
    assert next(line for line in narrow if "next:" in line) == "  next: harness approve k3v9", "all, at a terminal"
    tree.main.rows[1].said = "approved"
    lines = last_lines(tree, ASCII)
    assert "  #1 send --to eve (approved)" in lines and [line for line in lines if "next" in line] == [
        "  next: harness approve k3v9 2 --digest 6f3a09c1"]  # fmt: skip
    tree.main.rows[2].said = "denied"
    assert last_lines(tree, ASCII)[1:] == [
        "  your word is there, and counts when the run goes on",
        "  #1 send --to eve (approved)",
        "  #2 pay (denied)",
        "  next: harness resume k3v9",
    ]


def test_a_run_below_that_cannot_go_on_says_why_whatever_was_said_in_it():
    log, child = Journal(), Journal(CHILD, 1)
    log.start()
    log.reply(1, [call(1, "worker")])
    log.allow(1)
    log.begin(1, "worker", child=CHILD)
    child.reply(1, [call(1, "pay")])
    child.allow(1, effect="write", repeat="opaque")
    child.begin(1, "pay")
    child.end(1, 1, "", outcome="cut")
    child.add("park", 2, stop="unknown-outcome", exit=11, ops=[1], hint="pay was killed")
    heard = "your word is there, and counts when the run goes on"
    for hint, said in (("pay was killed", heard), ("broken", "broken")):
        log.add("park", 2, stop="unknown-outcome", exit=11, ops=[1], hint=hint)
        tree = Tree()
        for part in (log, child):
            for event in part.events:
                apply(tree, event, part.run, part.depth)
        tree.child(tree.main.rows[1]).rows[1].said = "settled"
        assert last_lines(tree, ASCII)[1:] == [f"  {said}", "  next: harness resume k3v9"]


def test_a_question_of_several_lines_is_shown_as_lines():
    log = Journal()
    log.start()
    log.reply(1, [ask(1, "which pod?\nthe first\nor the second")])
    log.add("park", 2, stop="needs-answer", exit=10, ops=[1], hint="")
    found = replay(log.events, RUN)
    assert last_lines(found, ASCII)[2:5] == ["  #1 asks: which pod?", "     the first", "     or the second"]
    said = detail(found.main.rows[1], found.main, no_blobs, ASCII)
    assert said == "waits for your answer: which pod? the first or the second"


def test_the_question_of_a_verifier_is_in_the_last_lines():
    log = Journal()
    log.start()
    log.reply(1, [finish(1)])
    log.add("verify", 1, ok=False, question="is that so?", checks=[{"name": "ask-me", "exit": 10, "op": 2}])
    log.add("park", 2, stop="needs-answer", exit=10, ops=[2], hint="")
    lines = last_lines(replay(log.events, RUN), ASCII)
    assert "  #2 asks: is that so?" in lines and "  next: harness answer k3v9 2 TEXT" in lines


def test_a_redacted_run_is_not_said_to_go_on():
    log = Journal()
    log.start()
    log.reply(1, [call(1, "a")])
    log.finish("failed", 1)
    log.add("amend", 3, what="redact", why="asked")
    lines = last_lines(replay(log.events, RUN), ASCII)
    assert any("redact" in line for line in lines) and not any("resume" in line for line in lines)


@pytest.mark.parametrize(("via", "told"), [("prompt", "a person said no to"), (None, "policy denied")])
def test_whose_no_it_was_is_told(via, told):
    log = Journal()
    log.reply(1, [call(1, "pay")])
    log.add("decide", op=1, verdict="deny", code="DENIED", argv=[], rules=[], **({"via": via} if via else {}))
    log.finish("denied", 7)
    assert last_lines(replay(log.events, RUN), UNICODE)[1] == f"  {told} a required tool"


@pytest.mark.parametrize(("effect", "repeat", "told"), [
    ("read", "pure", "its process is gone; nothing is lost"),
    ("write", "opaque", "its process is gone; what became of a #1 is looked at before it goes on"),
])  # fmt: skip
def test_of_a_call_in_doubt_it_is_not_said_that_nothing_is_lost(effect, repeat, told):
    log = Journal()
    log.reply(1, [call(1, "a")])
    log.allow(1, effect=effect, repeat=repeat)
    log.begin(1, "a")
    tree = replay(log.events, RUN)
    assert last_lines(tree, UNICODE, owned=False)[1] == f"  {told}"


def test_the_argument_of_another_try_is_named_by_the_pipeline_and_the_stage_that_failed():
    log, child = Journal(), Journal(CHILD, 1)
    log.start()["data"]["model"] = {"ref": "none"}
    log.reply(1, [call(1, "size")])
    log.allow(1)
    log.begin(1, "size", child=CHILD)
    child.start("size")
    child.allow(1, call={"stage": "demand", "tool": "ask-demand", "args": []})
    child.begin(1, "ask-demand")
    child.end(1, 1, exit_=1, class_="FAILED")
    child.finish("failed", 1)
    log.end(1, 2, exit_=1, class_="FAILED", stop="failed")
    log.finish("failed", 1)
    tree = Tree()
    for part in (log, child):
        for event in part.events:
            apply(tree, event, part.run, part.depth)
    assert "  next: harness resume k3v9 --set size/demand.PARAM=VALUE" in last_lines(tree, UNICODE)
