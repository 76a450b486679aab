"""Whether a run may be gone on with here and now: its time, its host, the file system it lies on, old formats."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.events.clock import Clock
from harness.events.io import IO
from harness.events.line import at_text, lifted, parse, with_data
from harness.events.log import open_log
from harness.loop import ending
from harness.loop.run import Run, World
from harness.loop.toolset import Toolset
from harness.runs.where import check_place, file_system, refused
from tests.command import events, harness, home_of, newest
from tests.loop_world import CountingIO, Project, Ran, call, reply
from tests.loop_world import finish as finished
from tests.run_files import calls, finish, make_project, script


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def waiting(project: Path, until: float) -> Path:
    """A run that waits for a time, parked by the loop's own `park`."""
    model = script(project, {"fail": {"reason": "unavailable"}, "repeat": 5}, finish("at last"), name=f"{until}.yaml")
    assert harness("run", "work", "x", "-m", model, cwd=project).returncode == 75
    run = newest(project)
    log = open_log(run, IO(), Clock())
    world = World(IO(), Clock(), Project(project).cancel, seals=home_of(project) / ".local/state/harness/logs")
    opened = Run(log, world, Toolset({}), project)
    opened.append("resume", {**events(run)[0]["data"], "by": "user", "changes": [], "lost_s": 0})
    ending.park(opened, "waiting", [], "later", until=until)
    log.close()
    return run


def test_a_park_says_until_when_in_the_words_of_at(project: Path) -> None:
    run = waiting(project, 4_000_000_000.5)
    data = events(run)[-1]["data"]
    assert list(data) == ["stop", "exit", "ops", "until", "hint"] and data["until"] == "2096-10-02T07:06:40.500Z"


def test_before_its_time_a_run_is_not_resumed_but_with_now(project: Path) -> None:
    run = waiting(project, time.time() + 3600)
    size = (run / "events.jsonl").stat().st_size
    done = harness("resume", run.name, cwd=project)
    assert done.returncode == 75 and events(run)[-1]["data"]["until"] in done.stderr and "--now" in done.stderr
    assert (run / "events.jsonl").stat().st_size == size
    done = harness("resume", run.name, "--now", cwd=project)
    assert (done.returncode, done.stdout) == (0, "at last\n")


def test_wake_resumes_what_is_due_and_nothing_else(project: Path) -> None:
    later, due = waiting(project, time.time() + 3600), waiting(project, time.time() - 1)
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("x")), cwd=project)
    person = newest(project)
    harness("run", "work", "x", "--agent", cwd=project)
    timeless = newest(project)
    dry = harness("runs", "wake", "-n", cwd=project)
    assert (dry.returncode, dry.stdout) == (0, f"{due.name}\n") and events(due)[-1]["kind"] == "park"
    done = harness("runs", "wake", "--json", cwd=project)
    assert json.loads(done.stdout) == {"runs": [{"run": due.name, "stop": "passed", "code": 0}]}
    assert all(events(run)[-1]["kind"] == "park" for run in (later, person, timeless))
    again = harness("runs", "wake", cwd=project)
    assert (again.returncode, again.stdout) == (0, "") and "no waiting run is due" in again.stderr


def test_wake_goes_on_after_a_run_that_cannot_be_resumed(project: Path) -> None:
    broken, due = waiting(project, time.time() - 9), waiting(project, time.time() - 1)
    on_host(broken, "elsewhere", project)
    done = harness("runs", "wake", cwd=project)
    assert done.returncode == 2 and due.name in done.stdout and "elsewhere" in done.stderr
    assert events(due)[-1]["data"]["stop"] == "passed"


def on_host(run: Path, host: str, project: Path) -> None:
    """The run as another host would have left it."""
    lines = []
    for line in (run / "events.jsonl").read_bytes().splitlines():
        event = parse(line)
        data: dict[str, Any] = event["data"]
        lines.append(with_data(event, {**data, "host": host} if "host" in data else data))
    (run / "events.jsonl").write_bytes(b"".join(lines))
    shutil.rmtree(home_of(project) / ".local/state/harness/logs")


def test_a_run_of_another_host_goes_on_only_once_a_person_says_it_moved(project: Path) -> None:
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("done")), cwd=project)
    run = newest(project)
    on_host(run, "elsewhere", project)
    for command in (["resume", run.name], ["stop", run.name]):
        done = harness(*command, cwd=project)
        assert done.returncode == 2 and "elsewhere" in done.stderr and "--moved" in done.stderr
    assert events(run)[-1]["kind"] == "park"
    assert harness("resume", run.name, "--moved", cwd=project).returncode == 5
    assert events(run, "resume")[-1]["data"]["host"] != "elsewhere"
    assert harness("resume", run.name, cwd=project).returncode == 5


BITS = [("model", {"ref": "scripted:script.yaml", "source": "-m"}), ("cwd", None), ("inputs", [])]


@pytest.mark.parametrize(("key", "value"), BITS)
def test_a_journal_that_was_made_by_hand_is_refused_in_one_line(project: Path, key: str, value: Any) -> None:
    harness("run", "work", "x", "-m", script(project, calls(["act"]), finish("done")), cwd=project)
    run = newest(project)
    lines = (run / "events.jsonl").read_bytes().splitlines()
    event = parse(lines[0])
    rest = [with_data(parse(line), parse(line)["data"]) for line in lines[1:]]
    (run / "events.jsonl").write_bytes(b"".join([with_data(event, {**event["data"], key: value}), *rest]))
    shutil.rmtree(home_of(project) / ".local/state/harness/logs")
    for words in (["resume", run.name], ["show", run.name, "--prompt", "1"], ["approve", run.name, "1", "--resume"]):
        done = harness(*words, cwd=project)
        said = done.stderr.splitlines()
        assert done.returncode in (3, 5) and "send the report" not in done.stderr, done.stderr
        assert words[0] == "approve" or (done.returncode == 3 and f"first line has no {key}" in said[0]), done.stderr
    assert harness("show", run.name, cwd=project).returncode == 0


MOUNTS = r"""22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:40 / /net rw,relatime shared:5 - nfs4 server:/x rw
41 40 0:41 / /net/local rw - xfs /dev/sdb rw
42 27 0:42 / /home/me/my\040cloud rw - fuse.sshfs me@host: rw
43 27 0:43 / /over rw - ext4 /dev/a rw
44 27 0:44 / /over rw - cifs //server/share rw
45 27 0:45 / /vm rw - virtiofs share rw
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/home/me", "ext4"), ("/net/a/b", "nfs4"), ("/net", "nfs4"), ("/network", "ext4"), ("/net/local/x", "xfs"),
     ("/home/me/my cloud/p", "fuse.sshfs"), ("/over/x", "cifs"), ("/vm", "virtiofs"), ("/proc/x", "proc")],
)  # fmt: skip
def test_a_path_is_on_the_deepest_mount_above_it(path: str, kind: str) -> None:
    assert file_system(MOUNTS, path) == kind
    assert file_system("", path) == ""


def test_network_is_refused_fuse_is_allowed_by_name_the_rest_is_fine() -> None:
    for kind in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "apfs", ""):
        assert refused(kind, ()) is None
    for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre"):
        assert "runs.dir" in (refused(kind, (kind,)) or "")
    for kind in ("fuse", "fuseblk", "fuse.sshfs", "virtiofs"):
        assert f"runs.allow_fs: [{kind}]" in (refused(kind, ("fuse.rclone",)) or "")
        assert refused(kind, (kind,)) is None


def test_case_8_a_folder_on_such_a_mount_is_refused_with_the_fix(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 0:40 / {tmp_path}/far rw - nfs4 server:/x rw\n")
    with pytest.raises(HarnessError, match="nfs4") as wrong:
        check_place(tmp_path / "far" / "not" / "there", (), table)
    assert wrong.value.exit_code == 2 and "runs.dir" in wrong.value.fix
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    with pytest.raises(HarnessError, match="nfs4"):
        check_place(tmp_path / "link" / "runs", (), table)
    check_place(tmp_path / "near", (), table)
    check_place(tmp_path / "far", (), tmp_path / "no table")
    check_place(tmp_path, ())


@pytest.mark.parametrize(("value", "code"), [("[fuse.sshfs, virtiofs]", 0), ("[nfs]", 2), ("fuse", 2)])
def test_only_fuse_may_be_allowed_and_only_by_the_person(project: Path, value: str, code: int) -> None:
    settings = home_of(project) / ".config/harness/config.yaml"
    settings.write_text(f"runs:\n  allow_fs: {value}\n")
    assert harness("runs", cwd=project).returncode == code
    settings.unlink()
    (project / ".harness/config.yaml").write_text("runs:\n  allow_fs: [fuse.sshfs]\n")
    assert "a project may not set runs.allow_fs" in harness("runs", cwd=project).stderr


def test_an_old_line_is_lifted_step_by_step_and_nothing_else_changes() -> None:
    old = {"v": 1, "seq": 3, "epoch": 1, "at": at_text(0), "kind": "note", "data": {"text": "a"}}
    steps = {
        1: lambda event: {**event, "data": {**event["data"], "one": True}},
        2: lambda event: {**event, "data": {**event["data"], "two": event["data"]["one"]}},
    }
    new = lifted(old, steps, 3)
    assert new == {**old, "v": 3, "data": {"text": "a", "one": True, "two": True}}
    assert old["data"] == {"text": "a"} and lifted(old) == old


class Racing(CountingIO):
    """Somebody else is faster: what is given happens right before the first lock is taken."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__()
        self.before: Callable[[], object] | None = before

    def lock(self, fd: int) -> bool:
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().lock(fd)


def asking(path: Path, is_pipeline: bool) -> tuple[Project, Ran]:
    """A run that waits for an approval."""
    made = Project(path)
    made.tool("send", "echo sent", "@meta effect external")
    made.skill(tools="send")
    stages = made.stages("line", "a: {run: [send]}")
    ran = made.pipeline(stages) if is_pipeline else made.run([reply(call("send")), finished()])
    assert ran.stop.name == "needs-approval"
    return made, ran


@pytest.mark.parametrize("is_pipeline", [False, True])
def test_a_run_that_passed_while_a_resume_waited_for_it_is_left_as_it_is(tmp_path: Path, is_pipeline: bool) -> None:
    """I8: each of them had looked at the run before anybody passed it."""
    made, ran = asking(tmp_path, is_pipeline)
    made.say(ran.folder, "approve")
    left: list[dict[str, bytes]] = []

    def passed() -> None:
        made.io = CountingIO()
        assert made.resume(ran.folder).stop.name == "passed"
        left.append(files_of(ran.folder))

    made.io = Racing(passed)
    with pytest.raises(HarnessError, match="this run has passed"):
        made.resume(ran.folder)
    assert [files_of(ran.folder)] == left


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_message_that_waited_for_a_run_which_passed_is_heard(tmp_path: Path) -> None:
    made, ran = asking(tmp_path, is_pipeline=False)
    made.script([reply(call("send")), finished(), finished("heard")])
    made.say(ran.folder, "approve")

    def passed() -> None:
        made.io = CountingIO()
        made.resume(ran.folder)

    made.io = Racing(passed)
    assert made.resume(ran.folder, "more").answer == "heard"


@pytest.mark.parametrize("is_pipeline", [False, True])
def test_a_run_under_another_name_is_refused_and_goes_on_under_its_own(tmp_path: Path, is_pipeline: bool) -> None:
    """A run's name begins the keys of its calls: under another one a keyed call would be another call."""
    made, ran = asking(tmp_path, is_pipeline)
    other = ran.folder.with_name(f"{ran.folder.name[:-8]}restored")
    ran.folder.rename(other)
    before = files_of(other)
    with pytest.raises(HarnessError, match=f"holds the run {ran.folder.name}") as caught:
        made.resume(other)
    assert (caught.value.exit_code, files_of(other)) == (2, before)
    verb, source, target = shlex.split(caught.value.fix)
    assert verb == "mv" and Path(source).rename(target) == ran.folder
    made.say(ran.folder, "approve")
    assert made.resume(ran.folder).stop.name == "passed"


def test_a_copy_of_a_run_names_the_run_that_goes_on(tmp_path: Path) -> None:
    made, ran = asking(tmp_path, is_pipeline=False)
    copy = ran.folder.with_name(f"{ran.folder.name[:-8]}restored")
    shutil.copytree(ran.folder, copy)
    with pytest.raises(HarnessError) as caught:
        made.resume(copy)
    assert caught.value.fix == f"harness resume {ran.folder.name}"
