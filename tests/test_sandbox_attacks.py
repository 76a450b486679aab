"""Attacks on confinement, each performed for real at every level where its outcome is promised, as every user here."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import fields, replace
from pathlib import Path

import pytest
from acts import NETWORK, TRY
from caged import Place, lacking

from harness.executor import environment
from harness.sandbox import Machine, choose, probe, protect
from harness.sandbox.facts import facts

HERE = facts()


def level(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.skipif(bool(lacking(name)), reason=lacking(name)))


WALLS = pytest.mark.parametrize("level", [level("landlock"), level("full")])
EVERY = pytest.mark.parametrize("level", [level(name) for name in ("none", "limits", "landlock", "full")])


CHAINED = ["log; touch PWNED", "log && touch PWNED", "log | touch PWNED", "log & touch PWNED", "log\ntouch PWNED"]
SUBSTITUTED = ["$(touch PWNED)", "`touch PWNED`", "<(touch PWNED)", "${x@P}", "$HOME", "~", "*"]


@EVERY
@pytest.mark.parametrize("values", [CHAINED, SUBSTITUTED], ids=["A01_chained", "A02_substituted"])
def test_A01_A02_an_argument_arrives_byte_for_byte(anyone: Place, level: str, values: list[str]) -> None:
    done = anyone.python(level, "import json, sys; print(json.dumps(sys.argv[1:]))", *values)
    assert done.json() == values
    assert not list(anyone.workspace.rglob("PWNED"))


@EVERY
def test_A08_a_look_alike_in_the_workspace_is_not_found(anyone: Place, level: str) -> None:
    for fake in (anyone.workspace / "cat", anyone.workspace / "bin" / "cat"):
        fake.write_text("#!/bin/sh\necho fake\n")
        fake.chmod(0o755)
    (anyone.workspace / "note").write_text("real")
    out = anyone.scratch
    path = environment(op_id="t/1", run=out, out=out, depth=0, passed={}, skill=None)["PATH"]
    assert all(part.startswith("/") and not part.startswith(str(anyone.workspace)) for part in path.split(":"))
    assert anyone.run(level, ["/bin/sh", "-c", f"PATH={path}; cat note"]).out == "real"


@WALLS
def test_A14_a_symlink_to_a_key_leads_nowhere(here: Place, level: str) -> None:
    (here.workspace / "link").symlink_to(here.secret)
    (here.workspace / "folder").symlink_to(here.outside)
    script = TRY + "print(json.dumps([tried(lambda: open(path).read()) for path in sys.argv[1:]]))"
    for writable in (False, True):
        done = here.python(level, script, "link", "folder/secret", here.secret, writable=writable)
        assert all(done.json()), done.out


SWAP = """
import os, sys, threading
secret, over = sys.argv[1], False
def flip():
    while not over:
        open("real", "w").write("fine")
        os.replace("real", "f")
        os.symlink(secret, "link")
        os.replace("link", "f")
thread = threading.Thread(target=flip)
thread.start()
fine = stolen = tries = 0
while tries < 10000 or not fine:
    tries += 1
    try:
        text = open("f").read()
        stolen += "secret" in text
        fine += "fine" in text
    except OSError:
        pass
over = True
thread.join()
print([stolen, int(fine > 0)])
"""


@WALLS
def test_A16_a_symlink_swapped_in_flight_is_never_read_through(here: Place, level: str) -> None:
    assert here.python(level, SWAP, here.secret).json() == [0, 1]


@WALLS
def test_A17_nothing_is_linked_or_renamed_across_the_boundary(here: Place, level: str) -> None:
    script = TRY + """
secret, outside = sys.argv[1:]
open("mine", "w").write("x")
print(json.dumps([
    tried(lambda: os.link(secret, "linked")),
    tried(lambda: os.rename(secret, "renamed")),
    tried(lambda: os.rename("mine", outside + "/planted")),
    tried(lambda: os.link("mine", outside + "/planted")),
]))
"""
    done = here.python(level, script, here.secret, here.outside)
    assert all(done.json()), done.out
    assert here.secret.read_text() == "the secret"
    assert not (here.outside / "planted").exists()


METADATA = TRY + """
path = sys.argv[1]
print(json.dumps([tried(lambda: os.chmod(path, 0o777)), tried(lambda: os.utime(path, (1, 1))),
                  tried(lambda: os.setxattr(path, "user.x", b"1"))]))
"""


@pytest.mark.parametrize("level", [level("full")])
def test_A19_metadata_outside_cannot_be_changed_at_full(here: Place, level: str) -> None:
    before = here.secret.stat()
    assert all(here.python(level, METADATA, here.secret).json())
    assert (here.secret.stat().st_mode, here.secret.stat().st_mtime) == (before.st_mode, before.st_mtime)


@pytest.mark.skipif(bool(lacking("landlock")), reason=lacking("landlock"))
def test_A19_that_it_can_be_at_landlock_is_said(tmp_path: Path) -> None:
    machine = probe.test_machine(HERE, tmp_path, ["landlock"])
    assert any("chmod" in gap and "landlock" in gap for gap in machine.gaps)


def repository(here: Place) -> Path:
    git = here.workspace / ".git"
    (git / "hooks").mkdir(parents=True)
    (git / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 0\n")
    (git / "config").write_text("[core]\n")
    return git


PLANT = """
import os
open(".git/hooks/pre-commit", "w").write("evil")
"""
PLANT_MORE = """
import os
for path in (".git/hooks/post-checkout", ".git/config"):
    try:
        open(path, "a").write("evil")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("level", [level("full")])
def test_A20_a_git_hook_is_refused_at_full(here: Place, level: str) -> None:
    git = repository(here)
    assert "Read-only" in here.python(level, PLANT, protect=[git], guard=True).err
    done = here.python(level, PLANT_MORE, protect=[git], guard=True)
    assert (done.out.count("Read-only"), done.changes) == (2, {})
    assert (git / "config").read_text() == "[core]\n"


@pytest.mark.parametrize("level", [level("landlock"), level("limits"), level("none")])
def test_A20_a_git_hook_is_put_back_elsewhere(here: Place, level: str) -> None:
    git = repository(here)
    done = here.python(level, PLANT + PLANT_MORE, guard=True)
    assert done.changes == {
        str(git / "hooks" / "pre-commit"): ["changed", True],
        str(git / "hooks" / "post-checkout"): ["created", True],
        str(git / "config"): ["changed", True],
    }
    assert (git / "hooks" / "pre-commit").read_text() == "#!/bin/sh\nexit 0\n"
    assert [path.name for path in (git / "hooks").iterdir()] == ["pre-commit"]
    assert (git / "config").read_text() == "[core]\n"


@EVERY
def test_A21_a_protected_name_that_was_absent_is_gone_afterwards(here: Place, level: str) -> None:
    script = """
import os
os.mkdir(".harness")
for name in (".harness/policy.yaml", ".envrc", ".Env"):
    open(name, "w").write("evil")
os.makedirs("sub/deep/.claude")
"""
    done = here.python(level, script, guard=True)
    names = (".harness", ".envrc", ".Env", "sub/deep/.claude")
    assert done.changes == {str(here.workspace / name): ["created", True] for name in names}
    assert sorted(path.name for path in here.workspace.iterdir()) == ["bin", "sub"]


EDIT = TRY + """
print(json.dumps({path: tried(lambda: open(path, "a").write("evil")) for path in sys.argv[1:]}))
"""


@WALLS
def test_A27_policy_grants_skills_and_tools_stay_as_they_are(here: Place, level: str) -> None:
    outside = [here.outside / "policy.yaml", here.outside / "grants.jsonl", here.scratch.parent / "events.jsonl"]
    inside = [here.workspace / name for name in ("skills/s/SKILL.md", "bin/tool", ".harness/policy.yaml")]
    for path in (*outside, *inside):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    protected = [here.workspace / name for name in ("skills", "bin", ".harness")]
    done = here.python(level, EDIT, *outside, *inside, protect=protected, guard=True)
    refused = done.json()
    if level == "full":  # outside it may write a private /tmp of its own, where these lie
        assert all(refused[str(path)] for path in inside)
    else:
        assert all(refused[str(path)] for path in outside)
        assert done.changes == {str(path): ["changed", True] for path in inside}
    assert {path.read_text() for path in (*outside, *inside)} == {"as it was"}


def test_A40_nothing_that_an_approval_says_reaches_the_choice_of_the_level() -> None:
    assert {field.name for field in fields(choose.Call)} == {"tool", "effect", "networked", "secret", "trusted"}


def without(**lost: object) -> Machine:
    return probe.test_machine(replace(HERE, **lost), Path("/nonexistent"))  # type: ignore[arg-type]


def test_A41_without_confinement_what_needs_it_is_refused() -> None:
    machine = without(landlock=0, bwrap=None)
    for require in ("landlock", "full"):
        assert isinstance(choose.level_for(choose.Call("t", "read"), machine, require), choose.Refusal)  # type: ignore[arg-type]
    for call in (
        choose.Call("t", "read", secret=True),
        choose.Call("t", "external"),
        choose.Call("t", "read", trusted=False),
    ):
        refusal = choose.level_for(call, machine)
        assert isinstance(refusal, choose.Refusal)
        assert "bubblewrap is not installed" in refusal.why
        assert "sandbox.require" in refusal.fix


@pytest.mark.parametrize("effect", ["read", "write"])
def test_A41_the_others_run_and_say_so(effect: str) -> None:
    machine = without(landlock=0, bwrap=None)
    choice = choose.level_for(choose.Call("t", effect), machine)
    assert isinstance(choice, choose.Choice)
    assert (choice.level, choice.fell) == ("limits", True)
    assert "has no Landlock" in choice.why
    assert choose.summary(machine).startswith("confinement: limits; full: bubblewrap is not installed; landlock: ")
    assert choose.summary(machine, "none") == "confinement: none, as `sandbox.require` says"


READ_ENVIRON = TRY + """
print(json.dumps(tried(lambda: open(f"/proc/{sys.argv[1]}/environ", "rb").read())))
"""


@EVERY
def test_A42_the_environment_of_the_harness_cannot_be_read(here: Place, level: str) -> None:
    if (here.user, level) == ("root", "none"):
        pytest.skip("root without confinement may read every process")
    assert here.python(level, READ_ENVIRON, "{harness}").json()


@WALLS
def test_A42_nor_that_of_another_tool(here: Place, level: str) -> None:
    assert here.python(level, READ_ENVIRON, os.getpid()).json()


@WALLS
def test_A43_no_way_into_any_network(here: Place, level: str) -> None:
    at = str(here.workspace / "agent.sock")
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as path:
        tcp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0{here.outside.name}")
        path.bind(at)
        for server in (tcp, abstract, path):
            server.listen()
        done = here.python(level, NETWORK, tcp.getsockname()[1], here.outside.name, at)
    assert [kind for kind, error in done.json().items() if error is None] == []


def test_A52_what_is_put_aside_lies_in_a_private_folder_of_a_random_name(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    before = protect.snapshot(tmp_path / "workspace", [], tmp_path)
    (tmp_path / "workspace" / ".env").write_text("planted")
    [change] = protect.restore(before)
    assert change.kept is not None
    assert change.kept.read_text() == "planted"
    assert stat.S_IMODE(change.kept.parent.stat().st_mode) == 0o700
    assert change.kept.parent.name.removeprefix("put-back-") not in ("", "put-back")


@EVERY
def test_A52_files_of_a_tool_are_its_users_alone(anyone: Place, level: str) -> None:
    assert anyone.run(level, ["/bin/sh", "-c", "echo x > new; echo x > $HOME/new"]).code == 0
    for folder in (anyone.workspace, anyone.scratch):
        assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o600


