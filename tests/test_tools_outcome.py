from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tools import Tool
from harness.tools.outcome import Advice, Evidence, error_class, no_effect, read_result, structured


def test_case_8_exit_codes_carry_the_class() -> None:
    wanted = {
        0: "OK", 2: "INVALID_INPUT", 64: "INVALID_INPUT", 65: "INVALID_INPUT", 66: "INVALID_INPUT", 69: "RETRYABLE",
        75: "RETRYABLE", 73: "CONFLICT", 77: "NEEDS_AUTH", 78: "MISCONFIGURED", 124: "TIMEOUT", 1: "FAILED",
        3: "FAILED", 67: "FAILED", 126: "FAILED", 127: "FAILED", -11: "FAILED", 139: "FAILED",
    }  # fmt: skip
    assert {code: error_class(code) for code in wanted} == wanted


def test_case_8_no_effect_is_believed_only_of_a_tool_with_a_header() -> None:
    known, unknown = Tool("a", Path("a"), header=True), Tool("b", Path("b"))
    proving = [code for code in range(-20, 256) if no_effect(known, code)]
    assert proving == [2, 64, 65, 66, 69, 73, 75, 77, 78]
    assert not any(no_effect(unknown, code) for code in range(-20, 256))


@pytest.mark.parametrize("text", ["", "words", "[1]", '{"a":1}\n{"a":2}', "{a}", '{"a":NaN}', '{"a":' * 100_000, '"x"'])
def test_all_but_one_json_object_is_text(text: str) -> None:
    assert structured(text.encode()) is None


def test_one_object_is_structured() -> None:
    assert structured(b' {"a": [1, null]}\n') == {"a": [1, None]}
    assert structured(b'{"a": "\xff"}') is None


def test_the_three_keys() -> None:
    made = read_result(json.dumps({
        "evidence": [{"source": "a.log#L1-L2", "text": "oom"}, {"source": "https://x", "id": "page"}, {"source": "42"}],
        "artifacts": ["out/a.csv", {"path": "b.csv"}],
        "next": [{"tool": "check-heap", "args": ["--pod", "p1"], "why": "oom"}, {"tool": "ask-owner"}],
        "rows": 3,
    }).encode())  # fmt: skip
    assert made.evidence == (Evidence("E1", "a.log#L1-L2", "oom"), Evidence("page", "https://x"), Evidence("E3", "42"))
    assert made.artifacts == ("out/a.csv", "b.csv")
    assert made.next == (Advice("check-heap", ("--pod", "p1"), "oom"), Advice("ask-owner"))
    assert made.notes == () and made.data is not None and made.data["rows"] == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("evidence", "x"), ("evidence", [{"text": "no source"}]), ("evidence", [{"source": 1}]),
        ("evidence", [{"source": "a", "id": "x"}, {"source": "b", "id": "x"}]), ("artifacts", {"path": "a"}),
        ("artifacts", [1]), ("artifacts", ["a", ""]), ("next", ["check-heap"]), ("next", [{"tool": "x", "args": "y"}]),
        ("next", [{"tool": "x", "why": 1}]),
    ],
)  # fmt: skip
def test_a_wrong_shape_stays_data_with_a_note(key: str, value: object) -> None:
    made = read_result(json.dumps({key: value}).encode())
    assert made.data == {key: value}
    assert (made.evidence, made.artifacts, made.next) == ((), (), ())
    assert len(made.notes) == 1 and key in made.notes[0]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["evidence", "artifacts", "next", "rows"]), json_values))
def test_any_object_stays_whole(data: dict[str, object]) -> None:
    assert read_result(json.dumps(data).encode()).data == data


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_have_a_result(stdout: bytes) -> None:
    made = read_result(stdout)
    assert made.data is not None or made == read_result(b"")
