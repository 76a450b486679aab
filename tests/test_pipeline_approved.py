"""A stage that was approved, or whose end a person settled, is judged anew before it starts: as a skill's call is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.events.io import IO
from harness.loop.run import Said
from harness.policy.vouching import Trust
from harness.runs.deliver import send
from tests.loop_world import Person, Project, Ran, Skipping, call, finish, reply

SEND = "@option --to! <W>  whom\n@meta effect external"
LINE = """
first: {run: [first, --at, "${inputs.text}"]}
send: {run: [send, --to, "${first}"]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A read that says what a file adds to its word, and a message that is sent with what it said."""
    made = Project(tmp_path)
    made.clock = Skipping()
    made.tool("first", 'echo first >> order; echo "$2$(cat more)"', "@option --at! <W>  what\n@meta effect read")
    made.tool("send", 'echo send >> order; echo "$2" >> sent', SEND)
    made.file("more", "")
    made.stages("line", LINE, "@option --text! <W>  what")
    return made


def sent(project: Project) -> list[str]:
    """The ledger of effects."""
    return project.noted("sent")


def order(project: Project) -> list[str]:
    return (project.path / "order").read_text().split()


def asked(project: Project) -> Ran:
    """A pipeline that waits for a yes to its second stage."""
    ran = project.pipeline(project.path / "bin" / "line", "--text", "old")
    assert (ran.stop.name, ran.end["ops"]) == ("needs-approval", [2])
    return ran


def approved_twice(project: Project, ran: Ran, given: str) -> Ran:
    """A yes, then other words: nothing is sent, and the new call gets a yes of its own."""
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder, sets=(given,))
    assert (more.stop.name, sent(project)) == ("needs-approval", [])
    project.say(ran.folder, "approve")
    return project.resume(ran.folder)


def stale(ran: Ran, *slot: str) -> None:
    """`harness amend RUN --stale`"""
    send(ran.folder, IO(), {"kind": "amend", "op": 0, "what": "stale", "target": slot[-1], "value": [list(slot)],
                            "why": "I know"})  # fmt: skip


def needs_of(ran: Ran, op: int) -> list[int]:
    [found] = [e["data"].get("needs", []) for e in ran.of("tool.start") if e["op"] == op]
    return list(found)


@pytest.mark.parametrize("given", ["inputs.text=new", "send.to=new", "first.at=new"])
def test_an_approved_stage_whose_words_were_set_never_runs_with_the_old_ones(project: Project, given: str) -> None:
    last = approved_twice(project, asked(project), given)
    assert (last.stop.name, last.spawned, sent(project)) == ("passed", ["send"], ["new"])


def test_an_approved_stage_waits_for_what_it_stands_on(project: Project) -> None:
    ran = asked(project)
    project.say(ran.folder, "approve")
    stale(ran, "stage", "first")
    more = project.resume(ran.folder)
    assert (more.stop.name, order(project)) == ("passed", ["first", "first", "send"])
    assert (needs_of(more, 2), sent(project)) == ([3], ["old"])


def test_an_approval_is_void_where_what_it_stands_on_says_something_else(project: Project) -> None:
    ran = asked(project)
    project.say(ran.folder, "approve")
    stale(ran, "stage", "first")
    project.file("more", "er")
    more = project.resume(ran.folder)
    assert (more.stop.name, order(project)) == ("needs-approval", ["first", "first"])
    assert any("approval of operation 2 is void" in note for note in more.notes())
    project.say(ran.folder, "approve")
    assert (project.resume(ran.folder).stop.name, sent(project)) == ("passed", ["older"])


def test_an_approved_stage_does_not_run_when_what_it_stands_on_fails_now(project: Project) -> None:
    ran = asked(project)
    project.say(ran.folder, "approve")
    stale(ran, "stage", "first")
    (project.path / "more").unlink()
    project.tool("first", "cat more", "@option --at! <W>  what\n@meta effect read")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.spawned, sent(project)) == ("failed", ["first"], [])
    project.file("more", "new")
    again = project.resume(ran.folder)
    assert (again.stop.name, again.spawned, sent(project)) == ("needs-approval", ["first"], [])


MADE = """
make: {run: [make]}
send: {run: [send, --to, x], needs: [make]}
"""
MAKE = """echo make >> order; echo a > made.csv; echo '{"artifacts": ["made.csv"]}'"""


@pytest.fixture
def made(project: Project) -> Project:
    """The message stands on a file."""
    project.tool("make", MAKE, "@meta effect write")
    project.stages("made", MADE)
    return project


TWO = """
first: {run: [first, --at, word]}
one: {run: [send, --to, one], needs: [first]}
two: {run: [send, --to, two]}
"""


@pytest.fixture
def two(project: Project) -> Project:
    project.stages("two", TWO)
    return project


def waits_for_two(project: Project, *words: str) -> Ran:
    """A pipeline in which two stages wait for a yes, the first of them for another stage as well."""
    ran = project.pipeline(project.path / "bin" / "two")
    assert (ran.stop.name, ran.end["ops"]) == ("needs-approval", [2, 3])
    for n, word in zip((3, 2), words, strict=True):
        project.say(ran.folder, word, n)
    return ran


def test_an_approved_stage_runs_though_the_one_beside_it_is_over_a_limit(two: Project) -> None:
    """As it would, had a rule allowed both: the limit stops the run, and whichever was judged before it has run."""
    ran = waits_for_two(two, "approve", "approve")
    more = two.resume(ran.folder, budget="external=1")
    assert (more.stop.name, more.end["limit"], len(sent(two)), more.spawned) == ("budget", "external", 1, ["send"])
    again = two.resume(ran.folder)
    assert (again.stop.name, again.spawned) == ("budget", [])
    assert two.resume(ran.folder, budget="external=2").stop.name == "needs-approval"


def test_an_approved_stage_runs_though_a_person_refuses_the_one_beside_it(two: Project) -> None:
    ran = waits_for_two(two, "approve", "deny")
    assert (two.resume(ran.folder).stop.name, sent(two)) == ("denied", ["one"])


def test_an_approved_stage_whose_ground_is_gone_does_not_run_where_the_run_stops(two: Project) -> None:
    ran = waits_for_two(two, "approve", "deny")
    two.tool("first", "exit 1", "@option --at! <W>  what\n@meta effect read")
    more = two.resume(ran.folder, accept=True)
    assert (more.stop.name, sent(two), more.spawned) == ("failed", [], ["first"])


def test_an_approved_stage_waits_for_a_file_that_is_gone(made: Project) -> None:
    ran = made.pipeline(made.path / "bin" / "made")
    made.say(ran.folder, "approve")
    (made.path / "made.csv").unlink()
    more = made.resume(ran.folder)
    assert (more.stop.name, order(made), needs_of(more, 2)) == ("passed", ["make", "make", "send"], [3])


@dataclass(slots=True)
class Slow(Person):
    """Somebody at the terminal, during whose thinking something happens."""

    meanwhile: Callable[[], None] = lambda: None

    def approve(self, request: dict[str, Any], elsewhere: Any) -> Said:
        self.meanwhile()
        return Said("allow")


def test_what_changes_while_a_person_thinks_is_seen(made: Project) -> None:
    made.person = Slow(meanwhile=(made.path / "made.csv").unlink)
    ran = made.pipeline(made.path / "bin" / "made")
    assert (ran.stop.name, order(made), needs_of(ran, 2)) == ("passed", ["make", "make", "send"], [3])


def test_an_approved_stage_of_a_changed_script_is_asked_for_again(project: Project) -> None:
    ran = asked(project)
    project.say(ran.folder, "approve")
    project.tool("send", 'echo "other $2" >> sent', SEND)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, sent(project)) == ("needs-approval", [])


def cut_in(ran: Ran, op: int) -> None:
    """Leave the run as a kill inside the tool of this operation would."""
    path = ran.folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start" and e["op"] == op)
    path.write_bytes(b"".join(lines[: at + 1]))
    for later in (ran.folder / "ops").iterdir():
        if int(later.name) > op:
            shutil.rmtree(later)
    attempt = ran.folder / "ops" / str(op) / "1"
    if (attempt / "started").exists():  # else it is a run of its own
        (attempt / "started").write_text(".")
        (attempt / "rc").write_text("....")


def cut(project: Project, repeat: str) -> Ran:
    """A pipeline whose second stage, of this class, was cut."""
    project.tool("send", 'echo "$2" >> sent; echo "$HARNESS_OP_ID" >> ids',
                 f"@option --to! <W>  whom\n@meta effect write\n@meta repeat {repeat}")  # fmt: skip
    ran = project.pipeline(project.path / "bin" / "line", "--text", "old")
    assert ran.stop.name == "passed"
    cut_in(ran, 2)
    return ran


def test_a_stage_that_did_not_happen_is_called_with_its_new_words(project: Project) -> None:
    ran = cut(project, "opaque")
    assert project.resume(ran.folder).stop.name == "unknown-outcome"
    (project.path / "sent").unlink()
    project.say(ran.folder, "settle", word="did-not-happen")
    more = project.resume(ran.folder, sets=("inputs.text=new",))
    assert (more.stop.name, sent(project), order(project)) == ("passed", ["new"], ["first", "first"])


def test_a_keyed_stage_that_may_have_happened_is_no_longer_guessed_at_with_other_words(project: Project) -> None:
    ran = cut(project, "keyed")
    more = project.resume(ran.folder, sets=("inputs.text=new",))
    assert (more.stop.name, more.end["ops"], sent(project)) == ("unknown-outcome", [2], ["old"])
    project.say(ran.folder, "settle", word="happened")
    assert (project.resume(ran.folder).stop.name, sent(project)) == ("passed", ["old", "new"])


def test_a_keyed_stage_goes_on_under_its_id_after_what_it_stands_on(project: Project) -> None:
    ran = cut(project, "keyed")
    stale(ran, "stage", "first")
    assert project.resume(ran.folder).stop.name == "passed"
    assert order(project) == ["first", "first"]
    assert set((project.path / "ids").read_text().split()) == {f"{ran.folder.name}/2"}


@pytest.fixture
def nested(project: Project) -> Project:
    """The line as a stage, with something written first that must not be written again."""
    project.tool("note", "echo n >> noted", "@meta effect write")
    project.stages("line", "note: {run: [note]}\n" + LINE, "@option --text! <W>  what")
    project.stages("outer", 'inner: {run: [line, --text, "${inputs.text}"]}', "@option --text! <W>  what")
    return project


def test_an_approved_stage_of_a_pipeline_in_a_pipeline(nested: Project) -> None:
    """The inner run goes on with its new words: what it has done stays done."""
    ran = nested.pipeline(nested.path / "bin" / "outer", "--text", "old")
    assert ran.stop.name == "needs-approval"
    last = approved_twice(nested, ran, "inputs.text=new")
    assert (last.stop.name, last.spawned, sent(nested)) == ("passed", ["send"], ["new"])
    assert (nested.path / "noted").read_text() == "n\n"
    assert nested.resume(ran.folder, sets=("inputs.text=new",)).spawned == []


def test_an_approved_call_of_a_worker_that_is_a_stage(project: Project) -> None:
    """The worker of the old words is given up, what it used is counted, and one with the new words begins."""
    project.skill("worker", tools="send")
    project.stages("outer", 'w: {run: [worker, "${inputs.text}"]}', "@option --text! <W>  what")
    script = project.script([finish()], worker=[reply(call("send", "--to", "it")), finish("done")])
    ran = project.pipeline(project.path / "bin" / "outer", "--text", "old", model=script)
    assert ran.stop.name == "needs-approval"
    last = approved_twice(project, ran, "inputs.text=new")
    assert (last.stop.name, sent(project), last.end["spent"]["turns"]) == ("passed", ["it"], 3)


@pytest.fixture
def skill(project: Project) -> Project:
    project.skill(tools="first send", deps="send: first")
    return project


SAID = [reply(call("first", "--at", "x")), reply(call("send", "--to", "me"))]


def test_an_approved_call_of_a_skill_is_not_released_when_what_it_stands_on_is_stale(skill: Project) -> None:
    ran = skill.run([*SAID, finish()])
    skill.say(ran.folder, "approve")
    stale(ran, "first", "--at", "x")
    more = skill.resume(ran.folder)
    assert (more.stop.name, more.codes()[-1], sent(skill)) == ("passed", "NOT_RELEASED", [])


def test_a_keyed_call_of_a_skill_ends_under_its_id_though_what_it_stands_on_is_stale(skill: Project) -> None:
    """A refusal would close it, and the next call, with another id, would have its effect a second time."""
    skill.tool("send", 'echo "$HARNESS_OP_ID" >> sent', "@option --to! <W>  whom\n@meta effect write\n"
                                                       "@meta repeat keyed")  # fmt: skip
    ran = skill.run([*SAID, finish()])
    cut_in(ran, 2)
    stale(ran, "first", "--at", "x")
    more = skill.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["send"])
    assert sent(skill) == [f"{ran.folder.name}/2"] * 2


def test_a_keyed_call_that_policy_denies_now_is_left_to_a_person(skill: Project) -> None:
    skill.tool("send", 'echo "$2" >> sent', "@option --to! <W>  whom\n@meta effect write\n@meta repeat keyed")
    ran = skill.run([*SAID, finish()])
    cut_in(ran, 2)
    skill.trust = Trust()
    more = skill.resume(ran.folder)
    assert (more.stop.name, more.end["ops"], sent(skill)) == ("unknown-outcome", [2], ["me"])


PAIR = """
a: {run: [send, --to, a]}
b: {run: [send, --to, b]}
"""


def without_a(project: Project, stages: str = "b: {run: [send, --to, b]}") -> None:
    project.stages("pair", stages)


def cut_pair(project: Project, repeat: str) -> Ran:
    """A pipeline in whose first stage the harness was killed."""
    project.tool("send", 'echo "$2" >> sent', f"@option --to! <W>  whom\n@meta effect write\n@meta repeat {repeat}")
    project.stages("pair", "a: {run: [send, --to, a]}\nb: {run: [send, --to, b], needs: [a]}\n")
    ran = project.pipeline(project.path / "bin" / "pair")
    cut_in(ran, 1)
    (project.path / "sent").write_text("a\n")
    return ran


@pytest.mark.parametrize("left", ["b: {run: [send, --to, b]}", "o: {run: [send, --to, a]}", "o: {run: [make]}"])
def test_an_approved_stage_that_was_taken_out_is_not_carried_out(project: Project, left: str) -> None:
    project.tool("make")
    project.stages("pair", PAIR)
    ran = project.pipeline(project.path / "bin" / "pair")
    project.say(ran.folder, "approve", 1)
    without_a(project, left)
    more = project.resume(ran.folder, accept=True)
    assert sent(project) == []
    assert "the approval of operation 1 is void: its stage is no more in the pipeline." in more.notes()
    assert 1 not in more.end.get("ops", ())


def test_a_remembered_yes_to_a_stage_that_was_taken_out_is_void(project: Project) -> None:
    """Said before the file changed, and in the journal already."""
    project.stages("pair", PAIR)
    ran = project.pipeline(project.path / "bin" / "pair")
    project.say(ran.folder, "approve", 1)
    project.say(ran.folder, "approve", 2)
    without_a(project)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, sent(project)) == ("passed", ["b"])


@pytest.mark.parametrize("repeat", ["keyed", "opaque"])
def test_what_a_stage_may_have_done_that_was_taken_out_is_left_to_a_person(project: Project, repeat: str) -> None:
    ran = cut_pair(project, repeat)
    without_a(project)
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, more.end["ops"]) == ("unknown-outcome", [1])
    assert sent(project).count("a") == 1
    project.say(ran.folder, "settle", 1, word="did-not-happen")
    more = project.resume(ran.folder)
    assert (more.stop.name, sent(project).count("a"), sent(project).count("b")) == ("passed", 1, 1)


def test_a_tool_whose_outcome_stays_unknown_starts_no_more_for_the_stages_that_are_left(project: Project) -> None:
    ran = cut_pair(project, "opaque")
    without_a(project, "other: {run: [send, --to, other]}")
    assert project.resume(ran.folder, accept=True).stop.name == "unknown-outcome"
    project.say(ran.folder, "settle", 1, word="unknown")
    more = project.resume(ran.folder)
    assert (more.stop.name, "other" in sent(project)) == ("failed", False)


def test_what_a_stage_did_that_was_taken_out_is_recorded_by_what_it_left(project: Project) -> None:
    ran = cut_pair(project, "opaque")
    (ran.folder / "ops" / "1" / "1" / "rc").write_text("000\n")
    without_a(project, "a2: {run: [first, --at, x]}")
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.name, [e["data"]["outcome"] for e in more.of("tool.end")]) == ("passed", ["done", "done"])
    assert sent(project).count("a") == 1


@pytest.fixture
def inner(project: Project) -> Project:
    """A pipeline of two messages as the first stage of another one."""
    project.stages("inner", "x: {run: [send, --to, x]}\ny: {run: [send, --to, y], needs: [x]}")
    project.stages("outer", "in: {run: [inner]}\nend: {run: [first, --at, z]}")
    return project


def test_a_pipeline_that_was_taken_out_carries_out_none_of_what_was_approved_in_it(inner: Project) -> None:
    ran = inner.pipeline(inner.path / "bin" / "outer")
    assert ran.stop.name == "needs-approval"
    inner.say(ran.folder, "approve")
    inner.stages("outer", "end: {run: [first, --at, z]}")
    more = inner.resume(ran.folder, accept=True)
    assert (more.stop.name, sent(inner)) == ("passed", [])


@pytest.mark.parametrize(
    ("word", "last"), [("happened", "passed"), ("did-not-happen", "passed"), ("unknown", "failed")]
)
def test_what_a_pipeline_may_have_done_that_was_taken_out_is_left_to_a_person(
    inner: Project, word: str, last: str
) -> None:
    inner.tool("send", 'echo "$2" >> sent', "@option --to! <W>  whom\n@meta effect write")
    ran = inner.pipeline(inner.path / "bin" / "outer")
    assert ran.stop.name == "passed"
    cut_in(Ran(ran.stop, ran.child(), []), 1)
    cut_in(ran, 1)
    (inner.path / "sent").write_text("x\n")
    inner.stages("outer", "end: {run: [send, --to, z]}")
    more = inner.resume(ran.folder, accept=True)
    assert (more.stop.name, more.end["ops"], sent(inner)) == ("unknown-outcome", [1], ["x"])
    inner.say(ran.folder, "settle", word=word)
    more = inner.resume(ran.folder)
    assert (more.stop.name, sent(inner)) == (last, ["x", "z"] if last == "passed" else ["x"])


@pytest.mark.parametrize("word", ["happened", "did-not-happen", "unknown"])
def test_a_pipeline_that_may_have_acted_and_is_refused_with_its_new_words_is_left_to_a_person(
    inner: Project, word: str
) -> None:
    """The refusal closes the stage that called it, and a later call of it would act again."""
    inner.tool("send", 'echo "$2" >> sent; kill -9 "$PPID"; sleep 30', "@option --to! <W>  whom\n@meta effect write")
    inner.stages("inner", 'x: {run: [send, --to, "${inputs.to}"]}', "@option --to=x <W>  whom")
    inner.stages("outer", 'in: {run: [inner, --to, "${inputs.to}"]}', "@option --to=x <W>  whom")
    ran = inner.pipeline(inner.path / "bin" / "outer")
    assert (ran.stop.name, sent(inner)) == ("unknown-outcome", ["x"])
    more = inner.resume(ran.folder, sets=("inputs.to=y",), deny=("inner",))
    assert (more.stop.name, more.end["ops"], sent(inner)) == ("unknown-outcome", [1], ["x"])
    inner.say(ran.folder, "settle", word=word)
    more = inner.resume(ran.folder)
    assert (more.stop.name, sent(inner)) == ("failed" if word == "unknown" else "denied", ["x"])
    rules = [rule for e in more.of("decide") for rule in e["data"]["rules"]]
    assert ("settle" if word == "unknown" else "--deny inner") in rules
