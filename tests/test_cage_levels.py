"""Which level a call gets on which machine under which policy, through whole runs: decided, started, and really so."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.guarding import confinement_notices
from harness.errors import DeniedError
from harness.events.log import follow
from harness.loop.run import Said
from harness.sandbox.facts import Facts
from tests.cage_world import (
    NEITHER,
    NO_BWRAP,
    NO_LANDLOCK,
    Caged,
    last,
    level,
    make,
    needs_both,
    needs_full,
    needs_landlock,
    printed,
)
from tests.loop_world import Person, call, finish, reply

STATUS = "grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/$$/status 2>/dev/null || echo closed; echo $$"
WRITE, SEND = "@meta effect write", "@meta effect external"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    made = make(tmp_path, monkeypatch)
    made.tool("look", STATUS)
    made.tool("save", f"{STATUS}; echo x > saved", WRITE)
    made.tool("send", STATUS, SEND)
    return made


@needs_both
def test_a_read_runs_at_landlock_without_a_shim_and_a_write_at_full_through_it(project: Caged) -> None:
    ran = project.calls(call("look"), call("save"))
    assert (ran.stop.name, level(ran, 0), level(ran, 1)) == ("passed", "landlock", "full")
    decided = {event["op"]: event["data"].get("level") for event in ran.of("decide")}
    assert decided == {1: None, 2: "full"}
    ops = ran.folder / "ops"
    assert not (ops / "1" / "1" / "rc").exists() and (ops / "2" / "1" / "rc").exists()
    assert printed(ran, 1).startswith("closed"), "no /proc/PID at landlock"
    assert "Seccomp:\t2" in printed(ran, 2) and int(printed(ran, 2).split()[-1]) < 50, "a PID namespace of its own"
    assert (project.path / "saved").read_text() == "x\n"


@needs_both
def test_the_start_of_a_run_says_it(project: Caged) -> None:
    ran = project.one("look")
    said = ran.of("run.start")[0]["data"]["confine"]
    assert (said["level"], said["reason"]) == ("full", "confinement: full; plain reads: landlock")
    assert set(said["blocked"]) == set(range(2, 16)) and said["open"] == [1, 16]
    assert project.guard is not None
    assert confinement_notices(project.guard) == ["confinement: full; plain reads: landlock"]


@needs_full
def test_sandbox_full_raises_reads(project: Caged) -> None:
    project.sandbox = "full"
    ran = project.one("look")
    assert level(ran) == "full"
    assert ran.of("run.start")[0]["data"]["confine"]["reason"] == "confinement: full"


@needs_both
@pytest.mark.parametrize("require", ["none", "limits", "landlock", "full"])
def test_a_level_for_require_is_that_of_every_call(project: Caged, require: str) -> None:
    project.policy(f"sandbox:\n  require: {require}")
    ran = project.calls(call("look"), call("save"), call("send"), allow=("send",))
    assert [level(ran, n) for n in range(3)] == [require] * 3
    said = ran.of("run.start")[0]["data"]["confine"]
    assert (said["level"], said["reason"]) == (require, f"confinement: {require}, as `sandbox.require` says")


@pytest.mark.parametrize(
    ("machine", "levels"),
    [
        pytest.param(NO_BWRAP, ["landlock", "landlock", "landlock"], marks=needs_landlock, id="no-bubblewrap"),
        pytest.param(NO_LANDLOCK, ["full", "full", "full"], marks=needs_full, id="no-landlock"),
        pytest.param(NEITHER, ["limits", "limits", "denied"], id="neither"),
    ],
)
def test_on_a_lesser_machine(project: Caged, machine: Facts, levels: list[str]) -> None:
    project.machine = machine
    ran = project.calls(call("look"), call("save"), call("send"), allow=("send",))
    started = {event["op"]: event["data"]["level"] for event in ran.of("tool.start")}
    assert [started.get(op, "denied") for op in (1, 2, 3)] == levels
    reason = ran.of("run.start")[0]["data"]["confine"]["reason"]
    assert ("bubblewrap is not installed" in reason) == (machine.bwrap is None)
    if machine == NEITHER:
        assert ran.codes() == ["allow", "allow", "DENIED"]
        assert "bubblewrap is not installed" in ran.reasons()[2] and "sandbox.require" in ran.reasons()[2]


def test_a_skill_that_requires_what_cannot_run_does_not_start(project: Caged) -> None:
    project.machine = NEITHER
    project.skill(tools="look send", requires="send")
    with pytest.raises(DeniedError) as error:
        project.run([finish()])
    assert error.value.exit_code == 7
    assert "the skill requires send" in error.value.message
    assert not list((project.path / ".harness" / "runs").iterdir())


@pytest.mark.parametrize("require", ["landlock", "full"])
def test_a_machine_that_lacks_what_is_required_runs_nothing(project: Caged, require: str) -> None:
    project.machine = NEITHER
    project.policy(f"sandbox:\n  require: {require}")
    with pytest.raises(DeniedError) as error:
        project.one("look")
    assert error.value.exit_code == 7 and require in error.value.message


@needs_both
def test_a_project_and_a_skill_only_raise(project: Caged) -> None:
    project.file(".harness/policy.yaml", "version: 1\nsandbox:\n  require: full\n")
    assert level(project.one("look")) == "full"


@needs_both
def test_a_skills_own_file_raises(project: Caged) -> None:
    project.file("skills/demo/policy.yaml", "version: 1\nsandbox:\n  require: full\n")
    assert level(project.one("look")) == "full"


@needs_both
@pytest.mark.parametrize("yes", [True, False])
def test_A40_an_approval_never_changes_the_level(project: Caged, yes: bool) -> None:
    """By a person at the terminal, or by a flag."""
    project.tool("send", f"{STATUS}; echo x > {project.home}/escaped; echo x > bin/look", SEND)
    ran = project.one("send", yes=yes, allow=() if yes else ("send",))
    assert level(ran) == "full"
    if yes:
        assert project.person is not None and project.person.shown[0]["level"] == "full"
    assert not (project.home / "escaped").exists()
    assert "Read-only" in ran.text(last(ran)["err"])


@needs_both
def test_A40_nor_one_that_comes_later(project: Caged) -> None:
    ran = project.one("send")
    assert ran.stop.name == "needs-approval"
    project.say(ran.folder, "approve", 1)
    more = project.resume(ran.folder)
    assert (more.stop.name, level(more)) == ("passed", "full")


@needs_both
def test_a_resumed_run_on_a_weaker_machine_asks_again(project: Caged) -> None:
    ran = project.one("send")
    project.say(ran.folder, "approve", 1)
    project.machine = NO_BWRAP
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("needs-approval", [])
    assert [event["data"].get("level") for event in more.of("decide")][-1] == "landlock"
    assert more.of("resume")[-1]["data"]["confine"]["level"] == "landlock"
    project.say(ran.folder, "approve", 1)
    last_ = project.resume(ran.folder)
    assert (last_.stop.name, level(last_)) == ("passed", "landlock")


@needs_both
def test_a_resumed_run_on_a_machine_that_gives_nothing_is_denied(project: Caged) -> None:
    ran = project.one("send")
    project.say(ran.folder, "approve", 1)
    project.machine = NEITHER
    more = project.resume(ran.folder)
    assert (more.spawned, more.codes()[-1]) == ([], "DENIED")
    assert "bubblewrap is not installed" in more.reasons()[-1]


def test_A41_without_confinement_it_goes_on_only_with_what_needs_none_and_says_so(project: Caged) -> None:
    project.machine = NEITHER
    ran = project.calls(call("look"), call("send"), allow=("send",))
    assert ran.ends() == [("look", "OK")]
    confine = ran.of("run.start")[0]["data"]["confine"]
    assert confine["level"] == "limits"
    assert confine["reason"].startswith("confinement: limits; full: bubblewrap is not installed; landlock: ")
    assert project.guard is not None and confine["reason"] in confinement_notices(project.guard)


def test_A41_none_is_shown_where_a_person_is_asked(project: Caged) -> None:
    project.policy("sandbox:\n  require: none")
    project.machine = NEITHER
    ran = project.one("send", yes=True)
    assert project.person is not None and project.person.shown[0]["level"] == "none"
    assert (level(ran), ran.of("run.start")[0]["data"]["confine"]["reason"]) == (
        "none", "confinement: none, as `sandbox.require` says",
    )  # fmt: skip


@pytest.mark.parametrize("effect", ["read", "write"])
def test_unconfined_always_asks(project: Caged, effect: str) -> None:
    project.policy("sandbox:\n  unconfined:\n    gpu: needs the device")
    project.tool("gpu", "echo ran", f"@meta effect {effect}")
    ran = project.one("gpu", allow=("gpu",))
    assert (ran.stop.name, ran.spawned) == ("needs-approval", [])
    assert "without confinement" in ran.reasons()[0]
    project.person = Person([Said("allow")])
    more = project.resume(ran.folder)
    assert (more.stop.name, level(more)) == ("passed", "none")


@needs_both
def test_a_child_run_is_confined_too(project: Caged) -> None:
    project.stages("both", "one: {run: [look]}\ntwo: {run: [save], needs: [one]}")
    project.skill(tools="both")
    ran = project.run([reply(call("both")), finish()])
    assert ran.ends() == [("both", "OK")]
    found = [event["data"]["level"] for event in follow(ran.child()) if event["kind"] == "tool.start"]
    assert found == ["landlock", "full"]
    assert (project.path / "saved").exists()
