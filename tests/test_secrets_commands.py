"""Nothing of six secrets is left in anything that a command prints, sends or keeps."""

from __future__ import annotations

import re

import pytest

from tests.planting import NEEDLES, SECRETS, left_in
from tests.planting_commands import sinks_of

WITH_NAMES = ("model: request bodies", "run: stdout", "kept: events.jsonl", "kept: ops", "inbox", "recorded script",
              "bug: report", "error message", "terminal: live view, approval", "kept: answer.md")  # fmt: skip


@pytest.fixture(scope="module")
def sinks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sinks_of(tmp_path_factory.mktemp("planted"))


def test_a49_no_secret_is_left_in_anything_that_is_shown_sent_or_kept(sinks: dict[str, bytes]) -> None:
    assert {name: left for name, raw in sinks.items() if (left := left_in(raw))} == {}


def test_the_search_finds_what_it_looks_for() -> None:
    """Six secrets in eleven forms; some values are the same in several of them."""
    assert len(NEEDLES) == 6 * 11
    assert left_in(b"".join(needle + b"\n" for needle in NEEDLES.values())) == list(NEEDLES)


@pytest.mark.parametrize("sink", WITH_NAMES)
def test_each_sink_held_something_that_was_masked(sinks: dict[str, bytes], sink: str) -> None:
    assert any(f"[secret:{name}]".encode() in sinks[sink] for name in SECRETS), sorted(sinks)


def test_a49_no_file_of_the_run_was_forgotten(sinks: dict[str, bytes]) -> None:
    kinds = {name.removeprefix("kept: ") for name in sinks if name.startswith("kept: ")}
    assert {"events.jsonl", "ops", "blobs", "answer.md", "inbox", "lock", "state folder"} <= kinds


def test_show_reports_each_leak_by_name_and_place(sinks: dict[str, bytes]) -> None:
    shown = sinks["show, unknown: 36 forms"].decode()
    assert re.search(r"^masked API_TOKEN:.*stdout of spill #1", shown, re.MULTILINE | re.DOTALL)
    assert '{"name": "SIGN_KEY", "tool": "spill", "sink": "stdout", "op": 1}' in shown
