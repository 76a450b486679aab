"""What each level gives and leaves: the probe, machines that lack something, ordinary tools that must still work."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from caged import Place, as_user, lacking, place, users

from harness.errors import HarnessError
from harness.policy.names import DRAFTS
from harness.sandbox import Cage, bubblewrap, landlock, names, probe
from harness.sandbox.facts import Facts, facts
from harness.tools.links import links_on

HERE = facts()
USERS = pytest.mark.parametrize("user", users())


def level(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.skipif(bool(lacking(name)), reason=lacking(name)))


WALLS = pytest.mark.parametrize("level", [level("landlock"), level("full")])
NEEDS_LANDLOCK = pytest.mark.skipif(bool(lacking("landlock")), reason=lacking("landlock"))
NEEDS_FULL = pytest.mark.skipif(bool(lacking("full")), reason=lacking("full"))


def enclosed(user: str) -> bool:
    """Whether what the user starts below full has a PID namespace of its own."""
    return user == "root" and HERE.pids


PROBE = """
import tempfile
from dataclasses import replace
from pathlib import Path
from harness.sandbox import probe
from harness.sandbox.facts import facts
with tempfile.TemporaryDirectory() as folder:
    there = replace(facts(), **json.loads(sys.argv[2]))
    machine = probe.test_machine(there, Path(folder), [sys.argv[1]])
    left = os.listdir(folder)
tested = machine.levels[sys.argv[1]]
print(json.dumps([tested.blocked, tested.reason, machine.gaps, left]))
"""


@USERS
@pytest.mark.parametrize(
    ("level", "open_acts"),
    [("limits", {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 15, 16}), ("landlock", {1, 6, 16}), ("full", {1, 16})],
)
def test_all_16_acts_at_a_level(user: str, level: str, open_acts: set[int]) -> None:
    if lacking(level):
        pytest.skip(lacking(level))
    if enclosed(user):
        open_acts = open_acts - {11}  # it has no number for the harness
    blocked, reason, _, left = as_user(user, PROBE, level, "{}")
    assert (set(range(1, 17)) - set(blocked), reason, left) == (open_acts, "", [])


@USERS
def test_without_confinement_only_the_harness_itself_is_safe(user: str) -> None:
    blocked, *_ = as_user(user, PROBE, "none", "{}")
    assert blocked == ([12] if user == "root" else [10, 12, 13])


@NEEDS_LANDLOCK
@USERS
@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_an_older_landlock_counts_with_what_it_leaves_open(user: str, version: int) -> None:
    blocked, reason, gaps, _ = as_user(user, PROBE, "landlock", json.dumps({"landlock": version}))
    assert reason == ""
    assert (11 in blocked) == (version >= 6 or enclosed(user))
    assert any("signal" in gap for gap in gaps) == (11 not in blocked)


@WALLS
def test_without_a_list_of_system_calls_a_level_does_not_count(level: str) -> None:
    blocked, reason, gaps, _ = as_user(users()[-1], PROBE, level, '{"machine": "riscv64"}')
    assert 14 not in blocked
    assert "act 14 (create a user namespace) is not blocked" in reason
    assert "no list of system calls for riscv64: none is refused" in gaps


LINUX = Facts("Linux", "x86_64", 7, Path("/usr/bin/bwrap"), userns=True, mounts=False)


@pytest.mark.parametrize(
    ("there", "level", "reason"),
    [
        (replace(LINUX, landlock=0), "landlock", "has no Landlock"),
        (replace(LINUX, landlock=2), "landlock", "has version 2 of Landlock"),
        (replace(LINUX, bwrap=None), "full", "bubblewrap is not installed"),
        (replace(LINUX, userns=False), "full", "user namespaces are off"),
        (replace(LINUX, system="Darwin"), "full", "not on Darwin"),
        (replace(LINUX, system="Darwin"), "landlock", "not on Darwin"),
        (replace(LINUX, bwrap=Path("/nonexistent/bwrap")), "full", "the self-test did not run"),
        (replace(LINUX, bwrap=Path("/bin/false")), "full", "the self-test did not run"),
    ],
)
def test_what_a_machine_lacks_is_the_reason(tmp_path: Path, there: Facts, level: str, reason: str) -> None:
    machine = probe.test_machine(there, tmp_path, [level])  # type: ignore[list-item]
    assert not machine.gives(level)  # type: ignore[arg-type]
    assert reason in machine.levels[level].reason  # type: ignore[index]


@pytest.mark.parametrize("act", sorted(set(range(1, 17)) - {6}))
def test_one_act_that_goes_wrong_and_the_level_does_not_count(act: int) -> None:
    good = {number: number not in (1, 16) for number in range(1, 17)}
    assert probe.judged("landlock", LINUX, good | {6: False}).reason == ""
    tested = probe.judged("landlock", LINUX, good | {act: not good[act]})
    assert probe.ACTS[act] in tested.reason


@NEEDS_LANDLOCK
def test_only_the_thread_that_starts_is_confined(tmp_path: Path) -> None:
    cage = Cage("landlock", tmp_path, tmp_path)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    with pytest.raises(PermissionError):
        landlock.spawn(cage, lambda: outside.write_text("confined"))
    assert landlock.spawn(cage, lambda: "value") == "value"
    assert outside.write_text("not confined")
    with pytest.raises(ZeroDivisionError):
        landlock.spawn(cage, lambda: 1 // 0)


@NEEDS_LANDLOCK
def test_nothing_starts_when_confinement_cannot_be_entered(tmp_path: Path) -> None:
    started: list[int] = []
    with pytest.raises(HarnessError, match="confinement could not be entered: no such file") as caught:
        landlock.spawn(Cage("landlock", tmp_path, tmp_path / "absent"), lambda: started.append(1))
    assert (started, caught.value.where) == ([], str(tmp_path / "absent"))
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(HarnessError, match="too many levels of symbolic links"):
        landlock.spawn(Cage("landlock", tmp_path, tmp_path, read=(tmp_path / "link",)), lambda: started.append(1))
    assert started == []


def test_without_bubblewrap_its_words_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="bubblewrap is not installed"):
        bubblewrap.argv(Cage("full", tmp_path, tmp_path), ["/bin/true"], None, replace(LINUX, bwrap=None))


RIGHTS = """
import ctypes, json, os, struct
libc = ctypes.CDLL(None)
data = ctypes.create_string_buffer(24)
libc.capget(ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0)), data)
print(json.dumps([any(data.raw), libc.prctl(39, 0, 0, 0, 0), libc.prctl(21, 0, 0, 0, 0)]))
"""


@pytest.mark.parametrize(("level", "privileges"), [("limits", [0, 0]), ("landlock", [1, 2]), ("full", [1, 2])])
def test_no_capability_is_left_even_to_root(here: Place, level: str, privileges: list[int]) -> None:
    if lacking(level):
        pytest.skip(lacking(level))
    assert here.python(level, RIGHTS).json() == [False, *privileges]


DESCRIPTORS = """
import os
def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False
print([fd for fd in range(1024) if is_open(fd)])
"""


@pytest.mark.parametrize("level", ["none", "limits", level("landlock"), level("full")])
def test_no_descriptor_is_inherited_but_the_three(here: Place, level: str) -> None:
    assert here.python(level, DESCRIPTORS).json() == [0, 1, 2]


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(0), os.close(1), os.close(2)
        time.sleep(0.2)
        for path in sys.argv[1:]:
            try:
                open(path, "w").write("escaped")
            except OSError:
                pass
    os._exit(0)
"""


@WALLS
def test_a_double_fork_stays_confined(here: Place, level: str) -> None:
    outside = here.outside / "escaped"
    inside = here.scratch / "still-here"
    here.python(level, DAEMON, outside, inside)
    lives_on = level == "landlock" and not enclosed(here.user)  # elsewhere it ends with the call
    until = time.monotonic() + (5 if lives_on else 0.5)
    while not inside.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not outside.exists()
    assert inside.exists() == lives_on


@WALLS
def test_a_read_call_writes_to_its_scratch_alone(here: Place, level: str) -> None:
    (here.workspace / "file").write_text("text")
    script = "cat file; echo x > $HOME/new; echo x > file; echo x > new; rm file; mkdir d; mv bin b; ln file f"
    done = here.run(level, ["/bin/sh", "-c", script], writable=False)
    assert done.out == "text"
    assert sorted(path.name for path in here.workspace.iterdir()) == ["bin", "file"]
    assert (here.workspace / "file").read_text() == "text"
    assert (here.scratch / "new").exists()


@WALLS
def test_hidden_names_are_not_read_by_a_read_call(here: Place, level: str) -> None:
    deep = here.workspace / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "fine").write_text("fine")
    for path in (here.workspace / ".env", deep / "id_rsa", deep / "server.key"):
        path.write_text("hidden")
    hide = names.find(here.workspace, []).hide
    assert len(hide) == 3
    script = "ls -A . a/b > /dev/null && cat a/b/fine; cat .env a/b/id_rsa a/b/server.key"
    assert here.run(level, ["/bin/sh", "-c", script], writable=False, hide=hide).out == "fine"


@NEEDS_FULL
def test_hidden_names_are_not_read_by_a_write_call_at_full(here: Place) -> None:
    (here.workspace / ".env").write_text("hidden")
    (here.workspace / "runs").mkdir()
    (here.workspace / "runs" / "log").write_text("hidden")
    hide = [here.workspace / ".env", here.workspace / "runs"]
    script = "cat .env runs/log; echo x > .env; rm -rf .env runs; echo x > runs/new; chmod 777 runs; echo done"
    assert here.run("full", ["/bin/sh", "-c", script], hide=hide).out == "done\n"
    assert (here.workspace / ".env").read_text() == "hidden"
    assert [path.name for path in (here.workspace / "runs").iterdir()] == ["log"]


@WALLS
def test_a_runs_scratch_lies_below_hidden_runs(anyone: Place, level: str) -> None:
    runs = anyone.workspace / ".harness" / "runs"
    scratch = runs / "mine" / "ops" / "1" / "1" / "work"
    other = runs / "other"
    for folder in (scratch, other):
        folder.mkdir(parents=True)
    (other / "events.jsonl").write_text("hidden")
    cage = {"hide": [runs], "protect": [anyone.workspace / ".harness"], "scratch": scratch, "writable": False}
    script = f"echo fine > {scratch}/new && cat {scratch}/new; cat .harness/runs/other/events.jsonl"
    assert anyone.run(level, ["/bin/sh", "-c", script], **cage).out == "fine\n"


@WALLS
def test_drafts_are_written_below_a_protected_name(anyone: Place, level: str) -> None:
    drafts = anyone.workspace.joinpath(*DRAFTS)
    drafts.mkdir(parents=True)
    cage = {"protect": [anyone.workspace / ".harness"], "write": [drafts], "guard": True}
    done = anyone.run(level, ["/bin/sh", "-c", "echo x > .harness/drafts/new; echo y > .harness/evil"], **cage)
    assert (drafts / "new").exists()
    assert not (anyone.workspace / ".harness" / "evil").exists()
    assert done.changes.keys() == (set() if level == "full" else {str(anyone.workspace / ".harness" / "evil")})


@NEEDS_FULL
def test_nothing_is_left_behind_on_the_host(here: Place) -> None:
    (here.workspace / ".git").mkdir()
    here.own()
    before = sorted(here.outside.rglob("*"))
    script = "echo x > /tmp/mine; echo x > /dev/shm/mine; mkdir -p ../../other; true"
    assert here.run("full", ["/bin/sh", "-c", script], protect=[here.workspace / ".git"]).code == 0
    assert sorted(here.outside.rglob("*")) == before
    assert not Path("/tmp/mine").exists()
    assert not Path("/dev/shm/mine").exists()


@WALLS
def test_a_tool_outside_the_workspace_runs_when_it_is_named(anyone: Place, level: str) -> None:
    tool = anyone.outside / "elsewhere" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho \"$1\"\n")
    tool.chmod(0o755)
    assert anyone.run(level, [str(tool), "fine"], read=[tool]).out == "fine\n"
    assert anyone.run(level, ["/bin/sh", "-c", str(tool)]).code in (126, 127)


@WALLS
def test_python_finds_what_it_needs(anyone: Place, level: str) -> None:
    script = """
import ssl, ctypes, hashlib, json, locale, mimetypes, pwd, subprocess, tempfile, threading, time, zlib
mimetypes.init()
time.tzset()
pwd.getpwuid(0)
tempfile.TemporaryFile(dir=".").close()
thread = threading.Thread(target=len, args=("x",)); thread.start(); thread.join()
print(json.dumps([subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode, open("/dev/urandom", "rb").read(2) != b""]))
"""
    assert anyone.python(level, script).json() == [3, True]


@WALLS
def test_of_proc_and_dev_only_what_is_harmless(here: Place, level: str) -> None:
    script = "cat /proc/cpuinfo /proc/meminfo /proc/stat /proc/loadavg /proc/version > /dev/null && echo fine"
    assert here.run(level, ["/bin/sh", "-c", script]).out == "fine\n"
    if level == "landlock":
        assert here.run(level, ["/bin/cat", "/proc/self/status"]).code == 1
    assert here.run(level, ["/bin/sh", "-c", "cat /dev/mem /dev/vda /dev/sda /dev/kmsg"]).out == ""


@WALLS
def test_a_linked_work_tree_can_be_read(anyone: Place, level: str) -> None:
    main = anyone.outside / "main"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@x.io", "-C", str(main)]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    tree = anyone.outside / "tree"
    subprocess.run([*git, "worktree", "add", "-q", str(tree)], check=True, stderr=subprocess.DEVNULL)
    found = names.git_folders(tree)
    assert found == (main / ".git" / "worktrees" / "tree", main / ".git")
    cage = {"workspace": tree, "read": found, "protect": [tree / ".git"]}
    done = anyone.run(level, ["/usr/bin/git", "log", "--format=%s"], **cage)
    assert (done.out, done.err) == ("first\n", "")
    assert anyone.run(level, ["/usr/bin/git", "commit", "--allow-empty", "-m", "x"], **cage).code != 0


def test_a_git_file_that_points_at_another_place_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /etc\n")
    assert names.git_folders(tmp_path) == ()
    (tmp_path / ".git").unlink()
    assert names.git_folders(tmp_path) == ()


@WALLS
def test_a_workspace_below_home(level: str) -> None:
    home = "/home" if os.access("/home", os.W_OK) else str(Path.home())
    with place(users()[0], home) as made:
        (made.workspace / "file").write_text("fine")
        assert made.run(level, ["/bin/cat", str(made.workspace / "file")]).out == "fine"
        assert str(made.outside.name) not in made.run(level, ["/bin/ls", home]).out or level == "full"


@NEEDS_FULL
@pytest.mark.parametrize("workspace", ["/etc", "/usr/share", None])
def test_files_of_the_system_are_copied_into_the_cage_and_never_written(here: Place, workspace: str | None) -> None:
    before = Path("/etc/passwd").stat(), Path("/etc/passwd").read_text()
    top = Path(workspace) if workspace else here.workspace
    done = here.run("full", ["/bin/sh", "-c", "cat /etc/passwd; echo x > /etc/passwd"], workspace=top, writable=False)
    assert done.out == before[1]
    assert done.code != 0
    after = Path("/etc/passwd")
    assert (after.stat().st_mtime_ns, after.read_text()) == (before[0].st_mtime_ns, before[1])


@NEEDS_FULL
def test_a_workspace_of_everything_has_its_own_processes_and_devices(here: Place) -> None:
    script = "ls /proc | grep -c '^[0-9]*$'; cat /proc/{harness}/environ; touch /dev/null/x /proc/x"
    done = here.run("full", ["/bin/sh", "-c", script], workspace=Path("/"), writable=False)
    assert int(done.out) < 10


def test_every_link_on_the_way_to_the_system_is_known(tmp_path: Path) -> None:
    (tmp_path / "real" / "bin").mkdir(parents=True)
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "bin" / "python").symlink_to("python3")
    assert links_on(tmp_path / "first" / "bin" / "python") == {
        tmp_path / "first": "second",
        tmp_path / "second": str(tmp_path / "real"),
        tmp_path / "real" / "bin" / "python": "python3",
    }


@WALLS
def test_network_host_is_the_hosts(anyone: Place, level: str) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        script = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5); print(1)"
        assert anyone.python(level, script, server.getsockname()[1], network="host").json() == 1


@NEEDS_FULL
def test_with_the_proxy_only_its_socket_is_there(anyone: Place) -> None:
    at = anyone.outside / "proxy.sock"
    with socket.socket(socket.AF_UNIX) as proxy, socket.socket() as server:
        proxy.bind(str(at))
        proxy.listen()
        server.bind(("127.0.0.1", 0))
        server.listen()
        script = """
import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 5)
except ConnectionRefusedError:
    print(1)
"""
        port = server.getsockname()[1]
        assert anyone.python("full", script, at, port, network="proxy", proxy=str(at)).json() == 1
