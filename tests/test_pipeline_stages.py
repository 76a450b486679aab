"""Pipelines with real tools: when stages start, what they are given, and how a run ends when one does not end well."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer

import pytest

from harness.errors import HarnessError
from tests.loop_world import Project, Ran, Skipping, after_end_of, call, finish, reply

WORD = "@option --word <W>  what to say\n@meta effect read"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.clock = Skipping()
    made.tool("say", 'printf "%s\\n" "$2"; echo "$2" >> said', WORD)
    made.tool("pods", """echo '{"pod": "p-7", "names": ["x", "y"], "deep": {"n": 3, "ok": true}, "none": null}'""")
    made.tool("fail", 'echo "the disk is full" >&2; exit ${2:-1}', "@option --code <INT>  exit\n@meta effect read")
    made.tool("write", "echo w >> written", "@meta effect write")
    made.tool("send", "echo s >> sent", "@meta effect external")
    made.tool("all", 'printf "%s," "$@"', "@arg words* <W>  words\n@meta effect read")
    return made


def line(project: Project, stages: str, *words: str, head: str = "", budget: str = "") -> Ran:
    return project.pipeline(project.stages("line", stages, head), *words, budget=budget)


def statuses(ran: Ran) -> dict[str, str]:
    """Stage → class of its end, or of the decision that kept it from running."""
    names = {e["op"]: e["data"]["call"]["stage"] for e in ran.of("decide") if "call" in e["data"]}
    judged = [(e["op"], e["data"]) for e in ran.of("decide") if e["op"] in names]
    found = {names[n]: data.get("code") or data["verdict"] for n, data in judged}
    return found | {names[e["op"]]: e["data"].get("class", e["data"]["outcome"]) for e in ran.of("tool.end")}


def test_a_stage_starts_as_soon_as_what_it_needs_has_ended(project: Project) -> None:
    """The quick branch runs to its end while the slow one is still under way: there is no barrier."""
    project.tool("slow", f"{after_end_of(3)}; echo slow")
    ran = line(project, "slow: {run: [slow]}\na: {run: [say, --word, a]}\nb: {run: [say, --word, b], needs: [a]}\n"
                        "c: {run: [say, --word, c], needs: [b, slow]}")  # fmt: skip
    assert ran.stop.name == "passed" and ran.answer == "c\n"
    tools = [ran.tools()[e["op"]] for e in ran.of("tool.start")]
    assert tools == ["slow", "say", "say", "say"]
    order = [(e["kind"], e["op"]) for e in ran.events if e["kind"] in ("tool.start", "tool.end")]
    assert order.index(("tool.end", 3)) < order.index(("tool.end", 1)) < order.index(("tool.start", 4))


def test_what_is_bound(project: Project) -> None:
    ran = line(
        project,
        "p: {run: [pods]}\ns: {run: [say, --word, 'a b']}\n"
        'all: {run: [all, "${p.pod}", "n=${p.deep.n}", "${p.deep.ok}", "${p.names}", "${s}!", "${inputs.day}", $HOME]}',
        "--day", "mon", head="@option --day <D>  day",
    )  # fmt: skip
    assert ran.stop.name == "passed"
    assert ran.answer == "p-7,n=3,true,x,y,a b!,mon,$HOME,"
    assert ran.of("tool.start")[-1]["data"]["needs"] == [1, 2]


@pytest.mark.parametrize("word", ["${p.nothing}", "${p.pod.deeper}", "${s.pod}", "${inputs.day}"])
def test_what_cannot_be_bound_stops_the_run_and_names_it(project: Project, word: str) -> None:
    ran = line(project, f"p: {{run: [pods]}}\ns: {{run: [say, --word, x]}}\na: {{run: [all, '{word}']}}",
               head="@option --day <D>  day")  # fmt: skip
    assert (ran.stop.name, ran.stop.code) == ("failed", 2)
    assert statuses(ran)["a"] == "INVALID_INPUT"
    assert "stage a (all) ended INVALID_INPUT" in ran.end["error"] and "${" in ran.end["error"]
    assert ran.spawned.count("all") == 0


def test_the_last_stages_are_the_output(project: Project) -> None:
    ran = line(project, "a: {run: [say, --word, one]}\nb: {run: [pods]}\nc: {run: [say, --word, '${b.pod}']}")
    assert json.loads(ran.answer) == {"a": "one", "c": "p-7"}


def test_the_pipeline_of_the_manual(project: Project) -> None:
    """classify says oom, then disk; then fetch-lines fails."""
    stages = """
fetch-lines: {run: [fetch], on-failure: ask-owner}
classify: {run: [say, --word, "${inputs.kind}"], needs: [fetch-lines]}
heap: {run: [say, --word, "${fetch-lines.pod}"], when: "${classify} == 'oom'"}
report: {run: [say, --word, report], needs: [classify, heap?]}
ask-owner: {run: [say, --word, "${failed.stage} ${failed.class} ${failed.err}"]}
"""
    project.tool("fetch", "echo '{\"pod\": \"p-7\"}'")
    ran = line(project, stages, "--kind", "oom", head="@option --kind <K>  kind")
    assert (ran.stop.name, ran.answer) == ("passed", "report\n")
    ok = dict.fromkeys(("fetch-lines", "classify", "heap", "report"), "OK")
    assert statuses(ran) == {**ok, "ask-owner": "SKIPPED"}
    ran = line(project, stages, "--kind", "disk", head="@option --kind <K>  kind")
    assert (ran.stop.name, statuses(ran)["heap"], statuses(ran)["report"]) == ("passed", "SKIPPED", "OK")
    project.tool("fetch", "echo 'no disk' >&2; exit 75")
    ran = line(project, stages, "--kind", "oom", head="@option --kind <K>  kind")
    assert (ran.stop.name, ran.answer) == ("passed", "fetch-lines RETRYABLE no disk\n")
    assert ran.end["error"] == "stage fetch-lines ended RETRYABLE"
    assert [statuses(ran)[s] for s in ("classify", "heap", "report")] == ["SKIPPED"] * 3
    assert ran.spawned == ["fetch"] * 3 + ["say"]


@pytest.mark.parametrize(
    ("when", "runs"),
    [("${p.pod} == 'p-7'", True), ("${p.pod} != 'p-7'", False), ("${p.pod} in ['a', 'p-7']", True),
     ("${p.pod} in ['a']", False), ("${p.deep.n} == '3'", True), ("${p.deep.ok} == 'true'", True),
     ("${p.nothing} == 'p-7'", False), ("${p.nothing} != 'p-7'", True), ("${p.pod} exists", True),
     ("${p.nothing} exists", False), ("${inputs.day} == 'mon'", False)],
)  # fmt: skip
def test_when(project: Project, when: str, runs: bool) -> None:
    stages = f'p: {{run: [pods]}}\na: {{run: [say, --word, x], when: "{when}"}}'
    ran = line(project, stages, head="@option --day <D>  d")
    assert (ran.stop.name, "say" in ran.spawned) == ("passed", runs)
    assert statuses(ran)["a"] == ("OK" if runs else "SKIPPED")


def test_a_skipped_stage_skips_those_that_want_it(project: Project) -> None:
    ran = line(project, "a: {run: [say, --word, a]}\nb: {run: [say, --word, b], when: \"${a} == 'x'\"}\n"
                        "c: {run: [say, --word, c], needs: [b]}\nd: {run: [say, --word, d], needs: [c?]}")  # fmt: skip
    assert (ran.stop.name, ran.answer) == ("passed", "d\n")
    assert [statuses(ran)[s] for s in "abcd"] == ["OK", "SKIPPED", "SKIPPED", "OK"]
    assert ran.reasons()[1:3] == ["when ${a} == 'x'", "b was skipped"]


@pytest.mark.parametrize(
    ("code", "exit", "name"),
    [("1", 1, "FAILED"), ("2", 2, "INVALID_INPUT"), ("75", 75, "RETRYABLE"), ("77", 77, "NEEDS_AUTH"),
     ("3", 1, "FAILED"), ("73", 73, "CONFLICT"), ("78", 78, "MISCONFIGURED"), ("124", 124, "TIMEOUT"),
     ("66", 66, "INVALID_INPUT")],
)  # fmt: skip
def test_a_failed_stage_stops_the_run_and_is_named(project: Project, code: str, exit: int, name: str) -> None:
    ran = line(project, f"a: {{run: [fail, --code, '{code}']}}\nb: {{run: [say, --word, b], needs: [a]}}")
    tries = 3 if name == "RETRYABLE" else 1
    assert (ran.stop.name, ran.stop.code, ran.spawned) == ("failed", exit, ["fail"] * tries)
    assert ran.end["error"] == f"stage a (fail) ended {name}: the disk is full"


def test_what_runs_beside_a_failed_stage_comes_to_its_end(project: Project) -> None:
    project.tool("slow", "sleep 0.4; echo slow > slow-done")
    ran = line(project, "a: {run: [fail]}\ns: {run: [slow]}\nb: {run: [say, --word, b], needs: [s]}")
    assert (ran.stop.name, statuses(ran)) == ("failed", {"a": "FAILED", "s": "OK"})
    assert (project.path / "slow-done").exists() and ran.end["unmet"] == []


def test_a_resumed_pipeline_goes_on_from_the_stage_that_failed(project: Project) -> None:
    project.tool("shaky", "[ -e mended ] && echo well")
    ran = line(project, "a: {run: [say, --word, a]}\nb: {run: [shaky], needs: [a]}\nc: {run: [write], needs: [b]}")
    assert (ran.stop.name, ran.spawned) == ("failed", ["say", "shaky"])
    again = project.resume(ran.folder)
    assert (again.stop.name, again.spawned) == ("failed", ["shaky"])
    (project.path / "mended").touch()
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "write"])


def test_over_budget_is_no_failure_of_a_stage(project: Project) -> None:
    ran = line(project, "a: {run: [say, --word, a], on-failure: h}\nb: {run: [say, --word, b], on-failure: h}\n"
                        "h: {run: [say, --word, h]}", budget="calls=1")  # fmt: skip
    assert (ran.stop.name, ran.stop.code, ran.end["limit"], ran.spawned) == ("budget", 6, "calls", ["say"])
    more = project.resume(ran.folder, budget="calls=5")
    assert (more.stop.name, more.spawned) == ("passed", ["say"])


def test_a_denied_stage_has_no_handler(project: Project) -> None:
    path = project.stages("line", "a: {run: [write], on-failure: h}\nh: {run: [say, --word, h]}")
    ran = project.pipeline(path, deny=("write",))
    assert (ran.stop.name, ran.stop.code, ran.spawned) == ("denied", 7, [])
    assert ran.end["error"] == "stage a (write) ended DENIED: --deny write"


def test_time_is_over_while_a_stage_runs(project: Project) -> None:
    """It comes to its end and is journaled; nothing more starts."""
    project.tool("slow", "sleep 0.8; echo x > slow-done")
    stages = "s: {run: [slow]}\na: {run: [say, --word, a]}\nb: {run: [slow], needs: [a]}"
    ran = line(project, stages, budget="seconds=0.3")
    assert (ran.stop.name, ran.stop.code, ran.end["limit"]) == ("budget", 124, "seconds")
    assert statuses(ran)["s"] == "OK" and (project.path / "slow-done").exists()
    assert not [op for op in ran.of("tool.start") if op["op"] not in {e["op"] for e in ran.of("tool.end")}]


def test_a_stage_that_asks_parks_the_pipeline(project: Project) -> None:
    ran = line(project, "a: {run: [say, --word, a]}\nb: {run: [send], needs: [a]}\n"
                        "c: {run: [say, --word, c], needs: [b]}")  # fmt: skip
    assert (ran.stop.name, ran.stop.code, ran.end["ops"]) == ("needs-approval", 5, [2])
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "c\n", ["send", "say"])


def test_a_person_refuses_a_stage(project: Project) -> None:
    ran = line(project, "a: {run: [send]}\nb: {run: [say, --word, b], needs: [a]}")
    project.say(ran.folder, "deny", why="no")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.stop.code, more.spawned) == ("denied", 7, [])
    assert more.end["error"] == "stage a (send) ended DENIED: no"


def test_an_unknown_outcome_waits_for_the_stages_beside_it(project: Project) -> None:
    project.file("bin/raw", "#!/bin/sh\nexit 1\n", executable=True)
    project.tool("slow", "sleep 0.5; echo x > slow-done")
    path = project.stages("line", "a: {run: [raw, x]}\ns: {run: [slow]}\nb: {run: [say, --word, b], needs: [s]}")
    ran = project.pipeline(path, allow=("raw x",))
    assert (ran.stop.name, ran.stop.code, ran.end["ops"]) == ("unknown-outcome", 11, [1])
    assert (project.path / "slow-done").exists() and statuses(ran)["s"] == "OK"


def test_a_tool_that_changes_before_its_approved_stage_starts_is_judged_again(project: Project) -> None:
    """A call that was allowed by its effect: the changed file is what runs, and the pipeline does not end before it."""
    new = "#!/bin/sh\\n# @describe w\\n# @meta effect write\\necho new > written\\n"
    project.tool("edit", f"printf '{new}' > bin/write")
    ran = line(project, "a: {run: [edit]}\nb: {run: [write], needs: [a]}")
    assert (ran.stop.name, ran.spawned) == ("passed", ["edit", "write"])
    assert (project.path / "written").read_text() == "new\n"


BROKEN = {
    "an unknown tool": ("a: {run: [sya]}", "say"),
    "an unknown need": ("a: {run: [say], needs: [bb]}", "bb"),
    "a cycle": ("a: {run: [say], needs: [b]}\nb: {run: [say], needs: [a]}", "a waits for"),
    "an unknown input": ("a: {run: [say, --word, '${inputs.dya}']}", "dya"),
    "an unknown key": ("a: {run: [say], whne: x}", "when"),
    "a malformed when": ("a: {run: [say], when: '${a} = 1'}", "when"),
    "an unknown option": ("a: {run: [say, --wrod, x]}", "--word"),
    "no stages": ("{}", "stage"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_pipeline_that_cannot_run_starts_nothing(project: Project, case: str) -> None:
    stages, named = BROKEN[case]
    with pytest.raises(HarnessError) as caught:
        line(project, stages)
    assert caught.value.exit_code == 2 and named in f"{caught.value.message} {caught.value.fix}"
    assert project.io.spawned == [] and not list((project.path / ".harness").rglob("events.jsonl"))


def test_a_pipeline_in_a_skill_is_one_call_and_its_stages_are_judged(project: Project) -> None:
    project.stages("line", "a: {run: [say, --word, a]}\nb: {run: [send], needs: [a]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish("fin")])
    assert (ran.stop.name, ran.stop.code, ran.end["ops"]) == ("needs-approval", 5, [1])
    child = ran.child()
    assert child.name in ran.end["hint"] and "approve" in ran.end["hint"]
    assert project.resume(ran.folder).stop.code == 5
    project.say(ran.folder, "approve")
    assert [p.name for p in (child / "inbox").iterdir()] != []
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "fin", ["send"])
    assert more.of("decide")[0]["data"]["effect"] == "read"
    assert more.end["spent"]["calls"] == 3 and more.end["spent"]["effects"] == {"read": 2, "external": 1}


def test_a_failing_pipeline_tells_the_model_its_class(project: Project) -> None:
    project.stages("line", "a: {run: [fail, --code, '77']}")
    project.skill(tools="line")
    heard = {"result": {"tool": "line", "class": "NEEDS_AUTH"}}
    ran = project.run([reply(call("line")), {**finish("fin"), "expect": heard}])
    assert ran.stop.name == "passed"
    [ended] = ran.of("tool.end")
    assert (ended["data"]["exit"], ended["data"]["class"], ended["data"]["stop"]) == (77, "NEEDS_AUTH", "failed")
    assert ended["data"]["why"] == "stage a (fail) ended NEEDS_AUTH: the disk is full"


def test_a_pipeline_in_a_pipeline_goes_three_deep(project: Project) -> None:
    project.stages("p3", "a: {run: [p4]}")
    project.stages("p4", "a: {run: [p5]}")
    project.stages("p5", "a: {run: [say, --word, deep]}")
    project.stages("p2", "a: {run: [p3]}")
    ran = project.pipeline(project.stages("p1", "a: {run: [p2]}"))
    assert ran.stop.name == "denied" and ran.spawned == []
    ran = project.pipeline(project.path / "bin" / "p3")
    assert (ran.stop.name, ran.answer, ran.spawned) == ("passed", "deep\n", ["say"])


def test_a_worker_in_a_pipeline_without_a_model(project: Project) -> None:
    project.skill("helper", tools="say")
    ran = line(project, "a: {run: [helper, go]}")
    assert (ran.stop.name, ran.spawned) == ("failed", [])
    assert "the worker helper needs a model" in ran.end["error"]


def test_a_stage_that_failed_beside_one_that_was_interrupted_stands(project: Project) -> None:
    """As after a kill: an interruption is no end over which what failed is tried again."""
    project.tool("act", "echo act >> done; exit 1", "@meta effect write")
    project.tool("slow", "sleep 1.5", "@meta effect read\n@meta repeat pure")
    path = project.stages("line", "s: {run: [slow]}\na: {run: [act]}\n")
    Timer(0.7, lambda: setattr(project.cancel, "level", 1)).start()
    ran = project.pipeline(path)
    assert (ran.stop.name, project.noted("done")) == ("interrupted", ["act"])
    project.cancel.level = 0
    more = project.resume(ran.folder)
    assert (more.stop.name, project.noted("done")) == ("failed", ["act"])
    assert (project.resume(ran.folder).stop.name, project.noted("done")) == ("failed", ["act", "act"]), "once it ended"


def test_a_stage_that_was_skipped_or_refused_for_once_is_not_done_again(project: Project) -> None:
    """Its receipt still holds its slot: what was refused since did nothing."""
    project.tool("act", 'echo "$2" >> done', "@option --x! <X>  what\n@meta effect write")
    project.tool("kact", 'echo "$2" >> done', "@option --x! <X>  what\n@meta effect write\n@meta repeat keyed")
    project.skill("helper", tools="act")
    script = project.script([finish()], helper=[reply(call("act", "--x", "below")), finish("did")])
    stages = (
        'p: {run: [act, --x, plain], when: "${inputs.g} == \'A\'"}\n'
        'k: {run: [kact, --x, keyed], when: "${inputs.g} == \'A\'", needs: [p]}\n'
        'w: {run: [helper, go], when: "${inputs.g} == \'A\'", needs: [k]}\n'
    )
    ran = project.pipeline(project.stages("line", stages, "@option --g=A <X>  what"), model=script)
    assert (ran.stop.name, sorted(project.noted("done"))) == ("passed", ["below", "keyed", "plain"])
    for word in ("B", "A", "B", "A"):
        more = project.resume(ran.folder, sets=(f"inputs.g={word}",))
        assert (more.stop.name, sorted(project.noted("done"))) == ("passed", ["below", "keyed", "plain"])
    assert more.answer == ran.answer


def test_a_stage_that_was_called_wrongly_for_once_is_not_done_again(project: Project) -> None:
    project.tool("act", 'echo "$2" >> done', "@option --x! <INT>  what\n@meta effect write")
    path = project.stages("line", 'p: {run: [act, --x, "${inputs.g}"]}\n', "@option --g=7 <X>  what")
    ran = project.pipeline(path)
    assert (ran.stop.name, project.noted("done")) == ("passed", ["7"])
    assert project.resume(ran.folder, sets=("inputs.g=seven",)).stop.name == "failed"
    assert (project.resume(ran.folder, sets=("inputs.g=7",)).stop.name, project.noted("done")) == ("passed", ["7"])
    assert (project.resume(ran.folder, sets=("inputs.g=8",)).stop.name, project.noted("done")) == ("passed", ["7", "8"])
