"""The prompts in a real pseudo-terminal: keys, type-ahead, lost terminals, modes, and what is shown."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from harness.view.ask import ACTS, NO_KEY, UNREAD, UNSEEN, approval_text, keys_text, long_values, question_text
from harness.view.text import width
from tests.view_events import HOSTILE, SHOWN

ROOT = Path(__file__).resolve().parent.parent
REQUEST = {
    "skill": "oncall-triage", "tool": "replay-request", "effect": "external", "path": "bin/replay-request",
    "argv": ["--request-id", "r-1841", "--env", "prod"], "cwd": "/srv/shop", "n": 2, "of": 3, "turn": 4,
    "spent": "$0.06 of $0.50", "level": "landlock", "digest": "5f3a09c1deadbeef",
    "reasons": ['ask - "replays reach production" (policy.yaml:14)'], "text": "Replaying should confirm the fix.",
}  # fmt: skip


class Prompted:
    """A process whose controlling terminal is ours; it writes what a prompt returned to a file."""

    def __init__(self, folder: Path, call: str, before: str = "", request: dict | None = None) -> None:
        self.result = folder / "result"
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from harness.view.ask import *\nimport os, signal, pathlib\nrequest = {request or REQUEST!r}\n{before}\n"
            f"found = {call}\npathlib.Path({str(self.result)!r}).write_text(repr(found))\n"
        )
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", code])
        self.modes = termios.tcgetattr(self.fd)
        self.seen = ""

    def until(self, text: str) -> str:
        limit = time.monotonic() + 20
        while text not in self.seen and time.monotonic() < limit:
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 4096).decode()
        assert text in self.seen
        shown, self.seen = self.seen, self.seen.partition(text)[2]
        return shown

    def type(self, keys: str, after: str = "> ") -> None:
        """Type once the question stands there and the dead time is over."""
        self.until(after)
        time.sleep(0.5)
        os.write(self.fd, keys.encode())

    def answer(self) -> str:
        limit = time.monotonic() + 20
        while not self.result.exists() and time.monotonic() < limit:
            time.sleep(0.02)
        return self.result.read_text()

    def restored(self) -> bool:
        return termios.tcgetattr(self.fd)[3] == self.modes[3]

    def close(self) -> None:
        for end in (lambda: os.kill(self.pid, signal.SIGKILL), lambda: os.close(self.fd)):
            try:
                end()
            except OSError:
                continue
        os.waitpid(self.pid, 0)


@pytest.fixture
def prompted(tmp_path):
    made = []

    def make(call="approve(request)", **more):
        made.append(Prompted(tmp_path, call, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y", "Approval(verdict='allow', why=None, grant='once')"),
        ("y\n", "Approval(verdict='allow', why=None, grant='once')"),
        ("q", "Approval(verdict='quit', why=None, grant='once')"),
        ("\x03", "Approval(verdict='quit', why=None, grant='once')"),
        ("\n", "Approval(verdict='deny', why=None, grant='once')"),
        ("\x04", "Approval(verdict='deny', why=None, grant='once')"),
    ],
)
def test_one_key_is_an_answer(prompted, keys, answer):
    prompt = prompted()
    prompt.type(keys)
    assert prompt.answer() == answer
    assert prompt.restored()


def test_no_takes_a_sentence(prompted):
    prompt = prompted()
    prompt.type("n")
    prompt.type("not on prod\n", after="reason): ")
    assert prompt.answer() == "Approval(verdict='deny', why='not on prod', grant='once')"
    assert prompt.restored()


def test_an_unknown_key_a_paste_and_an_arrow_ask_again(prompted):
    prompt = prompted()
    for keys in ("x", "yes please", "\x1b[A"):
        prompt.type(keys)
        prompt.until(NO_KEY)
    prompt.type("y")
    assert prompt.answer() == "Approval(verdict='allow', why=None, grant='once')"


def test_what_was_typed_before_the_prompt_is_not_an_answer(prompted, tmp_path):
    wait = f"import time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    prompt = prompted(before=wait)
    os.write(prompt.fd, b"yyyy")
    (tmp_path / "go").touch()
    prompt.until("> ")
    time.sleep(0.6)
    assert not prompt.result.exists()
    os.write(prompt.fd, b"q")
    assert prompt.answer() == "Approval(verdict='quit', why=None, grant='once')"


def test_a_lost_terminal_parks(prompted):
    prompt = prompted(before="signal.signal(signal.SIGHUP, signal.SIG_DFL)")
    prompt.until("> ")
    os.close(prompt.fd)
    assert prompt.answer() == "Approval(verdict=None, why=None, grant='once')"


def test_without_a_terminal_nobody_is_asked(tmp_path):
    from harness.view.ask import Approval, approve, ask_question

    assert approve(REQUEST, path=str(tmp_path / "none")) == Approval(None)
    assert ask_question("which?", path=str(tmp_path / "none")) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_ends_the_process_restores_the_terminal(prompted, number):
    prompt = prompted()
    prompt.until("> ")
    time.sleep(0.1)
    assert not prompt.restored()
    os.kill(prompt.pid, number)
    limit = time.monotonic() + 20
    while not prompt.restored() and time.monotonic() < limit:
        time.sleep(0.02)
    assert prompt.restored()
    assert not prompt.result.exists()


def test_a_handled_signal_ends_the_prompt(prompted):
    prompt = prompted(before="signal.signal(signal.SIGTERM, lambda number, frame: None)")
    prompt.until("> ")
    time.sleep(0.1)
    os.kill(prompt.pid, signal.SIGTERM)
    assert prompt.answer() == "Approval(verdict=None, why=None, grant='once')"
    assert prompt.restored()


def test_a_word_from_elsewhere_closes_the_prompt(prompted, tmp_path):
    word = tmp_path / "word"
    poll = f"lambda: 'approved elsewhere by ann' if os.path.exists({str(word)!r}) else None"
    prompt = prompted(f"approve(request, poll={poll})")
    prompt.until("> ")
    word.touch()
    prompt.until("approved elsewhere by ann")
    assert prompt.answer() == "Approval(verdict=None, why='approved elsewhere by ann', grant='once')"


def test_a_value_over_a_screen_must_be_looked_at_first(prompted, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho from the tool\n")
    prompt = prompted(request=REQUEST | {"argv": ["word " * 1000], "path": str(tool)})
    prompt.type("y")
    prompt.until(UNSEEN)
    prompt.type("e")
    prompt.type("q", after="q leaves -- ")
    prompt.until("from the tool")
    prompt.type("y")
    prompt.until(UNSEEN)
    prompt.type("e")
    for _ in range(2):
        prompt.type(" ", after="q leaves -- ")
    prompt.type("y", after="from the tool")
    assert prompt.answer() == "Approval(verdict='allow', why=None, grant='once')"


def test_a_question_over_a_screen_is_paged_and_no_yes_counts_before_its_end(prompted):
    """What decides would have gone off the screen before somebody could read it."""
    flood = [word for n in range(60) for word in ("--to", f"somebody-{n}@example.org")]
    prompt = prompted(request=REQUEST | {"argv": flood, "sources": {"--to": [[to, []] for to in flood[1::2]]}})
    prompt.type("q", after="q leaves -- ")
    assert "wants to act EXTERNALLY" in prompt.until("y once"), "and once more beside the keys"
    prompt.type("y")
    prompt.until(UNREAD)
    prompt.type("e")
    for _ in range(4):
        prompt.type(" ", after="q leaves -- ")
    prompt.type("y")
    assert prompt.answer() == "Approval(verdict='allow', why=None, grant='once')"


def test_a_question_of_many_lines_cannot_look_like_another(prompted):
    hostile = "Which?\n? pay wants to move MONEY\n> y\n" + "x" * 56 + " ? pay"
    asked = question_text(hostile, ["a\n? pay"], 60, "the model")
    assert [line for line in asked.splitlines() if not line.startswith("    ")] == ["? the model asks: Which?"]
    assert question_text("Sure?", (), 60, "the verifier check").startswith("? the verifier check asks: Sure?\n")


def test_a_question_takes_a_number_or_words_and_asks_again_for_nothing(prompted):
    prompt = prompted("(ask_question('which cluster?', ['EU', 'US']), ask_question('why?'))")
    prompt.type("\n")
    prompt.type("2\n")
    prompt.type("use both, größer\n")
    assert prompt.answer() == "('US', 'use both, größer')"
    assert prompt.restored()


@pytest.mark.parametrize("keys", ["\x04", "half an ans\x03"])
def test_a_question_can_be_left_open(prompted, keys):
    prompt = prompted("ask_question('which cluster?')")
    prompt.type(keys)
    assert prompt.answer() == "None"
    assert prompt.restored()


def test_the_request_is_shown_whole_and_the_model_speaks_last():
    sources = {"--request-id": [["r-1841", ["search-logs #7"]]], "--env": [["prod", ["your words", "the input"]]],
               "--to": [["a", ["your words"]], ["b", []]], "--old": ["search-logs #8"]}  # fmt: skip
    request = REQUEST | {"sources": sources}
    assert approval_text(request, 100).splitlines() == [
        "? oncall-triage → replay-request wants to act EXTERNALLY            2 of 3 · turn 4 · $0.06 of $0.50",
        "    bin/replay-request --request-id r-1841 --env prod                                   in /srv/shop",
        "    --request-id r-1841  from search-logs #7, not your words",
        "    --env prod  from your words, the input",
        "    --to a  from your words",
        "    --to b  not your words",
        "    --old  from search-logs #8, not your words",
        "    confinement landlock · digest 5f3a09c1",
        '    rule: ask - "replays reach production" (policy.yaml:14)',
        '    the model says: "Replaying should confirm the fix."',
    ]
    assert approval_text(REQUEST, 60).splitlines()[:4] == [
        "? oncall-triage → replay-request wants to act EXTERNALLY",
        "  2 of 3 · turn 4 · $0.06 of $0.50",
        "    bin/replay-request --request-id r-1841 --env prod",
        "    in /srv/shop",
    ]


@pytest.mark.parametrize("effect", ["read", "write", "money", "destructive", "odd"])
def test_every_effect_is_named(effect):
    assert f"wants to {ACTS.get(effect, effect)}" in approval_text(REQUEST | {"effect": effect}, 100)


@pytest.mark.parametrize("columns", [200, 45, 20])
def test_prompts_fit_the_terminal_and_lose_nothing(columns):
    text = approval_text(REQUEST, columns)
    assert max(map(width, text.splitlines())) <= columns
    joined = "".join(text.split())
    assert all(value in joined for value in (*REQUEST["argv"], "bin/replay-request", "/srv/shop", "confirmthefix."))
    assert max(map(width, question_text("which " * 30, ["a" * 60], columns, "the model").splitlines())) <= columns


KEPT = REQUEST | {"remember": ["run", "always", "host"], "days": 30, "hosts": ["api.x.io:443"]}


def test_the_keys_are_not_torn_apart():
    assert keys_text(80, REQUEST) == "    y once   e show the tool   n no, and tell it why   q stop   [n] no\n"
    assert keys_text(45, REQUEST).splitlines() == [
        "    y once   e show the tool", "    n no, and tell it why   q stop   [n] no"]  # fmt: skip
    assert keys_text(100, KEPT).splitlines() == [
        "    y once   r this run   a always, 30 days   h any call to api.x.io:443, 30 days   e show the tool",
        "    n no, and tell it why   q stop   [n] no"]  # fmt: skip
    assert keys_text(45, KEPT).splitlines() == [
        "    y once   r this run   a always, 30 days", "    h any call to api.x.io:443, 30 days",
        "    e show the tool   n no, and tell it why", "    q stop   [n] no"]  # fmt: skip


def test_a_host_that_nothing_holds_a_call_to_is_not_promised():
    """At landlock the network is on or off: the yes is to what a call names, not to where it can go."""
    open_to_all = keys_text(100, KEPT | {"network": "network any host", "level": "landlock"})
    assert "h any call that names api.x.io:443, 30 days, though it could reach any host" in open_to_all
    assert "h any call to api.x.io:443, 30 days" in keys_text(100, KEPT | {"network": "network api.x.io:443"})


def test_a_key_too_long_for_a_line_stands_alone():
    assert keys_text(45, KEPT | {"remember": ["host"], "hosts": ["status.example.org:443"]}).splitlines() == [
        "    y once", "    h any call to status.example.org:443, 30", "    days",
        "    e show the tool   n no, and tell it why", "    q stop   [n] no"]  # fmt: skip


def test_a_paste_is_not_echoed_as_if_it_were_the_answer(prompted):
    prompt = prompted()
    prompt.type("yyy")
    assert prompt.until("q stop").lstrip("\r").startswith("\n"), "the line of the answer stays empty"
    prompt.type("q")
    assert prompt.answer() == "Approval(verdict='quit', why=None, grant='once')"


@pytest.mark.parametrize(("key", "word"), [("y", "once"), ("r", "run"), ("a", "always"), ("h", "host")])
def test_a_key_says_how_long_a_yes_holds(prompted, key, word):
    prompt = prompted(request=KEPT)
    prompt.type(key)
    assert prompt.answer() == f"Approval(verdict='allow', why=None, grant='{word}')"


def test_a_key_that_is_not_offered_is_no_answer(prompted):
    prompt = prompted()
    for keys in ("r", "a", "h"):
        prompt.type(keys)
    prompt.type("n")
    prompt.type("\n", after="reason): ")
    assert prompt.answer() == "Approval(verdict='deny', why=None, grant='once')"


def test_what_changed_of_a_tool_is_shown_before_the_model_speaks():
    text = approval_text(REQUEST | {"diff": ["grant g-1 is void", "-old", "+new \x1b[31m"]}, 100)
    assert text.index("+new \\x1b[31m") < text.index("the model says")


def test_hostile_text_in_a_prompt_is_shown_escaped():
    request = {**REQUEST, "tool": HOSTILE, "path": HOSTILE, "argv": [HOSTILE, "a\nb"], "cwd": HOSTILE, "text": HOSTILE}
    text = approval_text(request, 500) + question_text(HOSTILE, [HOSTILE], 500, HOSTILE)
    assert text.count(SHOWN) == 8
    assert all(char.isprintable() or char == "\n" for char in text)
    assert r"'a\nb'" in text


def test_a_long_value_shows_head_tail_length_and_digest():
    value = "head" + "x" * 300 + "tail"
    text = approval_text(REQUEST | {"argv": [value]}, 400)
    assert "head" in text and "tail" in text and "308 characters" in text and "sha256 " in text
    assert value not in text
    assert value in long_values(REQUEST | {"argv": [value]})
