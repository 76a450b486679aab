"""What a run knows: a value counts when it stands whole in something given or found, and nothing knows itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.policy.grounding import MAX_TEXT, Known, Source

GOAL = Source("user", "the goal")
LOGS = Source("tool:search-logs", "search-logs #7")


def known(text: str, *said: str) -> Known:
    index = Known()
    index.file(LOGS, text, said)
    return index


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("r-1841", "request r-1841 failed"),
        ("R-1841", "request r-1841 failed"),
        ("r-1841", '{"id":"r-1841"}'),
        ("r-1841", "r-1841"),
        ("/var/log/x", "see /var/log/x."),
        ("payments  eod", "the payments\n eod batch"),
        ("café", "cafe\u0301 orders"),
        ("5", "exit 5"),
        ("a@b.io", "mail a@b.io now"),
        ("msra-sa-41:8030", "to msra-sa-41:8030; gone"),
        ("STRASSE", "straße 5"),
    ],
)  # fmt: skip
def test_a_value_that_stands_whole_in_a_text_is_known(value: str, text: str) -> None:
    assert known(text).sources(value) == (LOGS,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("r-184", "request r-1841 failed"),
        ("1841", "request r1841"),
        ("r-1842", "request r-1841 failed"),
        ("eod payments", "payments eod"),
        ("cafe", "cafe\u0323 orders"),
        ("--", "a -- b"),
        ("", "anything"),
        (" ", "a b"),
        ("r-\u200b1841", "r-\u200b1841"),
        ("r-1841\u202e", "r-1841\u202e"),
        ("r\n1841", "r\n1841"),
        ("a\x00b", "a\x00b"),
        ("a\u3164b", "a\u3164b"),
    ],
)  # fmt: skip
def test_a_part_of_a_word_and_what_cannot_be_seen_are_not_known(value: str, text: str) -> None:
    assert known(text).sources(value) == ()


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"rows": [{"path": "C:\\logs\\new"}]}),
        json.dumps([["C:\\logs\\new"]]),
        "{\"a\": 1}\nnot json\n" + json.dumps({"path": "C:\\logs\\new"}),
    ],
)  # fmt: skip
def test_the_leaves_of_json_count_as_they_read_without_escapes(text: str) -> None:
    assert known(text).sources("C:\\logs\\new") == (LOGS,)


def test_leaves_that_stand_beside_each_other_are_no_value_together() -> None:
    assert known(json.dumps(["a", "b"])).sources("a b") == ()


def test_json_that_is_nested_deeper_than_the_stack_counts_raw() -> None:
    assert known("[" * 20_000 + '"r-1"').sources("r-1") == (LOGS,)


def test_a_receipt_does_not_make_known_what_its_call_said() -> None:
    index = known("no request r-9999 in service payments; near: r-1841", "--request-id", "r-9999", "payments")
    assert index.sources("r-9999") == ()
    assert index.sources("payments") == ()
    assert index.sources("r-1841") == (LOGS,)


def test_a_value_that_was_said_is_known_where_somebody_else_says_it() -> None:
    index = known("r-9999 is unknown", "r-9999")
    index.file(GOAL, "replay r-9999")
    assert index.sources("r-9999") == (GOAL,)


def test_a_longer_value_may_be_built_on_what_the_call_said() -> None:
    index = known("payments-eod-2026 and ab cd ef", "payments-eod", "ab cd", "cd ef")
    assert index.sources("payments-eod-2026") == (LOGS,)
    assert index.sources("ab cd ef") == (LOGS,)
    assert index.sources("ab cd") == ()


def test_the_first_source_of_each_kind_is_told() -> None:
    index = Known()
    index.file(LOGS, "r-1841 failed")
    index.file(Source("tool:search-logs", "search-logs #8"), "r-1841 failed")
    index.file(GOAL, "replay r-1841")
    assert index.sources("r-1841") == (LOGS, GOAL)


def test_the_nearest_known_values_are_told_with_their_source() -> None:
    index = known("ids: r-1841, r-1842; other words", "--service", "r-1840")
    index.file(GOAL, "why did r-17 fail")
    near = index.near("r-1840")
    assert [word for word, _ in near[:2]] == ["r-1842", "r-1841"]
    assert dict(near)["r-1841"] == LOGS
    assert all(word != "r-1840" for word, _ in near)
    assert len(known(" ".join(f"r-18{n}" for n in range(40, 60))).near("r-1839")) == 5


def test_only_the_first_part_of_an_endless_text_counts() -> None:
    text = "x" * (MAX_TEXT - 4) + " ab r-1841"
    assert known(text).sources("r-1841") == ()
    assert known(text).sources("ab") == (LOGS,)


LETTERS = "ab1-/ .\\é"


@given(st.text(LETTERS, min_size=1, max_size=4).filter(lambda word: any(map(str.isalnum, word))), st.text(LETTERS))
def test_the_index_agrees_with_looking_at_every_place_of_the_text(value: str, text: str) -> None:
    sought, seen = " ".join(value.split()), f" {' '.join(text.split())} "
    places = [at for at in range(1, len(seen)) if seen[:-1].startswith(sought, at)]
    whole = any(not seen[at - 1].isalnum() and not seen[at + len(sought)].isalnum() for at in places)
    assert bool(known(text).sources(value)) == whole


@pytest.mark.parametrize("said", ['["req\\u002d9999"]', "req\\u002d9999", '{"a": ["req\\u002D9999"]}', "req-\\9999"])
def test_an_echo_that_is_decoded_on_its_way_makes_nothing_known(said: str) -> None:
    assert known('["req\\u002d9999", "r-1"]', said).sources("req-9999") == ()
    index = Known()
    index.wrote([said])
    index.file(LOGS, '{"found": "req-9999 r-1"}')
    assert (index.sources("req-9999"), index.sources("r-1")) == ((), (LOGS,))
