"""The local adapter on a real child process: only what is offered is chosen, a death harms nobody, the label is there.

The child is the one that ships; only the library it loads is a stand-in, told by its weights what to do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.events.state import LABEL
from harness.executor import Cancel
from harness.models import Failure, ModelRef, Prompt, Replied, Reply, Usage
from harness.models.brief import Blank, Brief, Choice
from harness.models.local import Local
from tests.command import ROOT, clean_env, events, is_alive, newest, waits
from tests.local_world import CHILD, calls, environment, harness_with, incident, python_with_library, weights
from tests.loop_world import Project

REF = ModelRef("local", "tiny")
Make = Callable[..., Local]


def words(name: str) -> Callable[[Any], tuple[str, ...]]:
    return lambda given: (f"--{name}", given[name]) if name in given else ()


CHOICES = (
    Choice("get", (Blank("service", ("payments", "orders")),), words("service")),
    Choice("note", (Blank("text"),), words("text")),
    Choice("plain", (), words("")),
)


def prompt(*before: Replied, choices: tuple[Choice, ...] = CHOICES, seed: int = 7, answer: str | None = None) -> Prompt:
    return Prompt(("", ""), before, (), brief=Brief("<|im_start|>", choices, answer, seed))


def said(reply: Reply | Failure) -> Replied:
    assert isinstance(reply, Reply)
    return Replied(reply.dialect, reply.content)


def ask(model: Local, asked: Prompt, **more: Any) -> Reply | Failure:
    return model(asked, on=lambda _: None, **more)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Make]:
    made: list[Local] = []

    def make(command: tuple[str, ...] = CHILD, **plan: Any) -> Local:
        made.append(Local(weights(tmp_path / "w.gguf", **plan), ref=REF, command=command))
        return made[-1]

    yield make
    for model in made:
        model.close()


def test_thirty_seeds_choose_only_what_is_offered(local: Make) -> None:
    model, seen = local(), set()
    for seed in range(30):
        reply = ask(model, prompt(seed=seed))
        assert isinstance(reply, Reply) and reply.demonstration
        [call] = reply.calls
        tool, args = call.arguments["tool"], call.arguments["args"]
        assert call.verb == "run" and call.error is None
        seen.add((tool, *args))
    assert seen == {("get", "--service", "payments"), ("get", "--service", "orders"), ("note", "--text", "a word"),
                    ("plain",)}  # fmt: skip


def test_what_the_child_is_told_and_what_it_knows(local: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    reply = ask(local(), prompt())
    [noted] = calls(tmp_path / "w.gguf")
    assert (noted["OMP_WAIT_POLICY"], noted["GOMP_SPINCOUNT"]) == ("passive", "0")
    assert (noted["context"], noted["threads"], noted["safe"]) == (2048, max(1, (os.cpu_count() or 1) - 1), True)
    assert not any("KEY" in name for name in noted["env"])
    asked = noted["asked"]
    assert (asked["n_predict"], asked["temperature"], asked["seed"], asked["prompt"]) == (48, 0.7, 7, "<|im_start|>")
    assert asked["json_schema"]["x-guidance"] == {"whitespace_flexible": False}
    first, free, _ = asked["json_schema"]["anyOf"]
    assert first["properties"]["args"]["properties"] == {"service": {"enum": ["payments", "orders"]}}
    assert free["properties"]["args"]["properties"]["text"] == {"type": "string", "minLength": 1, "maxLength": 64}
    assert isinstance(reply, Reply) and reply.usage is not None
    assert (reply.usage.input, reply.usage.out, reply.usage.cached) == (40, 20, 30)


def test_the_answer_is_composed_and_the_words_are_quoted(local: Make) -> None:
    end = (Choice("finish", (Blank("words"),), lambda given: ()),)
    reply = ask(local(), prompt(choices=end, answer="found it"))
    assert isinstance(reply, Reply)
    [call] = reply.calls
    assert (call.verb, call.arguments) == ("finish", {"answer": 'found it\n\nThe model\'s own words: "a word"\n'})


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize(
    "output",
    [
        "nonsense", "[]", "7", "null", '{"tool":', {"tool": "rm", "args": {}}, {"tool": "get"},
        {"tool": "get", "args": {"service": "other"}}, {"tool": "get", "args": {"service": ["payments"]}},
        {"tool": "get", "args": {"service": "payments", "more": "x"}}, {"tool": "note", "args": {"text": ""}},
        {"tool": "note", "args": {"text": "x" * 65}}, {"tool": ["get"], "args": {}}, {"tool": "plain", "args": "x"},
        {"tool": "plain", "args": None}, "[" * 20_000,
    ],
)  # fmt: skip
def test_an_output_that_is_no_choice_is_a_reply_without_a_call(local: Make, output: Any) -> None:
    reply = ask(local(say=text(output)), prompt())
    assert isinstance(reply, Reply) and reply.calls == () and reply.demonstration


def test_four_unusable_outputs_in_a_row_are_the_end(local: Make) -> None:
    model, before = local(say="nonsense"), []
    for _ in range(3):
        before.append(said(ask(model, prompt(*before))))
    end = ask(model, prompt(*before))
    assert isinstance(end, Failure)
    assert (end.reason, end.exit_code, end.retry) == ("stuck", 8, False)


def test_four_equal_choices_in_a_row_are_the_end_and_another_begins_anew(local: Make) -> None:
    same = text({"tool": "plain", "args": {}})
    model, before = local(say=same), []
    for _ in range(3):
        before.append(said(ask(model, prompt(*before))))
    end = ask(model, prompt(*before))
    assert isinstance(end, Failure) and (end.reason, end.exit_code) == ("stuck", 8) and "plain" in end.message
    other = Replied("anthropic", [{"type": "tool_use", "name": "run", "input": {"tool": "get", "args": []}}])
    assert isinstance(ask(model, prompt(*before, other)), Reply)


def test_nothing_offered_is_the_end(local: Make) -> None:
    end = ask(local(), prompt(choices=()))
    assert isinstance(end, Failure) and (end.reason, end.exit_code) == ("stuck", 8)


def test_a_child_that_dies_is_started_again_once(local: Make, tmp_path: Path) -> None:
    model = local(die=[1, 3])
    assert isinstance(ask(model, prompt()), Reply)
    end = ask(model, prompt())
    assert isinstance(end, Failure)
    assert (end.reason, end.exit_code, end.retry) == ("local_aborted", 75, False)
    assert "SIGKILL" in end.message
    assert len({noted["pid"] for noted in calls(tmp_path / "w.gguf")}) == 2


def test_weights_that_cannot_be_loaded_are_named_with_the_reason(local: Make) -> None:
    model = local()
    model.weights.write_bytes(b"nothing of the kind")
    end = ask(model, prompt())
    assert isinstance(end, Failure)
    assert (end.reason, end.exit_code) == ("unknown_model", 2)
    assert "failed to load the model" in end.message


def test_what_the_library_refuses_is_told_and_kills_nothing(local: Make, tmp_path: Path) -> None:
    model = local(refuse="the prompt is too long")
    for _ in range(2):
        end = ask(model, prompt())
        assert isinstance(end, Failure)
        assert (end.reason, end.exit_code) == ("bad_request", 3)
        assert "the prompt is too long" in end.message
    assert len({noted["pid"] for noted in calls(tmp_path / "w.gguf")}) == 1


@pytest.mark.parametrize("line", ["no json", "[]", '{"ready": false}', '{"ready": true}\nno json'])
def test_a_child_that_talks_nonsense_is_no_bug_of_ours(local: Make, line: str) -> None:
    command = ("/bin/sh", "-c", f"printf '%s\\n' '{line}'; cat >/dev/null")
    assert isinstance(ask(local(command), prompt()), Failure)


@pytest.mark.parametrize("usage", ['{"input": null}', '{"input": "a", "out": []}', '{"input": 1e3, "out": -1}', "5"])
def test_what_a_child_counts_wrongly_is_not_counted(local: Make, usage: str) -> None:
    lines = f'{{"ready": true}}\n{{"id": 1, "text": "x", "usage": {usage}}}'
    made = ask(local(("/bin/sh", "-c", f"printf '%s\n' '{lines}'; cat >/dev/null")), prompt())
    assert isinstance(made, Reply)
    assert made.usage in (None, Usage())


def test_a_child_that_nests_deeper_than_anybody_reads(local: Make) -> None:
    command = ("/bin/sh", "-c", "echo '{\"ready\": true}'; printf '%100000s\\n' | tr ' ' '['; cat >/dev/null")
    end = ask(local(command), prompt())
    assert isinstance(end, Failure)
    assert end.reason == "local_aborted"


def test_a_child_that_leaves_early_is_quoted(local: Make) -> None:
    end = ask(local(("/bin/sh", "-c", "echo no such library >&2; exit 9")), prompt())
    assert isinstance(end, Failure)
    assert (end.reason, "exit 9: no such library" in end.message) == ("local_aborted", True)


def test_cancelling_ends_the_child(local: Make, tmp_path: Path) -> None:
    model, cancel, found = local(sleep=60), Cancel(), []
    thread = threading.Thread(target=lambda: found.append(ask(model, prompt(), cancel=cancel)))
    thread.start()
    [noted] = waits(lambda: calls(tmp_path / "w.gguf"))
    cancel.level = 1
    thread.join(30)
    assert found[0].reason == "cancelled"
    assert not is_alive(noted["pid"])


def test_closing_ends_a_request_that_is_out(local: Make, tmp_path: Path) -> None:
    model, found = local(sleep=60), []
    thread = threading.Thread(target=lambda: found.append(ask(model, prompt())))
    thread.start()
    waits(lambda: calls(tmp_path / "w.gguf"))
    model.close()
    thread.join(30)
    assert found[0].reason == "cancelled"


# Whole runs, by commands under a Python that has the stand-in.


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return python_with_library(tmp_path_factory.mktemp("python") / "env")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return incident(tmp_path / "p")


GOAL = "payments is late; see table orders"


def test_thirty_runs_stay_inside_the_offer(python: str, tmp_path: Path) -> None:
    """Case 20, with the stand-in; `make local` runs the same with real weights."""
    file = weights(tmp_path / "w.gguf")
    done = subprocess.run(
        [python, ROOT / "tests" / "local_seeds.py", f"local:{file}", "30"], cwd=tmp_path, env=clean_env(tmp_path),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 runs: {'passed': 30}; 0 choices outside the offer" in done.stdout


def test_a_run_says_everywhere_what_it_is_worth(python: str, project: Project) -> None:
    file = weights(project.path / "w.gguf")
    done = harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", cwd=project.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n", 1)[0] == LABEL
    assert LABEL in done.stderr.splitlines() and f"  {LABEL}" in done.stderr.splitlines()
    run = newest(project.path)
    assert (run / "answer.md").read_text().split("\n", 1)[0] == LABEL
    assert all(event["data"]["demonstration"] for event in events(run, "model.reply"))
    assert events(run, "run.end")[0]["data"]["demonstration"] is True
    shown = harness_with(python, "show", run.name, cwd=project.path).stdout
    assert f"answer:\n{LABEL}\n" in shown and f"  {LABEL}" in shown
    told = harness_with(python, "show", run.name, "--json", cwd=project.path).stdout
    assert json.loads(told)["demonstration"] is True
    out = project.path / "out.md"
    harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", "-o", str(out), cwd=project.path)
    assert out.read_text().split("\n", 1)[0] == LABEL
    body = harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", "--json", cwd=project.path).stdout
    assert json.loads(body)["demonstration"] is True


def test_the_offer_follows_what_is_released_and_known(python: str, project: Project) -> None:
    file = weights(project.path / "w.gguf", last=["finish"])
    done = harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", cwd=project.path)
    assert done.returncode == 0, done.stderr
    offers = [noted["asked"]["json_schema"]["anyOf"] for noted in calls(file)]
    named = [{branch["properties"]["tool"]["const"] for branch in offer} for offer in offers]
    assert named[0] == {"look", "pods"} and all("finish" not in names for names in named[:-1])
    assert "finish" in named[-1]
    branches = {b["properties"]["tool"]["const"]: b["properties"]["args"]["properties"] for o in offers for b in o}
    assert branches["level"]["level"] == {"enum": ["low", "high"]}
    tables = [
        next((b["properties"]["args"]["properties"]["table"]["enum"] for b in offer
              if b["properties"]["tool"]["const"] == "describe"), [])
        for offer in offers
    ]  # fmt: skip
    assert {"payments", "orders"} <= set(next(filter(None, tables))) and max(map(len, tables)) <= 32
    chosen = [event["data"]["calls"][0]["arguments"] for event in events(newest(project.path), "model.reply")]
    described = [call["args"][-1] for call in chosen if call.get("tool") == "describe"]
    assert set(branches["query"]["table"]["enum"]) <= set(described)  # only what a success of `describe` carries
    assert len(set(described)) == len(described)
    at = next(i for i, call in enumerate(chosen) if call.get("tool") == "describe")
    assert all(described[0] not in later for later in tables[at + 1 :]), "what is done is not offered again"


def test_what_it_was_given_is_composed_again_from_the_journal(python: str, project: Project) -> None:
    file = weights(project.path / "w.gguf", last=["finish"])
    assert harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", cwd=project.path).returncode == 0
    given = [noted["asked"]["prompt"] for noted in calls(file)]
    for n in (1, len(given) // 2, len(given)):
        told = json.loads(harness_with(python, "show", "last", "--prompt", str(n), "--json", cwd=project.path).stdout)
        assert (told["brief"], told["same"]) == (given[n - 1], True)
    shown = harness_with(python, "show", "last", "--prompt", "2", cwd=project.path)
    assert shown.stdout == f"=== brief\n{given[1].rstrip()}\n" and "as sent" in shown.stderr
    (project.path / "bin/look").write_text((project.path / "bin/look").read_text().replace("look", "peer", 1))
    assert "not what was sent" in harness_with(python, "show", "last", "--prompt", "1", cwd=project.path).stderr


def test_a_refused_or_failed_tool_is_chosen_four_times_and_no_more(python: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.tool("look", "echo no; exit 1")
    project.skill("demo", "look", requires="look")
    file = weights(project.path / "w.gguf")
    done = harness_with(python, "run", "demo", "-m", f"local:{file}", cwd=project.path)
    assert done.returncode == 8, done.stderr
    run = newest(project.path)
    assert events(run, "run.end")[0]["data"]["stop"] == "no-progress"
    assert len(events(run, "tool.start")) == 3


@pytest.mark.parametrize(("die", "code", "stop"), [([2], 0, "passed"), ([2, 3], 75, "waiting")])
def test_a_child_that_is_killed_never_takes_the_run_down(
    python: str, project: Project, die: list[int], code: int, stop: str
) -> None:
    file = weights(project.path / "w.gguf", die=die)
    done = harness_with(python, "run", "triage", GOAL, "-m", f"local:{file}", cwd=project.path)
    assert done.returncode == code, done.stderr
    run = newest(project.path)
    assert events(run)[-1]["data"]["stop"] == stop
    if code == 75:
        weights(file)
        again = harness_with(python, "resume", run.name, cwd=project.path)
        assert again.returncode == 0, again.stderr


def test_the_child_goes_with_its_parent(python: str, project: Project) -> None:
    """Case 20: killed, the parent can do nothing more for it."""
    file = weights(project.path / "w.gguf", sleep=60)
    command = [python, "-m", "harness", "run", "triage", GOAL, "-m", f"local:{file}"]
    parent = subprocess.Popen(
        command, cwd=project.path, env=environment(project.path), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    [noted] = waits(lambda: calls(file))
    assert is_alive(noted["pid"])
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    waits(lambda: not is_alive(noted["pid"]))


def test_weights_that_are_not_there_are_named_before_anything_runs(python: str, project: Project) -> None:
    for name, code, words in (("nope", 2, "there are no weights nope"), ("./no.gguf", 2, "no weights"),
                              ("SKILL.md/x", 2, "no weights")):  # fmt: skip
        done = harness_with(python, "run", "triage", GOAL, "-m", f"local:{name}", cwd=project.path)
        assert done.returncode == code and words in done.stderr, done.stderr
    assert not (project.path / ".harness" / "runs").exists()
