"""The scripted model: a strict file, replies that follow from the prompt alone, and mismatches that say everything."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.models import Failure, Model, Reply, Results
from harness.models.failures import REASONS, UNASKED
from harness.models.script import load_script
from harness.models.scripted import Scripted
from harness.prompt import prefix_digest
from tests.odd_files import ODD, odd_file
from tests.prompt_events import Tape, frame

EXAMPLE = """\
harness-script: 1
replies:
- expect: {turn: 1, contains: [payments-eod], callable: [lookup-runbook, check-pods], not-contains: [rm]}
  text: I start with the runbook.
  calls: [{run: [lookup-runbook, --service, payments]}, {run: [check-pods, --namespace, batch]}]
- {expect: {result: {tool: check-pods, class: OK}}, calls: [{finish: "Cause: …"}], usage: {input: 900, out: 40}}
"""


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "script.yaml"
    path.write_text(text if "harness-script" in text else f"harness-script: 1\n{text}", encoding="utf-8")
    return path


def ask(model: Model, tape: Tape) -> Reply | Failure:
    return model(tape.prompt(), on=lambda _: None)


def journal(tape: Tape, answer: Reply | Failure) -> None:
    """What a loop does with an answer: it goes to the log, and its calls end well."""
    tape.start()
    if isinstance(answer, Failure):
        tape.add("model.fail", {"turn": 1, "reason": answer.reason, "class": answer.error_class})
        return
    first = tape.state.next_op
    calls = [
        {"op": first + i, "id": c.id, "verb": c.verb, "arguments": dict(c.arguments), "implicit": c.implicit}
        for i, c in enumerate(answer.calls)
    ]
    tape.add("model.reply", {"turn": tape.state.turn + 1, "content": answer.content, "dialect": answer.dialect,
                             "calls": calls})  # fmt: skip
    for call in calls:
        if call["verb"] == "finish":
            tape.add("verify", {"answer": "", "ok": False, "checks": [], "missing": [{"name": "write-report"}]})
        else:
            tape.end(call["op"])


def said(answer: Reply | Failure) -> str:
    assert isinstance(answer, Reply), answer
    return answer.text


def mismatch(answer: Reply | Failure) -> str:
    assert isinstance(answer, Failure)
    assert (answer.reason, answer.exit_code, answer.retry) == ("script_mismatch", 1, False)
    return answer.message


def test_the_example_plays_to_its_end(tmp_path: Path) -> None:
    model, tape, heard = Scripted(script(tmp_path, EXAMPLE)), Tape(goal="why did payments-eod stop?"), []
    first = model(tape.prompt(), on=heard.append)
    assert isinstance(first, Reply)
    assert heard == [first.text] == ["I start with the runbook."]
    assert [(call.verb, dict(call.arguments), call.error) for call in first.calls] == [
        ("run", {"tool": "lookup-runbook", "args": ["--service", "payments"]}, None),
        ("run", {"tool": "check-pods", "args": ["--namespace", "batch"]}, None),
    ]
    assert model.left_over() == f"{tmp_path}/script.yaml: replies: reply 2 was never asked for"
    journal(tape, first)
    second = ask(model, tape)
    assert isinstance(second, Reply)
    assert second.calls[0].arguments == {"answer": "Cause: …"}
    assert second.usage is not None
    assert (second.usage.input, second.usage.out) == (900, 40)
    assert model.left_over() is None


def test_a_reply_that_was_given_too_seldom_is_not_called_unasked(tmp_path: Path) -> None:
    model = Scripted(script(tmp_path, "replies:\n- {text: a, repeat: 2}\n- {text: b}\n- {text: c}"))
    ask(model, Tape())
    left = "reply 2, 3 was never asked for; reply 1 was asked for 1 times of 2"
    assert model.left_over() == f"{tmp_path}/script.yaml: replies: {left}"


def test_all_forms_of_calls(tmp_path: Path) -> None:
    text = """\
replies:
- calls:
  - {read: a.txt}
  - {read: {path: a.txt, lines: 1-2}}
  - {ask: "why?"}
  - {ask: {question: "why?", options: [a, 2]}}
"""
    answer = ask(Scripted(script(tmp_path, text)), Tape())
    assert isinstance(answer, Reply)
    assert [(call.verb, dict(call.arguments)) for call in answer.calls] == [
        ("read", {"path": "a.txt"}),
        ("read", {"path": "a.txt", "lines": "1-2"}),
        ("ask", {"question": "why?"}),
        ("ask", {"question": "why?", "options": ["a", "2"]}),
    ]
    assert len({call.id for call in answer.calls}) == 4


def test_text_alone_is_a_finish_and_an_empty_reply_has_no_call(tmp_path: Path) -> None:
    model, tape = Scripted(script(tmp_path, "replies: [{text: The cause.}, {text: ''}]")), Tape()
    first = ask(model, tape)
    assert isinstance(first, Reply)
    assert [(c.verb, c.implicit, c.arguments["answer"]) for c in first.calls] == [("finish", True, "The cause.")]
    assert first.stop == "end"
    journal(tape, first)
    second = ask(model, tape)
    assert isinstance(second, Reply)
    assert (second.calls, second.content, second.stop) == ((), [], "end")


def test_content_is_given_back_verbatim_and_its_calls_are_checked(tmp_path: Path) -> None:
    text = """\
replies:
- content:
  - {type: thinking, thinking: "", signature: c2ln, depth: 3, deep: true, none: null, quoted: "3"}
  - {type: tool_use, id: toolu_1, name: run, input: {tool: check-lag}}
  - {type: server_block}
"""
    answer = ask(Scripted(script(tmp_path, text)), Tape())
    assert isinstance(answer, Reply)
    assert answer.content[0] == {
        "type": "thinking", "thinking": "", "signature": "c2ln", "depth": 3, "deep": True, "none": None, "quoted": "3",
    }  # fmt: skip
    assert [(call.id, call.error) for call in answer.calls] == [("toolu_1", "missing args")]
    assert answer.content[2] == {"type": "server_block"}


@pytest.mark.parametrize("stop", ["refusal", "length", "overflow", "pause"])
def test_stops_are_passed_on(tmp_path: Path, stop: str) -> None:
    answer = ask(Scripted(script(tmp_path, f"replies: [{{stop: {stop}, text: so far}}]")), Tape())
    assert isinstance(answer, Reply)
    assert (answer.stop, answer.calls) == (stop, ())


@pytest.mark.parametrize("reason", sorted(set(REASONS) - set(UNASKED)))
def test_failures_have_the_class_and_exit_of_their_reason(tmp_path: Path, reason: str) -> None:
    answer = ask(Scripted(script(tmp_path, f"replies: [{{fail: {{reason: {reason}, retry_after: 0}}}}]")), Tape())
    assert isinstance(answer, Failure)
    assert (answer.reason, answer.retry_after) == (reason, 0.0)
    assert (answer.error_class, answer.exit_code, answer.retry) == REASONS[reason]


def test_a_retry_gets_the_reply_after_the_failure(tmp_path: Path) -> None:
    model = Scripted(script(tmp_path, "replies: [{fail: {reason: overloaded}, repeat: 2}, {text: better}]"))
    tape = Tape()
    for _ in range(2):
        answer = ask(model, tape)
        assert isinstance(answer, Failure)
        journal(tape, answer)
    assert said(ask(model, tape)) == "better"


def test_repeat_a_number_of_times_and_for_ever(tmp_path: Path) -> None:
    text = "replies: [{text: one, repeat: 2}, {text: two, repeat: forever}]"
    model, tape, heard = Scripted(script(tmp_path, text)), Tape(), []
    for _ in range(5):
        answer = ask(model, tape)
        heard.append(said(answer))
        journal(tape, answer)
    assert heard == ["one", "one", "two", "two", "two"]
    assert model.left_over() is None


def test_a_resumed_run_goes_on_at_the_right_reply(tmp_path: Path) -> None:
    path, tape = script(tmp_path, "replies: [{text: one}, {text: two}, {text: three}]"), Tape()
    for expected in ("one", "two", "three"):
        answer = ask(Scripted(path), tape)  # a new process each time
        assert said(answer) == expected
        journal(tape, answer)
    assert "no reply is left for turn 4; 3 in the list" in mismatch(ask(Scripted(path), tape))


def test_match_takes_the_first_unused_reply_that_fits_also_after_a_restart(tmp_path: Path) -> None:
    text = """\
mode: match
replies:
- {expect: {callable: [search-logs]}, text: logs}
- {text: first}
- {text: later, calls: [{run: [lookup-runbook]}, {run: [check-pods]}]}
"""
    path, tape, heard = script(tmp_path, text), Tape(), []
    for _ in range(3):
        answer = ask(Scripted(path), tape)
        heard.append(said(answer))
        journal(tape, answer)
    assert heard == ["first", "later", "logs"]
    assert "no reply is left" in mismatch(ask(Scripted(path), tape))


def test_match_without_a_fitting_reply_names_those_left(tmp_path: Path) -> None:
    text = "mode: match\nreplies: [{expect: {turn: 7}, text: x}, {expect: {turn: 8}, text: y}]"
    assert "none of the unused replies fits turn 1: 1, 2" in mismatch(ask(Scripted(script(tmp_path, text)), Tape()))


# Case 21, the scripted part: an unmet expectation, with the reply's number and the end of the prompt.
@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ("turn: 2", "expected turn 2, this is turn 1"),
        ("contains: [zebra]", "expected to contain 'zebra'"),
        ("contains: zebra", "expected to contain 'zebra'"),
        ("not-contains: [going wrong]", "expected not to contain 'going wrong'"),
        ("callable: [write-report]", "expected write-report to be callable; callable: lookup-runbook, check-pods, "),
        ("waiting: [check-lag]", "expected check-lag to be waiting; waiting: search-logs, "),
        ("result: {tool: check-lag, class: OK}", "expected a result of check-lag; there is none"),
        ("tokens-at-most: 10", "expected at most 10 tokens, estimated "),
        ("context: 1", "expected context 1, this is 0"),
        ("prefix: zzz", "expected prefix zzz, it is "),
    ],
)
def test_an_unmet_expectation_says_which(tmp_path: Path, expect: str, says: str) -> None:
    body = "".join(f"body line {n}\n" for n in range(100))
    path = script(tmp_path, f"replies:\n- {{expect: {{{expect}}}, text: x}}")
    message = mismatch(ask(Scripted(path), Tape(frame(body))))
    assert message.startswith(f"{path}: replies: reply 1 (line 3): ")
    assert says in message
    tail = message.split("the prompt ends with:\n")[1].split("\n")
    assert len(tail) == 40
    assert "what is going wrong" in message
    assert "body line 99" in message


def test_met_expectations(tmp_path: Path) -> None:
    tape = Tape(frame("the skill says: go\n"))
    prefix = prefix_digest(tape.prompt())[:12]
    text = (
        "replies:\n- {expect: {turn: 1, contains: [the skill says, going wrong], not-contains: [chec, rm],"
        f" waiting: search-logs, tokens-at-most: 2000, context: 0, prefix: {prefix}}}, text: x}}"
    )
    assert said(ask(Scripted(script(tmp_path, text)), tape)) == "x"


def test_contains_looks_at_what_is_new(tmp_path: Path) -> None:
    text = "replies: [{calls: [{run: [check-lag]}]}, {expect: {contains: [going wrong]}, text: x}]"
    model, tape = Scripted(script(tmp_path, text)), Tape()
    journal(tape, ask(model, tape))
    assert isinstance(tape.newest(), Results)
    assert "reply 2" in mismatch(ask(model, tape))


def test_a_result_of_another_class_is_a_mismatch(tmp_path: Path) -> None:
    tape = Tape()
    tape.deny(tape.run("write-report"), "NOT_RELEASED", "needs search-logs")
    text = "replies: [{text: x}, {expect: {result: {tool: write-report, class: OK}}, text: y}]"
    message = mismatch(ask(Scripted(script(tmp_path, text)), tape))
    assert "expected write-report to end OK, it ended NOT_RELEASED" in message


def test_a_worker_plays_its_own_list(tmp_path: Path) -> None:
    text = "replies: [{text: top}]\nskills: {write-code: {replies: [{text: code}]}}"
    path = script(tmp_path, text)
    assert said(ask(Scripted(path, "write-code"), Tape())) == "code"
    message = mismatch(ask(Scripted(path, "draft-report"), Tape()))
    assert "replies of skill draft-report: no reply is left for turn 1; 0 in the list" in message


def test_delay_waits_and_a_deadline_comes_first(tmp_path: Path) -> None:
    from dataclasses import replace

    model = Scripted(script(tmp_path, "replies: [{text: x, delay: 30}]"))
    answer = model(replace(Tape().prompt(), deadline=time.monotonic() + 0.01), on=lambda _: None)
    assert isinstance(answer, Failure)
    assert (answer.reason, answer.exit_code) == ("cancelled", 124)
    short = Scripted(script(tmp_path, "replies: [{text: x, delay: 0.01}]"))
    later = ask(short, Tape())
    assert isinstance(later, Reply)
    assert later.ms >= 10


def test_a_run_that_asked_for_nothing_is_not_judged(tmp_path: Path) -> None:
    assert Scripted(script(tmp_path, "replies: [{text: x}]")).left_over() is None


# Refused at load: file, line, nearest key.
@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("replies:\n- {text: x, cals: []}", 3, "unknown key 'cals' in reply 1; near: calls"),
        ("replies:\n- {expect: {contain: x}, text: x}", 3, "unknown key 'contain' in expect; near: contains"),
        ("reply: []", 2, "unknown key 'reply' in a script; near: replies"),
        ("replies:\n- {calls: [{rn: [x]}]}", 3, "unknown key 'rn' in a call; near: run"),
        ("replies:\n- {calls: [{run: x}]}", 3, "run takes a list"),
        ("replies:\n- {calls: [{run: []}]}", 3, "run takes a list"),
        ("replies:\n- {calls: [{run: [a], read: b}]}", 3, "a call names one verb"),
        ("replies:\n- {calls: {run: [a]}}", 3, "calls must be a list"),
        ("replies:\n- {expect: {turn: 1}}", 3, "reply 1 says nothing"),
        ("replies:\n- {fail: {reason: overlaoded}}", 3, "unknown reason 'overlaoded'; near: overloaded"),
        *((f"replies:\n- {{fail: {{reason: {reason}}}}}", 3, f"unknown reason {reason!r}") for reason in UNASKED),
        ("replies:\n- {fail: {retry_after: 1}}", 3, "fail names no reason"),
        ("replies:\n- {fail: {reason: auth}, text: x}", 3, "reply 1 fails and replies"),
        ("replies:\n- {content: [x]}", 3, "content is a list of blocks"),
        ("replies:\n- {content: [], text: x}", 3, "reply 1 has content and text or calls"),
        ("replies:\n- {text: x, stop: end}", 3, "unknown stop 'end'"),
        ("replies:\n- {text: x, repeat: 0}", 3, "repeat must be 1 or more"),
        ("replies:\n- {text: x, repeat: ever}", 3, "repeat must be a number, not 'ever'"),
        ("replies:\n- {text: x, delay: -1}", 3, "delay must be seconds, 0 or more"),
        ("replies:\n- {text: x, delay: nan}", 3, "delay must be seconds, 0 or more"),
        ("replies:\n- {text: x, usage: {in: 3}}", 3, "unknown key 'in' in usage"),
        ("replies:\n- {text: x, text: y}", 3, "text stands twice in reply 1"),
        ("replies:\n- {text: [x]}", 3, "text must be text"),
        ("replies:\n- just text", 3, "reply 1 must be a mapping"),
        ("replies:\n- {expect: {result: {class: OK}}, text: x}", 3, "result names no tool"),
        ("mode: loose\nreplies: [{text: x}]", 2, "unknown mode 'loose'"),
        ("mode: match\nreplies:\n- {fail: {reason: cut}}", 4, "mode match takes no fail and no stop"),
        ("replies: []", 2, "no replies"),
        ("mode: strict", 1, "no replies"),
        ("skills: {w: {replies: [{txt: x}]}}\nreplies: [{text: x}]", 2, "unknown key 'txt' in reply 1; near: text"),
        ("harness-script: 2\nreplies: [{text: x}]", 1, "not a script of version 1"),
        ("# harness-script\nreplies: [{text: x}]", 2, "not a script of version 1"),
        ("# harness-script\n", 1, "the script is empty"),
        ("# harness-script\n- x", 2, "a script must be a mapping"),
        ("replies: [", 2, "no YAML: "),
    ],
)
def test_a_bad_script_is_refused_with_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = script(tmp_path, text)
    with pytest.raises(HarnessError) as caught:
        load_script(path)
    assert says in caught.value.message
    assert caught.value.exit_code == 2
    if "no YAML" not in says:
        assert caught.value.where == f"{path}:{line}"
    assert caught.value.fix


@pytest.mark.parametrize(("raw", "says"), [(None, "no such file"), (b"\xff\xfe", "no UTF-8")])
def test_a_script_that_cannot_be_read(tmp_path: Path, raw: bytes | None, says: str) -> None:
    path = tmp_path / "script.yaml"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(HarnessError, match=says):
        load_script(path)


def test_a_folder_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="a folder, not a file"):
        load_script(tmp_path)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    from hashlib import sha256

    path = script(tmp_path, EXAMPLE)
    digest: Any = Scripted(path).digest
    assert digest == sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_a_usual_size_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    with pytest.raises(HarnessError) as caught:
        load_script(odd_file(tmp_path / "script.yaml", kind))
    assert caught.value.exit_code == 2 and caught.value.where == str(tmp_path / "script.yaml")
