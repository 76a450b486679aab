"""Secrets and plain variables through whole runs: who gets which, how, and what is left. Masking is not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.secrets import PREFIX
from tests.cage_world import NEITHER, NO_BWRAP, Caged, level, make, needs_full, needs_landlock, printed
from tests.loop_world import Person, Ran, Said, call, finish, reply

VALUE = "s3cret-value-of-a-token"
TOKEN = "secrets:\n  TOKEN: {tools: [use], from: %s}"
CHECK = 'test "$TOKEN" = "s3cret-value-of-a-token" && echo right'
CHECK_FILE = """
case "$TOKEN" in "$HOME"/*) echo inside ;; esac
stat -c %a "$TOKEN"
test "$(cat "$TOKEN")" = "s3cret-value-of-a-token" && echo right
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return make(tmp_path, monkeypatch)


def everything(project: Caged) -> bytes:
    files = [path for path in (project.path / ".harness" / "runs").rglob("*") if path.is_file()]
    return b"\n".join(path.read_bytes() for path in files)


@needs_full
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_secret_as_a_variable_reaches_its_tool_at_full_and_no_record(
    project: Caged, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    project.policy(TOKEN % "env")
    project.tool("use", CHECK, f"@meta effect {effect}\n@env TOKEN!  a token")
    ran = project.one("use")
    assert (ran.stop.name, level(ran), printed(ran)) == ("passed", "full", "right\n")
    assert ran.of("tool.start")[0]["data"]["env"] == ["TOKEN"]
    assert VALUE.encode() not in everything(project)


@pytest.mark.parametrize(
    "require",
    ["none", "limits", pytest.param("landlock", marks=needs_landlock), pytest.param("full", marks=needs_full)],
)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_secret_as_a_file_is_gone_afterwards(project: Caged, require: str, effect: str) -> None:
    project.private("secrets/TOKEN", VALUE)
    project.policy(f"sandbox:\n  require: {require}\n{TOKEN % 'file'}")
    project.tool("use", CHECK_FILE, f"@meta effect {effect}\n@env TOKEN! <FILE> a token")
    (project.home / ".config" / "harness" / "secrets").chmod(0o700)
    ran = project.one("use")
    assert printed(ran).split() == ["inside", "600", "right"]
    assert level(ran) == require
    assert not list(ran.folder.rglob(f"{PREFIX}*"))
    assert VALUE.encode() not in everything(project)


@needs_landlock
def test_the_store_cannot_be_read_by_any_tool(project: Caged) -> None:
    path = project.private("secrets/TOKEN", VALUE)
    for name, effect in (("peek", "read"), ("peek-more", "write")):
        project.tool(name, f"cat {path}; exit 0", f"@meta effect {effect}")
    ran = project.calls(call("peek"), call("peek-more"))
    assert [printed(ran, op) for op in (1, 2)] == ["", ""]


@pytest.mark.parametrize(("policy", "name"), [("", "TOKEN!"), (TOKEN % "env", "TOKEN!"), (TOKEN % "env", "TOKEN")])
def test_a_secret_that_must_be_there_and_is_missing_starts_nothing(project: Caged, policy: str, name: str) -> None:
    """What the header requires, or what the person's policy says it gets."""
    project.policy(policy)
    project.tool("use", CHECK, f"@meta effect read\n@env {name}  a token")
    ran = project.one("use")
    assert (ran.codes(), ran.spawned) == (["NEEDS_AUTH"], [])
    assert "use needs TOKEN" in ran.reasons()[0]


def test_a_secret_below_landlock_is_denied(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    project.policy(TOKEN % "env")
    project.machine = NEITHER
    project.tool("use", CHECK, "@meta effect read\n@env TOKEN!  a token")
    ran = project.one("use")
    assert (ran.codes(), ran.spawned) == (["DENIED"], [])


@needs_landlock
def test_a_secret_without_bubblewrap_gets_landlock(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    project.policy(TOKEN % "env")
    project.machine = NO_BWRAP
    project.tool("use", CHECK, "@meta effect read\n@env TOKEN!  a token")
    ran = project.one("use")
    assert (level(ran), printed(ran)) == ("landlock", "right\n")


@needs_full
def test_tools_that_do_not_declare_it_do_not_get_it(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    monkeypatch.setenv("OTHER", "x")
    project.policy(TOKEN % "env")
    project.tool("use", CHECK, "@meta effect read\n@env TOKEN!  a token")
    project.tool("other", 'env; echo "${TOKEN:-none}"', "@meta effect write")
    ran = project.calls(call("use"), call("other"))
    assert "none" in printed(ran, 2) and VALUE not in printed(ran, 2) and "OTHER" not in printed(ran, 2)


def other(project: Caged, monkeypatch: pytest.MonkeyPatch, word: str, mod: str = "!") -> Ran:
    """A call of a tool that declares a secret which the policy gives to another; a person says `word`."""
    monkeypatch.setenv("TOKEN", VALUE)
    project.policy(f"sandbox: {{require: none}}\n{TOKEN % 'env'}")
    project.tool("other", CHECK, f"@meta effect read\n@env TOKEN{mod}  a token")
    project.person = Person([Said(word)]) if word else None
    return project.one("other")


@pytest.mark.parametrize("mod", ["!", ""], ids=["required", "optional"])
def test_a_tool_that_the_policy_does_not_name_asks_and_shows_the_name(
    project: Caged, monkeypatch: pytest.MonkeyPatch, mod: str
) -> None:
    ran = other(project, monkeypatch, "", mod)
    assert (ran.stop.name, ran.spawned, ran.codes()) == ("needs-approval", [], ["ask"])
    assert "TOKEN" in ran.reasons()[0] and ran.of("decide")[0]["data"]["digest"]
    assert VALUE.encode() not in everything(project)


def test_a_yes_hands_it_over_for_this_call_alone(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = other(project, monkeypatch, "allow")
    assert project.person is not None and project.person.shown[0]["secrets"] == ["TOKEN"]
    assert (printed(ran), ran.of("tool.start")[0]["data"]["env"]) == ("right\n", ["TOKEN"])
    assert ran.stop.name == "passed" and VALUE.encode() not in everything(project)


def test_an_approved_stage_gets_the_value_that_its_secret_has_when_it_starts(project: Caged) -> None:
    """A yes is one to the name: a value that was renewed meanwhile is handed over once, and no value is kept."""
    project.policy(f"sandbox: {{require: none}}\n{TOKEN % 'file'}")
    project.private("secrets/TOKEN", "the-value-of-last-week")
    (project.home / ".config" / "harness" / "secrets").chmod(0o700)
    project.tool("use", 'cp "$TOKEN" got; cat "$TOKEN"', "@meta effect external\n@env TOKEN! <FILE> a token")
    project.tool("look", "echo seen", "@meta effect read")
    path = project.stages("line", "a: {run: [look]}\nb: {run: [use], needs: [a]}\nc: {run: [look], needs: [b]}")
    ran = project.pipeline(path)
    assert (ran.stop.name, ran.end["ops"]) == ("needs-approval", [2])
    project.say(ran.folder, "approve")
    project.private("secrets/TOKEN", VALUE)
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("passed", ["use", "look"])
    assert (project.path / "got").read_text() == VALUE
    assert not any(value in everything(project) for value in (VALUE.encode(), b"the-value-of-last-week"))


def test_a_no_starts_nothing(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = other(project, monkeypatch, "deny")
    assert (ran.spawned, ran.codes()) == ([], ["ask", "DENIED"])


def test_a_flag_does_not_hand_it_over(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", VALUE)
    project.policy("sandbox: {require: none}")
    project.tool("other", CHECK, "@meta effect external\n@env TOKEN!  a token")
    assert project.one("other", allow=["other"]).stop.name == "needs-approval"


@pytest.mark.parametrize("effect", ["read", pytest.param("write", marks=needs_full)])
def test_a_plain_variable_is_passed_by_policy_and_its_path_can_be_read(
    project: Caged, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    kube = project.home / "kube.conf"
    kube.write_text("a cluster")
    monkeypatch.setenv("KUBECONFIG", str(kube))
    monkeypatch.setenv("PROFILE", "work")
    project.policy("env:\n  use: [KUBECONFIG, PROFILE]")
    body = 'echo "$PROFILE"; cat "$KUBECONFIG"; cat "${1#at:}"; exit 0'
    for name in ("use", "other"):
        project.tool(name, body, f"@meta effect {effect}\n@arg path!  which")
    ran = project.calls(call("use", str(kube)), call("other", f"at:{kube}"), call("other", str(kube)))
    assert printed(ran, 1).split("\n", 1) == ["work", "a clustera cluster"]
    assert ran.of("tool.start")[0]["data"]["env"] == ["KUBECONFIG", "PROFILE"]
    assert printed(ran, 2).strip() == ""
    assert ran.codes() == ["allow", "allow", "DENIED"]  # what a word says is refused before the kernel is asked


@needs_full
def test_a_secret_that_cannot_be_handed_over_starts_nothing(project: Caged) -> None:
    path = project.private("secrets/TOKEN", VALUE)
    project.policy(TOKEN % "file")
    project.tool("use", CHECK, "@meta effect read\n@env TOKEN!  a token")
    path.chmod(0o644)
    project.skill(tools="use")
    ran = project.run([reply(call("use")), finish()])
    assert (ran.spawned, ran.codes()) == ([], ["NEEDS_AUTH"])
    assert "chmod 600" in ran.reasons()[0] and VALUE.encode() not in everything(project)
