"""What a run asked its model, what it cost, and its replies as a script that replays it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.events.fold import fold
from harness.runs.composing import requests
from harness.runs.record import script_of
from harness.view.cost import bill
from tests.command import events, harness, newest
from tests.loop_world import Project, call, finish, reply
from tests.run_files import add_skill, add_tool, calls, make_project, script
from tests.run_files import finish as says
from tests.skill_files import catalog_of

TIMES = frozenset(
    {"ms", "pid", "boot", "run", "child", "active_s", "waiting_s", "seconds", "body", "bytes", "estimate", "parts"}
    | {"model", "mark"}
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.tool("look", 'echo "seen $*"; echo odd >&2', head="@meta effect read\n@arg what")
    project.skill("helper", tools="look")
    project.skill("demo", tools="look helper", requires="look")
    return project


# Case 5: every request is composed again to the digest that was logged.
def test_every_request_of_a_run_is_composed_again_to_its_digest(project: Project) -> None:
    ran = project.run([
        reply(call("look", "a"), call("look", "b"), text="both"),
        {"content": [{"type": "thinking", "thinking": "hm", "signature": "x=="}, {"type": "odd", "field": 1},
                     {"type": "tool_use", "id": "t1", "name": "run", "input": {"tool": "look", "args": ["c"]}}]},
        {"text": ""}, reply({"ask": {"question": "which?"}}),
    ])  # fmt: skip
    assert ran.stop.name == "needs-answer"
    project.say(ran.folder, "answer", text="that one")
    project.script([*[{"text": "x"}] * 4, reply({"read": "op:1"}), finish("it is so")])
    again = project.resume(ran.folder, "and hurry", budget="turns=40")
    assert again.stop.name == "passed", again.end
    found = list(requests(ran.folder, catalog_of(project.path)))
    assert len(found) == len(again.of("model.start")) == 6
    for request in found:
        assert request.sent and request.prompt.body.startswith(request.sent)
    assert found[-1].fields["bytes"] == found[-1].prompt.bytes


def test_requests_of_later_contexts_and_of_workers_are_composed_again_too(project: Project) -> None:
    plain = project.world

    def world() -> Any:
        made = plain()
        made.context = 6_000
        return made

    project.world = world  # type: ignore[method-assign]
    looks = [reply(call("look", f"{n}" * 5_000)) for n in range(5)]
    ran = project.run([*looks, reply(call("helper", "go")), finish()], helper=[reply(call("look", "h")), finish("h")],
                      budget="turns=30 calls=30")  # fmt: skip
    assert ran.stop.name == "passed" and ran.of("context")
    for folder in (ran.folder, ran.child()):
        found = list(requests(folder, catalog_of(project.path)))
        assert found and all(request.prompt.body.startswith(request.sent) for request in found)
    assert {request.prompt.context for request in requests(ran.folder, catalog_of(project.path))} > {0}


# Case 3, by processes that have nothing else in common.
MANY = ("lookup", "pods", "lag", "search", "replay", "report")
SIX = "  requires: report\n  tool-dependencies: |\n    search: lookup pods\n    replay: search\n    report: search\n"


def installed(folder: Path, count: int) -> None:
    """A project with a skill of six tools, three of them released, and so many other tools and skills."""
    make_project(folder)
    for name in MANY:
        add_tool(folder, name, "echo found", f"# @meta effect read\n# @option --{name}-id <ID>  of what")
    add_skill(folder, "six", " ".join(MANY), f"metadata:\n{SIX}")
    for n in range(count):
        add_tool(folder, f"other-{n}", "echo other")
        add_skill(folder, f"skill-{n}", f"other-{n}")


def test_the_first_request_is_the_same_for_every_place_and_machine_and_number_of_tools(tmp_path: Path) -> None:
    places = [(tmp_path / "a" / "p", "one goal", 10, {"TZ": "UTC", "LANG": "C", "USER": "a", "PYTHONHASHSEED": "1"}),
              (tmp_path / "bb" / "q", "quite another", 1_000,
               {"TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "USER": "b", "PYTHONHASHSEED": "7"})]  # fmt: skip
    found = []
    for folder, goal, count, env in places:
        installed(folder, count)
        model = script(folder, says("so"), {"stop": "refusal"})
        assert harness("run", "six", goal, "-m", model, cwd=folder, **env).returncode == 1
        found.append(json.loads(harness("show", "--prompt", "1", "--json", cwd=folder, **env).stdout))
        start = events(newest(folder), "model.start")[0]["data"]
        found[-1]["prefix"], found[-1]["mark"] = start["prefix"], events(newest(folder))[0]["data"]["model"]["mark"]
    one, two = found
    assert (one["system"], one["prefix"]) == (two["system"], two["prefix"])
    first, second = (json.dumps(made["turns"][0]).replace(made["mark"], "MARK") for made in found)
    assert first == second.replace("quite another", "one goal")
    assert first.count("callable: ") == 3 and "waiting: search (lookup pods), replay (search), report (search)" in first
    assert one["bytes"] - len("Do it.\n") <= 2_870


# The command.
@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run of two turns."""
    folder = make_project(tmp_path_factory.mktemp("show") / "p")
    model = script(folder, calls(["look", "--x", "7"], text="I look.", usage={"input": 900, "cached": 300, "out": 40}),
                   says("so", usage={"input": 1000, "out": 10}))  # fmt: skip
    ran = harness("run", "strict", "find", "it", "-m", model, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder


def test_show_prompt_prints_the_blocks_and_says_that_they_are_what_was_sent(done: Path) -> None:
    shown = harness("show", "--prompt", "2", cwd=done)
    assert shown.returncode == 0
    for part in ("=== system: rules\nYou work in a harness", "=== system: skill\nDo it.", "=== user\n<task mark=",
                 "=== model\nI look.\n", "=== result of call_1_1\n", "looked at 7"):  # fmt: skip
        assert part in shown.stdout, part
    assert "call 2 of 2, turn 2, context 0" in shown.stderr and "as sent, digest " in shown.stderr
    made = json.loads(harness("show", "--prompt", "1", "--json", cwd=done).stdout)
    assert made["same"] and made["body"].startswith(made["sent"]) and len(made["turns"]) == 1


@pytest.mark.parametrize("number", ["0", "3", "x", ""])
def test_there_is_no_such_call(done: Path, number: str) -> None:
    shown = harness("show", "--prompt", number, cwd=done)
    assert shown.returncode == 2 and "model call" in shown.stderr and not shown.stdout


def test_one_view_at_a_time(done: Path) -> None:
    assert harness("show", "--prompt", "1", "--cost", cwd=done).returncode == 2


def test_a_changed_skill_is_named(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    model = script(folder, calls(["look"]), says("so"))
    assert harness("run", "strict", "find", "it", "-m", model, cwd=folder).returncode == 0
    path = folder / "skills" / "strict" / "SKILL.md"
    path.write_text(path.read_text() + "More.\n")
    shown = harness("show", "--prompt", "1", cwd=folder)
    assert shown.returncode == 0 and "More." in shown.stdout
    assert "not what was sent" in shown.stderr and "skill@" in shown.stderr


def test_a_run_without_a_model_says_so(done: Path) -> None:
    assert harness("tools", "run", "look", cwd=done).returncode == 0
    shown = harness("show", "--prompt", "1", cwd=done)
    assert shown.returncode == 2 and "no model" in shown.stderr


# Cost.
def test_the_parts_of_a_run_add_up_to_what_it_spent(project: Project) -> None:
    ran = project.run(
        [reply(call("look", "a"), usage={"input": 900, "cached": 300, "out": 40}), reply(call("helper", "go")),
         finish("so")],
        helper=[reply(call("look", "h"), usage={"input": 50, "out": 5}), finish("h")],
    )  # fmt: skip
    assert ran.stop.name == "passed", ran.end
    made, spent = bill(ran.events), ran.end["spent"]
    assert [c.end for c in made.calls] == ["calls", "calls", "calls"]
    assert [(p.name, p.run, p.input, p.out) for p in made.children] == [("helper", ran.child().name, 50, 5)]
    assert (made.tools["look"].calls, made.calls[0].cached) == (1, 300)
    for key, name in (("input", "tokens_in"), ("out", "tokens_out"), ("nanos", "nanos"), ("unpriced", "unpriced")):
        parts = sum(getattr(part, key) for part in (*made.calls, *made.children))
        assert parts == getattr(made.total, key) == spent[name], key


def test_requests_that_were_lost_and_a_fork_count_where_they_belong() -> None:
    def event(seq: int, kind: str, op: int = 0, **data: Any) -> dict[str, Any]:
        at = f"2026-11-30T11:00:{seq:02}.000Z"
        return {"v": 1, "seq": seq, "epoch": 1, "at": at, "kind": kind, "data": data, **({"op": op} if op else {})}

    start = {"model": "m", "context": 0, "estimate": 100, "max_tokens": 50, "usd": 0.25}
    log = [
        event(1, "run.start", run="r", skill="s", goal=""), event(2, "model.start", turn=1, **start),
        event(3, "model.start", turn=1, **{"try": 2}),
        event(4, "model.reply", turn=1, content=[], dialect="x", calls=[], stop="end", usage={"input": 90, "out": 9},
              cost=0.125, ms=3),
        event(5, "model.start", turn=2), event(6, "model.fail", turn=2, reason="cut", **{"class": "RETRYABLE"}),
    ]  # fmt: skip
    made, spent = bill(log), fold(log).spent
    assert [(c.nanos, c.input, c.end) for c in made.calls] == [
        (250_000_000, 100, "lost"), (125_000_000, 90, "end"), (250_000_000, 100, "cut")]  # fmt: skip
    assert sum(c.nanos for c in made.calls) == spent.nanos == made.total.nanos
    fork = [event(1, "run.start", run="f", skill="s", goal="", fork={"run": "r", "seq": 4}), *log[1:]]
    made = bill(fork)
    assert [(c.nanos, c.end) for c in made.calls] == [(250_000_000, "cut")]
    assert made.total.nanos == fold(fork).spent.nanos == 250_000_000


def test_show_cost_in_tables_and_as_an_object(done: Path) -> None:
    run = newest(done) if events(newest(done))[0]["data"]["skill"] == "strict" else None
    name = run.name if run is not None else next(p.name for p in (done / ".harness/runs").glob("*-strict-*"))
    shown = harness("show", name, "--cost", cwd=done)
    assert shown.returncode == 0
    for part in ("CALL", "900", "300 (33 %)", "TOOL", "look", "strict itself $0.00", "2 turns"):
        assert part in shown.stdout, part
    made = json.loads(harness("show", name, "--cost", "--json", cwd=done).stdout)
    assert [c["input"] for c in made["calls"]] == [900, 1000] and made["total"]["out"] == 50


# Case 21: recorded and replayed.
def bare(value: Any) -> Any:
    """An event without times, ids, and what differs between a provider and a script."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key not in TIMES}
    return [bare(item) for item in value] if isinstance(value, list) else value


def test_a_recorded_run_is_replayed_to_the_same_events(project: Project) -> None:
    ran = project.run(
        [reply(call("look", "a"), text="I look.", usage={"input": 900, "out": 40}),
         reply(call("helper", "go"), call("look", "b")), {"text": ""}, {"text": "so"}],
        helper=[reply(call("look", "h")), finish("h")],
    )  # fmt: skip
    assert ran.stop.name == "passed", ran.end
    project.file("recorded.yaml", script_of(ran.folder, catalog_of(project.path)))
    again = project.run(f"scripted:{project.path / 'recorded.yaml'}")
    assert again.stop.name == "passed", again.end
    assert [(e["kind"], bare(e["data"])) for e in again.events] == [(e["kind"], bare(e["data"])) for e in ran.events]
    assert script_of(again.folder, catalog_of(project.path)) == (project.path / "recorded.yaml").read_text()


BROKEN = [{"type": "tool_use", "id": "c1", "name": "run", "input": {}}]


@pytest.mark.parametrize("reason", ["refusal", "length", "overflow"])
def test_case_21_a_reply_that_failed_and_one_that_was_malformed_are_replayed(project: Project, reason: str) -> None:
    ran = project.run([
        {"content": BROKEN, "errors": {"c1": "the arguments are no JSON"}},
        {"fail": {"reason": "cut", "message": "gone"}}, reply(call("look", "a")),
        {"stop": reason, "message": "no (cyber): because", "usage": {"input": 7, "out": 3}, "repeat": 2},
    ])  # fmt: skip
    assert ran.of("model.reply")[0]["data"]["calls"][0]["error"] == "the arguments are no JSON"
    failed = [event["data"] for event in ran.of("model.fail")]
    assert [data["message"] for data in failed][:2] == ["gone", "no (cyber): because"]
    recorded = script_of(ran.folder, catalog_of(project.path))
    again = project.run(f"scripted:{project.file('recorded.yaml', recorded)}")
    for event in (*again.of("context"), *ran.of("context")):
        assert event["data"]["why"] == reason == "overflow"
    one, other = ([e for e in run.events if e["kind"] != "context"] for run in (ran, again))
    assert [(e["kind"], bare(e["data"])) for e in one] == [(e["kind"], bare(e["data"])) for e in other]
    assert len(again.of("context")) == len(ran.of("context"))
    assert failed[1]["usage"]["input"] == 7


def test_a_replay_that_does_not_fit_is_told(project: Project) -> None:
    ran = project.run([reply(call("look", "a")), finish("so")])
    project.file("recorded.yaml", script_of(ran.folder, catalog_of(project.path)))
    project.skill("demo", tools="look", requires="look", body="Something else.")
    again = project.run(f"scripted:{project.path / 'recorded.yaml'}")
    assert (again.stop.name, again.stop.code) == ("failed", 1)
    message = again.text(again.of("model.fail")[0]["data"]["message"]).split("\n")[0]
    assert "reply 1 (line 4): expected" in message and "expected prefix" in message
    assert "; the skill's text (its body, or the names of its files) changed: record the run anew" in message


def test_a_replay_by_another_harness_names_the_part(project: Project) -> None:
    ran = project.run([reply(call("helper", "go")), finish("so")], helper=[finish("h")])
    text = script_of(ran.folder, catalog_of(project.path))
    made = [line.strip().removeprefix("made-with: ") for line in text.split("\n") if "made-with" in line]
    assert [sorted(name.partition("@")[0] for name in json.loads(one)) for one in made] == [
        ["policy", "protocol", "skill"]
    ] * 2
    other = text.replace('"policy@1"', '"policy@0"').replace('"prefix": "', '"prefix": "0')
    again = project.run(f"scripted:{project.file('recorded.yaml', other)}")
    assert "this harness says policy@0 otherwise: record the run anew" in again.end["error"]


def test_a_prompt_that_does_not_fit_is_not_shown_whole(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    model = script(folder, says("so", expect={"contains": ["nowhere"]}))
    ran = harness("run", "strict", "find", "it", "-m", model, cwd=folder)
    assert ran.returncode == 1 and "expected to contain 'nowhere'; mend what it expects" in ran.stderr
    number = next(e["seq"] for e in events(newest(folder), "model.fail"))
    assert f"more lines: harness show {newest(folder).name[-8:-4]} --event {number}\n" in ran.stderr
    assert "<task" not in ran.stderr and "<task" in harness("show", "--event", str(number), cwd=folder).stdout


def test_failed_requests_are_recorded_as_failures(project: Project) -> None:
    ran = project.run([reply(call("look", "a")), {"stop": "refusal", "text": "no"}])
    assert ran.stop.name == "failed"
    assert '"stop": "refusal"' in script_of(ran.folder, catalog_of(project.path))


def test_record_writes_the_script_of_the_run(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    model = script(folder, calls(["look", "--x", "7"]), says("so"))
    ran = harness("run", "strict", "find", "it", "-m", model, "--record", "kept.yaml", cwd=folder)
    assert ran.returncode == 0 and ran.stdout == "so\n", ran.stderr
    assert harness("show", "--as-script", cwd=folder).stdout == (folder / "kept.yaml").read_text()
    again = harness("run", "strict", "find", "it", "-m", "scripted:kept.yaml", cwd=folder)
    assert (again.returncode, again.stdout) == (0, "so\n"), again.stderr
    for file, part in (("none/kept.yaml", "no such folder"), ("kept.yaml", "such a file already")):
        bad = harness("run", "strict", "find", "it", "-m", model, "--record", file, cwd=folder)
        assert bad.returncode == 2 and "--record" in bad.stderr and part in bad.stderr
    assert len(list((folder / ".harness" / "runs").glob("2*"))) == 2


def test_an_agents_run_is_told_and_recorded(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    add_skill(folder, "ordered", "look keep", "metadata:\n  requires: look\n")
    with (folder / "skills/ordered/SKILL.md").open("a") as file:
        file.write("\nAlert: $ARGUMENTS\n")  # an agent is told it by its own client, a model here
    opened = harness("run", "ordered", "find", "it", "--agent", cwd=folder).stdout
    run = opened.split("\n", 1)[0].removeprefix("run ")
    assert harness("step", run, "look", "--x", "7", cwd=folder).returncode == 0
    assert harness("finish", run, "so", cwd=folder).returncode == 0
    shown = harness("show", run, "--prompt", "2", cwd=folder)
    assert "looked at 7" in shown.stdout and "no request" in shown.stderr
    (folder / "kept.yaml").write_text(harness("show", run, "--as-script", cwd=folder).stdout)
    again = harness("run", "ordered", "find", "it", "-m", "scripted:kept.yaml", cwd=folder)
    assert (again.returncode, again.stdout) == (0, "so\n"), again.stderr


# After a hand-over, an agent sees the compiled view.
def test_an_agent_that_takes_over_sees_the_compiled_view_once(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    model = script(folder, calls(["look", "--x", "7"], text="I look."), calls({"ask": {"question": "which?"}}))
    assert harness("run", "strict", "find", "it", "-m", model, cwd=folder).returncode == 10
    run = newest(folder).name[-8:]
    assert harness("answer", run, "the second", cwd=folder).returncode == 0
    handed = harness("resume", run, "--agent", cwd=folder)
    assert handed.returncode == 0, handed.stderr
    for part in ("find it", "new context 1", "op 1  look --x 7  OK, fresh", "looked at 7", "the second", "I look."):
        assert part in handed.stdout, part
    assert "> run" in handed.stdout and "tool_use" not in handed.stdout
    [context] = events(newest(folder), "context")
    assert (context["data"]["why"], context["data"]["model"]) == ("model", "agent")
    stepped = harness("step", run, "look", "--x", "8", cwd=folder)
    assert stepped.returncode == 0 and "looked at 8" in stepped.stdout and "new context" not in stepped.stdout
    lost = harness("resume", run, "--agent", cwd=folder)
    assert "new context 2" in lost.stdout and "op 3  look --x 8" in lost.stdout
    back = script(folder, *[{"text": "x"}] * 3, says("so"), name="back.yaml")
    done = harness("resume", run, "-m", back, "--accept-changes", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "so\n"), done.stderr
    assert [e["data"]["why"] for e in events(newest(folder), "context")] == ["model"] * 3
