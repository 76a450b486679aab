"""Beginning a run and opening it again: what is on the disk when, and what a later process makes of it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BusyError, HarnessError, JournalError
from harness.events.fold import fold
from harness.events.io import IO
from harness.events.log import follow
from harness.graph.fresh import Ground, is_fresh
from harness.loop.run import Run
from harness.models import Prompt, Said
from harness.models.body import encode_turn
from harness.runs.begin import Order, begin, new_log
from harness.runs.flags import Options
from harness.runs.kit import skill_kit
from harness.runs.peek import peek
from harness.runs.session import resume
from tests import journal_invariants as must
from tests.journal_disk import Recorder
from tests.journal_lines import NoSync
from tests.journal_site import ASKING, PLAIN, Site, make_site, started
from tests.loop_world import Project, call, finish, reply


def passed(site: Site, runs: Path, io: IO | None = None) -> Path:
    assert site.carry(io or NoSync(), runs).name == "passed"
    folder = started(runs)
    assert folder is not None
    return folder


def test_the_folder_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    run = site.begin(site.world(IO(), tmp_path / ".harness" / "runs"))
    run.log.close()
    assert run.name == run.folder.name and run.name.split("-", 1)[1].startswith("look-")
    assert (tmp_path / ".harness" / ".gitignore").read_text() == "runs/\n"
    for path in [run.folder, *run.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_taken_name_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site(tmp_path / "project")
    drawn = iter(["aaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    monkeypatch.setattr("harness.runs.begin.letters", lambda count: next(drawn))
    world = site.world(NoSync(), tmp_path / "runs")
    names = [log.name.rsplit("-", 1)[1] for log in (new_log(world, "look"), new_log(world, "look"))]
    assert names == ["aaaaaaaa", "bbbbbbbb"]


def test_nothing_is_told_of_a_run_before_it_is_on_the_disk(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    io = Recorder(tmp_path / "runs")
    run = site.begin(site.world(io, tmp_path / "runs"))
    run.log.close()
    kinds = [action[0] for action in io.trace]
    assert kinds[kinds.index("write") :][:4] == ["write", "sync_dir", "sync_dir", "sync"]
    assert {action[1] for action in io.trace if action[0] == "sync_dir"} == {run.name, "."}


def test_cost_a_run_that_only_reads_syncs_its_journal_twice(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project", PLAIN)
    io = Recorder(tmp_path / "runs")
    passed(site, tmp_path / "runs", io)
    journal = next(a[2] for a in io.trace if a[0] == "open" and str(a[1]).endswith("events.jsonl"))
    answer = sum(a[0] == "rename" for a in io.trace)  # a file of its own that is put in place
    assert sum(a[0] == "sync" and a[1] == journal for a in io.trace) == 2
    assert sum(a[0] == "sync" for a in io.trace) == 2 + answer


def test_cost_a_reply_with_one_call_is_five_lines_and_nine_hundred_bytes(tmp_path: Path) -> None:
    folder = passed(make_site(tmp_path / "project", PLAIN), tmp_path / "runs")
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    events = follow(folder)
    [begin_at] = [i for i, e in enumerate(events) if e["kind"] == "model.start" and e["data"]["turn"] == 2]
    [end_at] = [i for i, e in enumerate(events) if e["kind"] == "model.start" and e["data"]["turn"] == 3]
    turn = range(begin_at, end_at)
    assert [events[i]["kind"] for i in turn] == ["model.start", "model.reply", "decide", "tool.start", "tool.end"]
    reply, decide, start, end = (events[i]["data"] for i in turn[1:])
    payload = [reply["content"], reply["calls"], reply["usage"], decide["argv"], start["needs"], end["out"]]
    beyond = sum(len(lines[i]) for i in turn) - sum(len(_json(part)) for part in payload)
    assert beyond <= 900


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_long_inputs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    order = Order("look", inputs={"text": "x" * 40_000})
    with pytest.raises(HarnessError, match="40011 bytes together; a run takes 32768") as refused:
        begin(site.world(NoSync(), tmp_path / "runs"), site.root, skill_kit(site.resolved), order)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "runs").exists()


def test_a_run_that_cannot_be_begun_leaves_no_lock_and_no_run(tmp_path: Path) -> None:
    class Full(NoSync):
        def write(self, fd: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

    site = make_site(tmp_path / "project")
    with pytest.raises(JournalError, match="No space left"):
        site.begin(site.world(Full(), tmp_path / "runs"))
    [folder] = (tmp_path / "runs").iterdir()
    with pytest.raises(JournalError, match="never started"):
        peek(folder)


def test_a_runs_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file\n")
    site = make_site(tmp_path / "project")
    with pytest.raises(JournalError, match="cannot be"):
        site.begin(site.world(NoSync(), tmp_path / "runs"))


def test_case_9_a_live_run_is_not_opened_twice(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    world = site.world(NoSync(), tmp_path / "runs")
    run = site.begin(world)
    before = (run.folder / "events.jsonl").read_bytes()
    with pytest.raises(BusyError, match="still running, pid"):
        site.reopen(world, run.folder)
    assert (run.folder / "events.jsonl").read_bytes() == before
    run.log.close()
    site.reopen(world, run.folder).log.close()


def test_resume_says_what_was_repaired_and_how_long_the_run_lived_on(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    world = site.world(NoSync(), tmp_path / "runs")
    run = site.begin(world)
    site.clock.up += 7
    run.log._touch()
    run.log.close()
    with (run.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"v":1,"se')
    site.clock.at += 5000
    again = site.reopen(world, run.folder)
    again.log.close()
    event = follow(run.folder)[-1]
    assert (event["kind"], event["epoch"], event["data"]["lost_s"]) == ("resume", 2, 7.0)
    assert event["data"]["repaired"]["bytes"] == 10
    assert (again.state.spent.active_ms, again.state.spent.waiting_ms) == (7_000, 4_993_000)


def test_attempts_that_the_journal_does_not_know_are_set_aside(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project", PLAIN)
    folder = passed(site, tmp_path / "runs")
    (folder / "ops" / "1" / "2" / "work").mkdir(parents=True)
    (folder / "ops" / "9" / "1").mkdir(parents=True)
    (folder / "ops" / "notes").mkdir()
    site.reopen(site.world(NoSync(), tmp_path / "runs"), folder).log.close()
    kept = sorted(p.name.split("-")[0] for p in folder.glob("ops/*/*"))
    assert kept.count("lost") == 2 and (folder / "ops" / "1" / "1").is_dir()
    assert not (folder / "ops" / "9" / "1").exists()


def test_a_folder_that_is_damaged_or_empty_is_refused_with_a_cause(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project")
    world = site.world(NoSync(), tmp_path / "runs")
    empty = tmp_path / "runs" / "20261130T114523-look-aaaaaaaa"
    empty.mkdir(parents=True)
    with pytest.raises(JournalError, match="never started"):
        resume(world, site.catalog, empty, None, Options())
    folder = passed(site, tmp_path / "runs")
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"turn":1', b'"turn":2', 1))
    with pytest.raises(JournalError, match=r"damaged at byte .*; the last good event is 1"):
        resume(world, site.catalog, folder, "go on", Options())


def test_case_44_after_a_resume_the_earlier_turns_are_the_same_bytes(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project", ASKING)
    prompts: list[Prompt] = []
    site.carry(NoSync(), tmp_path / "runs", prompts.append)
    assert [prompt.turn for prompt in prompts] == [1, 2, 3, 4]  # a resume came before the third
    bodies = [[_json(encode_turn(turn)) for turn in prompt.turns] for prompt in prompts]
    for prompt, earlier, later in zip(prompts[1:], bodies, bodies[1:], strict=False):
        assert later[: len(earlier)] == earlier and len(later) > len(earlier)
        assert prompt.system == prompts[0].system
    last = b"".join(bodies[-1]) + "".join(prompts[-1].system).encode()
    assert last.count(b"Look.") == 1
    assert sum(isinstance(turn, Said) for turn in prompts[-1].turns) == 1


def test_case_39_what_had_expired_stays_expired_when_the_wall_steps_back(tmp_path: Path) -> None:
    expiring = "#!/bin/sh\n# @describe Shows alpha\n# @meta effect read\n# @meta ttl 120\necho alpha\n"
    site = make_site(tmp_path / "project", PLAIN, bodies={"alpha": expiring})
    folder = passed(site, tmp_path / "runs")
    world = site.world(NoSync(), tmp_path / "runs")

    def fresh(run: Run) -> bool:
        now = Ground(run.state, max(run.log.now(), run.state.at), run.changed, run.values)
        return is_fresh(now, run.state.slots[("alpha",)])

    run = site.reopen(world, folder)
    assert fresh(run)
    site.clock.up += 121
    assert not fresh(run)
    run.append("note", {"why": "warning", "text": "later"})
    run.log.close()
    site.clock.at -= 3600
    again = site.reopen(world, folder)
    again.log.close()
    assert not fresh(again)
    stamps = [event["at"] for event in follow(folder)]
    assert stamps == sorted(stamps)


def test_i8_a_passed_run_is_not_touched_and_a_message_opens_it(tmp_path: Path) -> None:
    site = make_site(tmp_path / "project", PLAIN)
    folder = passed(site, tmp_path / "runs")
    world = site.world(NoSync(), tmp_path / "runs")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(HarnessError, match="has passed") as refused:
        resume(world, site.catalog, folder, None, Options())
    assert refused.value.exit_code == 2
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    session = resume(world, site.catalog, folder, "and now?", Options())
    session.run.log.close()
    raw = (folder / "events.jsonl").read_bytes()
    assert [event["kind"] for event in must.whole_events(raw)[-2:]] == ["resume", "user.say"]
    assert fold(must.whole_events(raw)).status == "open"


def test_what_is_over_the_inline_limits_stands_in_blobs_and_nothing_is_anybody_elses(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.tool("fill", 'head -c "$1" /dev/zero | tr "\\0" x', "@meta effect read\n@arg n!")
    project.skill(tools="fill")
    said = reply(call("fill", "4096"), call("fill", "4097"), text="y" * 40_000)
    ran = project.run([said, finish("z" * 5_000)])
    first, last = (event["data"] for event in ran.of("model.reply"))
    assert set(first["content"]) == {"blob", "bytes"} and isinstance(first["calls"], list)
    assert set(last["calls"][0]["arguments"]["answer"]) == set(ran.end["answer"]) == {"blob", "bytes"}
    outs = {event["op"]: event["data"]["out"] for event in ran.of("tool.end")}
    assert outs[1] == "x" * 4096 and outs[2]["bytes"] == 4097
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in ran.folder.rglob("*")}
    assert modes == {0o600, 0o700}
