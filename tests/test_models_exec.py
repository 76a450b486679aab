"""Any program as the model: what it reads, what it may print, its exits, its end with everything it started."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.events.fold import fold
from harness.models.choice import Wishes
from harness.models.exec import split_command
from tests.command import harness, is_alive, waits
from tests.command import start as started
from tests.loop_world import Project, Ran, Skipping

HEAD = f"""#!{sys.executable}
import json, os, sys, time
asked = json.load(sys.stdin)
turns = len([t for t in asked["turns"] if t["role"] == "assistant"]) + 1
with open("asked.jsonl", "a") as file:
    file.write(json.dumps(asked) + "\\n")
def say(**reply):
    print(json.dumps({{"text": "", "calls": [], "stop": "calls", **reply}}))
"""
LOOK = '{"verb": "run", "arguments": {"tool": "look", "args": ["here"]}}'
DONE = 'say(calls=[{"verb": "finish", "arguments": {"answer": "it is 42"}}])'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "project")
    made.clock = Skipping()
    made.tool("look", "echo looked $1", "@meta effect read\n@arg what")
    made.skill(tools="look")
    monkeypatch.chdir(made.path)
    return made


def drive(project: Project, body: str, words: str = "", **more: Any) -> Ran:
    project.file("gate way", HEAD + body, executable=True)
    budget = f"usd=none {more.pop('budget', '')}"  # nobody knows its price
    return project.run(f"exec:'./gate way' {words}", budget=budget, **more)


def asked(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.path / "asked.jsonl").read_text().splitlines()]


def test_the_effort_that_the_user_set_is_told(project: Project) -> None:
    project.wishes = Wishes(effort="max")
    drive(project, DONE)
    assert asked(project)[0]["effort"] == "max"


def reason(ran: Ran) -> str:
    return str(ran.of("model.fail")[-1]["data"]["reason"])


def test_two_turns_and_the_content_comes_back(project: Project) -> None:
    """Case 19."""
    ran = drive(project, f"""
if turns == 1: say(text="I look.", calls=[{LOOK}], content={{"mine": [1, "ü", None]}}, usage={{"input": 9, "out": 2}})
else: {DONE}
""")
    assert (ran.stop.name, ran.answer, ran.spawned) == ("passed", "it is 42", ["gate way", "look", "gate way"][1:2])
    first, second = asked(project)
    assert (first["v"], [verb["name"] for verb in first["verbs"]]) == (1, ["read", "run", "ask", "finish"])
    assert set(first) == {"v", "system", "verbs", "turns", "schema", "max_tokens", "effort", "seed"}
    assert first["turns"][0]["role"] == "user"
    assert "<task" in first["turns"][0]["said"][0]
    assert second["turns"][: len(first["turns"])] == first["turns"]
    reply, result = second["turns"][1:]
    assert reply == {"role": "assistant", "content": {"mine": [1, "ü", None]}}
    assert (result["results"][0]["id"], result["results"][0]["failed"]) == ("call_1_1", False)
    assert "looked here" in result["results"][0]["blocks"][0]
    data = [event["data"] for event in ran.of("model.reply")]
    assert (data[0]["usage"], data[0]["cost"]) == ({"input": 9, "out": 2}, None)
    assert data[1]["usage"]["estimated"] is True


def test_without_content_its_own_reply_comes_back(project: Project) -> None:
    ran = drive(project, f"""
if turns == 1: say(calls=[{{"id": "x", **{LOOK}}}])
else: {DONE}
""")
    assert ran.stop.name == "passed"
    assert asked(project)[1]["turns"][1]["content"]["calls"][0] == {"id": "x", **json.loads(LOOK)}


def test_text_alone_is_the_answer_and_words_are_given_as_they_are_quoted(project: Project) -> None:
    ran = drive(project, 'say(text=" ".join(sys.argv[1:]), stop="end")', words="""'a b'  $HOME "*" """)
    assert ran.answer == "a b $HOME *"


def test_it_has_the_users_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN", "t0ken")
    assert drive(project, 'say(text=os.environ["GATEWAY_TOKEN"], stop="end")').answer == "t0ken"


@pytest.mark.parametrize(
    ("body", "wanted", "code"),
    [
        ("sys.exit(75)", "unavailable", 75), ("sys.exit(69)", "unavailable", 75), ("sys.exit(77)", "auth", 4),
        ("sys.exit(2)", "bad_request", 3), ("sys.exit(64)", "bad_request", 3), ("sys.exit(78)", "bad_request", 3),
        ("sys.exit(1)", "protocol", 75), ("os.kill(os.getpid(), 9)", "protocol", 75),
        ("print('hello')", "protocol", 75), ("pass", "protocol", 75), ("print('[]')", "protocol", 75),
        ("print('{}')", "protocol", 75), ("say(stop='odd')", "protocol", 75), ("say(text=3)", "protocol", 75),
        ("say(calls={})\nsay()", "protocol", 75), ("say(calls=[3])", "protocol", 75),
        ("say(calls=[{'arguments': {}}])", "protocol", 75), ("sys.stdout.buffer.write(b'\\xff')", "protocol", 75),
        ("print('[' * 100000)", "protocol", 75), ("print('x' * (17 << 20))", "protocol", 75),
        ("say(stop='length')", "length", 1), ("say(stop='refusal', text='no')", "refusal", 1),
        ("say(stop='overflow')", "overflow", 6),
        ("say(stop='end', text='x', content=float('nan'))", "protocol", 75),
        ("say(calls=[{'verb': 'run', 'arguments': {'tool': 'look', 'args': [float('inf')]}}])", "protocol", 75),
        ("print('{\"stop\": \"end\", \"text\": \"x\", \"content\": 1e999}')", "protocol", 75),
    ],
)  # fmt: skip
def test_exits_and_what_is_no_reply(project: Project, body: str, wanted: str, code: int) -> None:
    """Case 19."""
    ran = drive(project, body)
    assert (reason(ran), ran.stop.code, ran.of("model.reply")) == (wanted, code, [])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('use: -x', file=sys.stderr)\nprint('  no key \\n', file=sys.stderr)\nsys.exit(2)", "exit 2: no key"),
        ("sys.exit(1)", "exit 1: it says nothing on stderr"),
        ("print('w' * 9000, file=sys.stderr)\nsys.exit(9)", f"exit 9: {'w' * 300}"),
    ],
)  # fmt: skip
def test_an_exit_is_told_with_the_last_line_and_costs_nothing(project: Project, body: str, said: str) -> None:
    ran = drive(project, body)
    assert ran.of("model.fail")[-1]["data"]["message"] == f"gate way ended with {said}"
    spent = fold(ran.events).spent
    assert (spent.tokens_in, spent.tokens_out, spent.nanos, spent.unpriced) == (0, 0, 0, 0)


def test_a_program_that_was_killed_may_have_cost_something(project: Project) -> None:
    spent = fold(drive(project, "os.kill(os.getpid(), 9)").events).spent
    assert spent.tokens_in > 0 and spent.unpriced == 5


def test_unavailable_then_good(project: Project) -> None:
    """Case 19."""
    ran = drive(project, f"""
if len(open("asked.jsonl").readlines()) == 1: sys.exit(75)
{DONE}
""")
    if ran.stop.code == 75:
        ran = project.resume(ran.folder)
    assert ran.stop.name == "passed"


def test_a_call_of_the_wrong_form_is_answered(project: Project) -> None:
    ran = drive(project, f"""
if turns == 1: say(calls=[{{"verb": "run", "arguments": "look"}}, {{"verb": "fly", "arguments": {{}}}}])
else: {DONE}
""")
    assert ran.stop.name == "passed"
    assert [r["failed"] for r in asked(project)[1]["turns"][2]["results"]] == [True, True]


SLEEPER = """
import subprocess
if os.fork() == 0:
    os.setsid()
    open("child", "w").write(str(os.getpid()))
    time.sleep(100)
    os._exit(0)
while not os.path.exists("child") or not open("child").read(): time.sleep(0.01)
open("ready", "w").write(str(os.getpid()))
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(100)
"""


def gone(project: Project) -> bool:
    """Whether the program and what it started in a session of its own have ended."""
    pids = [int((project.path / name).read_text()) for name in ("child", "ready")]
    return bool(waits(lambda: not any(map(is_alive, pids))))


def test_at_the_end_of_the_time_its_tree_is_ended(project: Project) -> None:
    """Case 19."""
    project.file("gate way", HEAD + SLEEPER, executable=True)
    done = harness("run", "demo", "go", "-b", "usd=none seconds=5", "-m", "exec:'./gate way'", cwd=project.path)
    assert done.returncode == 124
    assert gone(project)


def test_a_command_that_is_interrupted_leaves_nothing_behind(project: Project) -> None:
    """The process of the command is over before the program's grace is: it waits for that."""
    project.file("gate way", HEAD + SLEEPER, executable=True)
    running = started("run", "demo", "go", "-b", "usd=none", "-m", "exec:'./gate way'", cwd=project.path)
    waits((project.path / "ready").read_text)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert gone(project)


def test_what_it_says_on_stderr_is_no_part_of_the_reply(project: Project) -> None:
    ran = drive(project, f"sys.stderr.write('x' * (17 << 20))\n{DONE}")
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")


def test_what_it_says_on_stderr_is_shown_when_asked_for(project: Project) -> None:
    project.file("gate way", HEAD + 'print("via eu-west", file=sys.stderr)\n' + DONE, executable=True)
    quiet = harness("run", "demo", "go", "-b", "usd=none", "-m", "exec:'./gate way'", cwd=project.path)
    told = harness("run", "demo", "go", "-v", "-b", "usd=none", "-m", "exec:'./gate way'", cwd=project.path)
    assert (quiet.returncode, told.returncode) == (0, 0)
    assert "it is 42" in told.stdout
    assert "via eu-west" not in quiet.stderr
    assert "via eu-west" in told.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [("'a", "cannot be split"), ("''", "names no program"), ("nowhere-to-be-found x", "no program"),
     ("./plain", "no program"), ("/etc", "no program")],
)  # fmt: skip
def test_commands_that_cannot_be_used(project: Project, command: str, message: str) -> None:
    project.file("plain", "no program")
    with pytest.raises(HarnessError, match=message) as error:
        split_command(command, "-m", project.path)
    assert error.value.exit_code == 2
    assert harness("run", "demo", "go", "-m", f"exec:{command}", cwd=project.path).returncode == 2
