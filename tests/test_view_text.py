"""Escaping, widths, columns, and amounts as text."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from harness.view import text
from tests.view_events import HOSTILE, SHOWN


def test_what_can_act_on_a_terminal_is_shown_instead():
    assert text.escape(HOSTILE) == SHOWN
    assert text.escape("a\tb\nc") == "a\tb\nc"
    assert text.escape("\x7f\x9b\U000e0041\ud800\u0378") == r"\x7f\x9b\U000e0041\ud800\u0378"
    assert text.escape("é 漢字 \u00a0 €") == "é 漢字 \u00a0 €"


def test_no_character_that_controls_or_hides_survives():
    for code in range(sys.maxunicode + 1):
        shown = text.escape(chr(code))
        if shown == chr(code):
            assert chr(code) in "\n\t" or unicodedata.category(chr(code)) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def test_widths_count_terminal_columns():
    assert text.width("漢字") == 4
    assert text.width("e\u0301x") == 2
    assert text.cut("漢字漢字", 5) == "漢字…"
    assert text.cut("abcdef", 5, "...") == "ab..."
    assert text.cut("abc", 3) == "abc"
    assert text.cut("abcdef", 2, "...") == ".."
    assert text.pad("漢", 4) == "漢  "


def test_lines_break_between_words_and_never_exceed():
    wrapped = text.wrap("The pod that is not ready\nwas killed twice 漢字漢字漢字漢字漢字漢字", 12, "  ")
    assert max(map(text.width, wrapped)) <= 12
    assert wrapped[:3] == ["  The pod", "  that is", "  not ready"]
    assert "".join(wrapped).count("漢") == 6
    assert text.wrap("- a\n  b\n\n    c d", 6) == ["- a", "  b", "", "    c", "d"]


ROWS = [["oncall-triage", "project", "Finds why a batch failed"], ["x\x1b", "shipped", "Another"]]


def test_lists_drop_columns_from_the_right_and_cut_the_last():
    assert text.columns(ROWS, None, ["NAME", "FROM", "WHAT"]) == [
        "NAME           FROM     WHAT",
        "oncall-triage  project  Finds why a batch failed",
        "x\\x1b          shipped  Another",
    ]
    assert text.columns(ROWS, 40)[0] == "oncall-triage  project  Finds why a bat…"
    assert text.columns(ROWS, 30)[0] == "oncall-triage  project"
    assert text.columns(ROWS, 8)[0] == "oncall-…"
    assert text.columns([], 80) == []


@pytest.mark.parametrize("limit", range(1, 60))
def test_a_list_never_wraps(limit):
    assert all(text.width(line) <= limit for line in text.columns(ROWS, limit))


def test_an_unknown_price_is_never_a_zero():
    assert text.money(70_000_000) == "$0.07"
    assert text.money(70_000_000, 3) == "$0.07 + 3 unpriced"
    assert text.money(0, 2) == "unknown"
    assert text.money(0, 0, 5) == "not metered" and text.money(70_000_000, 0, 5) == "$0.07 + 5 not metered"
    assert text.money(0) == "$0.00"
    assert text.money(4_000_000) == "$0.004"
    assert text.money(1) == "<$0.0001"


def test_amounts_in_words():
    assert [text.duration(s) for s in (0.42, 14.2, 185, 7620)] == ["0.4s", "14s", "3m 05s", "2h 07m"]
    assert [text.count(n) for n in (950, 18_200, 1_200_000)] == ["950", "18k", "1.2M"]
    assert [text.size(n) for n in (0, 812, 4096, 2_000_000)] == ["0 B", "812 B", "4.1 kB", "2.0 MB"]


def test_a_line_is_cut_with_its_colours_kept():
    line = (("abc", "green"), ("defgh", ""), ("ij", "red"))
    assert text.plain(text.fit(line, 6)) == "abcde…"
    assert text.plain(text.fit(line, 8)) == "abcdefg…"
    assert text.fit(line, 10) == line
    assert text.ansi(text.fit(line, 4), True) == "\x1b[32mabc\x1b[0m…"
    assert text.ansi(line, False) == "abcdefghij"


def test_an_argument_list_is_shown_as_it_would_be_typed():
    assert text.shown_argv(["--q", "two words", "a\nb", "[red]"]) == "--q 'two words' 'a\\nb' '[red]'"
