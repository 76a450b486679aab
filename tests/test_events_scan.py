"""Reading a journal back: what is a torn end, what is damage, and what a reader of a live run sees."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.line import frame
from harness.events.log import Log, follow, open_log
from harness.events.scan import scan
from tests.journal_lines import Hands, NoSync, journal

AT = "2026-11-30T11:45:23.000Z"


def put(folder: Path, lines: list[bytes]) -> bytes:
    (folder / "events.jsonl").write_bytes(b"".join(lines))
    return b"".join(lines)


def opened(folder: Path) -> Log:
    return open_log(folder, NoSync(), Hands())


@pytest.mark.parametrize("tail", [b"", b"\0" * 300, b"garbage\nmore\n", b'{"v":1,"seq":51', b"\n", b"\xff\xfe"])
def test_case_2_a_torn_end_is_saved_cut_off_and_told(tmp_path: Path, tail: bytes) -> None:
    lines = journal(tmp_path / "run")
    cut = lines[-1][:-4] + tail
    put(tmp_path / "run", [*lines[:-1], cut])
    log = opened(tmp_path / "run")
    log.close()
    good = len(b"".join(lines[:-1]))
    assert log.repaired == {"offset": good, "bytes": len(cut)}
    assert (tmp_path / "run" / f"torn-{good}.bin").read_bytes() == cut
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == b"".join(lines[:-1])
    assert log.events[-1]["seq"] == 49
    again = opened(tmp_path / "run")
    again.close()
    assert again.repaired is None


def flip(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b"number 3", b"number 2"), *lines[5:]]


DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "flipped": flip,
    "deleted": lambda lines: lines[:4] + lines[5:],
    "doubled": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "swapped": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "zeros": lambda lines: [*lines[:4], b"\0" * len(lines[4]), *lines[5:]],
    "zeros before the last": lambda lines: [*lines[:4], b"\0" * len(b"".join(lines[4:-1])), lines[-1]],
    "no newline": lambda lines: [*lines[:4], lines[4][:-1], *lines[5:]],
    "crlf": lambda lines: [*lines[:4], lines[4][:-1] + b"\r\n", *lines[5:]],
    "wrong epoch": lambda lines: [*lines[:4], frame(5, 2, AT, "note", {"why": "warning"}), *lines[5:]],
    "wrong epoch at the end": lambda lines: [*lines[:4], frame(5, 2, AT, "note", {"why": "warning"})],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_case_3_damage_is_refused_with_its_place_and_nothing_changes(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    lines = journal(folder)
    raw = put(folder, DAMAGE[how](lines))
    last = 5 if how == "doubled" else 4
    with pytest.raises(JournalError) as refused:
        opened(folder)
    assert refused.value.exit_code == 3
    assert refused.value.where == str(folder / "events.jsonl")
    assert f"damaged at byte {len(b''.join(lines[:last]))}:" in refused.value.message
    assert refused.value.message.endswith(f"the last good event is {last}")
    assert (folder / "events.jsonl").read_bytes() == raw
    assert sorted(p.name for p in folder.iterdir()) == ["blobs", "events.jsonl", "inbox", "lock", "ops"]


def test_case_5_a_newer_journal_is_refused_with_both_versions(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    lines = journal(folder, notes=1)
    newer = frame(3, 1, AT, "note", {"why": "warning"}).replace(b'"v":1', b'"v":2')
    from zlib import crc32

    body = newer[: newer.index(b',"crc"')]
    put(folder, [*lines, body + f',"crc":"{crc32(body):08x}"}}\n'.encode()])
    for look in (opened, follow):
        with pytest.raises(HarnessError, match=r"format 2; this harness reads up to 1") as refused:
            look(folder)
        assert refused.value.exit_code == 2
    put(folder, [*lines, frame(3, 1, AT, "dream", {})])
    with pytest.raises(HarnessError, match="unknown kind 'dream'") as refused:
        opened(folder)
    assert refused.value.exit_code == 2
    put(folder, [*lines, frame(3, 1, AT, "note", {"why": "warning", "text": "", "newer": [1]})])
    log = opened(folder)
    log.close()
    assert log.events[-1]["data"]["newer"] == [1]


def blob_then(kind: str | None) -> Callable[[Log], None]:
    def more(log: Log) -> None:
        log.append("note", {"why": "warning", "text": log.fit("x" * 5000)})
        log.append("note", {"why": "warning", "text": "after"})
        if kind is not None:
            log.append(kind, {"stop": "waiting", "exit": 75, "ops": [], "hint": ""})

    return more


@pytest.mark.parametrize("broken", [None, b"other bytes"])
def test_case_6_a_lost_blob_is_damage_after_a_sync_and_a_torn_end_without(tmp_path: Path, broken: bytes | None) -> None:
    for kind in (None, "park"):
        folder = tmp_path / str(kind)
        lines = journal(folder, 2, blob_then(kind))
        [blob] = (folder / "blobs").iterdir()
        blob.unlink()
        if broken is not None:
            blob.write_bytes(broken)
        if kind == "park":
            with pytest.raises(JournalError, match=r"blob \w+ (is missing|has other content); .* event is 3$"):
                opened(folder)
            continue
        log = opened(folder)
        log.close()
        assert log.repaired == {"offset": len(b"".join(lines[:3])), "bytes": len(b"".join(lines[3:]))}


@pytest.mark.parametrize(("effect", "damaged"), [("read", False), ("write", True)])
def test_case_6_an_effect_begun_after_the_blob_proves_that_it_was_there(
    tmp_path: Path, effect: str, damaged: bool
) -> None:
    def more(log: Log) -> None:
        log.append("decide", {"verdict": "allow", "argv": [], "effect": effect, "repeat": "pure"}, 1)
        log.append("note", {"why": "warning", "text": log.fit("x" * 5000)})
        log.append("tool.start", {"tool": "t"}, 1)
        log.append("tool.end", {"outcome": "done", "exit": 0, "result": ""}, 1)

    journal(tmp_path / "run", 2, more)
    next((tmp_path / "run" / "blobs").iterdir()).unlink()
    if damaged:
        with pytest.raises(JournalError, match="damaged"):
            opened(tmp_path / "run")
        return
    log = opened(tmp_path / "run")
    log.close()
    assert log.events[-1]["kind"] == "decide"


@pytest.mark.parametrize("proof", ["resume", "query"])
def test_case_6_a_new_owner_proves_the_blobs_before_it_and_a_query_proves_none(tmp_path: Path, proof: str) -> None:
    def more(log: Log) -> None:
        log.append("decide", {"verdict": "allow", "argv": [], "effect": "write", "repeat": "queryable"}, 1)
        log.append("note", {"why": "warning", "text": log.fit("x" * 5000)})
        if proof == "resume":
            log.append("resume", {"by": "user", "lost_s": 0})
        else:
            log.append("tool.start", {"try": 2, "role": "query", "tool": "asked"}, 1)
            log.append("tool.end", {"try": 2, "outcome": "done", "exit": 0, "by": "query", "result": ""}, 1)

    journal(tmp_path / "run", 2, more)
    next((tmp_path / "run" / "blobs").iterdir()).unlink()
    if proof == "resume":
        with pytest.raises(JournalError, match="damaged"):
            opened(tmp_path / "run")
        return
    log = opened(tmp_path / "run")
    log.close()
    assert log.events[-1]["kind"] == "decide"


def test_case_6_the_end_of_an_effect_does_not_prove_its_own_output(tmp_path: Path) -> None:
    def more(log: Log) -> None:
        log.append("decide", {"verdict": "allow", "argv": [], "effect": "write", "repeat": "opaque"}, 1)
        log.append("tool.start", {"tool": "t"}, 1)
        log.append("tool.end", {"outcome": "done", "exit": 0, "out": log.fit("x" * 5000), "result": ""}, 1)

    journal(tmp_path / "run", 2, more)
    next((tmp_path / "run" / "blobs").iterdir()).unlink()
    log = opened(tmp_path / "run")
    log.close()
    assert log.events[-1]["kind"] == "tool.start"


def test_l2_a_thousand_cut_journals_open_or_are_refused_with_a_cause(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    raw = b"".join(journal(folder, 30, blob_then("park")))
    chance = random.Random(2)
    for _ in range(1_000):
        length = chance.randrange(len(raw))
        try:
            found = scan(raw[:length], folder)
        except JournalError as error:
            pytest.fail(f"cut at {length}: {error}")
        assert raw.startswith(raw[: found.good]) and raw[: found.good].endswith(b"\n") == bool(found.good)
        assert found.torn == raw[found.good : length] and b"\n" not in found.torn
        (folder / "events.jsonl").write_bytes(raw[:length])
        if not found.started:
            with pytest.raises(JournalError, match="never started"):
                opened(folder)
            continue
        log = opened(folder)
        log.append("resume", {"by": "user", "lost_s": 0})
        log.close()
        assert [event["seq"] for event in follow(folder)] == list(range(1, len(found.events) + 2))


@pytest.mark.parametrize("name", ["", "events.jsonl"])
def test_a_folder_without_a_whole_first_event_never_started(tmp_path: Path, name: str) -> None:
    if name:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(JournalError, match="never started") as refused:
        opened(tmp_path)
    assert refused.value.exit_code == 3
    with pytest.raises(JournalError, match="never started"):
        opened(tmp_path / "nowhere")


def test_case_10_a_reader_stops_at_the_half_line_and_sees_it_once_when_it_is_whole(tmp_path: Path) -> None:
    lines = journal(tmp_path / "run", 3)
    path = tmp_path / "run" / "events.jsonl"
    path.write_bytes(b"".join(lines[:3]))
    seen = []
    with path.open("ab", buffering=0) as file:
        for piece in (lines[3][:20], lines[3][20:-1], b"\n"):
            file.write(piece)
            seen.append([event["seq"] for event in follow(tmp_path / "run")])
    assert seen == [[1, 2, 3], [1, 2, 3], [1, 2, 3, 4]]


def test_a_reader_stops_at_the_first_line_that_is_not_good(tmp_path: Path) -> None:
    lines = journal(tmp_path / "run", 9)
    put(tmp_path / "run", [*lines[:4], lines[3], *lines[4:]])
    assert len(follow(tmp_path / "run")) == 4
    put(tmp_path / "run", [*lines[:4], frame(5, 3, AT, "resume", {}), *lines[5:]])
    assert len(follow(tmp_path / "run")) == 4
