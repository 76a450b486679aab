"""An agent run is a build: what is fresh is not run again, and what changed runs with all that stands on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import HarnessError, JournalError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.line import frame
from harness.runs import session as sessions
from harness.runs.cut import Wish
from harness.runs.flags import Options
from harness.runs.fork import done_after, fork, point, read_source
from harness.runs.lost import way_on
from harness.runs.peek import read_state
from harness.runs.redact import redact
from tests.loop_world import CountingIO, Project, Ran, call, finish, reply
from tests.skill_files import catalog_of

LINE = """
demand: {run: [demand, --capacity, "40000"]}
radius: {run: [radius, --of, "${demand}"]}
clusters: {run: [clusters], needs: [radius]}
price: {run: [price], needs: [clusters]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Demand follows the capacity, the radius hardly does, the clusters are a file."""
    made = Project(tmp_path)
    made.tool("demand", 'echo "demand $2"', "@option --capacity! <INT>  seats\n@meta effect read")
    made.tool("radius", "cat radius.txt", "@option --of! <TEXT>  demand\n@meta effect read")
    made.tool("clusters", """echo a,b > clusters.csv; echo '{"artifacts": ["clusters.csv"]}'""", "@meta effect write")
    made.tool("price", "echo price; echo p >> priced", "@meta effect write")
    made.file("radius.txt", "80 km\n")
    made.stages("line", LINE)
    return made


def line(project: Project, *words: str) -> Ran:
    return project.pipeline(project.path / "bin" / "line", *words)


def again(project: Project, ran: Ran, *sets: str, **more: object) -> Ran:
    """`harness resume RUN --set …`"""
    return project.resume(ran.folder, sets=sets, **more)  # type: ignore[arg-type]


def forked_of(project: Project, ran: Ran) -> Path:
    """A fork before the run's end, to be gone on with."""
    source = read_source(ran.folder)
    return fork(project.world(), source, point(source, source.quiet[-2]))


def test_example_one_an_identical_result_changes_nothing_downstream(project: Project) -> None:
    ran = line(project)
    assert (ran.stop.name, ran.spawned) == ("passed", ["demand", "radius", "clusters", "price"])
    before = ran.folder.joinpath("events.jsonl").read_bytes()
    more = again(project, ran, "demand.capacity=51000")
    assert (more.stop.name, more.spawned) == ("passed", ["demand", "radius"])
    assert more.folder == ran.folder and ran.folder.joinpath("events.jsonl").read_bytes().startswith(before)
    state = read_state(ran.folder)
    assert state is not None and [op.stage for op in state.ops.values()] == [
        "demand", "radius", "clusters", "price", "demand", "radius"]  # fmt: skip
    assert state.ops[1].argv == ("--capacity", "40000") and state.ops[5].argv == ("--capacity", "51000")
    [amended] = more.of("amend")
    assert [amended["data"][key] for key in ("what", "target", "value", "by")] == [
        "input", "demand.capacity", "51000", "user"]  # fmt: skip


def test_example_one_with_the_cluster_file_deleted(project: Project) -> None:
    """The producing stage runs again; it wrote the same bytes, so the price stands."""
    ran = line(project)
    (project.path / "clusters.csv").unlink()
    more = again(project, ran, "demand.capacity=51000")
    assert (more.stop.name, more.spawned) == ("passed", ["demand", "radius", "clusters"])
    assert (project.path / "clusters.csv").read_text() == "a,b\n"


def test_a_changed_tool_and_a_changed_result_run_what_stands_on_them(project: Project) -> None:
    """The radius is another one, and clusters write it into their file: the price stands on other bytes."""
    ran = line(project)
    project.tool("clusters", """cat radius.txt > clusters.csv; echo '{"artifacts": ["clusters.csv"]}'""",
                 "@meta effect write")  # fmt: skip
    project.file("radius.txt", "90 km\n")
    more = again(project, ran, "demand.capacity=51000", accept=True)
    assert (more.stop.name, more.spawned) == ("passed", ["demand", "radius", "clusters", "price"])


def test_a_changed_result_runs_what_stands_on_it(project: Project) -> None:
    ran = line(project)
    project.file("radius.txt", "90 km\n")
    more = again(project, ran, "demand.capacity=51000")
    assert more.spawned == ["demand", "radius", "clusters"]  # clusters wrote the same: the price stands


def test_two_values_and_the_same_value(project: Project) -> None:
    ran = line(project)
    more = again(project, ran, "demand.capacity=40000")
    assert (more.stop.name, more.spawned, more.answer) == ("passed", [], ran.answer)
    more = again(project, ran, "demand.capacity=1", "radius.of=x")
    assert more.spawned == ["demand", "radius"]


FOUR = """
one: {run: [step, --n, "1"]}
two: {run: [step, --n, "2"], needs: [one]}
three: {run: [shaky, --n, "${inputs.good}"], needs: [two]}
four: {run: [step, --n, "4"], needs: [three]}
"""


@pytest.fixture
def four(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("step", 'echo "$2" >> steps; echo "$2"', "@option --n! <INT>  n\n@meta effect write")
    made.tool("shaky", '[ "$2" = 3 ] && echo well', "@option --n! <INT>  n\n@meta effect read")
    made.stages("line", FOUR, "@option --good=0 <INT>  which is good")
    return made


@pytest.mark.parametrize("given", ["three.n=3", "inputs.good=3"])
def test_stage_three_of_four_failed_and_its_parameter_is_set(four: Project, given: str) -> None:
    ran = line(four)
    assert (ran.stop.name, ran.spawned) == ("failed", ["step", "step", "shaky"])
    more = again(four, ran, given)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "step"])
    assert (four.path / "steps").read_text() == "1\n2\n4\n"


def test_the_model_calls_the_pipeline_again_with_a_corrected_argument(four: Project) -> None:
    four.skill(tools="line")
    ran = four.run([reply(call("line")), reply(call("line", "--good", "3")), finish("fin")])
    assert (ran.stop.name, ran.spawned) == ("passed", ["step", "step", "shaky", "shaky", "step"])
    assert (four.path / "steps").read_text() == "1\n2\n4\n"
    first, second = read_state(ran.child(0)), read_state(ran.child(1))
    assert first is not None and second is not None
    assert second.start["fork"] == {"run": ran.child(0).name, "seq": first.seq}
    assert (second.spent.calls, second.inherited.calls) == (2, 3)
    assert ran.end["spent"]["calls"] == 2 + 3 + 2


def test_the_same_call_again_runs_nothing(four: Project) -> None:
    """After a call that failed, stage three ends as it did at first: stage four still stands on that."""
    four.skill(tools="line")
    good = call("line", "--good", "3")
    ran = four.run([reply(good), reply(good), reply(call("line")), reply(good), finish("fin")])
    assert (ran.stop.name, ran.spawned) == ("passed", ["step", "step", "shaky", "step", "shaky", "shaky"])


def test_a_payment_is_not_repeated_for_a_corrected_stage_before_it(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.tool("say", 'echo "$2"', "@option --w! <W>  w\n@meta effect read")
    made.tool("pay", 'echo "$2" >> paid', "@option --to! <W>  whom\n@meta effect money")
    made.stages("line", "a: {run: [say, --w, \"${inputs.w}\"]}\nb: {run: [pay, --to, shop], needs: [a?]}",
                "@option --w! <W>  w")  # fmt: skip
    made.skill(tools="line")
    ran = made.run([reply(call("line", "--w", "x")), reply(call("line", "--w", "y")), finish("fin")])
    assert ran.stop.code == 5
    made.say(ran.folder, "approve")
    more = made.resume(ran.folder)
    assert (more.stop.name, (made.path / "paid").read_text()) == ("passed", "shop\n")


def test_without_a_model_a_failed_pipeline_goes_on_from_the_failed_stage(four: Project) -> None:
    four.tool("shaky", "[ -e mended ] && echo well", "@option --n! <INT>  n\n@meta effect read")
    four.skill(tools="line", pipeline="line")
    ran = four.run("none")
    assert (ran.stop.name, ran.spawned) == ("failed", ["step", "step", "shaky"])
    more = four.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("failed", ["shaky"])
    (four.path / "mended").touch()
    more = four.resume(ran.folder)
    assert (more.stop.name, more.spawned, more.answer) == ("passed", ["shaky", "step"], "4\n")


@pytest.mark.parametrize("given", ["line/three.n=3", "three.n=3", "line/inputs.good=3"])
def test_without_a_model_a_stage_of_the_pipeline_is_set(four: Project, given: str) -> None:
    four.skill(tools="line", pipeline="line")
    ran = four.run("none")
    assert ran.stop.name == "failed"
    more = again(four, ran, given)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "step"])


def test_with_a_model_a_set_stage_is_told_and_must_run_again(four: Project) -> None:
    four.skill(tools="line", requires="line")
    good = [reply(call("line", "--good", "3")), finish("one")]
    ran = four.run(good)
    assert ran.stop.name == "passed"
    four.script([*good, finish("two"), reply(call("line", "--good", "3")), finish("three")])
    more = again(four, ran, "four.n=5")
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "three", ["step"])
    assert more.of("verify")[1]["data"]["missing"] == [{"name": "line", "why": "line was declared stale"}]
    assert more.notes() == ["a person set line/four.n=5: call line again."]


UNKNOWN = {
    "thre.n=3": "three", "three.m=3": "n", "inputs.god=3": "good", "three.n=x": "whole number", "three": "STAGE.PARAM",
    "n=3": "STAGE.PARAM", "line/three.n=3": "no pipeline", "three.n": "STAGE.PARAM",
}  # fmt: skip


@pytest.mark.parametrize("given", UNKNOWN)
def test_what_cannot_be_set_is_named_and_nothing_is_written(four: Project, given: str) -> None:
    ran = line(four)
    before = ran.folder.joinpath("events.jsonl").read_bytes()
    with pytest.raises(HarnessError) as caught:
        again(four, ran, given)
    assert caught.value.exit_code == 2 and UNKNOWN[given] in f"{caught.value.message} {caught.value.fix}"
    assert ran.folder.joinpath("events.jsonl").read_bytes() == before


def test_an_input_that_an_earlier_set_shadows_is_said_to_reach_nothing(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.tool("say", 'echo "$2"', "@option --word! <W>  what\n@meta effect read")
    made.stages("pipe", 'one: {run: [say, --word, "${inputs.a}"]}\ntwo: {run: [say, --word, "${inputs.a}"]}',
                "@option --a! <A>  what")  # fmt: skip
    made.skill(tools="pipe")
    for name, ran, start in (
        ("bin", made.pipeline(made.path / "bin" / "pipe", "--a", "old"), ""),
        ("skill", made.run([reply(call("pipe", "--a", "old")), finish(), finish()]), "pipe/"),
    ):
        made.resume(ran.folder, "go on" if start else None, sets=(f"{start}one.word=mine",))
        options = Options(sets=(f"{start}inputs.a=new",))
        session = sessions.resume(made.world(), catalog_of(made.path), ran.folder, None, options)
        session.close()
        told = f"--set {start}inputs.a does not reach the stage one: {start}one.word was set, and holds"
        assert [line for line in session.warnings if "--set" in line] == [told], name


def test_the_run_of_one_tool_has_no_stages(four: Project) -> None:
    from harness.runs import session as sessions
    from tests.skill_files import catalog_of

    catalog = catalog_of(four.path)
    tool = catalog.tools(four.path / "bin")["step"]
    session = sessions.start_tool(four.world(), catalog, tool, ["--n", "1"], sessions.Options())
    session.go()
    session.run.log.close()
    with pytest.raises(HarnessError, match="no stages"):
        four.resume(session.run.folder, sets=("step.n=2",))


def test_a_path_that_is_set_is_meant_from_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    made = Project(tmp_path)
    made.tool("show", 'cat "$2"', "@option --file! <PATH>  what\n@meta effect read")
    made.file("logs/a.txt", "there\n")
    made.file("b.txt", "here\n")
    ran = made.pipeline(made.stages("line", 'a: {run: [show, --file, "b.txt"]}'))
    monkeypatch.chdir(tmp_path / "logs")
    assert again(made, ran, "a.file=a.txt").answer == "there\n"


def test_a_skill_run_names_the_pipeline(four: Project) -> None:
    four.skill(tools="line step", pipeline="line")
    ran = four.run("none")
    for given, named in {"thre.n=3": "three", "lin/three.n=3": "line", "inputs.good=3": "line",
                         "step/x.n=1": "no pipeline"}.items():  # fmt: skip
        with pytest.raises(HarnessError) as caught:
            again(four, ran, given)
        assert caught.value.exit_code == 2 and named in f"{caught.value.message} {caught.value.fix}"


def test_a_waiting_stage_is_withdrawn_when_its_argument_is_set(tmp_path: Path) -> None:
    """Nobody approves what would not run any more; the new call asks anew under its own number."""
    made = Project(tmp_path)
    made.tool("send", 'echo "$2" >> sent', "@option --to! <W>  whom\n@meta effect external")
    ran = made.pipeline(made.stages("line", "a: {run: [send, --to, me]}"))
    assert (ran.stop.code, ran.end["ops"]) == (5, [1])
    more = again(made, ran, "a.to=you")
    assert (more.stop.code, more.end["ops"], more.spawned) == (5, [2], [])
    made.say(ran.folder, "approve", 2)
    assert made.resume(ran.folder).stop.name == "passed"
    assert (made.path / "sent").read_text() == "you\n"


def test_a_changed_tool_of_a_stage_is_refused_and_accepted(four: Project) -> None:
    """Its stage runs again; one whose result comes out the same changes nothing after it."""
    ran = line(four, "--good", "3")
    four.tool("shaky", "echo well", "@option --n! <INT>  n\n@meta effect read")
    with pytest.raises(HarnessError) as caught:
        again(four, ran, "four.n=5")
    assert caught.value.exit_code == 2 and "tool shaky: " in caught.value.message and "\u2192" in caught.value.message
    more = again(four, ran, "four.n=5", accept=True)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "step"])
    assert [c["what"] for c in more.of("resume")[0]["data"]["changes"]] == ["tool shaky"]
    assert again(four, ran, "four.n=6").spawned == ["step"]


def test_a_changed_pipeline_file_is_refused_and_accepted(four: Project) -> None:
    ran = line(four, "--good", "3")
    four.stages("line", FOUR.replace('"4"', '"7"'), "@option --good=0 <INT>  which is good")
    with pytest.raises(HarnessError, match="skill: "):
        again(four, ran, "inputs.good=3")
    more = again(four, ran, "inputs.good=3", accept=True)
    assert (more.stop.name, more.spawned, more.answer) == ("passed", ["step"], "7\n")


def test_a_changed_tool_below_a_pipeline_of_a_skill_runs_again_with_the_next_call(four: Project) -> None:
    four.skill(tools="line", pipeline="line")
    ran = four.run("none", goal="")
    four.tool("shaky", "echo well", "@option --n! <INT>  n\n@meta effect read")
    more = four.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "step"])


def test_no_answer_passes_while_a_file_below_its_pipeline_is_gone(project: Project) -> None:
    """A skill that requires the price: with the cluster file deleted the price does not stand."""
    project.skill(tools="line price", requires="price", pipeline="line")
    ran = project.run("none")
    assert (ran.stop.name, ran.spawned) == ("passed", ["demand", "radius", "clusters", "price"])
    (project.path / "clusters.csv").unlink()
    more = project.resume(ran.folder, "once more")
    assert (more.stop.name, more.spawned) == ("passed", ["clusters"])


def test_a_pipeline_in_a_pipeline_runs_again_what_changed_below(project: Project) -> None:
    project.stages("outer", "inner: {run: [line]}\nlast: {run: [price], needs: [inner]}")
    ran = project.pipeline(project.path / "bin" / "outer")
    assert ran.spawned == ["demand", "radius", "clusters", "price", "price"]
    (project.path / "clusters.csv").unlink()
    more = again(project, ran, "line/demand.capacity=51000")
    assert (more.stop.name, more.spawned) == ("passed", ["demand", "radius", "clusters"])
    (project.path / "clusters.csv").unlink()
    more = project.resume(forked_of(project, more))
    assert (more.stop.name, more.spawned) == ("passed", ["clusters"])


def test_a_killed_second_call_goes_on_as_its_own(four: Project) -> None:
    """Killed right after its copy was written: the copied end of the first call is not taken for its own."""
    four.skill(tools="line")
    first = [reply(call("line")), reply(call("line", "--good", "3")), finish("fin")]
    ran = four.run(first, budget="turns=1")
    plain = CountingIO.put

    def put(self: CountingIO, path: Path, data: bytes, mode: int = 0o600) -> None:
        plain(self, path, data, mode)
        if path.name == "events.jsonl":
            raise KeyboardInterrupt

    try:
        CountingIO.put = put  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            four.resume(ran.folder, budget="turns=3")
    finally:
        CountingIO.put = plain  # type: ignore[method-assign]
    more = four.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["shaky", "step"])
    assert (four.path / "steps").read_text() == "1\n2\n4\n"


def test_a_payment_whose_words_were_set_is_not_repeated_for_what_they_replaced(project: Project) -> None:
    """`${first}` stands in a word that a person replaced: another result of `first` changes nothing of the payment."""
    project.tool("first", 'echo "$2"', "@option --at <W>  whom\n@meta effect read")
    project.tool("pay", 'echo "$2" >> paid; echo paid', "@option --who <W>  whom\n@meta effect write")
    path = project.stages(
        "line", 'first: {run: [first, --at, "${inputs.who}"]}\npay: {run: [pay, --who, "${first}"]}',
        "@option --who <W>  whom",
    )  # fmt: skip
    ran = project.pipeline(path, "--who", "ann")
    project.resume(ran.folder, sets=("pay.who=zed",))
    more = project.resume(ran.folder, sets=("inputs.who=eve",))
    assert (more.stop.name, more.spawned) == ("passed", ["first"])
    assert (project.path / "paid").read_text().split() == ["ann", "zed"]


@pytest.fixture
def paid(tmp_path: Path) -> Project:
    """A run that calls a pipeline twice; what that pays with falls on a ledger."""
    made = Project(tmp_path)
    made.tool("pay", 'echo "$2" >> paid; echo paid', "@option --x! <X>  what\n@meta effect external")
    made.tool("poke", "echo poked", "@option --x! <X>  what\n@meta effect external\n@meta repeat opaque")
    made.stages("line", 'p: {run: [pay, --x, "${inputs.a}"]}\n', "@option --a! <A>  what")
    made.skill(tools="line poke pay")
    return made


def called_twice(paid: Project) -> Ran:
    """The first call has ended; the run waits before the second one."""
    calls = [reply(call("line", "--a", "word")), reply(call("poke", "--x", "1")), reply(call("line", "--a", "word"))]
    ran = paid.run([*calls, finish()], allow=("pay",))
    assert (ran.stop.name, paid.noted("paid")) == ("needs-approval", ["word"])
    paid.say(ran.folder, "approve")
    return ran


def test_a_second_call_of_a_pipeline_refuses_a_first_one_that_was_redacted(paid: Project) -> None:
    ran = called_twice(paid)
    redact(ran.child(), Wish(text="word"), "why", "user:x", IO(), Clock(), None)
    more = paid.resume(ran.folder)
    end = more.of("tool.end")[-1]["data"]
    assert (end["class"], paid.noted("paid")) == ("MISCONFIGURED", ["word"])
    assert end["why"] == f"{ran.child().name}, the call before (#1), was redacted: what it did would be done again"


def test_a_second_call_of_a_pipeline_refuses_a_first_one_that_is_gone(paid: Project) -> None:
    ran = called_twice(paid)
    ran.child().rename(paid.path / "kept")
    more = paid.resume(ran.folder)
    end = more.of("tool.end")[-1]["data"]
    assert (end["class"], paid.noted("paid")) == ("MISCONFIGURED", ["word"])
    assert end["why"].startswith(f"{ran.child().name}, the call before (#1), is lost: what it did would be done again")
    assert done_after(read_source(ran.folder), 1) == ["#1 (line)", "#2 (poke)"]  # a fork before them says so


def test_a_second_call_goes_on_once_the_lost_folder_is_back(paid: Project) -> None:
    good = reply(call("line", "--a", "word"))
    ran = paid.run([good, good, finish()], allow=("pay",), budget="turns=1")
    kept = ran.child().rename(paid.path / "kept")
    paid.resume(ran.folder, budget="turns=2")
    kept.rename(ran.child())
    paid.script([good, good, good, finish()])
    more = paid.resume(ran.folder, budget="turns=9")
    assert (more.stop.name, paid.noted("paid")) == ("passed", ["word"])
    assert [end for _, end in more.ends()] == ["OK", "MISCONFIGURED", "OK"]


def test_a_call_that_never_began_is_no_call_before(paid: Project) -> None:
    """Its pipeline could not be read, so nothing ran: the next call begins anew."""
    whole = (paid.path / "bin" / "line").read_text()
    paid.stages("line", 'p: {run: [nowhere, --x, "1"]}\n', "@option --a! <A>  what")
    good = reply(call("line", "--a", "word"))
    ran = paid.run([good, good, finish()], allow=("pay",), budget="turns=1")
    assert [end for _, end in ran.ends()] == ["MISCONFIGURED"]
    (paid.path / "bin" / "line").write_text(whole)
    more = paid.resume(ran.folder, budget="turns=9", accept=True, allow=("pay",))
    assert (more.stop.name, paid.noted("paid")) == ("passed", ["word"])


PAYS_THEN_ASKS = 'p: {run: [pay, --x, "${inputs.a}"]}\nq: {run: [poke, --x, "1"], needs: [p]}\n'


@pytest.mark.parametrize("is_sealed", [True, False])
def test_an_open_call_whose_own_run_is_gone_is_not_begun_anew(paid: Project, tmp_path: Path, is_sealed: bool) -> None:
    """That it began is known from the seals, and from the park of the run above."""
    paid.facts = {"seals": tmp_path / "seals"} if is_sealed else {}
    paid.stages("line", PAYS_THEN_ASKS, "@option --a! <A>  what")
    ran = paid.run([reply(call("line", "--a", "word")), finish()], allow=("pay",))
    assert (ran.stop.name, paid.noted("paid")) == ("needs-approval", ["word"])
    kept = ran.child().rename(paid.path / "kept")
    for _ in range(2):
        with pytest.raises(JournalError, match="is lost: what it did would be done again") as caught:
            paid.resume(ran.folder)
        assert "restore its folder" in caught.value.fix
    kept.rename(ran.child())
    assert (paid.resume(ran.folder).stop.name, paid.noted("paid")) == ("needs-approval", ["word"])


def damage(folder: Path, kind: str) -> None:
    """Damage the first line of this kind; what follows it is lost."""
    journal = folder / "events.jsonl"
    before, found, after = journal.read_bytes().partition(f'"kind":"{kind}"'.encode())
    assert found
    journal.write_bytes(before + found.upper() + after)


def settle(folder: Path, word: str) -> None:
    (folder / "inbox" / "settle-1.json").write_text(json.dumps({"kind": "settle", "op": 1, "word": word}))


@pytest.mark.parametrize("is_forked", [False, True])
@pytest.mark.parametrize(("word", "end"), [("happened", "DENIED"), ("unknown", "FAILED"),
                                           ("did-not-happen", "OK")])  # fmt: skip
def test_a_second_call_goes_on_once_what_a_damaged_first_one_did_is_settled(
    paid: Project, word: str, end: str, is_forked: bool
) -> None:
    """In the run and in its fork alike, and the call after it knows of it, too."""
    ran = called_twice(paid)
    damage(ran.child(), "tool.start")
    again = reply(call("line", "--a", "word"))
    paid.script([reply(call("line", "--a", "word")), reply(call("poke", "--x", "1")), again, again, finish()])
    folder = ran.folder
    with pytest.raises(JournalError) as caught:
        paid.resume(folder)
    assert caught.value.exit_code == 11 and caught.value.fix.endswith(f"harness settle {ran.child().name} 1 VERDICT")
    if is_forked:
        folder = forked_of(paid, ran)
        with pytest.raises(JournalError) as caught:
            paid.resume(folder, allow=("pay", "poke"))
        assert caught.value.exit_code == 11
    settle(ran.child(), word)
    more = paid.resume(folder, allow=("pay", "poke"))
    assert more.stop.name == "passed"
    assert paid.noted("paid") == (["word", "word"] if word == "did-not-happen" else ["word"])
    assert [e["data"]["class"] for e in more.of("tool.end")[-2:]] == [end, end]


def test_the_command_that_settles_a_damaged_call_says_how_to_go_on(paid: Project) -> None:
    """Where the call has its end, the run itself goes on; else a fork of it does."""
    ran = called_twice(paid)
    damage(ran.child(), "tool.start")
    assert way_on([ran.child(), ran.folder]) == f"harness resume {ran.folder.name} (or its fork)"
    damage(ran.folder, "park")
    with (ran.folder / "events.jsonl").open("ab") as journal:
        journal.write(frame(2, 1, "2026-11-30T11:45:23.000Z", "user.say", {"text": "x"}))
    assert way_on([ran.child(), ran.folder]) == f"harness fork {ran.folder.name}"


def test_a_first_call_of_which_no_line_can_be_read_is_lost(paid: Project) -> None:
    ran = called_twice(paid)
    damage(ran.child(), "run.start")
    more = paid.resume(ran.folder)
    assert (more.ends()[-1], paid.noted("paid")) == (("line", "MISCONFIGURED"), ["word"])


def test_what_was_settled_holds_in_a_fork_of_the_fork(paid: Project) -> None:
    ran = paid.run([reply(call("look")), reply(call("pay", "--x", "1")), finish()], allow=("pay",))
    assert paid.noted("paid") == ["1"]
    damage(ran.folder, "tool.start")
    settle_own = {"kind": "settle", "op": 2, "word": "happened"}
    (ran.folder / "inbox" / "settle-1.json").write_text(json.dumps(settle_own))
    one = fork(paid.world(), source := read_source(ran.folder), point(source, None))
    two = fork(paid.world(), source := read_source(one), point(source, None))
    more = paid.resume(two, allow=("pay",))
    assert (more.codes()[-1], paid.noted("paid")) == ("DENIED", ["1"])


def test_a_second_call_of_a_pipeline_refuses_an_unsettled_source(paid: Project) -> None:
    """What the first call began and left without an end may have paid: nothing pays again before it is known."""
    ran = called_twice(paid)
    ended = ran.child() / "events.jsonl"
    lines = [json.loads(text) for text in ended.read_text().splitlines() if '"kind":"tool.end"' not in text]
    parts = [frame(n, e["epoch"], e["at"], e["kind"], e["data"], e.get("op")) for n, e in enumerate(lines, 1)]
    ended.write_bytes(b"".join(parts))
    more = paid.resume(ran.folder)
    end = more.of("tool.end")[-1]["data"]
    assert (end["class"], paid.noted("paid")) == ("MISCONFIGURED", ["word"])
    assert end["why"] == "operation #1 (pay) of the call before may have had its effect"


def test_a_fork_does_not_warn_of_what_a_later_call_only_took_over(paid: Project) -> None:
    """The payment of the first call had ended before the event; the second call's copy of it is none of its own."""
    again = [reply(call("line", "--a", "word")), reply(call("line", "--a", "word")), finish()]
    ran = paid.run(again, allow=("pay",))
    source, first = read_source(ran.folder), ran.of("tool.end")[0]["seq"]
    assert (paid.noted("paid"), done_after(source, first)) == (["word"], [])
    [before] = done_after(source, 1)
    assert before == f"#1 (pay) of {ran.child().name}"


ASKS_BESIDE = 'p: {run: [pay, --x, "${inputs.a}"]}\nq: {run: [inner]}\n'


@pytest.mark.parametrize("below", ["pipeline", "worker"])
def test_a_pipeline_out_of_time_whose_stage_waits_for_a_person_does_all_once(paid: Project, below: str) -> None:
    """The next call goes on from what was done, and with the run that waits."""
    for name, more in (("pay", "; sleep 1.1"), ("give", ""), ("poke", "")):
        paid.tool(name, f'echo "{name}$2" >> paid{more}', "@option --x! <X>  what\n@meta effect external")
    asks = [reply(call("give", "--x", "q")), reply(call("poke", "--x", "q")), finish()]
    if below == "worker":
        paid.skill("inner", tools="give poke")
    else:
        paid.stages("inner", "a: {run: [give, --x, q]}\nq: {run: [poke, --x, q], needs: [a]}\n")
    paid.stages("line", ASKS_BESIDE, "@option --a! <A>  what")
    good = reply(call("line", "--a", "word"))
    ran = paid.run([good, good, finish()], allow=("pay", "give"), budget="seconds=1", inner=asks)
    assert (ran.stop.name, sorted(paid.noted("paid"))) == ("budget", ["giveq", "payword"])
    more = paid.resume(ran.folder, budget="seconds=900")
    assert (more.stop.name, more.spawned) == ("needs-approval", [])
    paid.say(ran.folder, "approve")
    more = paid.resume(ran.folder)
    assert (more.stop.name, sorted(paid.noted("paid"))) == ("passed", ["giveq", "payword", "pokeq"])
    assert [e["data"]["stop"] for e in more.of("tool.end")] == ["budget", "passed"]
    inner = [path.name for path in ran.folder.parent.iterdir() if "-inner-" in path.name]
    assert len(inner) == 1


@pytest.fixture
def switched(paid: Project) -> Ran:
    """A pipeline that is a stage has paid and waits for a yes; then it is not called, and at last it is again."""
    paid.stages("line", PAYS_THEN_ASKS, "@option --a! <A>  what")
    stage = """i: {run: [line, --a, word], when: "${inputs.go} == 'yes'"}"""
    ran = paid.pipeline(paid.stages("outer", stage, "@option --go=yes <X>  whether"), allow=("pay",))
    assert (ran.stop.name, paid.noted("paid")) == ("needs-approval", ["word"])
    assert again(paid, ran, "inputs.go=no").stop.name == "passed"
    return ran


def test_a_pipeline_that_was_withdrawn_while_it_waited_goes_on_from_what_it_did(paid: Project, switched: Ran) -> None:
    more = again(paid, switched, "inputs.go=yes")
    assert (more.stop.name, more.spawned, paid.noted("paid")) == ("needs-approval", [], ["word"])
    for _ in range(2):  # the first yes is to the call as the run before would have made it
        paid.say(switched.folder, "approve")
        more = paid.resume(switched.folder)
    assert (more.stop.name, paid.noted("paid")) == ("passed", ["word"])


def test_a_read_that_was_cut_in_the_call_before_is_done_again_and_nothing_else(paid: Project) -> None:
    """Killed while it read beside a payment, and its file could not be read when the run went on."""
    paid.tool("look", "echo looked")
    whole = paid.stages("line", 'p: {run: [pay, --x, "${inputs.a}"]}\nl: {run: [look]}\n', "@option --a! <A>  what")
    good = reply(call("line", "--a", "word"))
    ran = paid.run([good, good, finish()], allow=("pay",), budget="turns=1")
    child, kept = ran.child(), whole.read_text()
    for folder, kind in ((child, '"run.end"'), (ran.folder, '"tool.end"')):
        lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if kind in line)
        (folder / "events.jsonl").write_text("".join(lines[:at]))
    rest = [json.loads(text) for text in (child / "events.jsonl").read_text().splitlines()]
    rest = [e for e in rest if not (e["kind"] == "tool.end" and e["op"] == 2)]
    parts = [frame(n, e["epoch"], e["at"], e["kind"], e["data"], e.get("op")) for n, e in enumerate(rest, 1)]
    (child / "events.jsonl").write_bytes(b"".join(parts))
    paid.stages("line", 'p: {run: [nowhere, --x, "1"]}\n', "@option --a! <A>  what")
    paid.resume(ran.folder, budget="turns=1", accept=True)
    whole.write_text(kept)
    more = paid.resume(ran.folder, budget="turns=9", accept=True)
    assert ([end for _, end in more.ends()], more.spawned) == (["MISCONFIGURED", "OK"], ["look"])
    assert (more.stop.name, paid.noted("paid")) == ("passed", ["word"])


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_fork_before_an_open_call_whose_own_run_is_gone_is_refused(
    paid: Project, tmp_path: Path, is_sealed: bool
) -> None:
    """What it did, nobody can tell any more, and the fork would do it again."""
    paid.facts = {"seals": tmp_path / "seals"} if is_sealed else {}
    ran = paid.run([reply(call("pay", "--x", "0")), reply(call("line", "--a", "word")), finish()], allow=())
    assert ran.stop.name == "needs-approval"
    paid.say(ran.folder, "approve")
    paid.resume(ran.folder)
    ran.child().rename(paid.path / "kept")
    source = read_source(ran.folder, seals=tmp_path / "seals" if is_sealed else None)
    for seq in (None, 1):
        with pytest.raises(HarnessError, match=r"#2 \(line\) may have had its effect") as caught:
            point(source, seq)
        assert caught.value.exit_code == 11
