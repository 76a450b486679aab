"""One event, one line: its bytes, its checksum, and what is refused."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.events.line import MAX_LINE, BadLine, at_seconds, at_text, check_known, frame, parse, to_json

AT = "2026-11-30T11:45:23.000Z"


def line(data: dict[str, Any]) -> bytes:
    return frame(1, 1, AT, "note", data)


def sealed(body: bytes) -> bytes:
    """A line with a right checksum, whatever its body is."""
    return body + b',"crc":"' + f'{zlib.crc32(body):08x}"}}'.encode()


def test_case_1_the_frame_of_the_specification() -> None:
    framed = frame(1, 1, AT, "user.say", {"text": "grüß"})
    assert framed == (
        '{"v":1,"seq":1,"epoch":1,"at":"2026-11-30T11:45:23.000Z","kind":"user.say","data":{"text":"grüß"},'
        '"crc":"6f3ac622"}\n'
    ).encode()
    assert len(framed) == 118


def test_op_stands_before_data_and_only_where_there_is_one() -> None:
    assert b'"kind":"note","op":3,"data":' in frame(7, 2, AT, "note", {}, op=3)
    assert b'"op"' not in line({})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_any_data_comes_back_and_holds_no_newline_or_control(data: dict[str, Any]) -> None:
    framed = line(data)
    assert framed.count(b"\n") == 1 and framed.endswith(b"\n")
    text = framed[:-1].decode()
    assert not any(ord(c) < 32 or 0x7F <= ord(c) <= 0x9F for c in text)
    assert parse(framed[:-1])["data"] == data


@given(st.text(alphabet=st.characters(codec=None, categories=["Cs", "Ll"])))
def test_half_a_character_becomes_a_replacement(text: str) -> None:
    wanted = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert parse(line({"text": text})[:-1])["data"]["text"] == wanted


@pytest.mark.parametrize(
    "char", ["\x00", "\x1b", "\r", "\x7f", "\x9b", "\u200b", "\u202e", "\u2066", "\u2028", "\ufeff", "\U000e0041"]
)
def test_control_and_direction_characters_are_written_as_escapes(char: str) -> None:
    framed = line({"text": f"a{char}b", f"k{char}": "\\" + char})
    assert char.encode() not in framed[:-1]
    assert parse(framed[:-1])["data"] == {"text": f"a{char}b", f"k{char}": "\\" + char}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError):
        line({"x": value})
    name = {"nan": b"NaN", "inf": b"Infinity", "-inf": b"-Infinity"}[str(value)]
    with pytest.raises(BadLine):
        parse(sealed(b'{"v":1,"seq":1,"epoch":1,"at":"%s","kind":"note","data":{"x":%s}' % (AT.encode(), name)))


def test_what_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="deep"):
        to_json(deep)
    with pytest.raises(BadLine):
        parse(sealed(b'{"data":' + b"[" * 60_000))


def test_a_line_over_the_limit_is_a_bug_and_never_written() -> None:
    with pytest.raises(ValueError, match=str(MAX_LINE)):
        line({"text": "x" * MAX_LINE})
    assert len(line({"text": "x" * (MAX_LINE - 200)})) < MAX_LINE


def test_every_flipped_bit_is_found() -> None:
    framed = line({"text": "grüß"})[:-1]
    for position in range(len(framed)):
        for bit in range(8):
            bad = bytearray(framed)
            bad[position] ^= 1 << bit
            with pytest.raises(BadLine):
                parse(bytes(bad))


@pytest.mark.parametrize(
    "body",
    [
        b"[1]", b'{"v":1,"data":[]', b'{"v":1', b"", b'{"data":{"x":"\xed\xa0\x80"}', b'{"data":{"x":"\xff"}',
        b'{"data":{}}\r',
    ],
)  # fmt: skip
def test_a_right_checksum_makes_no_event_of_anything(body: bytes) -> None:
    with pytest.raises(BadLine):
        parse(sealed(body))


def test_a_line_that_ends_in_crlf_is_bad() -> None:
    with pytest.raises(BadLine):
        parse(line({})[:-1] + b"\r")


def test_times_go_to_milliseconds_and_back() -> None:
    for at in (0.0, 1_796_039_123.0, 1_796_039_123.0005, 1_796_039_123.999, 1_796_039_123.9996):
        assert abs(at_seconds(at_text(at)) - at) <= 0.000501
        assert at_text(at_seconds(at_text(at))) == at_text(at)
    assert at_text(1_796_039_123.9996) == "2026-11-30T11:45:24.000Z"


def test_case_5_an_unknown_field_is_read_an_unknown_kind_or_version_refused() -> None:
    check_known({"v": 1, "kind": "note", "data": {"new": 1}, "newer": 2}, "events.jsonl:1")
    with pytest.raises(HarnessError, match=r"format 2; this harness reads up to 1") as refused:
        check_known({"v": 2, "kind": "note"}, "events.jsonl:1")
    assert refused.value.exit_code == 2
    with pytest.raises(HarnessError, match=r"unknown kind 'dream'") as refused:
        check_known({"v": 1, "kind": "dream"}, "events.jsonl:1")
    assert refused.value.exit_code == 2
