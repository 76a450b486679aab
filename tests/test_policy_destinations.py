"""A destination counts as named only where it stands whole in the user's words."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policy.destinations import code_points, named

ANN = "ann@x.io"


@pytest.mark.parametrize(
    "words",
    ["ann@x.io", "write to ann@x.io", "write to Ann@X.IO.", "ann@x.io, please", "(ann@x.io)", "mailto:ann@x.io",
     "ann@x.io: hi", "is it ann@x.io?", "ann@x.io\nthanks", "`ann@x.io`", "bann@x.io or ann@x.io", "to=ann@x.io"],
)  # fmt: skip
def test_it_stands_whole(words: str) -> None:
    assert named(ANN, [words]) and named(ANN, ["nothing", words])


@pytest.mark.parametrize(
    "words",
    ["", "ann", "joann@x.io", "_ann@x.io", "@ann@x.io", ".ann@x.io", "-ann@x.io", "/ann@x.io", "+ann@x.io",
     "1ann@x.io", "éann@x.io", "ann@x.io_", "ann@x.io@", "ann@x.io-", "ann@x.io/", "ann@x.io+", "ann@x.ioo",
     "ann@x.io2", "ann@x.io.evil.com", "ann@x.io.2", "ann@x.ioé", "ann@x.io\u0301", "ann@x.io\u200b.evil.com",
     "\u200dann@x.io", "ann @x.io"],
)  # fmt: skip
def test_it_is_a_part_of_something_else(words: str) -> None:
    assert not named(ANN, [words])


@pytest.mark.parametrize("letter", [*"_@.-/+", "a", "Z", "0", "é", "٣"])
def test_what_may_not_stand_before_it(letter: str) -> None:
    assert not named("x.io", [f"go to {letter}x.io now"])


@pytest.mark.parametrize("after", [*"_@-/+", "a", "Z", "0", "é", ".a", ".0"])
def test_what_may_not_stand_after_it(after: str) -> None:
    assert not named("x.io", [f"go to x.io{after} now"])


@pytest.mark.parametrize("after", ["", ".", ". And", ",", ":", ";", "!", "?", ")", "'s", '"', "..."])
def test_what_may(after: str) -> None:
    assert named("x.io", [f"go to x.io{after}"])


URL = "https://x.io/a?b=1"


@pytest.mark.parametrize(
    ("words", "whole"),
    [(f"post to {URL}", True), (f"see <{URL}>", True), (f"[here]({URL}).", True), (f"did you read {URL}?", True),
     (f"{URL}&c=2", False), (f"{URL}#top", False), (f"{URL}%20x", False), (f"{URL}=", False), (f"{URL}:x", False),
     ("https://x.io/a", False), (f"{URL}), then go", True), (f"{URL}),x", False)],
)  # fmt: skip
def test_a_url_counts_whole_its_query_included(words: str, whole: bool) -> None:
    assert named(URL, [words]) is whole


def test_of_a_longer_url_the_beginning_is_not_named() -> None:
    assert not named("https://x.io/a", [f"post to {URL}"])
    assert not named("https://x.io", ["https://x.io/a"])


@pytest.mark.parametrize("value", ["", " ", "-", "...", "ánn@x.io", "аnn@x.io", "x\u200b.io"])
def test_what_is_never_named(value: str) -> None:
    assert not named(value, [value, f"write to {value}"])


def test_letters_that_only_look_alike_name_nothing() -> None:
    assert not named("bank.io", ["send it to ban\u212a.io"])  # the Kelvin sign folds to k elsewhere
    assert named("bank.io", ["send it to BANK.IO"])


@given(st.text(string.ascii_letters + string.digits + "@.-_/+", min_size=1, max_size=8), st.text(max_size=12))
def test_blanks_make_whole_and_every_answer_is_the_same_twice(value: str, words: str) -> None:
    assert named(value, [f"x {value} y"]) == any(letter.isalnum() for letter in value)
    assert named(value, [words]) == named(value, [words])


def test_words_of_any_length_cost_no_more_than_reading_them() -> None:
    assert not named("https://a", ["(https://a" * 50_000 + "b"])
    assert not named("a@b", ["a@b_" * 200_000])
    assert named("a)", ["a)" + ")" * 500_000])


def test_code_points_are_spelled_out() -> None:
    assert code_points("аnn@x.io") == "\\u0430nn@x.io (U+0430)"
