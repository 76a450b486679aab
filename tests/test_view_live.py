"""The live view on a real terminal: what is drawn, what stays, what a resize leaves."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import sys
import termios
import time

import pytest

from harness.view.live import CLEAR, HIDE_CURSOR, SHOW_CURSOR, Live, Region
from harness.view.text import UNICODE
from tests.view_events import RUN, SHOWN, Journal, call, no_blobs, triage
from tests.view_terminal import PLAYER, TMUX, Terminal


@pytest.fixture
def terminal(tmp_path):
    if TMUX is None:
        pytest.skip("tmux is not installed")
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


@pytest.fixture
def player(tmp_path):
    """A scene in a bare pseudo-terminal: `(process id, descriptor)`."""
    made = []

    def make(scene):
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.pop("CI", None)
            os.execv(sys.executable, [sys.executable, str(PLAYER), scene, str(tmp_path)])
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        made.append((pid, fd))
        return pid, fd

    yield make
    for pid, fd in made:
        os.close(fd)
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def read_all(fd):
    text = b""
    try:
        while piece := os.read(fd, 65536):
            text += piece
    except OSError:  # the other side is closed
        return text.decode()
    return text.decode()


def until(found, limit=20):
    end = time.monotonic() + limit
    while not found() and time.monotonic() < end:
        time.sleep(0.02)
    return found()


def test_a_terminal_that_takes_nothing_does_not_hold_the_run_and_loses_no_turn(player, tmp_path):
    _, fd = player("flood")
    assert until(lambda: (tmp_path / "at-sent").exists())
    text = read_all(fd)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert [len(re.findall(rf"✓ {turn} +tool-{turn} ", plain)) for turn in range(1, 301)] == [1] * 300
    assert text.count(HIDE_CURSOR) < 100
    assert "passed in" in plain


def test_a_stopped_process_leaves_the_terminal_free_and_draws_again(player, tmp_path):
    pid, fd = player("held")
    text = ""
    while "slow" not in text:
        text += os.read(fd, 65536).decode()
    os.kill(pid, signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    left = os.read(fd, 65536).decode()
    assert left.endswith(CLEAR + SHOW_CURSOR)
    os.kill(pid, signal.SIGCONT)
    again = ""
    while "slow" not in again:
        again += os.read(fd, 65536).decode()
    (tmp_path / "go-held").touch()
    assert read_all(fd).replace("\r\n", "\n").rstrip().endswith("harness show k3v9")


def made(stream, size=(80, 24)):
    return Live(stream, no_blobs, UNICODE, colour=False, size=lambda: size)


def test_a_question_finds_the_terminal_free():
    stream = io.StringIO()
    view, log = made(stream), Journal()
    log.start()
    log.reply(1, [call(1, "slow")])
    log.begin(1, "slow")
    for event in log.events:
        view.event(event, RUN, 0)
    assert until(lambda: "● 1  slow" in stream.getvalue())
    view.suspend()
    before = stream.getvalue()
    assert before.endswith(CLEAR + SHOW_CURSOR)
    view.notice("said meanwhile")
    view.interrupt()
    view.event(log.end(1, 1), RUN, 0)
    view.suspend()
    view.resume()
    assert stream.getvalue() == before
    view.resume()
    assert until(lambda: "said meanwhile" in stream.getvalue())
    assert "stopping after slow · again to kill it" in stream.getvalue()
    view.event(log.finish(), RUN, 0)
    view.close()
    assert stream.getvalue().count("✓ 1  slow") >= 1
    assert stream.getvalue().rstrip().endswith("harness show k3v9")


def test_nothing_is_written_when_nothing_changed():
    stream = io.StringIO()
    region = Region(stream, colour=True)
    lines = [(("●", "cyan"), (" [red] slow", "bold"))]
    region.paint([], lines, (80, 24))
    drawn = stream.getvalue()
    assert "[red] slow" in drawn and "\x1b[36m●" in drawn
    region.paint([], list(lines), (80, 24))
    assert stream.getvalue() == drawn
    region.paint([], lines, (70, 24))
    assert len(stream.getvalue()) > len(drawn)


def test_a_terminal_that_is_gone_ends_the_view_and_not_the_run():
    stream = io.StringIO()
    stream.close()
    view = made(stream)
    for event in triage().events:
        view.event(event, RUN, 0)
    view.suspend()
    view.resume()
    view.close()
    assert view.failed and not view.bug


def test_what_the_view_cannot_show_is_said_and_ends_no_run():
    stream = io.StringIO()
    view, log = made(stream), Journal()
    view.event(log.start(), RUN, 0)
    view.event({"kind": "tool.end", "seq": 2, "epoch": 1, "at": log.events[0]["at"], "op": 1}, RUN, 0)
    view.event(log.finish(), RUN, 0)
    view.close()
    assert stream.getvalue().rstrip().endswith("warning: the live view stopped: KeyError: 'data'")
    assert "Traceback" not in stream.getvalue()


def test_a_resumed_run_shows_only_what_is_new():
    stream = io.StringIO()
    view, log = made(stream), Journal()
    log.start()
    log.reply(1, [call(1, "old"), call(2, "cut-off")])
    log.end(1, 1)
    log.begin(2, "cut-off", 1)
    view.history(list(log.events), RUN)
    log.epoch = 2
    fresh = [log.add("resume", 60, by="user"), log.begin(2, "cut-off", 61, try_=2), log.end(2, 62), log.finish(at=63)]
    for event in fresh:
        view.event(event, RUN, 0)
    view.close()
    text = stream.getvalue()
    assert text.startswith("oncall-triage k3v9  $0.50")
    assert "✓ 1  cut-off" in text and "old" not in text
