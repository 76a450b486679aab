"""What a step costs in lines, bytes and memory. What it costs in time is measured by `make bench`."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from harness.events.fold import fold
from harness.events.line import parse, to_json
from tests.journal_lines import steps
from tests.loop_world import Project, call, finish, reply

MIB = 1 << 20
FIVE = ["model.start", "model.reply", "decide", "tool.start", "tool.end"]


def payload(event: dict[str, object]) -> int:
    """The bytes of what the model and the tool said, calls and their argv included, as the event holds them."""
    data = event["data"]
    assert isinstance(data, dict)
    said = [data.get(name) for name in ("content", "calls", "argv", "out")]
    return sum(len(to_json(value).encode()) for value in said if value)


@pytest.mark.parametrize("effect", ["read", "write", "write\n@meta repeat queryable\n@meta query asked"])
def test_a_reply_with_one_call_is_five_lines_and_900_bytes(tmp_path: Path, effect: str) -> None:
    project = Project(tmp_path)
    project.tool("asked", "exit 0")
    project.tool("search-logs", "seq 3", f"@option --service! <S>  which\n@meta effect {effect}")
    project.skill(tools="search-logs")
    ran = project.run([*(reply(call("search-logs", "--service", f"s{n}")) for n in range(3)), finish()])
    lines = (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    starts = [n for n, event in enumerate(ran.events) if event["kind"] == "model.start"]
    assert len(starts) == 4
    for first, after in pairwise(starts[1:]):  # the first request names all that the later ones leave out
        step = ran.events[first:after]
        assert [event["kind"] for event in step] == FIVE
        assert sum(map(len, lines[first:after])) - sum(map(payload, step)) <= 900


def test_3000_steps_take_at_most_40_mib_of_memory() -> None:
    pieces = [line[:-1] for line in steps(3_000)]
    tracemalloc.start()
    events = [parse(piece) for piece in pieces]
    state = fold(events)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.turn == 3_000 and len(events) == len(pieces)
    assert used <= 40 * MIB
