"""A word from another process that a live owner takes while another call of the same batch still runs.

The call that runs ends only once the journal holds what the word brought about: were it not taken meanwhile, the tool
would run into its time-out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.events.io import IO
from harness.runs.deliver import meant, one, send
from harness.runs.find import all_runs
from tests.command import waits
from tests.loop_world import Project, Ran, after_end_of, call, finish, reply

HEAD = "@meta effect {}\n@meta timeout 20"


def until(words: str) -> str:
    """Shell words that wait until the journal holds a text."""
    return f"""until grep -q '{words}' "$HARNESS_RUN/events.jsonl"; do sleep 0.02; done"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.tool("send", 'echo sent >> "$PWD/sent"; echo sent', "@meta effect external")
    made.file("bin/bare", "#!/bin/sh\nexit 1\n", executable=True)
    made.skill(tools="slow send bare look")
    made.tool("look")
    return made


def spoken(
    project: Project, speak: Callable[[Path], Any], *calls: Any, heard: Sequence[str] = (), **more: Any
) -> Ran:
    """A run during which somebody says something, as soon as it can be said."""

    def say() -> None:
        folder = waits(lambda: all_runs(project.path / ".harness" / "runs"))[0]
        waits(lambda: (folder / "ops" / "1" / "1").is_dir())
        speak(folder)

    person = threading.Thread(target=say)
    person.start()
    ran = project.run([reply(*calls), {**finish(), "expect": {"contains": heard}}], **more)
    person.join()
    return ran


def word(folder: Path, kind: str, what: Any, **more: Any) -> None:
    """Say it once it is waited for."""
    target = waits(lambda: _meant(folder, what))
    digest = {"digest": target.op.digest} if kind == "approve" else {}
    send(folder, IO(), {"kind": kind, "op": 2, **digest, **more})


def _meant(folder: Path, what: Any) -> Any:
    from harness.errors import HarnessError

    try:
        return one(meant(folder, 2, what))
    except HarnessError:
        return None


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_approved_call_starts_and_ends_beside_the_one_that_runs(project: Project, effect: str) -> None:
    project.tool("slow", f"{after_end_of(2)}; echo slow", HEAD.format(effect))
    ran = spoken(project, lambda folder: word(folder, "approve", "approval"), call("slow"), call("send"))
    assert ran.stop.name == "passed" and ran.ends() == [("send", "OK"), ("slow", "OK")]
    assert (project.path / "sent").read_text() == "sent\n"
    assert not list((ran.folder / "inbox").iterdir())


def test_a_no_closes_the_call_beside_the_one_that_runs(project: Project) -> None:
    project.tool("slow", until('"verdict":"deny"'), HEAD.format("read"))
    ran = spoken(project, lambda folder: word(folder, "deny", "approval", why="not now"), call("slow"), call("send"))
    assert ran.stop.name == "passed" and ran.ends() == [("slow", "OK")] and ran.codes() == ["allow", "ask", "DENIED"]


@pytest.mark.parametrize(("verdict", "end"), [("happened", "OK"), ("unknown", "UNKNOWN_OUTCOME")])
def test_a_settled_call_is_closed_beside_the_one_that_runs(project: Project, verdict: str, end: str) -> None:
    project.tool("slow", until('"by":"person"'), HEAD.format("read"))
    said: dict[str, Any] = {"word": verdict}
    ran = spoken(project, lambda folder: word(folder, "settle", "outcome", **said), call("slow"), call("bare"),
                 allow=("bare",))  # fmt: skip
    assert ran.stop.name == "passed" and ran.ends()[1:] == [("bare", end), ("slow", "OK")]


def test_what_a_person_says_is_kept_at_once_and_told_with_the_results(project: Project) -> None:
    project.tool("slow", until("the other pod"), HEAD.format("read"))
    message = {"kind": "say", "text": "the other pod"}
    heard = ["the other pod"]
    ran = spoken(project, lambda folder: send(folder, IO(), message), call("slow"), call("look"), heard=heard)
    kinds = [(e["kind"], e.get("op")) for e in ran.events if e["kind"] in ("user.say", "tool.end")]
    assert ran.stop.name == "passed" and kinds.index(("user.say", None)) < kinds.index(("tool.end", 1))


def test_a_wish_to_stop_lets_it_end_and_starts_nothing_more(project: Project) -> None:
    project.tool("slow", "until [ -e go ]; do sleep 0.02; done; echo slow", HEAD.format("read"))

    def stop(folder: Path) -> None:
        send(folder, IO(), {"kind": "cancel"})
        word(folder, "approve", "approval")  # too late
        waits(lambda: project.cancel.level)
        (project.path / "go").touch()

    ran = spoken(project, stop, call("slow"), call("send"))
    assert (ran.stop.name, ran.stop.code) == ("interrupted", 130)
    assert ran.ends() == [("slow", "OK")] and not (project.path / "sent").exists()


def test_a_wish_to_stop_now_kills_it(project: Project) -> None:
    project.tool("slow", "sleep 20", HEAD.format("read"))
    wish = {"kind": "cancel", "now": True}
    ran = spoken(project, lambda folder: send(folder, IO(), wish), call("slow"), call("send"))
    assert (ran.stop.name, ran.stop.code) == ("interrupted", 130) and not (project.path / "sent").exists()
    assert [event["data"]["outcome"] for event in ran.of("tool.end")] == ["cut"]
