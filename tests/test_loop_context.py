"""Contexts in real runs: when one begins, what the journal says of it, and that a kill changes no byte of a request."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.events.fold import fold
from harness.events.state import Operation
from harness.loop import context, reading
from harness.models import ModelRef, Prompt, Reply
from harness.models.failures import failure
from harness.models.resolve import resolve
from harness.models.scripted import Scripted
from harness.models.verbs import proposal
from harness.prompt import provider_body
from harness.runs import session as sessions
from harness.runs.session import Options
from tests.loop_world import Project, Ran, call, finish, reply
from tests.skill_files import catalog_of

BIG = 40  # replies of the long run
WIDE = "turns=100 calls=100"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.tool("show", 'seq -f "line %g of $1" 1 300', head="@meta effect read\n@arg what!")
    project.skill(tools="show", requires="")
    return project


class Seen(list[Prompt]):
    """The prompts of a run, as its model was given them."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, plain = Seen(), Scripted.__call__

    def noting(self: Any, prompt: Prompt, **rest: Any) -> Any:
        found.append(prompt)
        return plain(self, prompt, **rest)

    monkeypatch.setattr(Scripted, "__call__", noting)
    return found


def long_run(project: Project, count: int = BIG) -> list[dict[str, Any]]:
    return [*(reply(call("show", f"w{n}"), text=f"look {n}") for n in range(count)), finish()]


def small(project: Project, tokens: int) -> None:
    """Let contexts of this project's runs hold so many tokens."""
    project.facts["context"] = tokens


# Case 6: the history grows over its budget.
def test_a_long_history_goes_on_in_new_contexts_of_half_the_size(project: Project, seen: Seen) -> None:
    small(project, 12_000)
    ran = project.run(long_run(project), budget=WIDE)
    assert ran.stop.name == "passed"
    contexts = [event["data"] for event in ran.of("context")]
    assert len(contexts) >= 3
    assert [c["n"] for c in contexts] == list(range(1, len(contexts) + 1))
    assert {c["why"] for c in contexts} == {"long"}
    for c in contexts:
        assert c["before"] > 12_000 and c["after"] <= 6_000 and c["limit"] == 6_000
        assert c["kept"]
    assert max(-(-prompt.bytes // 3) for prompt in seen) <= 12_000
    for before, after in pairwise(seen):
        if before.context == after.context:
            assert provider_body(after).startswith(provider_body(before)[:-2])
        else:
            assert len(after.turns) == 1
    assert ran.events[-1]["data"]["spent"]["turns"] == BIG + 1


def test_every_pointer_of_a_context_gives_the_exact_bytes(project: Project) -> None:
    small(project, 12_000)
    ran = project.run(long_run(project), budget=WIDE)
    session = sessions.resume(project.world(), catalog_of(project.path), ran.folder, "go on", Options())
    try:
        looked = 0
        for event in ran.of("context"):
            dropped = event["data"]["dropped"]
            for left in json.loads(ran.text(dropped)) if isinstance(dropped, dict) else dropped:
                op = Operation(99, "read", arguments={"path": left["pointer"]})
                data = reading.perform(session.run, op)
                raw = session.run.log.read_blob(data["out"])
                assert data["class"] == "OK" and len(raw) == left["bytes"], left
                if left["pointer"].startswith("op:"):
                    assert raw == "".join(f"line {n} of w{left['op'] - 1}\n" for n in range(1, 301)).encode()
                else:
                    turn = int(left["pointer"].removeprefix("turn:"))
                    assert raw.decode() == f'look {turn - 1}\n> run {{"tool": "show", "args": ["w{turn - 1}"]}}'
                looked += 1
        assert looked > BIG
    finally:
        session.run.log.close()


def test_a_model_reads_what_was_left_out(project: Project, seen: Seen) -> None:
    small(project, 12_000)
    replies = [*long_run(project, 12)[:-1], reply({"read": "op:1"}), reply({"read": "turn:1"}), finish()]
    ran = project.run(replies)
    assert ran.of("context")
    assert ran.stop.name == "passed"
    assert "line 1 of w0" in str(seen[-2].turns[-1]) or "line 1 of w0" in str(seen[-1].turns)
    assert "look 0" in str(seen[-1].turns[-1])


# Case 4 over contexts: killed after any event, the next request is the same.
@pytest.mark.parametrize("cut", ["context", "model.start", "model.reply"])
def test_a_kill_around_a_context_changes_no_byte(project: Project, seen: Seen, tmp_path: Path, cut: str) -> None:
    small(project, 12_000)
    ran = project.run(long_run(project, 20))
    before, wanted = list(seen), [provider_body(prompt) for prompt in seen]
    lines = (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if b'"kind":"context"' in line)
    at = next(i for i in range(first, len(lines)) if f'"kind":"{cut}"'.encode() in lines[i])
    (ran.folder / "events.jsonl").write_bytes(b"".join(lines[: at + 1]))
    seen.clear()
    again = project.resume(ran.folder)
    assert again.stop.name == "passed"
    next_one = next(i for i, prompt in enumerate(before) if prompt.turn == seen[0].turn)
    sent = seen[0] if cut != "model.reply" else replace(seen[0], turns=seen[0].turns[:-1])
    held = provider_body(sent)
    assert wanted[next_one].startswith(held[:-2]) and len(held) > 2_000
    assert cut == "model.reply" or wanted[next_one] == held  # its last turn holds how long a tool took
    assert fold(again.events).context == fold(ran.events).context


def test_what_must_be_told_and_does_not_fit_ends_the_run(project: Project, seen: Seen) -> None:
    small(project, 4_000)
    ran = project.run([finish()], goal="word " * 4_000)
    assert (ran.stop.name, ran.stop.code, ran.end["limit"]) == ("budget", 6, "context")
    assert re.fullmatch(r"what must be told is about \d{4,5} tokens, and 4000 fit; give less, .*", ran.end["error"])
    assert not seen and not ran.of("context")


# Another model.
def test_another_model_begins_a_context_without_replies(project: Project, seen: Seen) -> None:
    ran = project.run([reply(call("show", "a")), reply({"ask": {"question": "go on?"}})])
    assert ran.stop.name == "needs-answer"
    wanted = {"context": 1, "contains": ["line 300 of a", "yes, do"]}
    script = {"harness-script": "1", "mode": "match", "replies": [{"expect": wanted, "calls": [{"finish": "done"}]}]}
    other = project.file("other.yaml", json.dumps(script))
    project.say(ran.folder, "answer", text="yes, do")
    options = Options((f"scripted:{other}", "-m"), accept_changes=True)
    again = project._drive(sessions.resume(project.world(), catalog_of(project.path), ran.folder, None, options))
    assert again.stop.name == "passed", again.end
    [context] = again.of("context")
    assert context["data"]["why"] == "model" and context["data"]["model"] == f"scripted:{other}"
    assert fold(again.events).model == f"scripted:{other}"
    assert len(seen[-1].turns) == 1


# A refused request: once more in a new context, then the stop it means.
class Refusing:
    """A model that is refused by `reason` whenever its history is longer than `turns`, or always from there on."""

    def __init__(self, reason: str, always: bool) -> None:
        self.ref, self.reason, self.always, self.asked = ModelRef("scripted", "x"), reason, always, 0

    def __call__(self, prompt: Prompt, **_: Any) -> Any:
        self.asked += 1
        if len(prompt.turns) > 3 or (self.always and prompt.context):
            return failure(self.reason, "no")
        verb, given = ("finish", {"answer": "ok"}) if prompt.turn > 3 else ("run", {"tool": "show", "args": ["a"]})
        return proposal(prompt.turn, verb, given, "x")

    def warm(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(("reason", "why"), [("overflow", "overflow"), ("bad_request", "refused")])
def test_a_refused_request_is_sent_once_more_in_a_new_context(
    project: Project, monkeypatch: pytest.MonkeyPatch, reason: str, why: str
) -> None:
    model = Refusing(reason, always=False)
    monkeypatch.setattr("harness.runs.speaker.open_model", lambda *a, **k: model)
    ran = project.run("scripted:x")
    assert ran.stop.name == "passed", ran.end
    assert [event["data"]["why"] for event in ran.of("context")] == [why]
    assert len(ran.of("model.fail")) == 1


@pytest.mark.parametrize(("reason", "stop", "code"), [("overflow", "budget", 6), ("bad_request", "error", 3)])
def test_refused_again_it_stops(
    project: Project, monkeypatch: pytest.MonkeyPatch, reason: str, stop: str, code: int
) -> None:
    model = Refusing(reason, always=True)
    monkeypatch.setattr("harness.runs.speaker.open_model", lambda *a, **k: model)
    ran = project.run("scripted:x")
    assert (ran.stop.name, ran.stop.code) == (stop, code)
    assert len(ran.of("context")) == 1 and len(ran.of("model.fail")) == 2


class Narrow(Refusing):
    """The same with a window that is full after its first call, while the history is still small."""

    def __call__(self, prompt: Prompt, **_: Any) -> Any:
        self.asked += 1
        if self.asked == 2 or (self.always and self.asked > 2):
            return failure(self.reason, "no")
        verb, given = ("run", {"tool": "show", "args": ["a"]}) if self.asked == 1 else ("finish", {"answer": "ok"})
        return proposal(prompt.turn, verb, given, "x")


@pytest.mark.parametrize("always", [False, True])
def test_case_12_a_small_history_that_is_too_long_begins_one_new_context(
    project: Project, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    project.tool("show", "echo $1", head="@meta effect read\n@arg what!")
    model = Narrow("overflow", always)
    monkeypatch.setattr("harness.runs.speaker.open_model", lambda *a, **k: model)
    ran = project.run("scripted:x")
    assert (ran.stop.name, ran.stop.code) == (("budget", 6) if always else ("passed", 0))
    assert [event["data"]["why"] for event in ran.of("context")] == ["overflow"]
    assert len(ran.of("model.fail")) == 1 + always


def test_a_bad_first_request_is_not_repeated(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bad(Refusing):
        def __call__(self, prompt: Prompt, **_: Any) -> Reply | Any:
            self.asked += 1
            return failure("bad_request", "a spend limit")

    model = Bad("bad_request", always=True)
    monkeypatch.setattr("harness.runs.speaker.open_model", lambda *a, **k: model)
    ran: Ran = project.run("scripted:x")
    assert (ran.stop.code, model.asked, len(ran.of("context"))) == (3, 1, 0)


# The window, the dearer prices, the setting: whichever is least.
@pytest.mark.parametrize(
    ("name", "setting", "most"),
    [
        ("anthropic:claude-haiku-5-5", 120_000, 100_000), ("anthropic:claude-sonnet-5-5", 120_000, 120_000),
        ("anthropic:claude-sonnet-5-5", 2_000_000, 600_000), ("ollama:m", 120_000, 2_457),
        ("anthropic:claude-haiku-5-5", 9_000, 9_000),
    ],
)  # fmt: skip
def test_a_request_grows_to_the_least_of_window_price_step_and_setting(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, setting: int, most: int
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project.path / "none"))
    project.facts["context"] = setting
    options = Options((project.script([finish()]), "-m"))
    session = sessions.start_skill(project.world(), catalog_of(project.path), "demo", "go", {}, options)
    try:
        assert session.run.model is not None
        session.run.model.ref = resolve(name, source="test")
        assert (context.room(session.run), context.limit_of(session.run)) == (most, most // 2)
    finally:
        session.run.log.close()
