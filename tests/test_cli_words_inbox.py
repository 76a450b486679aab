"""A person's word: who is asked, who cannot be, and what a word from another process does."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.events import lock
from harness.events.io import IO
from harness.runs.deliver import send
from tests.command import COMMAND, AtTerminal, confined, events, harness, newest
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, make_project, script

WANTED = (calls(["act", "--x", "a"], ["act", "--x", "b"], ["act", "--x", "c"]), finish("acted"))
ONE = (calls(["act", "--x", "a"]), finish("acted"))
RUN = ("run", "work", "do", "it", "-m")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return confined(make_project(tmp_path / "p"))


@pytest.fixture
def terminals() -> Iterator[list[AtTerminal]]:
    opened: list[AtTerminal] = []
    yield opened
    for one in opened:
        one.kill()


def at_terminal(opened: list[AtTerminal], project: Path, *arguments: str, **env: str) -> AtTerminal:
    opened.append(AtTerminal(*COMMAND, *arguments, cwd=project, **env))
    return opened[-1]


def parked(project: Path, *replies: object, skill: str = "work") -> Path:
    """A run that waits for a person."""
    done = harness("run", skill, "do it", "-m", script(project, *replies), cwd=project)  # type: ignore[arg-type]
    assert done.returncode in (5, 10), done.stderr
    return newest(project)


def digest(run: Path, op: int = 1) -> str:
    return next(str(e["data"]["digest"]) for e in events(run, "decide") if e["op"] == op)


def ledger(project: Path) -> list[str]:
    return (project / "ledger").read_text().split() if (project / "ledger").exists() else []


def test_case_6_without_a_terminal_it_parks_with_the_line_to_type(project: Path) -> None:
    done = harness(*RUN, script(project, *ONE), cwd=project)
    run = newest(project)
    line = f"  next: harness approve {run.name[-8:][:4]} 1 --digest {digest(run)[:8]}"
    assert done.returncode == 5 and line in done.stderr.splitlines() and not ledger(project)


@pytest.mark.parametrize(("option", "env"), [((), {"CI": "1"}), (("--no-input",), {})])
def test_case_6_ci_and_no_input_never_ask_at_a_terminal(
    project: Path, terminals: list[AtTerminal], option: tuple[str, ...], env: dict[str, str]
) -> None:
    code, seen = at_terminal(terminals, project, *RUN, script(project, *ONE), *option, **env).end()
    assert code == 5 and "harness approve" in seen and "wants to act" not in seen


def test_case_6_a_background_job_of_a_terminal_parks_and_is_not_stopped(
    project: Path, terminals: list[AtTerminal]
) -> None:
    line = f'set -m; "{sys.executable}" -m harness run work x -m {script(project, *ONE)} & wait $!; echo "code=$?"'
    terminals.append(AtTerminal("bash", "-c", line, cwd=project))
    _, seen = terminals[0].end()
    assert "code=5" in seen and "harness approve" in seen and "wants to act" not in seen


def test_a_run_that_asks_at_its_terminal_is_listed_with_those_that_wait(
    project: Path, terminals: list[AtTerminal]
) -> None:
    """Somebody may answer it from another one."""
    there = at_terminal(terminals, project, *RUN, script(project, *ONE))
    there.until("y once")
    [one] = json.loads(harness("runs", "--waiting", "--json", cwd=project).stdout)["runs"]
    assert (one["stop"], [(each["op"], each["what"]) for each in one["waits"]]) == ("open", [(1, "approval")])
    assert " open #1 " in harness("runs", "--waiting", cwd=project).stdout
    there.keys("q")
    there.end()
    assert json.loads(harness("runs", "--waiting", "--json", cwd=project).stdout)["runs"] == []


def test_case_7_a_wrong_digest_is_5_last_is_2_and_the_right_one_is_recorded(project: Path) -> None:
    run = parked(project, *ONE)
    before = (run / "events.jsonl").read_bytes()
    for wrong in ("00000000", digest(run)[:7], digest(run)[:-1] + "z"):
        done = harness("approve", run.name, "--digest", wrong, cwd=project)
        assert done.returncode == 5 and digest(run) in done.stderr
    for command in ("approve", "deny", "answer"):
        done = harness(command, "last", *(["x"] if command == "answer" else []), cwd=project)
        assert done.returncode == 2 and "never 'last'" in done.stderr
    unseen = harness("approve", run.name, cwd=project)
    assert unseen.returncode == 5, "nobody saw the call"
    assert "wants to act EXTERNALLY" in unseen.stderr and "    bin/act --x a  " in unseen.stderr
    assert not list((run / "inbox").iterdir())
    done = harness("approve", run.name[-8:], "1", "--digest", digest(run)[:8], cwd=project)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"approved #1; go on: harness resume {run.name[-8:]}" in done.stderr
    [message] = [json.loads(path.read_text()) for path in (run / "inbox").iterdir()]
    assert (message["kind"], message["op"], message["digest"]) == ("approve", 1, digest(run))
    assert (run / "events.jsonl").read_bytes() == before and not ledger(project), "only the run's owner writes and acts"
    assert harness("resume", run.name, cwd=project).stdout == "acted\n" and ledger(project) == ["a"]
    by = [event["data"].get("by", "") for event in events(run, "decide")]
    assert by[1].startswith("user:") and not list((run / "inbox").iterdir())


def test_case_7_resume_goes_on_here_with_the_answer_on_stdout(project: Path) -> None:
    run = parked(project, *ONE)
    done = harness("approve", run.name, "--digest", digest(run), "--resume", cwd=project)
    assert (done.returncode, done.stdout, ledger(project)) == (0, "acted\n", ["a"])
    again = harness("approve", run.name, "--digest", digest(run), cwd=project)
    assert again.returncode == 2 and "waits for no approval" in again.stderr


def test_case_7_one_of_three_runs_once_parks_again_and_the_others_keep_their_numbers(project: Path) -> None:
    run = parked(project, *WANTED)
    several = harness("approve", run.name, "--digest", digest(run, 2), cwd=project)
    assert several.returncode == 2 and "#1 #2 #3" in several.stderr and "name one of them" in several.stderr
    done = harness("approve", run.name, "2", "--digest", digest(run, 2), "--json", cwd=project)
    assert json.loads(done.stdout)["waiting"] == [1, 3]
    again = harness("resume", run.name, "--json", cwd=project)
    assert again.returncode == 5 and json.loads(again.stdout)["waiting"] == [1, 3] and ledger(project) == ["b"]
    assert harness("deny", run.name, "1", "--why", "not on prod", cwd=project).returncode == 0
    done = harness("approve", run.name, "3", "--digest", digest(run, 3), "--resume", cwd=project)
    assert (done.returncode, done.stdout, ledger(project)) == (0, "acted\n", ["b", "c"])
    assert any("not on prod" in str(event["data"].get("reasons")) for event in events(run, "decide"))
    assert [event["op"] for event in events(run, "tool.start")] == [2, 3]


def test_case_7_a_prompt_closes_when_the_word_comes_from_another_process(
    project: Path, terminals: list[AtTerminal]
) -> None:
    waiting = at_terminal(terminals, project, *RUN, script(project, *ONE))
    waiting.until("[n] no")
    run = newest(project)
    assert harness("approve", run.name, "--digest", digest(run), cwd=project).returncode == 0
    code, seen = waiting.end()
    assert code == 0 and "#1 approved elsewhere by " in seen and "acted" in seen and ledger(project) == ["a"]
    assert len(events(run, "tool.start")) == 1


def test_at_a_terminal_each_is_asked_in_turn_and_runs_as_it_was_answered(
    project: Path, terminals: list[AtTerminal]
) -> None:
    asked = at_terminal(terminals, project, *RUN, script(project, *WANTED))
    asked.until("1 of 3")
    asked.keys("y")
    asked.until("2 of 3")
    asked.keys("n")
    asked.until("why")
    asked.keys("too early\r", after=0.1)
    asked.until("3 of 3")
    asked.keys("y")
    code, _ = asked.end()
    assert code == 0 and sorted(ledger(project)) == ["a", "c"]
    assert [e["data"]["via"] for e in events(newest(project), "decide") if "via" in e["data"]] == ["prompt"] * 3


def test_approve_without_a_number_asks_for_each_at_a_terminal(project: Path, terminals: list[AtTerminal]) -> None:
    run = parked(project, *WANTED)
    asked = at_terminal(terminals, project, "approve", run.name, "--resume")
    seen = asked.until("1 of 3")
    assert "    bin/act -" in seen and digest(run)[:8] in seen and "EXTERNAL" in seen
    asked.keys("e")
    asked.until("# @describe act something")
    asked.keys("y")
    asked.until("2 of 3")
    asked.keys("y")
    asked.until("3 of 3")
    asked.keys("\r")
    code, seen = asked.end()
    assert code == 0 and sorted(ledger(project)) == ["a", "b"] and "acted" in seen


def test_a_person_who_says_nothing_changes_nothing(project: Path, terminals: list[AtTerminal]) -> None:
    run = parked(project, *ONE)
    asked = at_terminal(terminals, project, "approve", run.name)
    asked.until("[n] no")
    asked.keys("q")
    code, _ = asked.end()
    assert code == 5 and not list((run / "inbox").iterdir())


def test_answer_needs_a_text_and_takes_the_number_only_where_it_waits(project: Path) -> None:
    question = (calls({"ask": "which cluster"}), finish("done", expect={"contains": ["9 pods"]}))
    run = parked(project, *question)
    for empty in ([], [" "]):
        done = harness("answer", run.name, *empty, cwd=project)
        assert done.returncode == 10 and "answer" in done.stderr and not list((run / "inbox").iterdir())
    assert harness("approve", run.name, cwd=project).returncode == 2, "a question is no call"
    assert harness("answer", run.name, "9", "pods", cwd=project).returncode == 0
    assert harness("resume", run.name, cwd=project).stdout == "done\n"
    [said] = events(run, "user.say")
    assert said["data"]["text"] == "9 pods" and said["data"]["answers"] == 1 and said["data"]["by"].startswith("user:")


def test_an_answer_from_a_pipe_counts_as_input(project: Path) -> None:
    run = parked(project, calls({"ask": "which"}), finish("done"))
    done = harness("answer", run.name, "1", "-", "--resume", cwd=project, stdin="the EU cluster\n")
    assert (done.returncode, done.stdout) == (0, "done\n")
    [said] = events(run, "user.say")
    assert (said["data"]["text"], said["data"]["by"]) == ("the EU cluster", "input")


def test_answer_without_a_text_asks_at_a_terminal(project: Path, terminals: list[AtTerminal]) -> None:
    run = parked(project, calls({"ask": {"question": "which \x1b[2J one", "options": ["pods", "nodes"]}}), finish("ok"))
    asked = at_terminal(terminals, project, "answer", run.name, "--resume")
    seen = asked.until("2  nodes")
    assert "\x1b[2J" not in seen and r"which \x1b[2J one" in seen
    asked.keys("2\r")
    code, _ = asked.end()
    assert code == 0 and events(run, "user.say")[0]["data"]["text"] == "nodes"


def test_case_13_a_call_that_waits_in_a_grandchild_is_found_from_the_top(project: Path) -> None:
    add_pipeline(project, "outer", "  s: {run: [inner]}\n")
    add_pipeline(project, "inner", "  s: {run: [act, --x, deep]}\n")
    add_skill(project, "deep", "outer")
    top = parked(project, calls(["outer"]), finish("all done"), skill="deep")
    shown = harness("show", top.name, "--json", cwd=project)
    assert json.loads(shown.stdout)["stop"] == "needs-approval"
    refused = harness("approve", top.name, cwd=project)
    assert refused.returncode == 5 and "--digest " in refused.stderr
    fix = refused.stderr.rsplit("fix: ", 1)[1].split()
    done = harness(*fix[1:], cwd=project)
    assert done.returncode == 0 and f"harness resume {top.name[-8:]}" in done.stderr
    below = harness("resume", fix[2], cwd=project)  # a part of a run acts on all of it
    assert below.stdout == "all done\n" and ledger(project) == ["deep"]
    assert f"{fix[2][-8:]} is part of {top.name}, which goes on" in below.stderr
    top.rename(top.parent / "away")
    orphan = harness("resume", fix[2], cwd=project)
    assert orphan.returncode == 2 and "is gone" in orphan.stderr


def test_calls_with_one_number_in_two_child_runs_are_told_apart(project: Path) -> None:
    for name in ("left", "right"):
        add_pipeline(project, name, f"  s: {{run: [act, --x, {name}]}}\n")
    add_skill(project, "both", "left right")
    top = parked(project, calls(["left"], ["right"]), finish("both done"), skill="both")
    shown = harness("show", top.name, cwd=project)
    offered = [line.split()[2:] for line in shown.stdout.splitlines() if line.startswith("  next: harness approve")]
    vague = harness("deny", top.name, "1", cwd=project)
    assert vague.returncode == 2 and "with its own run: " in vague.stderr
    assert [words[2] for words in offered] == ["1", "1"], "both are their child's first call"
    assert all(harness(*words, cwd=project).returncode == 0 for words in offered)
    assert harness("resume", top.name, cwd=project).stdout == "both done\n"
    assert sorted(ledger(project)) == ["left", "right"]


PARKS = {"approve": (["act"], 5), "answer": ({"ask": "where?"}, 10), "settle": (["broken"], 11)}


@pytest.mark.parametrize("word", PARKS)
def test_what_is_printed_for_two_parked_children_works_as_printed(project: Path, word: str) -> None:
    """By the process that parked, by the next one, which opens neither child, and by `show`."""
    first, code = PARKS[word]
    add_tool(project, "broken", 'echo x >> broken.log; kill -9 "$PPID"; sleep 30', "# @meta effect write")
    add_skill(project, "helper", "act broken")
    add_skill(project, "both", "helper")
    path = project / script(project, calls(["helper", "a"], ["helper", "b"]), finish("both done")).partition(":")[2]
    path.write_text(path.read_text() + json.dumps({"helper": {"replies": [calls(first), finish("helped")]}}).join(
        ("skills: ", "\n")))  # fmt: skip
    done = harness("run", "both", "do it", "-m", f"scripted:{path.name}", cwd=project)
    top = newest(project)
    assert done.returncode == code, done.stderr
    again, shown = harness("resume", top.name, cwd=project), harness("show", top.name, cwd=project)
    printed = [re.findall(r"next: harness (.*)", text) for text in (done.stderr, again.stderr, shown.stdout)]
    assert printed[0] == printed[1] == printed[2] and again.returncode == code
    said = {" ".join(line.split()[:3]): line.replace("TEXT", "here").split() for line in reversed(printed[0])}
    assert len(said) == 2 and all(words[0] == word for words in said.values())
    assert all(harness(*words, cwd=project).returncode == 0 for words in said.values())
    assert harness("resume", top.name, cwd=project).stdout == "both done\n"


def test_the_list_of_what_waits_has_the_numbers_that_commands_take(project: Path) -> None:
    """Not that of the call which began the run that waits; and of what was said already it says so."""
    add_pipeline(project, "one", "  r: {run: [look]}\n  s: {run: [act, --x, deep]}\n")
    add_skill(project, "single", "one")
    top = parked(project, calls(["one"]), finish("done"), skill="single")
    listed = harness("runs", "--waiting", cwd=project).stdout
    assert "needs-approval #2 " in listed
    [row] = json.loads(harness("runs", "--waiting", "--json", cwd=project).stdout)["runs"]
    [one] = row["waits"]
    assert (one["op"], one["what"], one["said"]) == (2, "approval", None) and "-one-" in one["run"]
    refused = harness("approve", top.name, "2", cwd=project)
    assert harness(*refused.stderr.rsplit("fix: harness ", 1)[1].split(), cwd=project).returncode == 0
    assert "needs-approval: approved, resume it" in harness("runs", "--waiting", cwd=project).stdout
    assert harness("deny", top.name, "2", cwd=project).returncode == 0
    assert "needs-approval: denied, resume it" in harness("runs", "--waiting", cwd=project).stdout


@pytest.mark.parametrize(("words", "effects"), [(("approve", "deny"), []), (("deny", "approve"), ["a"])])
def test_of_two_words_on_one_call_the_later_counts(project: Path, words: tuple[str, ...], effects: list[str]) -> None:
    run = parked(project, *ONE)
    for word in words:
        more = ["--digest", digest(run)] if word == "approve" else []
        assert harness(word, run.name, *more, cwd=project).returncode == 0
    assert harness("resume", run.name, cwd=project).returncode == 0 and ledger(project) == effects
    [note] = events(run, "note")
    assert f"'{words[0]}' on operation 1 was taken back" in note["data"]["text"]
    assert not list((run / "inbox").iterdir())


@pytest.mark.parametrize("number", ["1e400", "NaN", '"one"', "[1]"])
def test_a_message_with_an_odd_number_is_dropped_and_the_run_goes_on(project: Path, number: str) -> None:
    run = parked(project, *ONE)
    (run / "inbox/odd.json").write_text(f'{{"kind": "deny", "op": {number}}}')
    done = harness("resume", run.name, cwd=project)
    assert done.returncode == 5 and "odd.json could not be read and was dropped" in done.stderr


def test_a_number_that_waits_for_no_answer_is_said_to_be_part_of_the_answer(project: Path) -> None:
    run = parked(project, calls(["look"], {"ask": "how many?"}), finish("so"))
    done = harness("answer", run.name, "1", "or", "two", cwd=project)
    assert done.returncode == 0 and "#1 waits for no answer, so that number is part of the answer to #2" in done.stderr
    assert harness("resume", run.name, cwd=project).returncode == 0
    assert events(run, "user.say")[0]["data"]["text"] == "1 or two"


def test_a_word_for_what_waits_no_more_is_2(project: Path) -> None:
    assert harness(*RUN, script(project, finish("x")), cwd=project).returncode == 0
    run = newest(project)
    for command in (["approve", run.name], ["approve", run.name, "7"], ["deny", run.name], ["answer", run.name, "x"]):
        done = harness(*command, cwd=project)
        assert done.returncode == 2 and "waits for no" in done.stderr and f"harness show {run.name}" in done.stderr


def test_what_was_approved_and_then_changed_is_asked_again(project: Path) -> None:
    run = parked(project, *ONE)
    assert harness("approve", run.name, "--digest", digest(run), cwd=project).returncode == 0
    tool = project / "bin/act"
    tool.write_text(tool.read_text().replace("acted", "did"))
    refused = harness("resume", run.name, cwd=project)
    assert refused.returncode == 2 and "tool act: " in refused.stderr and "--accept-changes" in refused.stderr
    done = harness("resume", run.name, "--accept-changes", cwd=project)
    assert done.returncode == 5 and not ledger(project), "the approval was for other bytes"


def test_allow_lets_one_call_pass_and_never_money(project: Path) -> None:
    model = script(project, *WANTED[:1], finish("x"))
    one = harness(*RUN, model, "--allow", "act --x=b", "--json", cwd=project)
    assert json.loads(one.stdout)["waiting"] == [1, 3] and ledger(project) == ["b"]
    assert harness(*RUN, model, "--allow", "act", cwd=project).returncode == 0 and len(ledger(project)) == 4
    money = script(project, calls(["pay", "--x", "5"]), finish("x"))
    assert harness(*RUN, money, "--allow", "pay --x=5", cwd=project).returncode == 5
    assert not (project / "paid").exists()
    free = script(project, calls(["bare", "a", "b"]), finish("x"))
    for given, code in (("bare", 5), ("bare a", 5), ("bare b a", 5), ("bare a b", 0)):
        assert harness(*RUN, free, "--allow", given, cwd=project).returncode == code, given
    assert (project / "bare.log").read_text() == "a b\n"


@pytest.mark.parametrize(
    ("option", "given", "words"),
    [
        ("--allow", "atc", "near: act"),
        ("--deny", "lok", "near: look"),
        ("--allow", "act --y=1", "no option of act"),
        ("--allow", "act 'x", "No closing quotation"),
        ("--allow", "", "names no tool"),
    ],
)
def test_a_rule_for_what_is_not_there_is_2_with_the_nearest(
    project: Path, option: str, given: str, words: str
) -> None:  # fmt: skip
    done = harness(*RUN, script(project, finish("x")), option, given, cwd=project)
    assert done.returncode == 2 and words in done.stderr.splitlines()[0] and "fix: " in done.stderr
    assert not (project / ".harness/runs").exists()


def test_a_denied_tool_is_refused_and_the_run_goes_on(project: Path) -> None:
    done = harness(*RUN, script(project, calls(["look"]), finish("x")), "--deny", "look", cwd=project)
    assert done.returncode == 0 and "look #1 refused DENIED --deny look" in done.stderr
    assert not events(newest(project), "tool.start")


def test_case_14_a_tool_by_hand_is_gated_and_prints_its_own_stdout(project: Path) -> None:
    denied = harness("tools", "run", "--deny", "look", "look", cwd=project)
    assert (denied.returncode, denied.stdout) == (7, "")
    asks = harness("tools", "run", "act", "--x", "z", cwd=project)
    assert (asks.returncode, asks.stdout) == (5, "") and "harness approve" in asks.stderr and not ledger(project)
    run = newest(project)
    done = harness("approve", run.name, "--digest", digest(run), "--resume", cwd=project)
    assert (done.returncode, done.stdout, ledger(project)) == (0, "acted on z\n", ["z"])
    good = harness("tools", "run", "look", "--x", "2", cwd=project)
    assert (good.returncode, good.stdout) == (0, "looked at 2\n")
    assert json.loads(harness("show", "--json", cwd=project).stdout)["steps"][0]["state"] == "ok"


def test_the_prompt_of_a_pipe_at_the_same_terminal_does_not_read_the_pipe(
    project: Path, terminals: list[AtTerminal]
) -> None:
    line = f'printf yyyy | "{sys.executable}" -m harness run work - -m {script(project, *ONE)} > out'
    terminals.append(AtTerminal("bash", "-c", line, cwd=project))
    terminals[0].until("[n] no")
    terminals[0].keys("n")
    terminals[0].until("why")
    terminals[0].keys("\r", after=0.1)
    terminals[0].end()
    assert not ledger(project) and (project / "out").read_text() == "acted\n"


def test_a_yes_for_days_is_listed_answers_the_next_run_and_is_taken_back(
    project: Path, terminals: list[AtTerminal]
) -> None:
    asked = at_terminal(terminals, project, *RUN, script(project, *ONE))
    asked.until("a always, 30 days")
    asked.keys("a")
    assert asked.end()[0] == 0 and harness(*RUN, script(project, *ONE), cwd=project).returncode == 0
    [told] = json.loads(harness("policy", "grants", "--json", cwd=project).stdout)
    assert (told["tool"], told["state"]) == ("act", "stands") and ledger(project) == ["a", "a"]
    listed = harness("policy", "grants", cwd=project).stdout
    assert listed.startswith(f"{told['id']}  act  stands\n") and " or more · user\n" in listed
    assert harness("policy", "grants", "--revoke", "g-none", cwd=project).returncode == 2
    assert f"revoked {told['id']}" in harness("policy", "grants", "--revoke", told["id"], cwd=project).stderr
    assert "no approval is remembered" in harness("policy", "grants", cwd=project).stderr
    assert harness(*RUN, script(project, *ONE), cwd=project).returncode == 5 and ledger(project) == ["a", "a"]


def test_show_numbers_each_call_and_marks_what_was_said_of_it(project: Path) -> None:
    """A word in the inbox is no longer asked for, a void one is; a stale result is no tick any more."""
    add_skill(project, "mixed", "look act")
    run = parked(project, calls(["look", "--x", "7"]), calls(["act", "--x", "1"]), finish("x"), skill="mixed")
    shown = harness("show", run.name, cwd=project).stdout
    assert "look #1 --x 7" in shown and "act #2 --x 1" in shown and "why: effect external" in shown
    send(run, IO(), {"kind": "approve", "op": 2, "digest": "0" * 16, "at": time.time()})
    assert harness("show", run.name, cwd=project).stdout == shown
    assert "needs-approval #2" in harness("runs", cwd=project).stdout
    denied = harness("deny", run.name, "2", cwd=project)
    assert f"go on: harness resume {run.name[-8:]}" in denied.stderr
    stale = harness("amend", run.name, "--stale", "look", "--why", "cut", cwd=project)
    assert stale.returncode == 0
    heard = harness("show", run.name, cwd=project).stdout
    assert "#2 act --x 1 (denied)" in heard and "harness approve" not in heard and "stale: a person said so" in heard
    assert f"next: harness resume {run.name[-8:][:4]}" in heard
    (project / "by-hand").write_text("mine")
    done = harness("amend", run.name, "--receipt", "1=by-hand", "--why", "seen", cwd=project)
    assert "#1 (look --x 7) has a person's result" in done.stderr


def test_a_word_for_a_run_that_somebody_drives_names_no_resume(project: Path) -> None:
    run = parked(project, calls(["act", "--x", "1"]), finish("x"))
    owner = lock.take(run, IO(), wait=0.0)
    try:
        done = harness("deny", run.name, "1", cwd=project)
    finally:
        os.close(owner)
    assert done.returncode == 0 and "goes on with it by itself" in done.stderr and "resume" not in done.stderr


def test_a_fork_of_a_run_that_passed_says_what_it_needs(project: Path) -> None:
    harness("run", "work", "go", "-m", script(project, calls(["look"]), finish("x")), cwd=project)
    forked = harness("fork", newest(project).name, cwd=project)
    assert forked.returncode == 0 and "it has passed; go on: harness resume" in forked.stderr
    assert forked.stderr.rstrip().endswith(" MESSAGE")


def test_a_journal_that_is_damaged_in_its_middle_is_listed_as_damaged(project: Path) -> None:
    harness("run", "work", "go", "-m", script(project, calls(["look"]), finish("x")), cwd=project)
    journal = newest(project) / "events.jsonl"
    assert "passed" in harness("runs", cwd=project).stdout
    raw = journal.read_bytes()
    journal.write_bytes(raw.replace(b"model.reply", b"model.rexly", 1))
    listed = harness("runs", cwd=project).stdout
    assert "damaged" in listed and "passed" not in listed
