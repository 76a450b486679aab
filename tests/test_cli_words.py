"""Texts and pairs as typed: whose words they are, and when standard input is read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from harness.cli.words import Pipe, Words, pairs_of, text_of
from harness.errors import HarnessError


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    data = io.BytesIO(b"from the pipe\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    return data


def test_case_3_words_and_one_argument_are_the_same_users_text(stdin: io.BytesIO) -> None:
    assert text_of(["why", "is", "42 late"], None, Pipe()) == text_of(["why is 42 late"], None, Pipe())
    assert text_of(["why is 42 late"], None, Pipe()) == Words("why is 42 late", "user")
    assert text_of([], None, Pipe()) is None
    assert stdin.tell() == 0, "standard input was read though nothing said -"


def test_case_3_a_pipe_and_a_file_are_input(stdin: io.BytesIO, tmp_path: Path) -> None:
    (tmp_path / "goal").write_text("from the file\n")
    assert text_of(["-"], None, Pipe()) == Words("from the pipe", "input")
    assert text_of([], str(tmp_path / "goal"), Pipe()) == Words("from the file", "input")


def test_case_3_two_texts_are_refused(tmp_path: Path) -> None:
    for words in (["x"], ["-"]):
        with pytest.raises(HarnessError, match="-f FILE"):
            text_of(words, str(tmp_path / "goal"), Pipe())


@pytest.mark.parametrize(
    ("data", "words"), [(b"a\xff\n", "not UTF-8"), (b"a\0b", "NUL"), (b"x" * (1024 * 1024 + 1), "over 1 MiB")]
)
def test_what_is_no_text_is_refused_in_one_line(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "goal").write_bytes(data)
    with pytest.raises(HarnessError, match=words):
        text_of([], str(tmp_path / "goal"), Pipe())


def test_pairs_read_files_the_pipe_and_a_doubled_at(stdin: io.BytesIO, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("line 1\nline 2\n")
    found = pairs_of(["a=x=y", f"log=@{tmp_path}/log", "p=-", "at=@@x", "none="], Pipe())
    assert dict(found) == {
        "a": Words("x=y"),
        "log": Words("line 1\nline 2", "input"),
        "p": Words("from the pipe", "input"),
        "at": Words("@x"),
        "none": Words(""),
    }


@pytest.mark.parametrize("items", [["a=1", "a=2"], ["A=1"], ["a"], ["=1"], ["a=@/no/such/file"], ["a=-", "b=-"]])
def test_bad_pairs_are_refused_with_a_fix(stdin: io.BytesIO, items: list[str]) -> None:
    with pytest.raises(HarnessError) as caught:
        pairs_of(items, Pipe())
    assert caught.value.fix and caught.value.exit_code == 2
