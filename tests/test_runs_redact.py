"""Taking something out of a run: no byte of it is left, everything else is as it was (case 43)."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.events import seal
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.log import open_log
from harness.runs.cut import Wish
from harness.runs.index import NAME
from harness.runs.redact import redact
from tests.command import COMMAND, AtTerminal, events, harness, home_of, newest
from tests.past_runs import Killed, killed_at
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, make_project, script

WHO = "Anna Jürgens"
LONG = f"{'x' * 5000} {WHO}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "p")
    said = f'echo "$2 knows {WHO}"; printf "%6000s {WHO}" x >&2'
    add_tool(folder, "tell", f'{said}; echo {WHO} > "$HARNESS_OUT/{WHO}.txt"')
    add_skill(folder, "work", "look tell act")
    return folder


def told(project: Path, *more: object) -> Path:
    """A run that has the name in goal, arguments, output, a blob, the answer; passed, or what `more` leads to."""
    replies = more or (finish(f"it was {WHO}"),)
    model = script(project, calls(["look"]), calls(["tell", "--x", WHO]), *replies)  # type: ignore[arg-type]
    harness("run", "work", "why", "does", WHO, "wait", "-m", model, cwd=project)
    return newest(project)


def forms() -> list[bytes]:
    return [WHO.encode(), json.dumps(WHO)[1:-1].encode(), b"Anna J"]


def holding(folder: Path) -> list[str]:
    """Files that hold the name, in any spelling, in their bytes or their names."""
    found = []
    for path in folder.rglob("*"):
        raw = path.read_bytes() if path.is_file() else b""
        if any(form in raw or form in path.name.encode() for form in forms()):
            found.append(path.name)
    return found


def take(project: Path, run: Path, *words: str) -> Any:
    return harness("runs", "redact", run.name, *words, "--why", "asked to be forgotten", cwd=project)


def test_case_43_no_byte_is_left_and_other_lines_are_as_they_were(project: Path) -> None:
    run = told(project)
    before = (run / "events.jsonl").read_bytes().splitlines()
    assert {"events.jsonl", "answer.md", f"{WHO}.txt"} <= set(holding(run)) and len(holding(run)) > 3
    harness("runs", cwd=project)
    done = take(project, run, "--text", WHO)
    assert done.returncode == 0 and done.stdout == f"{run.name}\n" and WHO not in done.stderr
    assert holding(run) == [] and not any(form in (run.parent / NAME).read_bytes() for form in forms())
    assert not any(holding(home_of(project)))
    after = (run / "events.jsonl").read_bytes().splitlines()
    assert len(after) == len(before) + 1
    for old, new in zip(before, after, strict=False):
        assert old == new or (any(form in old for form in forms()) and b'{"redacted":' in new) or b'"blob"' in old
    last = events(run)[-1]
    assert (last["kind"], last["data"]["what"], last["data"]["why"]) == ("amend", "redact", "asked to be forgotten")
    for line in after:
        assert line[-10:-2] == b"%08x" % zlib.crc32(line[: line.rindex(b',"crc":"')])
    goal = events(run)[0]["data"]["goal"]
    assert goal == {"redacted": len(f"why does {WHO} wait".encode())}


def test_case_43_it_is_shown_and_never_gone_on_with(project: Path) -> None:
    run = told(project)
    assert take(project, run, "--text", WHO).returncode == 0
    for words in ((), ("--graph",), ("--mermaid",), ("-F",), ("--json",), ("--output", "stream-json")):
        done = harness("show", run.name, *words, cwd=project)
        assert done.returncode == 0 and "Traceback" not in done.stderr, (words, done.stderr)
    assert "[redacted: " in harness("show", run.name, cwd=project).stdout
    for number in range(1, len(events(run)) + 1):
        assert harness("show", run.name, "--event", str(number), cwd=project).returncode == 0
    for words in ((), ("and now",), ("--accept-changes",)):
        done = harness("resume", run.name, *words, cwd=project)
        assert done.returncode == 2 and "redact" in done.stderr
    assert "passed" in harness("runs", cwd=project).stdout
    assert harness("runs", "prune", run.name, cwd=project).returncode == 0 and not run.exists()


def test_the_journal_scans_clean_and_its_seal_is_renewed(project: Path) -> None:
    run, seals = told(project), home_of(project) / ".local/state/harness/logs"
    assert take(project, run, "--text", WHO).returncode == 0
    log = open_log(run, IO(), Clock(), check=lambda good: seal.check(seals, run, good))
    log.close()
    assert log.repaired is None


def test_a_changed_journal_is_not_blessed_by_a_redaction(project: Path) -> None:
    from harness.events.line import parse, with_data

    run = told(project)
    lines = (run / "events.jsonl").read_bytes().splitlines()
    event = parse(lines[0])
    lines[0] = with_data(event, {**event["data"], "goal": f"forged {WHO}"})[:-1]
    (run / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    done = take(project, run, "--text", WHO)
    assert done.returncode == 3 and "changed by something else" in done.stderr


def test_a_parked_run_is_redacted_and_takes_no_word_any_more(project: Path) -> None:
    run = told(project, calls(["act", "--x", WHO]), finish("x"))
    assert events(run)[-1]["kind"] == "park"
    refused = take(project, run, "--text", WHO)
    assert refused.returncode == 2 and "waits (needs-approval #3) and cannot go on afterwards" in refused.stderr
    assert "--force" in refused.stderr and holding(run) and take(project, run, "--text", "Nobody").returncode == 2
    done = take(project, run, "--text", WHO, "--force")
    assert done.returncode == 0 and holding(run) == [] and "not gone on with" in done.stderr
    for command in (["approve", run.name, "3"], ["deny", run.name, "3"], ["resume", run.name], ["stop", run.name]):
        done = harness(*command, cwd=project)
        assert done.returncode == 2 and "redact" in done.stderr, command
    assert "needs-approval #3" in harness("runs", cwd=project).stdout


def test_a_person_is_asked_before_a_run_that_waits_is_given_up(project: Path) -> None:
    run = told(project, calls(["act", "--x", WHO]), finish("x"))
    for key, left in (("\r", True), ("y\r", False)):
        terminal = AtTerminal(*COMMAND, "runs", "redact", run.name, "--text", WHO, "--why", "asked", cwd=project)
        terminal.until("[n] no")
        terminal.keys(key)
        code, seen = terminal.end()
        assert code == 0 and bool(holding(run)) == left and ("nothing was taken out" in seen) == left, seen


def test_a_stopped_run_must_be_ended_first(project: Path) -> None:
    run = told(project)
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    (home_of(project) / f".local/state/harness/logs/{run.name}.sha256").unlink()  # nobody had sealed it yet
    done = take(project, run, "--text", WHO)
    assert done.returncode == 2 and f"harness stop {run.name}" in done.stderr and holding(run)


@pytest.mark.parametrize("number", range(12))
def test_killed_half_way_the_same_command_ends_it(project: Path, number: int) -> None:
    run = told(project)
    try:
        redact(run, Wish(text=WHO), "why", "user:x", killed_at(number), Clock(), None)
    except Killed:
        show = harness("show", run.name, cwd=project)
        assert show.returncode == 0, show.stderr
    if holding(run):
        assert take(project, run, "--text", WHO).returncode == 0
    assert holding(run) == []


def test_a_blob_goes_wherever_it_is_named(project: Path) -> None:
    run = told(project, finish(LONG))
    names = {path.name for path in (run / "blobs").iterdir() if WHO.encode() in path.read_bytes()}
    [answer] = [e["data"]["answer"]["blob"] for e in events(run, "run.end")]
    assert answer in names
    done = take(project, run, "--blob", answer[:12])
    assert done.returncode == 0 and not (run / "blobs" / answer).exists() and not (run / "answer.md").exists()
    [end] = events(run, "run.end")
    assert end["data"]["answer"] == {"redacted": len(LONG.encode())}
    assert harness("show", run.name, cwd=project).returncode == 0
    assert take(project, run, "--blob", "abc").returncode == 2


def test_one_event_loses_its_values_and_its_operation_its_files(project: Path) -> None:
    run = told(project)
    [seq] = [e["seq"] for e in events(run, "tool.end") if WHO in json.dumps(e, ensure_ascii=False)]
    assert take(project, run, "--seq", str(seq)).returncode == 0
    event = events(run)[seq - 1]["data"]
    assert set(event["out"]) == {"redacted"} and event["outcome"] == "done" and event["class"] == "OK"
    assert not (run / "ops/2").exists() and (run / "answer.md").exists()
    assert WHO in (run / "answer.md").read_text()
    for wrong in ("0", "999", "-1"):
        assert take(project, run, "--seq", wrong).returncode == 2


@pytest.mark.parametrize("word", ["run", "done", "passed", "look", "text", "input", "out", "a", "none", "1", "0.0"])
def test_a_text_that_is_a_word_of_the_format_breaks_nothing(project: Path, word: str) -> None:
    run = told(project)
    done = take(project, run, "--text", word)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr and "bug" not in done.stderr
    assert harness("show", run.name, cwd=project).returncode == 0
    assert "passed" in harness("runs", cwd=project).stdout


def test_what_it_does_not_reach_is_named(project: Path) -> None:
    run, child = piped(project)
    done = take(project, run, "--text", WHO)
    assert done.returncode == 0 and f"not reached: the run {child.name} holds it, too" in done.stderr
    assert holding(run) == [] and holding(child)
    assert take(project, child, "--text", WHO).returncode == 0 and holding(child) == []


def piped(project: Path, more: str = "") -> tuple[Path, Path]:
    """A run that has the name in its goal, and its pipeline that was told it."""
    add_pipeline(project, "both", f"  a: {{run: [tell, --x, '{WHO}']}}\n{more}")
    add_skill(project, "joint", "both")
    harness("run", "joint", "about", WHO, "-m", script(project, calls(["both"]), finish("x")), cwd=project)
    run = newest(project)
    [child] = [path for path in run.parent.glob("2*") if path != run]
    return run, child


def test_a_child_goes_with_the_run_that_still_needs_it_or_by_force_with_a_warning(project: Path) -> None:
    run, child = piped(project)
    refused = take(project, child, "--text", WHO)
    assert refused.returncode == 2 and f"is part of the run {run.name}, which still needs it" in refused.stderr
    assert f"--with children, or say --force: {run.name[-8:]}" in refused.stderr and holding(child)
    done = take(project, child, "--text", WHO, "--force")
    assert done.returncode == 0 and f"warning: {run.name} stays" in done.stderr and holding(child) == []


def test_a_child_whose_call_is_open_still_is_not_redacted_alone(project: Path) -> None:
    """Its parent would begin it again, and do again what it did."""
    run, child = piped(project, "  b: {run: [act], needs: [a]}\n")
    for words in ((), ("--force",)):
        refused = take(project, child, "--text", WHO, *words)
        assert refused.returncode == 2 and f"works for {run.name}" in refused.stderr and holding(child)


def test_one_command_reaches_the_run_and_its_children(project: Path) -> None:
    run, child = piped(project, "  b: {run: [act], needs: [a]}\n")
    assert take(project, run, "--seq", "1", "--with", "children").returncode == 2
    done = take(project, run, "--text", WHO, "--with", "children", "-n", "--json")
    body = json.loads(done.stdout)
    assert (body["run"], [one["run"] for one in body["with"]]) == (run.name, [child.name]) and holding(child)
    done = take(project, run, "--text", WHO, "--with", "children", "--force")
    assert (done.returncode, done.stdout.split()) == (0, [child.name, run.name])
    assert "not reached: the run" not in done.stderr
    assert holding(run) == holding(child) == []
    assert take(project, run, "--text", WHO, "--with", "children").returncode == 2  # nothing holds it any more


def test_a_child_that_cannot_be_redacted_leaves_its_parent_as_it_is(project: Path) -> None:
    run, child = piped(project)
    journal = child / "events.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    before = (run / "events.jsonl").read_bytes()
    done = take(project, run, "--text", WHO, "--with", "children")
    assert done.returncode in (2, 3) and (run / "events.jsonl").read_bytes() == before


def test_a_dry_run_changes_nothing_and_refusals_say_why(project: Path) -> None:
    run = told(project)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    done = take(project, run, "--text", WHO, "-n", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["values"] > 3
    for words in (["--text", "nobody at all"], ["--text", ""], [], ["--text", WHO, "--seq", "1"], ["--text", "-work-"]):
        assert take(project, run, *words).returncode == 2, words
    bad = harness("runs", "redact", run.name, "--text", WHO, "--why", f"{WHO} asked", cwd=project)
    assert bad.returncode == 2 and "the reason holds" in bad.stderr
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}


def test_nobody_redacts_a_run_that_somebody_owns(project: Path) -> None:
    run = told(project)
    log = open_log(run, IO(), Clock())
    with pytest.raises(HarnessError) as busy:
        redact(run, Wish(text=WHO), "why", "user:x", IO(), Clock(), None)
    log.close()
    assert busy.value.exit_code == 75
