"""Calls of one reply: started together, journaled as they end, told to the model in call order; and child runs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.loop_world import Project, Ran, after_end_of, call, finish, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("look", 'echo "look $2"', "@option --at <W>  where\n@meta effect read")
    made.tool("send", 'echo "$2" >> sent', "@option --to <WHO>  to whom\n@meta effect external")
    return made


def test_all_intents_of_a_batch_come_before_its_first_end(project: Project) -> None:
    project.tool("a", f"{after_end_of(2)}; echo A")
    project.tool("b", "echo B; exit 1")
    project.skill(tools="a b")
    ran = project.run([reply(call("a"), call("b")), finish()])
    kinds = [(e["kind"], e["op"]) for e in ran.events if e["kind"] in ("tool.start", "tool.end")]
    assert kinds == [("tool.start", 1), ("tool.start", 2), ("tool.end", 2), ("tool.end", 1)]


def test_more_calls_than_may_run_at_once(project: Project) -> None:
    """The next one starts when there is room, not when the whole batch has ended."""
    project.parallel = 2
    project.tool("long", "until [ -e go ]; do sleep 0.02; done; echo long")
    project.tool("go", "touch go", "@meta effect read")
    project.skill(tools="long look go")
    looks = [call("look", "--at", str(n)) for n in range(5)]
    ran = project.run([reply(call("long"), *looks, call("go")), finish()])
    assert (ran.stop.name, len(ran.spawned)) == ("passed", 7)
    running = peak = 0
    for event in ran.events:
        running += {"tool.start": 1, "tool.end": -1}.get(event["kind"], 0)
        peak = max(peak, running)
    assert peak == 2


def test_two_runs_that_only_read_sync_twice(project: Project) -> None:
    """After the start and at the end; a batch with an effect once more, before its first process."""
    syncs: list[int] = []
    real = project.io.sync

    def sync(fd: int) -> None:
        syncs.append(len(project.io.spawned))
        real(fd)

    project.io.sync = sync  # type: ignore[method-assign]
    project.skill(tools="look send")
    put = 1  # answer.md is written aside and synced
    project.run([reply(call("look")), reply(call("look", "--at", "b")), finish()])
    assert len(syncs) == 2 + put
    syncs.clear()
    before = len(project.io.spawned)
    project.run([reply(call("send", "--to", "a"), call("look"), call("send", "--to", "b")), finish()], allow=["send"])
    assert len(syncs) == 3 + put and syncs[1] == before


WORKER = [reply(call("look")), finish("helped")]


def test_a_worker_is_a_run_of_its_own(project: Project) -> None:
    project.skill("helper", tools="look")
    project.skill(tools="helper")
    ran = project.run([reply(call("helper", "find", "it")), {**finish("so"), "expect": {"contains": ["helped"]}}],
                      helper=WORKER)  # fmt: skip
    child = Ran(ran.stop, ran.child(), [])
    start = child.of("run.start")[0]["data"]
    assert (start["goal"], start["parent"]) == ("find it", {"run": ran.folder.name, "op": 1, "depth": 1})
    assert ran.text(ran.of("tool.end")[0]["data"]["out"]) == "helped"
    assert ran.end["spent"]["turns"] == 4 and ran.end["spent"]["calls"] == 2


def test_what_workers_of_a_batch_may_use_together(project: Project) -> None:
    """Nine tenths of what is left, in equal parts; a limit of the worker's own counts where it is smaller."""
    project.skill("one", tools="look")
    project.skill("two", tools="look", budget="turns=2 tokens=99")
    project.skill("three", tools="look")
    project.skill(tools="one two three")
    ran = project.run([reply(call("one", "x"), call("two", "x"), call("three", "x")), finish()],
                      budget="usd=1 turns=40 calls=33 external=2", one=WORKER, two=WORKER, three=WORKER)  # fmt: skip
    assert ran.stop.name == "passed"
    budgets = [Ran(ran.stop, ran.child(n), []).of("run.start")[0]["data"]["budget"] for n in range(3)]
    assert sum(Decimal(b["usd"]) for b in budgets) <= Decimal("0.9")
    assert [b["turns"] for b in budgets] == [11, 2, 11] and [b["calls"] for b in budgets] == [9, 9, 9]
    assert [b.get("tokens") for b in budgets] == [None, 99, None]
    assert [b["external"] for b in budgets] == [0, 0, 0]


def test_the_last_call_of_a_budget_can_be_a_childs(project: Project) -> None:
    project.stages("line", "a: {run: [look]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish()], budget="calls=2")
    assert (ran.stop.name, ran.spawned) == ("passed", ["look"])


def test_what_a_child_did_counts_for_its_parent(project: Project) -> None:
    project.stages("line", "a: {run: [send, --to, '${inputs.who}']}", "@option --who <WHO>  who")
    project.skill(tools="line send")
    replies = [reply(call("line", "--who", "a")), reply(call("line", "--who", "b")), reply(call("send", "--to", "c"))]
    ran = project.run(replies, budget="external=2", allow=["send"])
    assert (ran.stop.name, ran.end["limit"]) == ("budget", "external")
    assert (project.path / "sent").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("worker", "stop", "code"),
    [([finish(), finish(), finish()], "declined", 9), ([{**finish(), "stop": "refusal"}], "failed", 1),
     ([{**reply(call("look")), "repeat": "forever"}], "no-progress", 8)],
)  # fmt: skip
def test_how_a_worker_ended_reaches_its_parent_unchanged(
    project: Project, worker: list[dict[str, object]], stop: str, code: int
) -> None:
    project.skill("helper", tools="look send", requires="send")
    project.skill(tools="helper")
    ran = project.run([reply(call("helper", "x")), finish("so")], helper=worker)
    data = ran.of("tool.end")[0]["data"]
    assert (data["stop"], data["exit"], data["outcome"]) == (stop, code, "failed")
    assert ran.stop.name == "passed"


def test_a_workers_worker_waits_for_an_approval(project: Project) -> None:
    project.skill("middle", tools="deep")
    project.skill("deep", tools="send")
    project.skill(tools="middle look")
    ran = project.run([reply(call("middle", "x"), call("look")), finish("top")],
                      middle=[reply(call("deep", "x")), finish("mid")],
                      deep=[reply(call("send", "--to", "ann")), finish("low")])  # fmt: skip
    assert (ran.stop.name, ran.stop.code, ran.end["ops"], ran.spawned) == ("needs-approval", 5, [1], ["look"])
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "top", ["send"])
    assert (project.path / "sent").read_text() == "ann\n"


def test_a_damaged_child_stops_its_parent(project: Project) -> None:
    from harness.errors import JournalError

    project.stages("line", "a: {run: [send, --to, x]}\nb: {run: [look], needs: [a]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish()])
    assert ran.stop.code == 5
    project.say(ran.folder, "approve")
    path = ran.child() / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'"ask"', b'"ASK"'), *lines[2:]]))
    (ran.child() / "inbox" / "x.json").touch()
    with pytest.raises(JournalError, match="damaged"):
        project.resume(ran.folder)
    assert project.io.spawned == []
