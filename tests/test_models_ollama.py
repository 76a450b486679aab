"""Ollama by name: what it says about itself, and prompts of which it would read only the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.models.ollama import base_of, named, running_model
from tests.fake_openai import FakeOpenAI, Play, call
from tests.loop_world import Project

LOOK = call("run", tool="look", args=[])
DONE = call("finish", answer="it is 42")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def served() -> Iterator[Any]:
    with ExitStack() as stack:
        def serve(*plays: Play, **how: Any) -> FakeOpenAI:
            return stack.enter_context(FakeOpenAI(plays, kind="ollama", **how).serving())
        yield serve


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.tool("look", "echo looked", "@meta effect read")
    made.skill(tools="look")
    return made


def test_by_name_at_the_place_that_the_environment_names(
    project: Project, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = served(Play("", [call("run", tool="look", args=[])]), Play("", [DONE]))
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{fake.port}")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    ran = project.run("ollama:m")
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42")
    assert ran.of("model.reply")[0]["data"]["cost"] == 0
    assert ran.of("model.start")[0]["data"]["model"] == "ollama:m"
    assert fake.chats[0]["model"] == "m"


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_a_base_with_and_without_v1(project: Project, served: Any, end: str) -> None:
    fake = served(Play("fine"))
    ran = project.run(f"ollama:m@http://127.0.0.1:{fake.port}{end}")
    assert ran.answer == "fine"


def test_a_model_that_takes_no_tools_is_asked_in_json_at_once(project: Project, served: Any) -> None:
    fake = served(Play("", [DONE]))
    fake.able = ["completion"]
    assert project.run(f"ollama:m@{fake.base}").answer == "it is 42"
    [body] = fake.chats
    assert "response_format" in body
    assert "tools" not in body


def test_a_model_that_is_not_there(project: Project, served: Any) -> None:
    fake = served(Play("fine"))
    ran = project.run(f"ollama:other:7b@{fake.base}")
    failed = ran.of("model.fail")[0]["data"]
    assert (failed["reason"], ran.stop.code, fake.chats) == ("unknown_model", 2, [])
    assert "ollama pull other:7b" in failed["message"]


def test_a_prompt_whose_front_is_dropped(project: Project, served: Any) -> None:
    """Case 18: nothing of such a reply is acted on, and the way out is named."""
    project.skill(tools="look", body="Do it.\n" + "A word of advice for the careful reader.\n" * 1500)
    fake = served(*[Play("", [call("run", tool="look", args=[])])] * 9)
    ran = project.run(f"ollama:m@{fake.base}")
    failed = ran.of("model.fail")[-1]["data"]
    assert (failed["reason"], ran.stop.code, ran.spawned) == ("prompt_cut", 2, [])
    assert "OLLAMA_CONTEXT_LENGTH" in failed["message"]
    assert len(fake.chats) == 1


def test_a_prompt_that_cannot_fit_is_not_sent(project: Project, served: Any) -> None:
    project.skill(tools="look", body="Do it.\n" + "A word of advice for the careful reader.\n" * 1500)
    fake = served(Play("fine"))
    fake.loaded = ["m"]
    ran = project.run(f"ollama:m@{fake.base}")
    assert (ran.of("model.fail")[-1]["data"]["reason"], ran.stop.code, fake.chats) == ("prompt_cut", 2, [])


def test_a_long_prompt_in_a_long_window(project: Project, served: Any) -> None:
    project.skill(tools="look", body="Do it.\n" + "A word of advice for the careful reader.\n" * 1500)
    fake = served(Play("fine"), window=32_768)
    fake.loaded = ["m:latest"]
    assert project.run(f"ollama:m@{fake.base}").answer == "fine"


def test_case_18_what_is_composed_keeps_to_the_window(project: Project, served: Any) -> None:
    """A model that is loaded by the first request says only then how much it reads."""
    project.tool("big", "i=0; while [ $i -lt 120 ]; do echo line $i of $1; i=$((i+1)); done",
                 "@meta effect read\n@arg what")  # fmt: skip
    project.skill(tools="big")
    reads = [Play("", [call("run", tool="big", args=[f"part-{n}"])]) for n in range(12)]
    fake = served(*reads, Play("", [DONE]), window=8192)
    fake.loads = True
    ran = project.run(f"ollama:m@{fake.base}")
    assert (ran.stop.name, ran.answer) == ("passed", "it is 42"), ran.end
    contexts = [event["data"] for event in ran.of("context")]
    assert contexts and {data["why"] for data in contexts} == {"long"}
    sizes = [sum(len(str(m.get("content") or "")) for m in body["messages"]) // 4 for body in fake.chats]
    assert max(sizes) > 4096 * 6 // 10, "the window of an unloaded model was kept to for good"
    assert max(sizes) < 8192 and "prompt_cut" not in {e["data"]["reason"] for e in ran.of("model.fail")}


def test_a_prompt_that_is_cut_after_the_first_operation_is_no_usage_error(project: Project, served: Any) -> None:
    """Section 5: exit 2 only before the run's first operation, afterwards 3."""
    cut = {"prompt_tokens": 20, "completion_tokens": 7}
    for plays, code in (([Play("", [DONE], usage=cut)], 2), ([Play("", [LOOK]), Play("", [DONE], usage=cut)], 3)):
        ran = project.run(f"ollama:m@{served(*plays).base}")
        assert ran.of("model.fail")[-1]["data"]["reason"] == "prompt_cut"
        assert (ran.stop.name, ran.stop.code) == ("error", code)


def test_letters_of_two_bytes_are_not_taken_for_a_cut(project: Project, served: Any) -> None:
    project.skill(tools="look", body="Сделай это. " * 900)
    fake = served(Play("fine"), window=8192)
    assert project.run(f"ollama:m@{fake.base}").answer == "fine"


def test_ollama_behind_the_other_name_is_found_out(project: Project, served: Any) -> None:
    project.skill(tools="look", body="Do it.\n" + "A word of advice for the careful reader.\n" * 1500)
    fake = served(Play("", [DONE]))
    ran = project.run(f"openai:m@{fake.base}")
    assert (ran.of("model.fail")[-1]["data"]["reason"], ran.stop.code) == ("prompt_cut", 2)


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("", "http://127.0.0.1:11434/v1"), ("0.0.0.0", "http://127.0.0.1:11434/v1"), (":80", "http://127.0.0.1:80/v1"),
        ("box", "http://box:11434/v1"), ("box:1/", "http://box:1/v1"), ("http://box", "http://box:80/v1"),
        ("https://box/ollama/", "https://box:443/ollama/v1"), ("[::1]:5", "http://[::1]:5/v1"),
        (" 127.0.0.1:99999 ", "http://127.0.0.1:11434/v1"), ("[::1", "http://127.0.0.1:11434/v1"),
    ],
)  # fmt: skip
def test_the_variable_reads_as_ollamas_own(host: str, base: str) -> None:
    assert base_of("m", {"OLLAMA_HOST": host}) == base


@pytest.mark.parametrize("host", ["127.0.0.1:99999", "[::1", "box:eleven"])
def test_a_variable_that_names_no_host_is_told(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(HarnessError, match=r"OLLAMA_HOST is .* names no host and port"):
        named("m", "-m")
    assert named("m@http://127.0.0.1:1", "-m").base_url == "http://127.0.0.1:1/v1"
    assert running_model({"OLLAMA_HOST": host}) == (None, [])


def test_the_model_that_runs(served: Any) -> None:
    """Section 2, automatic choice: the only one, or the only one loaded; several are listed."""
    fake = served()
    env = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}"}
    assert running_model(env) == ("m", ["m"])
    fake.models = ["a", "b"]
    assert running_model(env) == (None, ["a", "b"])
    fake.loaded = ["b"]
    assert running_model(env) == ("b", ["a", "b"])
    fake.loaded = ["a", "b"]
    assert running_model(env) == (None, ["a", "b"])
    fake.models = []
    assert running_model(env) == (None, [])


@pytest.mark.parametrize("odd", ["m@http://127.0.0.1:9/v1", "m\nmodel: x", "m\x1b[2J", "a b", " ", "-m"])
def test_a_name_that_is_none_is_neither_taken_nor_listed(served: Any, odd: str) -> None:
    """What lists the models must not lead the prompt elsewhere, nor write on the person's terminal."""
    fake = served()
    env = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}"}
    fake.models = [odd]
    assert running_model(env) == (None, [])
    name = "hf.co/some-one/model_1.5:Q4_K_M"
    fake.models = [odd, name]
    assert running_model(env) == (name, [name])


def test_nobody_is_asked_off_this_machine() -> None:
    assert running_model({"OLLAMA_HOST": "http://model.example:11434"}) == (None, [])


@pytest.mark.parametrize("how", ["closed", "silent", "slow", "page"])
def test_whatever_does_not_answer_is_no_model(how: str) -> None:
    """Waited for no longer than the choice may take."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if how == "closed":
            server.close()
        elif how != "silent":
            threading.Thread(target=_answer, args=(server, how), daemon=True).start()
        assert running_model({"OLLAMA_HOST": f"127.0.0.1:{port}"}) == (None, [])


def _answer(server: socket.socket, how: str) -> None:
    said = b"HTTP/1.1 200 OK\r\n\r\n<html>" if how == "page" else b"HTTP/1.1 200 OK\r\n" * 1000
    connection, _ = server.accept()
    with connection:
        for i in range(len(said)) if how == "slow" else (0,):
            try:
                connection.sendall(said[i : i + 1] if how == "slow" else said)
            except OSError:
                return
            time.sleep(0.02)
