"""The mode as a table: terminal x TERM x CI x NO_COLOR x FORCE_COLOR x --plain x output."""

from __future__ import annotations

import itertools

import pytest

from harness.view.mode import Flags, Stream, mode

TTY, PIPE = Stream(True), Stream(False)
XTERM = {"TERM": "xterm-256color"}


def made(env=XTERM, out=TTY, err=TTY, size=(80, 24), terminal=True, **flags):
    return mode(Flags(**flags), env, terminal, out, err, size)


@pytest.mark.parametrize(
    ("env", "flags", "err", "size", "view", "colour", "glyphs", "can_ask"),
    [
        (XTERM, {}, TTY, (80, 24), "live", True, "unicode", True),
        (XTERM, {}, PIPE, (80, 24), "plain", False, "unicode", True),
        (XTERM, {}, TTY, (40, 8), "live", True, "unicode", True),
        (XTERM, {}, TTY, (39, 24), "plain", True, "unicode", True),
        (XTERM, {}, TTY, (80, 7), "plain", True, "unicode", True),
        ({}, {}, TTY, (80, 24), "plain", True, "unicode", True),
        ({"TERM": "dumb"}, {}, TTY, (80, 24), "plain", False, "unicode", True),
        ({"TERM": "linux"}, {}, TTY, (80, 24), "live", True, "ascii", True),
        (XTERM | {"CI": "true"}, {}, TTY, (80, 24), "plain", True, "unicode", False),
        (XTERM | {"CI": "false"}, {}, TTY, (80, 24), "live", True, "unicode", True),
        (XTERM | {"CI": ""}, {}, TTY, (80, 24), "live", True, "unicode", True),
        (XTERM | {"NO_COLOR": "1"}, {}, TTY, (80, 24), "live", False, "unicode", True),
        (XTERM | {"NO_COLOR": ""}, {}, TTY, (80, 24), "live", True, "unicode", True),
        (XTERM | {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {}, TTY, (80, 24), "live", False, "unicode", True),
        (XTERM | {"FORCE_COLOR": "1"}, {}, PIPE, (80, 24), "plain", True, "unicode", True),
        (XTERM | {"FORCE_COLOR": "0"}, {}, PIPE, (80, 24), "plain", False, "unicode", True),
        (XTERM | {"FORCE_COLOR": "1"}, {"no_color": True}, PIPE, (80, 24), "plain", False, "unicode", True),
        (XTERM | {"FORCE_COLOR": "1"}, {"plain": True}, TTY, (80, 24), "plain", False, "ascii", True),
        (XTERM | {"HARNESS_PLAIN": "1"}, {}, TTY, (80, 24), "plain", False, "ascii", True),
        (XTERM, {"plain": True, "glyphs": "unicode"}, TTY, (80, 24), "plain", False, "unicode", True),
        (XTERM | {"HARNESS_GLYPHS": "ascii"}, {}, TTY, (80, 24), "live", True, "ascii", True),
        (XTERM, {}, Stream(True, "ascii"), (80, 24), "live", True, "ascii", True),
        (XTERM, {}, Stream(True, "latin-1"), (80, 24), "live", True, "ascii", True),
        (XTERM, {"quiet": True}, TTY, (80, 24), "plain", True, "unicode", True),
        (XTERM, {"output": "json"}, TTY, (80, 24), "plain", True, "unicode", True),
        (XTERM, {"output": "stream-json"}, TTY, (80, 24), "plain", True, "unicode", True),
        (XTERM, {"no_input": True}, TTY, (80, 24), "live", True, "unicode", False),
    ],
)
def test_mode_table(env, flags, err, size, view, colour, glyphs, can_ask):
    found = made(env, err=err, size=size, **flags)
    assert (found.view, found.colour, found.glyphs, found.can_ask) == (view, colour, glyphs, can_ask)


def test_json_in_a_file_leaves_the_terminal_to_the_live_view():
    assert made(out=PIPE, output="json").view == "live"
    assert not made({**XTERM, "FORCE_COLOR": "1"}, out=PIPE, output="json").out_colour


def test_lists_are_cut_on_a_terminal_only():
    assert made(size=(60, 24)).out_width == 60
    assert made(out=PIPE, size=(60, 24)).out_width is None


def test_a_background_job_is_not_asked():
    assert not made(terminal=False).can_ask


def test_nothing_but_a_terminal_is_ever_live():
    terms, switches = (None, "dumb", "xterm"), ("", "0", "1")
    for term, ci, none, force, plain in itertools.product(terms, switches, switches, switches, (False, True)):
        env = {"CI": ci, "NO_COLOR": none, "FORCE_COLOR": force} | ({"TERM": term} if term else {})
        found = made(env, err=PIPE, out=PIPE, plain=plain)
        assert found.view == "plain"
        assert found.colour == (force == "1" and not none and not plain)
        assert made(env, plain=plain).view == ("live" if term == "xterm" and not ci and not plain else "plain")
