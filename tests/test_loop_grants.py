"""Remembered approvals in real runs: what `r`, `a` and `h` make of a call, where they are kept, and what voids them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.events.io import IO
from harness.loop.run import Said
from harness.policy.ledger import Ledger
from harness.runs.fork import fork, point, read_source
from tests.cage_world import NONE, Caged, make
from tests.journal_lines import Hands
from tests.loop_world import Person, Ran, call, finish, reply

SEND = "@option --to! <EMAIL>  who\n@option --n=1 <INT>  how often\n@meta effect external\n@meta dest --to"
FETCH = "@option --url! <URL>  what\n@option --page=1 <INT>  which\n@meta effect read\n@meta net --url"
TO_EVE = call("send", "--to", "eve@y.io")
DAY = 86_400


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    made = make(tmp_path, monkeypatch)
    made.policy(NONE)
    made.tool("send", 'echo "$2" >> sent', SEND)
    made.tool("fetch", 'echo "$2" >> fetched', FETCH)
    made.tool("look")
    made.tool("pay", "echo paid", "@option --sum! <AMOUNT>  how much\n@meta effect external\n@meta amount --sum EUR")
    made.tool("burn", "echo burnt", "@meta effect destructive")
    made.skill(tools="send fetch look pay burn")
    made.clock = Hands()
    made.facts["ledger"] = ledger(made)
    return made


def ledger(project: Caged) -> Ledger:
    return Ledger(project.home / ".local" / "state" / "harness", project.home, project.path, IO())


def says(project: Caged, *words: str) -> Person:
    """Somebody who answers once for each word; a further question is not heard."""
    project.person = Person([Said("deny") if word == "n" else Said("allow", grant=word) for word in words])  # type: ignore[arg-type]
    return project.person


def asked(project: Caged) -> int:
    """How often the person was asked. The last question that nobody answered counts, too."""
    assert project.person is not None
    return len(project.person.shown)


def sent(project: Caged, name: str = "sent") -> list[str]:
    return project.noted(name)


def told(ran: Ran) -> list[tuple[Any, ...]]:
    """By whom and for how long each call was allowed."""
    found = [event["data"] for event in ran.of("decide") if event["data"]["verdict"] == "allow"]
    return [(data.get("by"), data.get("grant")) for data in found]


def twice(*more: Any) -> Sequence[Any]:
    return [reply(TO_EVE), reply(TO_EVE), *more, finish()]


@pytest.mark.parametrize(("word", "questions"), [("once", 2), ("run", 1), ("always", 1)])
def test_a_yes_holds_as_long_as_the_key_says(project: Caged, word: str, questions: int) -> None:
    says(project, word, word)
    ran = project.run(twice())
    assert (ran.stop.name, sent(project), asked(project)) == ("passed", ["eve@y.io"] * 2, questions)
    assert told(ran)[0] == ("user", word)
    if questions == 1:
        by, kept = told(ran)[1]
        rules = ran.of("decide")[-1]["data"]["rules"]
        assert kept == word and by.startswith("grant:") and rules == [f"grant {by.removeprefix('grant:')}"]


@pytest.mark.parametrize(("word", "questions"), [("once", 1), ("run", 1), ("always", 0)])
def test_only_always_reaches_into_the_next_run(project: Caged, word: str, questions: int) -> None:
    says(project, word)
    project.run([reply(TO_EVE), finish()])
    says(project, "once")
    assert project.run([reply(TO_EVE), finish()]).stop.name == "passed"
    assert asked(project) == questions


def test_it_is_one_call_and_no_other(project: Caged) -> None:
    says(project, "always", "n", "n")
    others = [reply(call("send", "--to", "bob@y.io")), reply(call("send", "--to", "eve@y.io", "--n", "2"))]
    ran = project.run([reply(TO_EVE), *others, reply(call("send", "--to", "eve@y.io", "--n", "1")), finish()])
    assert (asked(project), sent(project)) == (3, ["eve@y.io"] * 2), "a default that is written out is the same call"
    assert ran.codes()[-1] == "allow"


def test_a_yes_for_days_is_kept_0600_outside_the_project_and_ends(project: Caged) -> None:
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    file = ledger(project).file
    assert file.stat().st_mode & 0o777 == 0o600 and not file.is_relative_to(project.path)
    held = json.loads(file.read_text())
    assert (held["tool"], held["values"]) == ("send", {"to": ["eve@y.io"], "n": ["1"]})
    assert held["until"] - held["since"] == 30 * DAY and held["cwd"] == str(project.path) and len(held["digest"]) == 64
    for days, questions in ((29, 0), (2, 1)):
        project.clock.pass_(days * DAY)  # type: ignore[attr-defined]
        says(project, "once")
        project.run([reply(TO_EVE), finish()])
        assert asked(project) == questions


@pytest.mark.parametrize(("days", "offered"), [(0, ["run"]), (7, ["run", "always"])])
def test_the_policy_says_for_how_long(project: Caged, days: int, offered: list[str]) -> None:
    project.policy(f"{NONE}approvals: {{remember_days: {days}}}")
    person = says(project, "always")
    ran = project.run([reply(TO_EVE), finish()])
    assert person.shown[0]["remember"] == offered
    assert told(ran) == [("user", "always" if days else "once")]
    assert [round((one.until - one.since) / DAY) for one in ledger(project).grants()] == ([days] if days else [])


@pytest.mark.parametrize("name", ["pay", "burn"])
def test_money_and_what_cannot_be_undone_ask_each_time(project: Caged, name: str) -> None:
    wanted = call(name, "--sum", "3") if name == "pay" else call(name)
    person = says(project, "always", "run", "host")
    ran = project.run([reply(wanted), reply(wanted), reply(wanted), finish()])
    assert asked(project) == 3 and told(ran) == [("user", "once")] * 3
    assert not any("remember" in shown for shown in person.shown) and ledger(project).grants() == ()


def test_a_grant_does_not_answer_a_rule_that_asks(project: Caged) -> None:
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    project.policy(NONE + "rules: [{tool: send, verdict: ask, why: they told me to look}]")
    person = says(project, "always")
    ran = project.run([reply(TO_EVE), finish()])
    assert asked(project) == 1 and "remember" not in person.shown[0] and told(ran) == [("user", "once")]
    project.policy(NONE + "rules: [{tool: send, verdict: deny, why: never}]")
    assert project.run([reply(TO_EVE), finish()]).codes() == ["DENIED"]


class Editing(Person):
    """Somebody who changes a tool while the model waits for an answer."""

    def question(self, question: str, options: Sequence[str], elsewhere: Any, asker: str) -> str | None:
        path = Path(question)
        path.write_text(path.read_text() + "echo worse >> sent\n")
        return "go on"


@pytest.mark.parametrize("word", ["run", "always"])
def test_A26_a_changed_tool_voids_it_and_asks_with_a_diff(project: Caged, word: str) -> None:
    person = project.person = Editing([Said("allow", grant=word), Said("deny")])  # type: ignore[arg-type]
    edit = reply({"ask": str(project.path / "bin" / "send")})
    ran = project.run([reply(TO_EVE), edit, reply(TO_EVE), finish()])
    assert (asked(project), sent(project)) == (2, ["eve@y.io"]), ran.codes()
    diff = person.shown[1]["diff"]
    assert "is void: the tool changed" in diff[0]
    assert "+echo worse >> sent" in diff and not any(line.startswith("-") for line in diff)


def test_it_holds_in_this_workspace_alone(project: Caged, tmp_path: Path) -> None:
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    grant = ledger(project).grants()[0]
    file = ledger(project).file
    file.write_text(json.dumps(json.loads(file.read_text()) | {"cwd": str(tmp_path / "other")}) + "\n")
    says(project, "once")
    project.run([reply(TO_EVE), finish()])
    assert asked(project) == 1 and grant.cwd == str(project.path)


def test_h_is_this_host_for_this_tool_with_any_other_argument(project: Caged) -> None:
    person = says(project, "host", "n")
    urls = ["https://a.io/x", "https://a.io/y?z=1", "https://a.io:8443/x", "https://b.io/x"]
    ran = project.run([*(reply(call("fetch", "--url", url, "--page", "2")) for url in urls), finish()])
    assert person.shown[0]["remember"] == ["run", "always", "host"] and person.shown[0]["hosts"] == ["a.io:443"]
    assert sent(project, "fetched") == urls[:2] and asked(project) == 3
    assert [kept for _, kept in told(ran)] == ["host", "host"]
    assert ledger(project).grants()[0].hosts == ("a.io:443",)


def test_h_is_offered_for_networked_reads_alone(project: Caged) -> None:
    person = says(project, "host")
    ran = project.run([reply(TO_EVE), finish()])
    assert person.shown[0]["remember"] == ["run", "always"] and told(ran) == [("user", "once")]
    project.policy(NONE + "network: {hosts: {fetch: any}}")
    person = says(project, "host")
    project.run([reply(call("fetch", "--url", "https://a.io/x")), finish()])
    assert person.shown[0]["remember"] == ["run", "always"], "any host is no host"


def test_of_several_questions_a_remembered_yes_answers_the_rest_that_it_is_about(project: Caged) -> None:
    says(project, "host", "n")
    wanted = [call("fetch", "--url", url) for url in ("https://a.io/1", "https://b.io/", "https://a.io/2")]
    ran = project.run([reply(*wanted), finish()])
    assert asked(project) == 2 and sorted(sent(project, "fetched")) == ["https://a.io/1", "https://a.io/2"]
    assert ran.stop.name == "passed"


def test_a_word_from_another_process_is_remembered_too(project: Caged) -> None:
    ran = project.run([reply(TO_EVE), reply(TO_EVE), finish()])
    project.say(ran.folder, "approve", 1, grant="run")
    more = project.resume(ran.folder)
    assert (more.stop.name, sent(project)) == ("passed", ["eve@y.io"] * 2)
    assert [kept for _, kept in told(more)] == ["run", "run"] and told(more)[1][0] == "grant:#1"


def test_a_resume_uses_what_was_remembered_elsewhere(project: Caged) -> None:
    parked = project.run([reply(TO_EVE), finish()])
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    project.person = None
    more = project.resume(parked.folder)
    assert (more.stop.name, [kept for _, kept in told(more)]) == ("passed", ["always"])


def test_a_fork_inherits_no_yes_for_the_run(project: Caged) -> None:
    says(project, "run")
    ran = project.run(twice())
    assert [kept for _, kept in told(ran)] == ["run", "run"]
    person, source = says(project, "once"), read_source(ran.folder)
    more = project.resume(fork(project.world(), source, point(source, ran.of("tool.end")[0]["seq"])))
    assert len(person.shown) == 1, (more.stop, more.codes())
    assert told(more)[-1] == ("user", "once")


def test_what_is_taken_back_before_the_start_is_not_started(project: Caged) -> None:
    """The grant is gone between the verdict and the start."""
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    project.person = None
    held = ledger(project)
    project.facts["ledger"] = Forgetful(held)
    ran = project.run([reply(TO_EVE), finish()])
    assert (ran.stop.name, ran.spawned, ran.codes()) == ("needs-approval", [], ["allow", "ask"])
    assert any("is there no more" in note for note in ran.notes())


class Forgetful(Ledger):
    """A real record that somebody empties as soon as it was read once for a verdict."""

    def __init__(self, held: Ledger) -> None:
        super().__init__(held.state, held._home, held._workspace, IO())

    def grants(self) -> tuple[Any, ...]:
        found = super().grants()
        self.file.unlink(missing_ok=True)
        return found


def test_a_yes_that_was_not_used_for_a_day_is_void(project: Caged) -> None:
    """Its `tool.start` never came: the process died right after the word, and nobody went on until two days later."""
    says(project, "once")
    ran = project.run([reply(TO_EVE), finish()])
    lines = (ran.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if b'"kind":"decide"' in line)
    (ran.folder / "events.jsonl").write_bytes(b"".join(lines[: last + 1]))
    shutil.rmtree(ran.folder / "ops")
    (project.path / "sent").unlink()
    project.person = None
    project.clock.pass_(2 * DAY)  # type: ignore[attr-defined]
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("needs-approval", [])
    assert any("more than 24 hours old" in note for note in more.notes())


def test_a_word_that_lay_in_the_inbox_for_days_is_void(project: Caged) -> None:
    ran = project.run([reply(TO_EVE), finish()])
    project.say(ran.folder, "approve", 1, at=project.clock.wall())
    project.clock.pass_(2 * DAY)  # type: ignore[attr-defined]
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("needs-approval", [])


@pytest.mark.parametrize("spoil", ["mode", "folder", "damage", "inside"])
def test_a_record_that_others_could_have_written_is_not_used(project: Caged, spoil: str) -> None:
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    file = ledger(project).file
    held = ledger(project)
    if spoil == "mode":
        file.chmod(0o644)
    elif spoil == "folder":
        file.parent.chmod(0o755)
    elif spoil == "damage":
        file.write_text('{"id": "g-1"}\n')
    else:
        inside = project.path / ".state"
        file.parent.rename(inside)
        held = Ledger(inside, project.home, project.path, IO())
    with pytest.raises(HarnessError) as failed:
        held.grants()
    assert failed.value.fix and failed.value.exit_code == 2


def test_what_cannot_be_kept_is_a_yes_for_once(project: Caged) -> None:
    says(project, "always")
    state = ledger(project).state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state / "grants").write_text("a file where a folder should be")
    ran = project.run([reply(TO_EVE), finish()])
    assert told(ran) == [("user", "once")] and sent(project) == ["eve@y.io"]


def test_a_record_can_be_taken_back_by_the_beginning_of_its_id(project: Caged) -> None:
    says(project, "always")
    project.run([reply(TO_EVE), finish()])
    held = ledger(project)
    name = held.grants()[0].id
    for wrong in ("g-zz", "", "g-"):
        with pytest.raises(HarnessError):
            held.drop(wrong)
    assert held.drop(name[:5]).id == name and held.grants() == () and not list(held.copies.iterdir())


@pytest.mark.parametrize("edited", [False, True])
def test_a_read_that_the_policy_asked_about_and_allows_by_now_runs(project: Caged, edited: bool) -> None:
    """What its question was bound to is no more; it is bound anew, and not judged for ever."""
    project.policy(f"{NONE}rules: [{{tool: look, verdict: ask}}]")
    ran = project.run([reply(call("look")), finish()])
    assert (ran.stop.name, ran.spawned) == ("needs-approval", [])
    project.policy(NONE)
    if edited:
        project.tool("look", "echo other")
    more = project.resume(ran.folder, accept=edited)
    assert (more.stop.name, more.spawned) == ("passed", ["look"])
    assert len(more.of("decide")) <= 4
