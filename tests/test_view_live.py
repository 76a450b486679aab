"""The live view on a real terminal: what is drawn, what stays, what a resize leaves."""

from __future__ import annotations

import re

import pytest

from tests.view_events import SHOWN
from tests.view_terminal import TMUX, Terminal

pytestmark = pytest.mark.skipif(TMUX is None, reason="tmux is not installed")


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def make(columns, lines=24):
        opened.append(Terminal(tmp_path, columns, lines))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def row(lines, name):
    """The newest line of one thing."""
    return [line for line in lines if name in line and "Ctrl-C" not in line][-1]


def play_to_the_end(screen):
    """The whole scene without a resize; gives the last screen, scrollback included."""
    for step in ("speaks", "both", "one", "retry", "child", "answer"):
        screen.go(step)
    return screen.until("rc=0")


@pytest.mark.parametrize("columns", [200, 80, 59, 45])
def test_nothing_wraps_and_each_turn_stays_once(terminal, columns):
    screen = terminal(columns)
    screen.play("triage")
    lines = screen.step("speaks", "turn 2")
    assert len([line for line in lines if re.search("killed|deploy|error", line)]) == (1 if columns < 60 else 4)
    screen.step("both", "● edit-file")
    screen.step("one", "+3 −1")
    screen.step("retry", "try 2")
    assert "fetch-lines" in row(screen.until("· summarise"), "summarise")
    assert screen.wraps() == []
    screen.go("child")
    screen.step("answer", "told as it comes")
    lines = screen.until("rc=0")
    text = "\n".join(lines)
    assert screen.wraps() == []
    assert len(re.findall(r"✓ 1  read", text)) == len(re.findall(r"✓ 2  check-pods", text)) == 1
    assert len(re.findall(r"✗ 3  diagnose-batch", text)) == text.count("✗ fetch-lines") == 1
    assert text.count("The answer.") == 1 and lines.index("The answer.") == len(lines) - 3
    assert "●" not in text and "Ctrl-C" not in text and "told as it comes" not in text
    assert ("deploy/shop.yaml" if columns >= 59 else "shop.yaml") in row(lines, "+3 −1")
    assert ("$0.01" in row(lines, "read ")) == (columns >= 80)
    assert ("0.4s" in row(lines, "edit-file")) == (columns >= 60)
    assert screen.cursor_visible()


def test_under_40_columns_the_lines_are_plain(terminal):
    screen = terminal(39)
    screen.play("triage")
    play_to_the_end(screen)
    text = "\n".join(screen.screen(joined=True))
    assert re.search(r"\d\d:\d\d:\d\d tool\.end edit-file #3 ok 0\.4s \+3 -1 deploy/shop\.yaml", text)
    assert "●" not in text and "Ctrl-C" not in text


def test_a_row_is_closed_by_its_own_end_alone(terminal):
    screen = terminal(80)
    screen.play("triage")
    screen.step("speaks", "turn 2")
    screen.step("both", lambda text: "● 2  check-pods" in text and "● edit-file" in text)
    lines = screen.step("one", "✓ edit-file")
    assert "● 2  check-pods" in row(lines, "check-pods")
    lines = screen.step("retry", "try 2")
    assert "● 2  check-pods" in row(lines, "check-pods")
    lines = screen.until("✓ 2  check-pods")
    assert "3 pods, 1 not ready" in row(lines, "check-pods")


@pytest.mark.parametrize("widths", [(80, 50), (50, 120), (100, 45, 90), (80, 39, 80)])
def test_a_resize_in_mid_run_leaves_nothing_behind(terminal, widths):
    screen = terminal(widths[0])
    screen.play("triage")
    screen.until("turn 2")
    screen.resize(widths[1])
    screen.step("speaks", "turn 2" if widths[1] > 39 else "read")
    screen.go("both")
    screen.go("one")
    if len(widths) > 2:
        screen.until("try 2" if widths[1] > 39 else "retry")
        screen.resize(widths[2])
    screen.step("retry", "try 2")
    screen.go("child")
    screen.go("answer")
    text = "\n".join(screen.until("rc=0"))
    assert "Ctrl-C" not in text and "●" not in text and "the model answers" not in text
    assert len(re.findall(r"\d  read", text)) == 1
    assert len(re.findall(r"✗ 3  diagnose-batch", text)) == 1
    assert text.count("The answer.") == 1
    assert screen.cursor_visible()


def test_what_is_open_at_the_end_is_stopped_or_unknown(terminal):
    screen = terminal(80)
    screen.play("stopped")
    screen.step("both", "● watch")
    lines = screen.until("rc=0")
    assert row(lines, "look").startswith("✓")
    assert row(lines, "change").endswith("unknown")
    assert row(lines, "watch").endswith("stopped")
    assert "  next: harness resume k3v9" in lines


def test_hostile_text_is_shown_and_does_nothing(terminal):
    screen = terminal(200)
    screen.play("hostile")
    assert SHOWN in row(screen.step("speaks", "turn 1"), "   a")
    screen.step("both", "● 1  show")
    text = "\n".join(screen.until("rc=0"))
    assert text.count(SHOWN) >= 5
    assert not [char for char in text if not char.isprintable() and char != "\n"]
