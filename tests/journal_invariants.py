"""What must hold of every run, however it was cut short: each function asserts one promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.events.attempts import MAX_TRIES
from harness.events.fold import fold
from harness.events.line import BadLine, parse
from harness.events.scan import blob_names, scan
from harness.events.state import State
from harness.loop.run import Stop


@cache
def _line(raw: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    event = parse(raw)
    return event, tuple(blob_names(event["data"]))


@cache
def valid_events(raw: bytes) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """Each whole line's event and the blobs that it names."""
    found = []
    with suppress(BadLine):
        for line in raw.split(b"\n")[:-1]:
            found.append(_line(line))
    return found


def forget() -> None:
    """Give the memory back that journals which were looked at take."""
    for known in (_line, valid_events, folded):
        known.cache_clear()


def whole_events(raw: bytes, blobs: Container[str] | None = None) -> list[dict[str, Any]]:
    """The events of a journal's whole lines, up to the first that is bad or names none of the `blobs`, if given."""
    found = []
    for event, names in valid_events(raw):
        if blobs is not None and not all(name in blobs for name in names):
            break
        found.append(event)
    return found


def ends_or_parks_with_a_cause(stop: Stop, state: State) -> None:
    last = state.end or state.park
    assert last is not None and (last["stop"], last["exit"]) == (stop.name, stop.code)
    assert all(n in state.ops for n in last.get("ops") or ())


def effects_happen_once(done: Iterable[str]) -> None:
    """`done` are the operation ids of every effect that must not be repeated."""
    done = list(done)
    assert len(done) == len(set(done))


def events_stay(before: Sequence[dict[str, Any]], final: bytes) -> None:
    assert whole_events(final)[: len(before)] == before


def no_reply_is_asked_for_again(surviving: Sequence[dict[str, Any]], requested: Iterable[int]) -> None:
    assert not {event["data"]["turn"] for event in surviving if event["kind"] == "model.reply"} & set(requested)


def no_ended_operation_runs_again(surviving: Sequence[dict[str, Any]], spawned: Iterable[str], run: str) -> None:
    ends = [(event["op"], event["data"]) for event in surviving if event["kind"] == "tool.end"]
    ended = {f"{run}/{n}" for n, data in ends if data["outcome"] in ("done", "failed") and "retry" not in data}
    assert not ended & set(spawned)


def given_up(log: bytes) -> list[tuple[str, ...]]:
    """The calls that two crashes cut and that then met a busy side: three tries are all there are."""
    events = whole_events(log)
    ends = [(event["op"], event["data"]) for event in events if event["kind"] == "tool.end"]
    busy = {n for n, data in ends if data.get("class") == "RETRYABLE" and "retry" not in data}
    cut = Counter(n for n, data in ends if data["outcome"] == "cut")
    ops = folded(log).ops
    return [(ops[n].tool, *map(str, ops[n].argv or ())) for n in busy if cut[n] == MAX_TRIES - 1]


def same_outcome(state: State, reference: State, without: Collection[tuple[str, ...]] = ()) -> None:
    """The same end, and the same newest results, but for those of the calls that were given up."""
    assert state.end is not None and reference.end is not None
    assert (state.end["stop"], state.end["answer"]) == (reference.end["stop"], reference.end["answer"])
    kept = [
        {slot: (r.exit, r.error_class, r.result, r.artifacts) for slot, r in one.slots.items() if slot not in without}
        for one in (state, reference)
    ]
    assert kept[0] == kept[1]


def one_writer_at_a_time(raw: bytes) -> None:
    events = whole_events(raw)
    assert len(events) == raw.count(b"\n") and raw.endswith(b"\n")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(b["epoch"] == a["epoch"] + (b["kind"] == "resume") for a, b in pairwise(events))
    assert all(a["at"] <= b["at"] for a, b in pairwise(events))


def spending_never_shrinks(state: State, tokens: int) -> None:
    """`tokens` is what every request that was ever sent is known to have used."""
    assert state.spent.tokens_in + state.spent.tokens_out >= tokens


def words_are_taken_once(raw: bytes, folder: Path) -> None:
    said = [event["data"]["inbox"] for event in whole_events(raw) if event["data"].get("inbox")]
    assert len(said) == len(set(said))
    assert not list((folder / "inbox").glob("*.json"))


def blobs_are_there(raw: bytes, folder: Path) -> None:
    found = scan(raw, folder)
    assert (found.good, found.torn) == (len(raw), b"")


@cache
def folded(raw: bytes) -> State:
    return fold(whole_events(raw))


def all_of(folder: Path, stop: Stop, reference: State) -> None:
    """Every promise about how a run ends that has begun before in whatever way, and was gone on with."""
    raw = (folder / "events.jsonl").read_bytes()
    state = folded(raw)
    ends_or_parks_with_a_cause(stop, state)
    same_outcome(state, reference)
    one_writer_at_a_time(raw)
    words_are_taken_once(raw, folder)
    blobs_are_there(raw, folder)
