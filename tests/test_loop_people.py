"""Words from people: approvals, answers, verifiers that ask, and what lies in the inbox. Real tools, real journals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.cli.word import question_of
from harness.errors import HarnessError
from harness.loop.run import Said
from harness.runs import session as sessions
from harness.runs.deliver import meant, one, waiting
from harness.runs.flags import Options
from harness.runs.pins import said_in
from tests.journal_lines import Hands
from tests.loop_world import Person, Project, Ran, call, finish, reply
from tests.skill_files import catalog_of

ONE_OF_THREE = [reply(call("send", "--to", "a"), call("send", "--to", "b"), call("send", "--to", "c")), finish()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("look", "echo look")
    made.tool("send", 'echo "$2" >> "$PWD/sent"; echo sent', "@option --to <WHO>  to whom\n@meta effect external")
    made.skill(tools="look send")
    return made


def sent(project: Project) -> list[str]:
    return project.noted("sent")


def requests(ran: Ran) -> int:
    return len(ran.of("model.start"))


def test_a_tool_that_a_flag_of_the_resume_denies_does_not_run_though_it_was_approved(project: Project) -> None:
    ran = project.run(ONE_OF_THREE)
    project.say(ran.folder, "approve", 2)
    more = project.resume(ran.folder, deny=("send",))
    denied = [event["data"] for event in more.of("decide") if event["op"] == 2][-1]
    assert (more.spawned, sent(project), denied["verdict"], denied["code"]) == ([], [], "deny", "DENIED")


def verdicts(ran: Ran, n: int) -> list[str]:
    return [event["data"]["verdict"] for event in ran.of("decide") if event["op"] == n]


def test_a_flag_of_the_resume_denies_what_still_waits_now_and_at_later_resumes(project: Project) -> None:
    """It is in the journal: a yes that comes after it is one to nothing, and the tool stays denied."""
    script = [reply(call("send", "--to", "a")), reply(call("send", "--to", "b")), reply(call("look")), finish()]
    ran = project.run(script)
    denied = project.resume(ran.folder, deny=("send",), budget="turns=1")
    assert (verdicts(denied, 1), denied.of("resume")[0]["data"]["flags"]) == (["ask", "deny"], {"deny": ["send"]})
    last = project.resume(ran.folder, budget="turns=40")
    assert (last.stop.name, verdicts(last, 2), sent(project)) == ("passed", ["deny"], [])
    assert "flags" not in last.of("resume")[1]["data"]


def test_a_flag_of_the_resume_allows_what_still_waits_and_holds_for_the_run_but_for_no_fork(project: Project) -> None:
    script = [reply(call("send", "--to", "a")), reply(call("send", "--to", "b"), call("send", "--to", "a")), finish()]
    ran = project.run(script)
    more = project.resume(ran.folder, allow=("send --to=a",))
    assert (more.stop.name, verdicts(more, 1), more.end["ops"], sent(project)) == (
        "needs-approval", ["ask", "allow"], [2], ["a", "a"])  # fmt: skip
    assert said_in(more.events) == {"allow": ["send --to=a"]}
    copied = [*more.events]
    copied[0] = {**copied[0], "data": {**copied[0]["data"], "fork": {"run": ran.folder.name, "seq": copied[-1]["seq"]}}}
    assert said_in(copied) == {}


def test_a_flag_of_the_resume_reaches_what_waits_in_a_run_below(project: Project) -> None:
    project.stages("pipe", "one: {run: [send, --to, a]}")
    project.skill(tools="look send pipe")
    ran = project.run([reply(call("pipe")), finish()])
    assert (ran.stop.name, project.resume(ran.folder).stop.name) == ("needs-approval", "needs-approval")
    more = project.resume(ran.folder, deny=("send",))
    assert (more.stop.name, more.ends(), sent(project)) == ("passed", [("pipe", "DENIED")], [])


def test_a_person_is_told_which_calls_an_earlier_flag_lets_pass(project: Project) -> None:
    ran = project.run(ONE_OF_THREE)
    project.resume(ran.folder, allow=("send --to=a",))
    session = sessions.resume(project.world(), catalog_of(project.path), ran.folder, None, Options())
    session.close()
    assert "allowed by an earlier word, for the whole of this run: --allow 'send --to=a'" in session.warnings


def test_approve_one_of_three(project: Project) -> None:
    """It runs once; two stay pending under their numbers; the model is not called."""
    ran = project.run(ONE_OF_THREE)
    assert (ran.stop.name, ran.stop.code, ran.stop.parked) == ("needs-approval", 5, True)
    assert ran.end["ops"] == [1, 2, 3] and ran.spawned == []
    assert ran.end["hint"].startswith(f"harness approve {ran.folder.name} 1")
    project.say(ran.folder, "approve", 2)
    more = project.resume(ran.folder)
    assert (more.stop.code, more.end["ops"], sent(project)) == (5, [1, 3], ["b"])
    assert requests(more) == 1
    project.say(ran.folder, "approve", 1)
    project.say(ran.folder, "deny", 3, why="not c")
    last = project.resume(ran.folder)
    assert (last.stop.name, sent(project)) == ("passed", ["b", "a"])
    results = [d["data"].get("reasons") for d in last.of("decide") if d["op"] == 3][-1]
    assert results == ["not c"]
    assert last.end["spent"]["calls"] == 2


def test_a_long_argument_is_shown_approved_and_started_as_it_is(project: Project) -> None:
    """The journal keeps an argv over 32 kB beside its line; what is done with it is done with its words."""
    long = "a" * 40_000 + "é"
    ran = project.run([reply(call("send", "--to", long)), finish()])
    assert (ran.stop.code, ran.spawned) == (5, [])
    project.person = Person([Said("allow")])
    more = project.resume(ran.folder)
    assert project.person.shown[0]["argv"] == ["--to", long]
    assert (more.stop.name, sent(project)) == ("passed", [long])


def test_a_no_to_a_long_call_holds(project: Project) -> None:
    long = "a" * 40_000
    project.person = Person([Said("deny", "never"), Said("allow")])
    ran = project.run([reply(call("send", "--to", long)), reply(call("send", "--to", long)), finish()])
    assert (ran.stop.name, len(project.person.shown), sent(project)) == ("passed", 1, [])


def test_a_resume_without_a_word_parks_again_and_asks_nobody(project: Project) -> None:
    ran = project.run(ONE_OF_THREE)
    for _ in range(2):
        more = project.resume(ran.folder)
        assert (more.stop.code, more.end["ops"], more.spawned, requests(more)) == (5, [1, 2, 3], [], 1)


def test_the_allowed_calls_run_before_the_run_parks(project: Project) -> None:
    ran = project.run([reply(call("send", "--to", "a"), call("look")), finish()])
    assert (ran.stop.code, ran.spawned) == (5, ["look"])


def test_at_a_terminal_all_are_asked_and_then_started_together(project: Project) -> None:
    project.person = Person([Said("allow"), Said("deny", "no b"), Said("allow")])
    ran = project.run(ONE_OF_THREE)
    assert (ran.stop.name, sorted(sent(project))) == ("passed", ["a", "c"])
    assert [(s["n"], s["of"], s["argv"]) for s in project.person.shown] == [
        (1, 3, ["--to", "a"]), (2, 3, ["--to", "b"]), (3, 3, ["--to", "c"])]  # fmt: skip
    kinds = [event["kind"] for event in ran.events]
    last_decide = len(kinds) - 1 - kinds[::-1].index("decide")
    assert last_decide < kinds.index("tool.start")


def test_parked_for_thirty_days(project: Project) -> None:
    project.clock = clock = Hands()
    ran = project.run(ONE_OF_THREE)
    clock.pass_(30 * 86_400)
    for n in (1, 2, 3):
        project.say(ran.folder, "approve", n)
    more = project.resume(ran.folder)
    assert (more.stop.name, sorted(sent(project))) == ("passed", ["a", "b", "c"])
    assert more.end["spent"]["active_s"] == 0.0
    assert more.end["spent"]["waiting_s"] >= 30 * 86_400 - 60


def test_a_message_that_is_delivered_twice_acts_once(project: Project) -> None:
    """The same file again after a crash between its event and its removal."""
    ran = project.run(ONE_OF_THREE)
    project.say(ran.folder, "approve", 1)
    message = next((ran.folder / "inbox").iterdir())
    body = message.read_bytes()
    project.resume(ran.folder)
    message.write_bytes(body)
    more = project.resume(ran.folder)
    assert sent(project) == ["a"] and not list((ran.folder / "inbox").iterdir())
    assert sum(e["data"].get("inbox") == message.stem for e in more.of("decide")) == 1
    assert more.notes() == []


def say_in_turn(project: Project, ran: Ran, *kinds: str) -> None:
    """Words on operation 1, each a second after the one before it."""
    for at, kind in enumerate(kinds):
        before = set((ran.folder / "inbox").iterdir())
        project.say(ran.folder, kind, 1)
        for path in set((ran.folder / "inbox").iterdir()) - before:
            os.utime(path, (at + 1, at + 1))


@pytest.mark.parametrize(
    ("kinds", "went"),
    [(("approve", "deny"), []), (("deny", "approve"), ["a"]), (("approve", "deny", "approve"), ["a"])],
)
def test_of_two_words_on_one_call_the_newer_counts(project: Project, kinds: tuple[str, ...], went: list[str]) -> None:
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    say_in_turn(project, ran, *kinds)
    more = project.resume(ran.folder)
    assert sent(project) == went and not list((ran.folder / "inbox").iterdir())
    taken_back = [f"'{kind}' on operation 1 was taken back by a newer word." for kind in kinds[:-1]]
    assert more.notes() == taken_back


def test_words_on_different_calls_do_not_take_each_other_back(project: Project) -> None:
    ran = project.run(ONE_OF_THREE)
    for n, kind in ((1, "approve"), (2, "deny"), (3, "approve")):
        project.say(ran.folder, kind, n)
    more = project.resume(ran.folder)
    assert sorted(sent(project)) == ["a", "c"] and more.notes() == []




def test_an_approval_of_another_digest_is_void(project: Project) -> None:
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    body = {"kind": "approve", "op": 1, "digest": "0" * 16, "by": "user:x"}
    (ran.folder / "inbox" / "a.json").write_text(json.dumps(body))
    more = project.resume(ran.folder)
    assert (more.stop.code, sent(project)) == (5, [])
    assert more.notes() == ["the approval of operation 1 is void: the call is another one now."]


BAD = {
    "no JSON": "{", "no object": "[1, 2]", "text": '"approve"', "number": "7", "empty": "", "bytes": "\0\1",
    "no number": '{"kind": "approve", "op": "x"}', "a list": '{"kind": "approve", "op": [1]}',
    "no kind": '{"op": 1}', "unknown": '{"kind": "approve-all", "op": 1}', "deep": "[" * 100_000,
}  # fmt: skip


def test_messages_that_cannot_be_read_are_dropped_with_a_note(project: Project) -> None:
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    inbox = ran.folder / "inbox"
    for n, text in enumerate(BAD.values()):
        (inbox / f"bad-{n}.json").write_text(text)
    (inbox / "folder.json").mkdir()
    (inbox / ".half.json.123").write_text("{")
    more = project.resume(ran.folder)
    assert (more.stop.code, sent(project)) == (5, [])
    assert sorted(p.name for p in inbox.iterdir()) == [".half.json.123", "folder.json"]
    assert len(more.notes()) == len(BAD)
    project.say(ran.folder, "approve")
    assert project.resume(ran.folder).stop.name == "passed"


def test_a_tool_that_changed_after_its_approval_is_asked_again(project: Project) -> None:
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    project.say(ran.folder, "approve")
    project.tool("send", "echo other >> sent", "@option --to <WHO>  to whom\n@meta effect external")
    with pytest.raises(HarnessError, match="has changed") as caught:
        project.resume(ran.folder)
    assert caught.value.exit_code == 2 and "--accept-changes" in caught.value.fix
    more = project.resume(ran.folder, accept=True)
    assert (more.stop.code, more.spawned, sent(project)) == (5, [], [])
    assert any("void" in note for note in more.notes())
    project.say(ran.folder, "approve")
    assert project.resume(ran.folder).stop.name == "passed"
    assert sent(project) == ["other"]
    assert len(Ran(ran.stop, ran.folder, []).of("tool.start")) == 1


def test_a_tool_that_changes_while_a_person_thinks_is_asked_again(project: Project) -> None:
    class Editor(Person):
        def approve(self, request: dict[str, object], elsewhere: object) -> Said:
            if not self.shown:
                project.tool("send", "echo edited >> sent", "@option --to <WHO>  to whom\n@meta effect external")
            return super().approve(request, elsewhere)

    project.person = Editor([Said("allow"), Said("allow")])
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    assert (ran.stop.name, sent(project), ran.codes()) == ("passed", ["edited"], ["ask", "allow", "ask", "allow"])
    assert ran.end["spent"]["calls"] == 1
    first, second = (shown["digest"] for shown in project.person.shown)
    assert first != second


def test_an_approval_whose_needs_no_longer_hold_starts_nothing(project: Project) -> None:
    project.clock = clock = Hands()
    project.tool("look", "echo look", "@meta effect read\n@meta ttl 60")
    project.skill(tools="look send", deps="send: look")
    ran = project.run([reply(call("look")), reply(call("send", "--to", "a")), finish()])
    assert ran.stop.code == 5
    clock.pass_(100)
    project.say(ran.folder, "approve")
    more = project.resume(ran.folder)
    assert (more.stop.name, sent(project)) == ("passed", [])
    assert more.codes()[-1] == "NOT_RELEASED" and more.reasons()[-1] == "look expired 40 s ago"


def test_a_call_without_a_header_asks(project: Project) -> None:
    project.file("bin/raw", "#!/bin/sh\necho raw\n", executable=True)
    project.skill(tools="raw")
    ran = project.run([reply(call("raw")), finish()])
    assert (ran.stop.code, ran.spawned) == (5, [])
    assert ran.reasons() == ["no effect declared"]


@pytest.mark.parametrize(
    ("allow", "asks"),
    [("send", False), ("send --to=a", False), ("send --to=b", True), ("raw", True), ("raw now", False), ("pay", True)],
)
def test_what_a_flag_allows(project: Project, allow: str, asks: bool) -> None:
    project.file("bin/raw", "#!/bin/sh\necho raw\n", executable=True)
    project.tool("pay", "echo paid", "@meta effect money\n@meta repeat opaque")
    project.skill(tools="send raw pay")
    words = {"send": ("send", "--to", "a"), "raw": ("raw", "now"), "pay": ("pay",)}[allow.split()[0]]
    ran = project.run([reply(call(*words)), finish()], allow=[allow])
    assert (ran.stop.code == 5) == asks, ran.reasons()
    assert (ran.spawned == []) == asks


ASKS = [reply({"ask": {"question": "Which day?", "options": ["mon", "tue"]}}, call("look")),
        reply(call("look"), expect={"contains": ["tue"]}), finish()]  # fmt: skip


def test_a_question_waits_for_its_answer(project: Project) -> None:
    ran = project.run(ASKS)
    assert (ran.stop.name, ran.stop.code, ran.end["ops"]) == ("needs-answer", 10, [1])
    assert ran.spawned == ["look"]
    assert ran.end["hint"] == f"harness answer {ran.folder.name} 1 TEXT"
    assert [w.what for w in waiting(ran.folder)] == ["answer"]
    assert project.resume(ran.folder).stop.code == 10
    project.say(ran.folder, "answer", text="tue")
    more = project.resume(ran.folder)
    assert (more.stop.name, requests(more)) == ("passed", 3)
    assert [e["data"]["answers"] for e in more.of("user.say")] == [1]


def test_a_question_is_answered_at_the_terminal(project: Project) -> None:
    project.person = Person(replies=["tue"])
    ran = project.run(ASKS)
    assert (ran.stop.name, project.person.asked) == ("passed", ["Which day?"])


@pytest.mark.parametrize("at_terminal", [True, False])
@pytest.mark.parametrize(("said", "known"), [("mon", False), ("on mon, please", True)])
def test_an_option_that_was_taken_is_not_the_persons_words(
    project: Project, said: str, known: bool, at_terminal: bool
) -> None:
    """The model wrote it: taken by its number it names nobody and makes nothing known."""
    project.tool("send", "echo sent", "@option --to! <WHO>  to whom\n@meta effect external\n@meta dest --to")
    project.tool("note", "echo noted", "@option --day! <D>  which\n@meta effect write\n@meta known --day")
    project.skill(tools="send note")
    project.person = Person(replies=[said]) if at_terminal else None
    ask = reply({"ask": {"question": "Which day?", "options": ["mon", "tue"]}})
    ran = project.run([ask, reply(call("send", "--to", "mon"), call("note", "--day", "mon")), finish()])
    if not at_terminal:
        project.say(ran.folder, "answer", text=said)
        ran = project.resume(ran.folder)
    assert [e["data"].get("option") for e in ran.of("user.say")] == [None if known else 1]
    assert [e["data"]["text"] for e in ran.of("user.say")] == [said]
    assert ran.codes() == (["allow", "allow"] if known else ["ask", "UNGROUNDED"])


def test_an_answer_that_nobody_waits_for(project: Project) -> None:
    ran = project.run([reply(call("send", "--to", "a")), finish()])
    with pytest.raises(HarnessError, match="waits for no answer"):
        project.say(ran.folder, "answer", text="x")
    (ran.folder / "inbox" / "a.json").write_text('{"kind": "answer", "op": 1, "text": "x"}')
    more = project.resume(ran.folder)
    assert more.notes() == ["operation 1 waits for no answer any more."] and not more.of("user.say")


def test_a_long_question_and_long_options(project: Project) -> None:
    project.person = Person(replies=["tue"])
    ran = project.run([reply({"ask": {"question": "q" * 9000, "options": ["o" * 3000, "p" * 3000]}}), finish()])
    assert (ran.stop.name, project.person.asked) == ("passed", ["q" * 9000])


def test_what_a_person_is_shown_from_a_blob_is_byte_for_byte_what_was_said(project: Project) -> None:
    """Line ends too: an approval is of the words as they are."""
    text = "one\r\ntwo\r" + "q" * 9000
    ran = project.run([reply({"ask": text}), finish()])
    assert question_of(one(meant(ran.folder, None, "answer"))) == text


VERIFIER = """case "${HARNESS_REPLY-none}" in
  none) cat > "$HARNESS_OUT/a"; case "$(cat "$HARNESS_OUT/a")" in
    good*) exit 0;; bad*) echo "say good"; exit 1;; ask*) echo "is it good?"; exit 10;; *) exit 3;; esac;;
  yes) exit 0;; *) echo "you said $HARNESS_REPLY"; exit 1;;
esac"""


@pytest.fixture
def verified(project: Project) -> Project:
    project.tool("check", VERIFIER)
    project.skill(tools="look", verify="check")
    return project


def test_a_verifier_accepts(verified: Project) -> None:
    ran = verified.run([finish("good")])
    assert (ran.stop.name, ran.spawned) == ("passed", ["check"])
    assert ran.of("verify")[0]["data"]["checks"] == [{"name": "check", "op": 2, "exit": 0}]
    assert ran.end["spent"]["calls"] == 0


def test_a_verifier_rejects_and_the_model_hears_why(verified: Project) -> None:
    ran = verified.run([finish("bad"), {**finish("good"), "expect": {"contains": ["say good"]}}])
    assert (ran.stop.name, ran.answer) == ("passed", "good")


def test_a_verifier_rejects_three_times(verified: Project) -> None:
    ran = verified.run([finish("bad 1"), finish("bad 2"), finish("bad 3")])
    assert (ran.stop.name, ran.stop.code, ran.end["unaccepted"]) == ("failed", 1, True)
    assert ran.end["error"] == "check rejects the answer"


def test_a_verifier_asks_and_runs_again_with_the_reply(verified: Project) -> None:
    ran = verified.run([finish("ask")])
    assert (ran.stop.name, ran.stop.code) == ("needs-answer", 10)
    assert ran.of("verify")[0]["data"]["question"] == "is it good?"
    assert verified.resume(ran.folder).stop.code == 10
    verified.say(ran.folder, "answer", text="yes")
    more = verified.resume(ran.folder)
    assert (more.stop.name, more.spawned, requests(more)) == ("passed", ["check"], 1)
    assert [event["data"]["try"] for event in more.of("verify")] == [0, 1]


def test_a_verifier_that_asks_uses_up_no_try(verified: Project) -> None:
    verified.person = Person(replies=["no"])
    ran = verified.run([finish("ask"), finish("bad"), {**finish("good"), "expect": {"contains": ["say good"]}}])
    assert (ran.stop.name, verified.person.asked) == ("passed", ["is it good?"])
    assert [event["data"]["ok"] for event in ran.of("verify")] == [False, False, False, True]


def test_a_verifier_that_breaks_is_no_acceptance(verified: Project) -> None:
    ran = verified.run([finish("x"), finish("x"), finish("x")])
    assert (ran.stop.name, ran.stop.code) == ("failed", 1)
    assert ran.end["error"] == "the verifier check is broken: exit 3"


def test_a_verifier_that_cannot_start_is_named(verified: Project) -> None:
    verified.file("bin/check", "#!/no/such/interpreter\n# @describe check\n# @meta effect read\n", executable=True)
    ran = verified.run([finish("x"), finish("x"), finish("x")])
    assert (ran.stop.name, ran.stop.code) == ("failed", 1)
    assert ran.end["error"] == (
        "the verifier check is broken: cannot start check: its interpreter '/no/such/interpreter' is missing"
    )


def test_judging_an_answer_costs_no_call(verified: Project) -> None:
    ran = verified.run([reply(call("look")), finish("good")], budget="calls=1")
    assert ran.stop.name == "passed"


def test_a_word_for_a_tool_that_is_no_more_is_said_and_counts_for_nothing(project: Project) -> None:
    """It stands in the journal, where nobody can take it back."""
    project.tool("gone", head="@meta effect external")
    project.tool("look")
    project.skill(tools="gone look")
    ran = project.run([reply(call("gone")), finish()], allow=("gone",), deny=("look",))
    assert ran.stop.name == "passed"
    (project.path / "bin" / "gone").unlink()
    (project.path / "bin" / "look").unlink()
    project.tool("other")
    project.skill(tools="other")
    more = project.resume(ran.folder, message="and now?", accept=True)
    assert more.stop.name in ("failed", "passed") and more.of("resume")[-1]["data"]["changes"]
