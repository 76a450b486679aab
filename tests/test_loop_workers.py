"""Case 30: what workers may use together, how deep they go; each way a worker stops is its parent's, unchanged."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.view.cost import bill
from tests.loop_world import Project, Ran, Skipping, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.clock = Skipping()
    made.tool("look", "echo looked")
    made.tool("send", "echo sent", "@meta effect external")
    made.tool("stop-run", 'echo one >> done; kill -9 "$PPID"; sleep 30', "@meta effect write")
    made.skill(tools="helper")
    return made


Script = list[dict[str, Any]]
ENDS: dict[str, tuple[int, dict[str, str], Script]] = {
    "passed": (0, {}, [finish("helped")]),
    "failed": (1, {}, [{**finish(), "stop": "refusal"}]),
    "declined": (9, {"requires": "look"}, [finish(), finish(), finish()]),
    "budget": (6, {"budget": "turns=1"}, [reply(call("look")), finish()]),
    "no-progress": (8, {}, [{**reply(call("look")), "repeat": "forever"}]),
    "error": (4, {}, [{"fail": {"reason": "auth"}}]),
}
PARKS: dict[str, tuple[int, Script]] = {
    "needs-approval": (5, [reply(call("send")), finish()]),
    "needs-answer": (10, [reply({"ask": "which?"}), finish()]),
    "unknown-outcome": (11, [reply(call("stop-run")), finish()]),
    "waiting": (75, [{"fail": {"reason": "unavailable"}, "repeat": 5}, finish()]),
}


@pytest.mark.parametrize("stop", ENDS)
def test_case_30_an_end_is_the_same_word_in_event_and_result(project: Project, stop: str) -> None:
    code, more, script = ENDS[stop]
    project.skill("helper", tools="look send stop-run", **more)
    seen = {**finish("so"), "expect": {"contains": [f'stop="{stop}"' if stop != "passed" else "helped"]}}
    ran = project.run([reply(call("helper", "x")), seen], helper=script)
    data = ran.of("tool.end")[0]["data"]
    assert (data["stop"], data["exit"], ran.stop.name) == (stop, code, "passed")
    assert Ran(ran.stop, ran.child(), []).end["stop"] == stop


def test_a_tool_that_only_a_worker_has_is_denied_and_allowed_by_name(project: Project) -> None:
    """Two runs below, whose list it is on; the run itself has none of that name."""
    project.skill("helper", tools="deepest")
    project.skill("deepest", tools="look send")
    below = {"helper": [reply(call("deepest", "x")), finish()], "deepest": [reply(call("send")), finish()]}
    allowed = project.run([reply(call("helper", "x")), finish()], allow=["send"], **below)
    assert (allowed.stop.name, allowed.spawned) == ("passed", ["send"])
    denied = project.run([reply(call("helper", "x")), finish()], deny=["send"], **below)
    assert (denied.stop.name, denied.spawned) == ("passed", [])
    with pytest.raises(HarnessError, match=r"sned is no tool of this run.*send"):
        project.run([finish()], deny=["sned"])
    again = project.resume(denied.folder, "go on", allow=("deepest",))
    assert again.of("resume")[-1]["data"]["flags"] == {"allow": ["deepest"]}, "and what was kept names it, too"


def test_case_30_a_denied_worker(project: Project) -> None:
    project.skill("helper", tools="look", requires="look")
    project.skill(tools="helper look")
    script = [reply(call("look")), finish(), finish(), finish()]
    ran = project.run([reply(call("helper", "x")), finish()], deny=["look"], helper=script)
    assert (ran.of("tool.end")[0]["data"]["stop"], ran.of("tool.end")[0]["data"]["exit"]) == ("denied", 7)


@pytest.mark.parametrize("stop", PARKS)
def test_case_30_a_park_parks_the_parent_with_the_same_word(project: Project, stop: str) -> None:
    code, script = PARKS[stop]
    project.skill("helper", tools="look send stop-run")
    ran = project.run([reply(call("helper", "x")), finish()], helper=script)
    assert (ran.stop.name, ran.stop.code, ran.events[-1]["kind"]) == (stop, code, "park")
    child = Ran(ran.stop, ran.child(), [])
    assert (child.events[-1]["kind"], child.end["stop"], child.end["exit"]) == ("park", stop, code)


def test_case_30_three_workers_that_want_all_of_it(project: Project) -> None:
    for name in ("one", "two", "three"):
        project.skill(name, tools="look", budget="usd=1.00")
    project.skill(tools="one two three")
    work = [reply(call("look")), finish("helped")]
    ran = project.run([reply(call("one", "x"), call("two", "x"), call("three", "x")), finish()],
                      budget="usd=1.00", one=work, two=work, three=work)  # fmt: skip
    budgets = [Ran(ran.stop, ran.child(n), []).of("run.start")[0]["data"]["budget"] for n in range(3)]
    assert all(Decimal(b["usd"]) <= Decimal("0.30") for b in budgets) and ran.stop.name == "passed"
    starts = [i for i, e in enumerate(ran.events) if e["kind"] == "tool.start"]
    ends = [i for i, e in enumerate(ran.events) if e["kind"] == "tool.end"]
    assert max(starts) < min(ends), "they run together"


def test_case_30_a_fourth_level_is_refused(project: Project) -> None:
    names = ["helper", "second", "third", "fourth"]
    for name, below in zip(names, [*names[1:], "look"], strict=True):
        project.skill(name, tools=below)
    script: Script = [reply(call("helper", "x")), finish("top")]
    below = {name: [reply(call(deeper, "x")), finish(name)] for name, deeper in pairwise(names)}
    ran = project.run(script, **below, fourth=[finish("never")])
    assert ran.stop.name == "passed"
    folders = [path for path in ran.folder.parent.iterdir() if "-fourth-" in path.name]
    assert folders == []
    deepest = next(path for path in ran.folder.parent.iterdir() if "-third-" in path.name)
    assert "nested at most 3 deep" in "; ".join(Ran(ran.stop, deepest, []).reasons())


def test_case_28_strikes_count_in_a_worker_as_in_its_parent(project: Project) -> None:
    project.skill("helper", tools="look")
    ran = project.run([reply(call("helper", "x")), finish()], helper=[{**reply(call("look")), "repeat": "forever"}])
    assert len(Ran(ran.stop, ran.child(), []).of("model.reply")) == 7


def test_case_40_a_child_that_was_never_begun_is_begun_once(project: Project) -> None:
    project.skill("helper", tools="look")
    ran = project.run([reply(call("helper", "x")), finish("so")], helper=[reply(call("look")), finish("helped")])
    path, child = ran.folder / "events.jsonl", ran.child()
    at = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: at + 1]))
    child.rename(child.with_name("elsewhere"))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.child()) == ("passed", "so", child)
    assert len([p for p in ran.folder.parent.iterdir() if "-helper-" in p.name]) == 1


def test_a_worker_says_its_inputs_and_takes_them_as_a_tool_takes_options(project: Project) -> None:
    project.skill("helper", tools="look", inputs="batch! <ID> the batch\nkind=full how")
    offered = {"expect": {"contains": ["callable: helper --batch ID [--kind KIND] [GOAL]..."]}}
    wrong = [call("helper", "--batsh=B-1", "why"), call("helper", "why"), call("helper", "--batch")]
    script = [{**reply(*wrong), **offered}, reply(call("helper", "--batch", "B-1", "why", "late")), finish("so")]
    ran = project.run(script, helper=[finish("helped")])
    refused = [e["data"]["reasons"][0] for e in ran.of("decide") if e["data"].get("code") == "INVALID_INPUT"]
    assert len(refused) == 3 and "nearest: --batch" in refused[0] and "missing --batch" in refused[1]
    assert ran.of("decide")[-1]["data"]["argv"] == ["--batch", "B-1", "--kind", "full", "why", "late"]
    start = Ran(ran.stop, ran.child(), []).of("run.start")[0]["data"]
    assert (start["goal"], start["inputs"], ran.stop.name) == ("why late", {"batch": "B-1", "kind": "full"}, "passed")


def test_a_tool_can_wait_for_a_worker_with_the_same_input(project: Project) -> None:
    project.tool("note", "echo noted", "@option --batch! <ID>\n@meta effect read")
    project.skill("helper", tools="look", inputs="batch! <ID> the batch")
    project.skill(tools="helper note", deps="note: helper(--batch)")
    script = [reply(call("helper", "--batch=B-1", "x"))]
    script += [reply(call("note", "--batch", value)) for value in ("B-2", "B-1")] + [finish("so")]
    ran = project.run(script, helper=[finish("helped")])
    assert [e["data"].get("code", "") for e in ran.of("decide")] == ["", "NOT_RELEASED", ""]
    assert ran.stop.name == "passed"


def test_a_worker_that_is_asked_for_help_answers_without_a_run_of_its_own(project: Project) -> None:
    project.skill("helper", tools="look", inputs="which! <NAME>  the one to look at")
    told = {**finish("so"), "expect": {"contains": ["usage: helper"]}}
    ran = project.run([reply(call("helper", "--help")), told])
    assert (ran.stop.name, ran.ends(), ran.spawned) == ("passed", [("helper", "OK")], [])
    assert not ran.of("tool.start")


CUT = 'echo paid >> done; sleep 1.1; kill -9 "$PPID"; sleep 30'


def late(project: Project, repeat: str) -> Script:
    """A worker that pays and whose payment is cut when its time is over."""
    project.tool("pay", CUT, f"@meta effect write\n@meta repeat {repeat}")
    project.skill("helper", tools="pay", budget="seconds=1")
    return [reply(call("pay")), finish("paid")]


@pytest.mark.parametrize("repeat", ["opaque", "keyed"])
def test_a_worker_out_of_time_leaves_what_it_may_have_done_to_a_person(project: Project, repeat: str) -> None:
    """Its parent would close the call, and the next worker would pay again."""
    script = late(project, repeat)
    calls = [reply(call("helper", "x")), {**reply(call("helper", "again")), "expect": {"contains": ['stop="budget"']}}]
    ran = project.run([*calls, finish("so")], helper=script)
    assert (ran.stop.name, ran.stop.code, project.noted("done")) == ("unknown-outcome", 11, ["paid"])
    child = Ran(ran.stop, ran.child(), [])
    assert (child.end["stop"], child.end["ops"], child.tools()[1]) == ("unknown-outcome", [1], "pay")
    assert project.resume(ran.folder, budget="seconds=900").stop.name == "unknown-outcome"
    project.say(ran.folder, "settle", word="unknown")
    more = project.resume(ran.folder)
    assert (more.of("tool.end")[0]["data"]["stop"], more.of("tool.end")[0]["data"]["exit"]) == ("budget", 124)
    assert (more.stop.name, project.noted("done")) == ("passed", ["paid"]), "barred in the next worker, too"


@pytest.mark.parametrize("repeat", ["opaque", "keyed"])
def test_a_worker_that_is_a_stage_and_out_of_time_is_the_same(project: Project, repeat: str) -> None:
    script = project.script([finish()], helper=late(project, repeat))
    project.stages("outer", "w: {run: [helper, x]}")
    ran = project.pipeline(project.path / "bin" / "outer", model=script)
    assert (ran.stop.name, ran.stop.code, project.noted("done")) == ("unknown-outcome", 11, ["paid"])
    project.say(ran.folder, "settle", word="happened")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.stop.code, more.end["limit"]) == ("budget", 124, "seconds")
    assert project.noted("done") == ["paid"]


RING = "pay: look\nlook: pay"


@pytest.mark.parametrize(("said", "killed"), [("unknown", False), ("unknown", True), ("", True)])
def test_a_worker_that_cannot_be_opened_again_closes_nothing_that_it_may_have_done(
    project: Project, said: str, killed: bool
) -> None:
    """Its skill is broken meanwhile: the call must not end as failed, or the next worker pays again."""
    project.tool("pay", 'echo paid >> done; kill -9 "$PPID"; sleep 30', "@meta effect write")
    project.skill("helper", tools="pay look")
    calls = [reply(call("helper", "x")), reply(call("helper", "again")), finish("so")]
    ran = project.run(calls, helper=[reply(call("pay")), finish("paid")])
    assert (ran.stop.name, project.noted("done")) == ("unknown-outcome", ["paid"])
    if said:
        project.say(ran.folder, "settle", word=said)
    if killed:
        for folder in (ran.folder, ran.child()):
            path = folder / "events.jsonl"
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    project.skill("helper", tools="pay look", deps=RING)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.stop.code, more.end["ops"]) == ("unknown-outcome", 11, [1])
    assert more.end["hint"].startswith(f"pay in {ran.child().name} may have had its effect")
    assert "cycle" in more.end["hint"]
    project.skill("helper", tools="pay look")
    if not said:
        assert project.resume(ran.folder).stop.name == "unknown-outcome"
        project.say(ran.folder, "settle", word="unknown")
    assert (project.resume(ran.folder).stop.name, project.noted("done")) == ("passed", ["paid"])


def test_a_worker_that_cannot_be_opened_again_and_did_nothing_unseen_has_failed(project: Project) -> None:
    project.skill("helper", tools="send look")
    ran = project.run([reply(call("helper", "x")), finish("so")], helper=[reply(call("send")), finish("sent")])
    assert ran.stop.name == "needs-approval"
    project.say(ran.folder, "approve")
    project.skill("helper", tools="send look", deps="send: look\nlook: send")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.ends(), more.spawned) == ("passed", [("helper", "MISCONFIGURED")], [])


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_worker_that_is_no_more_and_whose_run_is_gone_is_left_to_a_person(
    project: Project, tmp_path: Path, is_gone: bool
) -> None:
    """Nobody can tell what it did; that it began is known from its seal."""
    project.facts = {"seals": tmp_path / "seals"}
    project.skill("helper", tools="look")
    ran = project.run([reply(call("helper", "x")), finish("so")], helper=[reply({"ask": "which?"}), finish("helped")])
    assert ran.stop.name == "needs-answer"
    (project.path / "skills" / "helper" / "SKILL.md").unlink()
    if is_gone:
        ran.child().rename(project.path / "kept")
    more = project.resume(ran.folder, accept=True)
    assert more.stop.name == ("unknown-outcome" if is_gone else "passed")
    if is_gone:
        project.say(ran.folder, "settle", word="unknown")
        assert project.resume(ran.folder).stop.name == "passed"


def test_a_worker_out_of_budget_gives_the_best_that_it_found(project: Project) -> None:
    """In the parent's result as on stdout of a run: its receipts and what it proposed; the same after a kill."""
    project.tool("refuse", "echo no; exit 1", "@meta effect read")
    project.skill("helper", tools="look", verify="refuse", budget="turns=2")
    seen = {"expect": {"contains": ["not accepted: budget turns", "op:1  look  fresh", "as far as I see"]}}
    calls = [reply(call("helper", "x")), {**finish("so"), **seen}]
    ran = project.run(calls, helper=[reply(call("look")), finish("as far as I see"), finish("again")])
    assert ran.stop.name == "passed"
    (told,) = ran.of("tool.end")
    assert told["data"]["stop"] == "budget"
    assert ran.text(told["data"]["out"]) == "not accepted: budget turns\nop:1  look  fresh\n\nas far as I see\n"
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: told["seq"] - 1]))
    more = project.resume(ran.folder)
    (again,) = more.of("tool.end")
    assert (more.stop.name, again["data"]["out"]) == ("passed", told["data"]["out"])
    assert again["data"]["result"] == told["data"]["result"]


@pytest.mark.parametrize("list_of_helper", [[], [reply(call("look")), finish(), finish("again")],
                                            [{**finish(), "expect": {"contains": ["nowhere"]}}]])  # fmt: skip
def test_a_worker_that_its_script_does_not_fit_fails_the_run(project: Project, list_of_helper: list[Any]) -> None:
    """The run above goes on by its own list to its end; what was recorded of the worker did not describe it."""
    project.skill("helper", tools="look")
    below = {"helper": list_of_helper} if list_of_helper else {}
    ran = project.run([reply(call("helper", "x")), finish("so")], **below)
    assert (ran.stop.name, ran.stop.code) == ("failed", 1)
    assert "replies of skill helper: " in ran.end["error"]


def test_a_worker_that_is_a_stage_goes_on_from_what_it_did(project: Project) -> None:
    """Its budget ended it after it had paid: what the pipeline tries again is the rest, not the payment."""
    project.tool("pay", "echo paid >> done", "@meta effect write")
    project.skill("helper", tools="pay look", budget="turns=2")
    script = project.script([finish()], helper=[reply(call("pay")), reply(call("look")), finish("so")])
    project.stages("outer", "w: {run: [helper, x]}")
    ran = project.pipeline(project.path / "bin" / "outer", model=script, allow=("pay",))
    assert (ran.stop.name, project.noted("done")) == ("budget", ["paid"])
    more = project.resume(ran.folder, budget="turns=50", allow=("pay",))
    assert (more.stop.name, project.noted("done")) == ("passed", ["paid"])
    first, second = (Ran(more.stop, more.child(n), []) for n in range(2))
    assert second.of("run.start")[0]["data"]["fork"]["run"] == first.folder.name
    assert [first.end["spent"]["turns"], second.end["spent"]["turns"]] == [2, 1]


@pytest.mark.parametrize("what", ["skill", "tool look"])
def test_a_worker_that_waits_is_bound_to_what_it_began_with(project: Project, what: str) -> None:
    project.skill("helper", tools="look send")
    ran = project.run([reply(call("helper", "x")), finish("so")], helper=[reply(call("send")), finish("sent")])
    assert ran.stop.name == "needs-approval"
    if what == "skill":
        project.skill("helper", tools="look send", body="Do it otherwise.")
    else:
        project.tool("look", "echo other")
    before = (ran.folder / "events.jsonl").read_bytes()
    with pytest.raises(HarnessError, match=f"{what} of the worker helper: [0-9a-f]{{12}} → ") as caught:
        project.resume(ran.folder)
    assert (caught.value.exit_code, "--accept-changes" in caught.value.fix) == (2, True)
    assert (ran.folder / "events.jsonl").read_bytes() == before
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder, accept=True)
    below = Ran(more.stop, more.child(), [])
    assert (more.stop.name, [c["what"] for c in below.of("resume")[0]["data"]["changes"]]) == ("passed", [what])


def test_what_is_lent_to_a_worker_that_waits_stays_lent(project: Project) -> None:
    """A stage beside it begins another worker: both together keep to the limits, before and after the yes."""
    project.tool("slow", "sleep 1")
    project.skill("one", tools="look send")
    project.skill("two", tools="look")
    looks = [reply(call("look", "--at", str(n))) for n in range(4)]
    script = project.script([finish()], one=[*looks, reply(call("send")), finish("one")], two=[*looks, finish("two")])
    project.stages("outer", "a: {run: [one, x]}\nb: {run: [slow]}\nc: {run: [two, y], needs: [b]}\n")
    ran = project.pipeline(project.path / "bin" / "outer", model=script, budget="turns=10")
    parts = [event["data"]["slice"]["turns"] for event in ran.of("tool.start") if "slice" in event["data"]]
    assert len(parts) == 2 and sum(parts) <= 10 and parts[0] == 9
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.end["limit"]) == ("budget", "turns")
    assert more.end["spent"]["turns"] <= 10


def test_what_a_worker_that_waits_has_used_is_in_the_sum_of_the_run_that_was_stopped(project: Project) -> None:
    """Spending never looks smaller, and is not counted twice once the worker has its end."""
    project.skill("helper", tools="look send")
    used = {"usage": {"input": 200, "out": 50}}
    below = [reply(call("look"), **used), reply(call("send"), **used), {**finish("sent"), **used}]
    ran = project.run([reply(call("helper", "x"), **used), {**finish("so"), **used}], helper=below)
    assert ran.stop.name == "needs-approval"
    project.cancel.level = 1
    more = project.resume(ran.folder, now=True)
    assert (more.stop.name, more.end["spent"]["turns"], more.end["spent"]["tokens_in"]) == ("interrupted", 3, 600)
    cost = bill(more.events, lambda name: {"turns": 2, "tokens_in": 400, "tokens_out": 100})
    assert (cost.total.turns, cost.total.input, cost.children[0].name) == (3, 600, "helper")
    project.cancel.level = 0
    project.say(ran.folder, "approve")
    last = project.resume(ran.folder)
    assert (last.stop.name, last.end["spent"]["turns"], last.end["spent"]["tokens_in"]) == ("passed", 5, 1000)


def test_a_worker_whose_words_were_replaced_does_not_act_once_its_doubt_is_settled(project: Project) -> None:
    """What a person said is known before the run takes the word: the worker is given up, not gone on with."""
    once = '[ -e once ] || { touch once; kill -9 "$PPID"; sleep 30; }; echo "paid" >> done'
    project.tool("pay", once, "@meta effect write")
    project.tool("echoed", 'echo "$2"', "@option --x! <X>  what\n@meta effect read")
    project.skill("helper", tools="pay")
    script = project.script([finish()], helper=[reply(call("pay")), finish("paid")])
    stages = 'a: {run: [echoed, --x, "${inputs.g}"]}\nh: {run: [helper, "${a}"], needs: [a]}\n'
    path = project.stages("outer", stages, "@option --g=A <X>  what")
    ran = project.pipeline(path, model=script)
    assert (ran.stop.name, project.noted("done")) == ("unknown-outcome", [])
    assert project.resume(ran.folder, sets=("inputs.g=B",)).stop.name == "unknown-outcome"
    project.say(ran.child(), "settle", 1, word="did-not-happen")
    more = project.resume(ran.folder)
    assert (more.stop.name, project.noted("done")) == ("passed", ["paid"])
    assert [Ran(more.stop, more.child(n), []).of("run.start")[0]["data"]["goal"] for n in range(2)] == ["A", "B"]
