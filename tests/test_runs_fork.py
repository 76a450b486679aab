"""Forks: where one may begin, what it takes over, and that its source stays as it was. Amendments by a person."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.line import at_text, frame
from harness.events.scan import scan
from harness.runs.fork import fork, point, read_source
from harness.runs.list import read
from harness.runs.peek import read_state
from tests.command import events, harness, newest
from tests.journal_lines import RUN, START
from tests.loop_world import Project, Ran, call, finish, reply
from tests.past_runs import DAY, ENDED, past_run
from tests.run_files import add_pipeline, add_tool, calls, make_project, script


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("look", 'echo "$2" >> looked; echo "saw $2"', "@option --x=1 <X>  what\n@meta effect read")
    made.tool("send", 'echo "$2" >> sent; echo "sent $2"', "@option --x=1 <X>  what\n@meta effect external")
    made.skill(tools="look send")
    return made


def ran_to_the_end(project: Project, **more: Any) -> Ran:
    big = "b" * 6_000
    replies = [reply(call("look", "--x", big)), reply(call("send", "--x", "2")), finish("done")]
    ran = project.run(replies, **more)
    if ran.stop.code == 5:
        project.say(ran.folder, "approve")
        ran = project.resume(ran.folder)
    assert ran.stop.name == "passed"
    return ran


def digest_of(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def forked(project: Project, ran: Ran, seq: int | None) -> Path:
    source = read_source(ran.folder)
    return fork(project.world(), source, point(source, seq))


def seq_of(ran: Ran, kind: str, number: int = 0) -> int:
    found: int = ran.of(kind)[number]["seq"]
    return found


def test_a_fork_inside_an_operation_is_refused_and_the_nearest_is_named(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    inside, quiet = seq_of(ran, "tool.start"), seq_of(ran, "tool.end")
    with pytest.raises(HarnessError) as caught:
        forked(project, ran, inside)
    assert (caught.value.exit_code, caught.value.message) == (2, f"operation #1 is open at event {inside}")
    assert caught.value.fix == f"harness fork {ran.folder.name}@{quiet}"
    for seq in (0, 999):
        with pytest.raises(HarnessError, match="no good event"):
            forked(project, ran, seq)


def test_a_fork_at_a_quiet_point_runs_asks_anew_and_leaves_its_source(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    before, seq = digest_of(ran.folder), seq_of(ran, "tool.end")
    folder = forked(project, ran, seq)
    lines, source = (each.joinpath("events.jsonl").read_bytes().split(b"\n") for each in (folder, ran.folder))
    assert lines[1:seq] == source[1:seq] and len(lines) == seq + 1
    first, old = json.loads(lines[0]), json.loads(source[0])
    assert (first["seq"], first["epoch"], first["at"]) == (1, 1, old["at"])
    assert first["data"]["fork"] == {"run": ran.folder.name, "seq": seq}
    assert [first["data"][key] == old["data"][key] for key in ("goal", "digests", "model", "skill")] == [True] * 4
    assert len(scan(folder.joinpath("events.jsonl").read_bytes(), folder).events) == seq
    state = read_state(folder)
    assert state is not None and (state.spent.turns, state.spent.calls) == (0, 0)
    assert (state.inherited.turns, state.inherited.calls) == (1, 1)
    more = project.resume(folder)  # the grant of --allow was the source's
    assert (more.stop.code, more.spawned, more.end["ops"]) == (5, [], [2])
    project.say(folder, "approve")
    more = project.resume(folder)
    assert (more.stop.name, more.spawned, more.answer) == ("passed", ["send"], "done")
    assert more.end["spent"]["turns"] == 2 and more.end["spent"]["calls"] == 1
    assert digest_of(ran.folder) == before


def test_an_approval_that_was_used_is_not_inherited(project: Project) -> None:
    """The source's `send` was approved by a person; the fork before it asks again."""
    ran = ran_to_the_end(project)
    more = project.resume(forked(project, ran, seq_of(ran, "tool.end")))
    assert (more.stop.code, more.spawned) == (5, [])


def test_a_budget_counts_from_the_fork(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",), budget="turns=3")
    folder = forked(project, ran, seq_of(ran, "tool.end"))
    more = project.resume(folder, allow=("send",))
    assert (more.stop.name, more.end["spent"]["turns"]) == ("passed", 2)


def test_a_fork_of_a_fork_and_of_a_run_after_its_end(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    one = forked(project, ran, None)
    with pytest.raises(HarnessError, match="has passed"):
        project.resume(one)
    two = forked(project, Ran(ran.stop, one, []), None)
    state = read_state(two)
    assert state is not None and state.start["fork"]["run"] == one.name
    assert (state.inherited.turns, state.spent.turns, state.status) == (3, 0, "ended")


def damaged(ran: Ran, line: int) -> None:
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1].replace(b'"seq"', b'"sEq"', 1)
    path.write_bytes(b"\n".join(lines))


def test_after_damage_a_fork_of_the_last_good_event_goes_on(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    last = seq_of(ran, "tool.end")
    damaged(ran, seq_of(ran, "decide", 1))
    with pytest.raises(JournalError):
        project.resume(ran.folder)
    before = digest_of(ran.folder)
    with pytest.raises(HarnessError) as caught:
        forked(project, ran, last)
    attempt = ran.folder / "ops" / "2" / "1"
    assert caught.value.exit_code == 11 and str(attempt) in caught.value.message
    assert f"harness settle {ran.folder.name} 2" in caught.value.fix
    assert digest_of(ran.folder) == before
    settle(ran, "did-not-happen")
    folder = forked(project, ran, last)
    more = project.resume(folder, allow=("send",))
    assert (more.stop.name, more.spawned) == ("passed", ["send"])


def settle(ran: Ran, word: str) -> None:
    message = {"kind": "settle", "op": 2, "word": word}
    (ran.folder / "inbox" / "settle-1.json").write_text(json.dumps(message))


@pytest.mark.parametrize("word", ["happened", "unknown"])
def test_what_a_person_settled_after_damage_is_not_repeated_by_the_fork(project: Project, word: str) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    last = seq_of(ran, "tool.end")
    damaged(ran, seq_of(ran, "decide", 1))
    settle(ran, word)
    more = project.resume(forked(project, ran, last), allow=("send",))
    assert (more.codes()[-1], more.spawned) == ("DENIED" if word == "happened" else "UNKNOWN_OUTCOME", [])
    assert (project.path / "sent").read_text() == "2\n"


def test_A38_a_settlement_that_no_person_gave_counts_for_no_fork(project: Project, tmp_path: Path) -> None:
    """Who can write an inbox cannot write where it is kept what a person said."""
    ran = ran_to_the_end(project, allow=("send",))
    last = seq_of(ran, "tool.end")
    damaged(ran, seq_of(ran, "decide", 1))
    settle(ran, "did-not-happen")
    with pytest.raises(HarnessError) as caught:
        point(read_source(ran.folder, tmp_path / "words"), last)
    assert caught.value.exit_code == 11 and point(read_source(ran.folder), last) == last


def test_after_damage_no_stage_pays_again_and_a_supplied_result_goes_on(project: Project) -> None:
    path = project.stages("line", "a: {run: [look]}\nb: {run: [send, --x, me], needs: [a]}\n"
                          "c: {run: [look, --x, '${b}']}")  # fmt: skip
    ran = project.pipeline(path, allow=("send --x=me",))
    last = seq_of(ran, "tool.end")
    damaged(ran, last + 1)
    settle(ran, "happened")
    folder = forked(project, ran, last)
    more = project.resume(folder, allow=("send --x=me",))
    assert (more.stop.name, more.spawned) == ("denied", [])
    assert "it happened already, in the lost part of" in more.end["error"]
    value = {"tool": "send", "stage": "b", "argv": None, "out": "sent me"}
    message = {"kind": "amend", "what": "receipt", "target": "b", "value": value, "by": "user:x", "why": "it did"}
    (folder / "inbox" / "amend-1.json").write_text(json.dumps(message))
    more = project.resume(folder)
    assert (more.stop.name, more.spawned, more.answer) == ("passed", ["look"], "saw sent me\n")


def test_an_attempt_of_which_no_line_is_left_must_be_settled_too(project: Project) -> None:
    """The journal was cut at a line's end: it looks whole, and an effect lies beside it."""
    ran = ran_to_the_end(project, allow=("send",))
    cut, journal = seq_of(ran, "tool.start", 1) - 1, ran.folder / "events.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:cut]))
    with pytest.raises(HarnessError) as caught:
        forked(project, ran, None)
    assert caught.value.exit_code == 11 and "ops/2/1" in caught.value.message


def test_after_damage_an_attempt_that_only_read_needs_no_settling(project: Project) -> None:
    ran = project.run([reply(call("look")), reply(call("look", "--x", "2")), finish("done")])
    damaged(ran, seq_of(ran, "tool.start", 1))
    more = project.resume(forked(project, ran, seq_of(ran, "tool.end")))
    assert (more.stop.name, more.spawned) == ("passed", ["look"])


def test_a_lost_blob_is_named_with_the_event_before_it(project: Project) -> None:
    ran = ran_to_the_end(project, allow=("send",))
    for blob in (ran.folder / "blobs").iterdir():
        blob.unlink()
    with pytest.raises(JournalError) as caught:
        forked(project, ran, seq_of(ran, "tool.end"))
    assert "is missing" in caught.value.message and f"{ran.folder.name}@2" in caught.value.fix


def test_a_child_is_forked_with_its_parent(project: Project) -> None:
    project.stages("line", "a: {run: [look]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish("done")])
    with pytest.raises(HarnessError, match="is part of the run"):
        forked(project, Ran(ran.stop, ran.child(), []), None)
    more = project.resume(forked(project, ran, seq_of(ran, "tool.end")))
    assert (more.stop.name, more.spawned, more.end["spent"]["turns"]) == ("passed", [], 1)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = make_project(tmp_path / "site")
    add_tool(site, "shaky", "echo x >> tried; [ -e mended ] && echo well")
    add_tool(site, "end", 'echo "ended $2" | tee -a ends', "# @meta effect write")
    add_pipeline(site, "line", '  a: {run: [look]}\n  b: {run: [shaky], needs: [a]}\n'
                               '  c: {run: [end, --x, "${b}"]}\n')  # fmt: skip
    return site


def test_the_command_forks_and_show_tells(site: Path) -> None:
    model = script(site, calls(["look"]), calls({"finish": "done"}))
    assert harness("run", "work", "go", "-m", model, cwd=site).returncode == 0
    run = newest(site)
    done = harness("fork", f"{run.name}@{events(run, 'tool.end')[0]['seq']}", cwd=site)
    assert done.returncode == 0 and "harness resume" in done.stderr
    made = run.parent / done.stdout.strip()
    assert made.is_dir() and done.stdout.count("\n") == 1
    shown = harness("show", made.name, cwd=site).stdout
    assert f"fork of {run.name}@" in shown and "inherited 1 turn" in shown
    assert "nobody has gone on with it yet" in shown and "process is gone" not in shown
    assert " forked " in harness("runs", "--status", "forked", cwd=site).stdout
    body = json.loads(harness("show", made.name, "--json", cwd=site).stdout)
    assert body["fork"]["run"] == run.name and body["inherited"]["turns"] == 1
    assert harness("resume", made.name, cwd=site).returncode == 0
    body = json.loads(harness("show", made.name, "--json", cwd=site).stdout)
    assert (body["stop"], body["spent"]["turns"]) == ("passed", 1)
    bare = harness("fork", run.name, cwd=site)
    assert re.search(r"at event \d+; it has passed; go on: harness resume", bare.stderr)
    for word, said in {f"{run.name}@x": "no event number", f"{run.name}@": "no event number",
                       f"{run.name}@9999": "no good event", "nosuch": "no run"}.items():  # fmt: skip
        wrong = harness("fork", word, cwd=site)
        assert (wrong.returncode, said in wrong.stderr, wrong.stdout) == (2, True, "")


def test_the_commands_settle_a_damaged_run_and_fork_it(site: Path) -> None:
    model = script(site, calls(["look"]), calls(["act"]), calls({"finish": "done"}))
    assert harness("run", "work", "go", "-m", model, "--allow", "act", cwd=site).returncode == 0
    run = newest(site)
    seq = events(run, "tool.end")[0]["seq"]
    lines = (run / "events.jsonl").read_bytes().split(b"\n")
    lines[seq + 2] = lines[seq + 2].replace(b"a", b"b", 1)
    (run / "events.jsonl").write_bytes(b"\n".join(lines))
    broken = harness("resume", run.name, cwd=site)
    assert broken.returncode == 3 and f"harness fork {run.name}@{seq + 2}" in broken.stderr
    refused = harness("fork", f"{run.name}@{seq}", cwd=site)
    assert refused.returncode == 11 and f"harness settle {run.name} 2" in refused.stderr
    assert harness("settle", run.name, "9", "happened", cwd=site).returncode == 2
    assert harness("settle", run.name, "2", "happened", cwd=site).returncode == 0
    made = harness("fork", f"{run.name}@{seq}", cwd=site)
    assert made.returncode == 0
    script(site, calls(["look"]), calls(["act"]), calls({"finish": "done"}))
    assert harness("resume", made.stdout.strip(), "--allow", "act", cwd=site).returncode == 0
    assert (site / "ledger").read_text() == "1\n"


def test_the_command_sets_a_stage(site: Path) -> None:
    assert harness("pipeline", "bin/line", cwd=site).returncode == 1
    run = newest(site)
    (site / "mended").touch()
    done = harness("resume", run.name, "--set", "c.x=other", cwd=site)
    assert (done.returncode, done.stdout) == (0, "ended other\n")
    wrong = harness("resume", run.name, "--set", "cc.x=1", cwd=site)
    assert wrong.returncode == 2 and "name one of: a b c" in wrong.stderr


def test_a_person_supplies_a_result_and_it_is_shown_as_theirs(site: Path) -> None:
    assert harness("pipeline", "bin/line", cwd=site).returncode == 1
    run = newest(site)
    (site / "b.txt").write_text("by hand\n")
    assert harness("amend", run.name, "--receipt", "b=b.txt", cwd=site).returncode == 2  # no reason
    done = harness("amend", run.name, "--receipt", "2=b.txt", "--why", "it was down", cwd=site)
    assert done.returncode == 0 and "harness resume" in done.stderr
    done = harness("resume", run.name, cwd=site)
    assert (done.returncode, done.stdout) == (0, "ended by hand\n")
    assert (site / "tried").read_text() == "x\n"  # the stage itself ran once, before
    [amended] = events(run, "amend")
    assert amended["op"] == 3 and amended["data"]["by"].startswith("user:") and amended["data"]["why"] == "it was down"
    assert "supplied by a person: 1 line" in harness("show", run.name, cwd=site).stdout
    steps = json.loads(harness("show", run.name, "--json", cwd=site).stdout)["steps"]
    assert [(step["op"], step["by"]) for step in steps] == [(1, None), (3, "person"), (4, None)]


def test_a_stale_stage_runs_again_and_what_it_changed(site: Path) -> None:
    (site / "mended").touch()
    assert harness("pipeline", "bin/line", cwd=site).returncode == 0
    run = newest(site)
    assert harness("resume", run.name, cwd=site).returncode == 2  # it has passed
    assert harness("amend", run.name, "--stale", "b", "--why", "was cut", cwd=site).returncode == 0
    assert harness("resume", run.name, cwd=site).returncode == 0
    assert (site / "tried").read_text() == "x\nx\n" and (site / "ends").read_text() == "ended well\n"
    wrong = harness("amend", run.name, "--stale", "bb", "--why", "x", cwd=site)
    assert wrong.returncode == 2 and "name one of: a b c" in wrong.stderr


AMENDMENTS: dict[str, tuple[str, ...]] = {
    "neither": ("--why", "x"), "both": ("--stale", "a", "--receipt", "1=b.txt", "--why", "x"),
    "no such operation": ("--receipt", "99=b.txt", "--why", "x"), "no file": ("--receipt", "1=none.txt", "--why", "x"),
    "no text": ("--receipt", "1=bytes", "--why", "x"), "no name": ("--receipt", "b.txt", "--why", "x"),
    "no end": ("--receipt", "1=/dev/zero", "--why", "x"), "an empty reason": ("--stale", "a", "--why", " "),
}  # fmt: skip


@pytest.mark.parametrize("case", AMENDMENTS)
def test_an_amendment_that_cannot_be_leaves_the_inbox_empty(site: Path, case: str) -> None:
    harness("pipeline", "bin/line", cwd=site)
    run = newest(site)
    (site / "b.txt").write_text("x\n")
    (site / "bytes").write_bytes(b"\xff\xfe")
    done = harness("amend", run.name, *AMENDMENTS[case], cwd=site)
    assert done.returncode == 2 and "fix:" in done.stderr and not list((run / "inbox").iterdir())


def test_a_supplied_result_reaches_the_model(project: Project) -> None:
    project.tool("look", "exit 1")
    project.skill(tools="look", requires="look")
    first = [reply(call("look")), finish("one"), finish("two"), finish("three")]
    ran = project.run(first)
    assert ran.stop.name == "declined"
    project.script([*first, finish("four")])
    value = {"tool": "look", "argv": [], "out": "seen"}
    message = {"kind": "amend", "what": "receipt", "target": "1", "value": value, "by": "user:x", "why": "down"}
    (ran.folder / "inbox" / "amend-1.json").write_text(json.dumps(message))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "four", [])
    assert more.notes() == ["a person supplied the result of 1: read op:5"]


@pytest.mark.parametrize("value", [None, 7, {"tool": "look"}, [7], "x"])
def test_an_amendment_that_says_nothing_is_dropped_and_told(project: Project, value: object) -> None:
    ran = project.run([reply(call("look")), finish("one")], budget="turns=1")
    for what in ("receipt", "stale", "other"):
        message = {"kind": "amend", "what": what, "target": "1", "value": value, "why": "x"}
        (ran.folder / "inbox" / f"amend-{what}.json").write_text(json.dumps(message))
    more = project.resume(ran.folder, budget="turns=5")
    assert more.stop.name == "passed" and not [e for e in more.of("amend") if e["data"]["what"] != "budget"]
    assert len(more.notes()) == 3 and not list((ran.folder / "inbox").iterdir())


def test_a_fork_begins_when_it_was_made_and_not_with_its_source(tmp_path: Path) -> None:
    """Else a fork of an old run hides newer ones from --since and is the first that goes with --older."""
    made = past_run(tmp_path, 1, ENDED)
    journal = made / "events.jsonl"
    rest = journal.read_bytes().split(b"\n", 1)[1]
    start = {**RUN, "run": made.name, "fork": {"run": "x", "seq": 1}}
    journal.write_bytes(frame(1, 1, at_text(START - 40 * DAY), "run.start", start) + rest)
    assert read(made).began == int(START) and read(made).stop == "passed"


@pytest.fixture
def family(project: Project) -> Ran:
    """A run whose worker sent something and then asks; it had looked before that call."""
    project.skill("helper", tools="send")
    project.skill(tools="look send helper")
    ran = project.run(
        [reply(call("look")), reply(call("helper", "go")), finish("done")], allow=("send",),
        helper=[reply(call("send", "--x", "a")), reply({"ask": "more?"}), finish("helped")],
    )  # fmt: skip
    assert ran.stop.name == "needs-answer" and (project.path / "sent").read_text() == "a\n"
    return ran


def child_damaged(family: Ran, line: int) -> Path:
    child = family.child()
    damaged(Ran(family.stop, child, []), line)
    return child


@pytest.mark.parametrize("line", [1, 5])
def test_a_damaged_child_run_stops_its_parent_and_is_not_begun_anew(project: Project, family: Ran, line: int) -> None:
    child = child_damaged(family, line)
    before = digest_of(child)
    with pytest.raises(JournalError) as caught:
        project.resume(family.folder)
    assert (caught.value.where, digest_of(child)) == (str(child), before)
    assert (project.path / "sent").read_text() == "a\n"


@pytest.mark.parametrize("line", [1, 5])
@pytest.mark.parametrize("word", ["happened", "did-not-happen", "unknown"])
def test_what_a_damaged_child_did_is_settled_before_its_parent_is_forked(
    project: Project, family: Ran, line: int, word: str
) -> None:
    child, before = child_damaged(family, line), seq_of(family, "tool.end")
    with pytest.raises(HarnessError) as caught:
        forked(project, family, before)
    assert caught.value.exit_code == 11 and str(child / "ops" / "1" / "1") in caught.value.message
    assert caught.value.fix.endswith(f"harness settle {child.name} 1 VERDICT")
    told = harness("settle", child.name, "1", word, cwd=project.path)
    assert (told.returncode, f"harness fork {family.folder.name}" in told.stderr) == (0, True), told.stderr
    more = project.resume(forked(project, family, before), allow=("send",))
    assert more.spawned == (["send"] if word == "did-not-happen" else [])
    assert (project.path / "sent").read_text() == ("a\na\n" if word == "did-not-happen" else "a\n")


def test_what_the_children_of_a_damaged_run_did_is_settled_too(project: Project, family: Ran) -> None:
    """Their journals are whole, but the call that began them is lost with the parent's line."""
    before, child = seq_of(family, "tool.end"), family.child()
    damaged(family, before + 1)
    with pytest.raises(HarnessError) as caught:
        forked(project, family, before)
    assert caught.value.exit_code == 11 and f"harness settle {child.name} 1" in caught.value.fix
    assert harness("settle", child.name, "1", "happened", cwd=project.path).returncode == 0
    more = project.resume(forked(project, family, before), allow=("send",))
    assert more.spawned == [] and (project.path / "sent").read_text() == "a\n"


def test_a_whole_child_needs_no_word_when_its_parent_is_forked(project: Project, family: Ran) -> None:
    more = project.resume(forked(project, family, seq_of(family, "tool.end")), allow=("send",))
    assert (more.stop.name, more.spawned) == ("needs-answer", ["send"])


def test_a_fork_says_why_it_begins_before_the_last_event(project: Project, family: Ran) -> None:
    at = seq_of(family, "tool.end") + 1
    waits = project.run([reply(call("look")), reply(call("send")), finish("done")])
    done = harness("fork", waits.folder.name, cwd=project.path)
    last = waits.events[-1]["seq"]
    assert done.returncode == 0
    assert f"at event {at}, the last of {last} at which no call was open; go on" in done.stderr
    child = family.child()
    damaged(family, at)
    harness("settle", child.name, "1", "happened", cwd=project.path)
    assert ", the last good one: the journal is damaged at byte" in harness(
        "fork", family.folder.name, cwd=project.path
    ).stderr


def test_the_way_out_of_a_damaged_child_works_as_printed(project: Project, family: Ran) -> None:
    child = child_damaged(family, 5)
    with pytest.raises(JournalError) as caught:
        project.resume(family.folder)
    assert caught.value.fix == f"harness fork {family.folder.name}"
    for command in (("show", child.name), ("resume", family.folder.name)):
        assert f"harness fork {family.folder.name}\n" in harness(*command, cwd=project.path).stderr, command
    assert harness("fork", family.folder.name, cwd=project.path).returncode == 11
    assert harness("settle", child.name, "1", "happened", cwd=project.path).returncode == 0
    assert harness("fork", family.folder.name, cwd=project.path).returncode == 0


def test_a_bare_fork_does_nothing_again_that_a_waiting_worker_has_done(project: Project, family: Ran) -> None:
    """The worker sent something and asks: a fork before it would send once more, so that must be said."""
    with pytest.raises(HarnessError) as caught:
        forked(project, family, None)
    at, name = seq_of(family, "tool.end") + 1, family.folder.name
    assert f"#1 (send) of {family.child().name} was done since #2 is open" in caught.value.message
    assert caught.value.fix == f"harness resume {name}, or say so: harness fork {name}@{at}"
    said = harness("fork", f"{name}@{at}", cwd=project.path)
    assert (said.returncode, f"once more by the fork: #1 (send) of {family.child().name}" in said.stderr) == (0, True)


def test_a_bare_fork_does_nothing_again_that_was_done_beside_a_waiting_call(project: Project) -> None:
    project.tool("note", "echo n >> noted", "@meta effect write")
    project.skill(tools="note send")
    ran = project.run([reply(call("send"), call("note")), finish("done")])
    assert ran.stop.name == "needs-approval"
    with pytest.raises(HarnessError, match=r"#2 \(note\) was done since #1 is open"):
        forked(project, ran, None)


@pytest.fixture
def unknown(project: Project) -> Ran:
    """A run that parked because nobody knows whether its second call had its effect; it had."""
    ran = ran_to_the_end(project, allow=("send",))
    return cut_off(project, ran, 2)


def cut_off(project: Project, ran: Ran, n: int, folder: Path | None = None) -> Ran:
    """The run as a kill in this tool left it, gone on with until it parks."""
    at = folder or ran.folder
    path, attempt = at / "events.jsonl", at / "ops" / str(n) / "1"
    lines = path.read_bytes().splitlines(keepends=True)
    kept = next(i for i, line in enumerate(lines) if b'"kind":"tool.start","op":%d,' % n in line)
    path.write_bytes(b"".join(lines[: kept + 1]))
    (attempt / "started").write_text(".")
    (attempt / "rc").write_text("....")
    return Ran(ran.stop, ran.folder, [])


@pytest.mark.parametrize("parked", [False, True])
def test_a_fork_before_a_call_that_may_have_happened_wants_it_settled(
    project: Project, unknown: Ran, parked: bool
) -> None:
    name, before = unknown.folder.name, seq_of(unknown, "tool.end")
    fix = f"let it come to its end first: harness resume {name}"
    if parked:
        assert project.resume(unknown.folder, allow=("send",)).stop.name == "unknown-outcome"
        fix = f"harness settle {name} 2 VERDICT"
    for seq in (None, before):
        with pytest.raises(HarnessError) as caught:
            forked(project, unknown, seq)
        assert (caught.value.exit_code, caught.value.fix) == (11, fix)
        assert caught.value.message == "operation #2 (send) may have had its effect, and a fork would not know of it"


@pytest.mark.parametrize("word", ["happened", "did-not-happen", "unknown"])
@pytest.mark.parametrize("told", [False, True], ids=["in the inbox", "in the journal"])
def test_a_fork_keeps_what_a_person_said_of_it(project: Project, unknown: Ran, word: str, told: bool) -> None:
    project.resume(unknown.folder, allow=("send",))
    project.say(unknown.folder, "settle", word=word)
    if told:
        project.resume(unknown.folder, allow=("send",))
    before = len((project.path / "sent").read_text().splitlines())
    more = project.resume(forked(project, unknown, seq_of(unknown, "tool.end")), allow=("send",))
    again = word == "did-not-happen" or (told and word == "happened")  # what is known is the person's to do again
    assert more.spawned == (["send"] if again else [])
    assert len((project.path / "sent").read_text().splitlines()) == before + again


def test_a_fork_before_a_worker_whose_call_may_have_happened_wants_it_settled(project: Project, family: Ran) -> None:
    child, start = family.child(), seq_of(family, "tool.start", 1)
    path = family.folder / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:start]))
    cut_off(project, family, 1, child)
    for seq in (None, seq_of(family, "tool.end")):
        with pytest.raises(HarnessError) as caught:
            forked(project, family, seq)
        assert caught.value.exit_code == 11 and f"#1 (send) of {child.name} may have had" in caught.value.message
    assert project.resume(family.folder, allow=("send",)).stop.name == "unknown-outcome"
    project.say(family.folder, "settle", word="happened")
    more = project.resume(forked(project, family, seq_of(family, "tool.end")), allow=("send",))
    assert more.spawned == [] and (project.path / "sent").read_text() == "a\n"
