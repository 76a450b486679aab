"""What a later process finds of an attempt whose harness was killed: who lives, how it ended, and an end to it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from executor_attempts import OP, ROOT, folder_of, job, lives, script

from harness.events.io import IO
from harness.executor import Cancel, Evidence, collect, evidence, kill_attempt, prepare, run_shim, survivors

HARNESS = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from executor_attempts import attempt
attempt(Path(sys.argv[1]), timeout=float(sys.argv[2]), op_id=sys.argv[3])
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for pid in survivors(OP):
        os.kill(pid, signal.SIGKILL)


def orphaned(tool: Path, timeout: float = 60, number: int = signal.SIGKILL) -> Path:
    """The attempt's folder, its harness killed once the tool has made the file `began`."""
    code = HARNESS.format(root=str(ROOT), tests=str(ROOT / "tests"))
    harness = subprocess.Popen([sys.executable, "-c", code, str(tool), str(timeout), OP])
    wait_for((tool.parent / "began").exists)
    harness.send_signal(number)
    harness.wait()
    return folder_of(tool)


def wait_for(condition: Callable[[], object], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def dead(folder: Path) -> bool:
    return not evidence(folder, OP).alive


def tool_pid(tool: Path) -> int:
    wait_for(lambda: (tool.parent / "pid").exists() and (tool.parent / "pid").read_text())
    return int((tool.parent / "pid").read_text())


def test_tool_goes_on_without_its_harness_and_its_exit_is_noted(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/bin/sh
        : >began; until [ -e go ]; do sleep 0.05; done
        echo whole; echo e >&2; exit 9
    """)
    folder = orphaned(tool)
    found = evidence(folder, OP)
    assert (found.rc, found.started, found.alive, found.overdue) == (None, True, True, False)
    assert len(found.pids) >= 3  # shim, keeper, tool
    (tmp_path / "go").touch()
    wait_for(lambda: dead(folder))
    assert evidence(folder, OP) == Evidence(9, True, False, (), False)
    got = collect(folder)
    assert (got.exit, got.out, got.err) == (9, b"whole\n", b"e\n")
    assert (got.started, got.timed_out, got.why) == (True, False, None)


def test_shim_keeps_the_deadline_without_its_harness(tmp_path: Path) -> None:
    folder = orphaned(script(tmp_path, "#!/bin/sh\n: >began; sleep 600\n"), timeout=1)
    wait_for(lambda: dead(folder))
    got = collect(folder)
    assert (got.exit, got.timed_out, evidence(folder, OP).rc) == (124, True, 124)


def test_shim_kills_what_ignores_its_deadline_without_its_harness(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\ntrap '' TERM\n: >began; while :; do sleep 0.1; done\n")
    folder = orphaned(tool, timeout=1)
    wait_for(lambda: dead(folder))
    got = collect(folder)
    assert (got.exit, got.signal, got.timed_out) == (137, signal.SIGKILL, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_shim_does_not_keep_it_from_its_note(tmp_path: Path, number: int) -> None:
    tool = script(tmp_path, "#!/bin/sh\ncut -d' ' -f6 /proc/$$/stat >pid; : >began; sleep 0.5; exit 6\n")
    folder = orphaned(tool)
    os.kill(tool_pid(tool), number)
    wait_for(lambda: dead(folder))
    assert evidence(folder, OP).rc == 6


def test_full_output_is_counted_without_its_harness(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >began; until [ -e go ]; do sleep 0.05; done; head -c 20000000 /dev/zero\n")
    folder = orphaned(tool)
    (tmp_path / "go").touch()
    wait_for(lambda: dead(folder))
    got = collect(folder)
    assert (got.exit, len(got.out), got.dropped) == (0, 8 << 20, 20_000_000 - (8 << 20))


def test_killed_shim_leaves_a_tool_that_is_found_and_ended(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\necho $$ >pid; : >began; while :; do sleep 0.1; done\n")
    folder = orphaned(tool)
    pid = tool_pid(tool)
    session = os.getsid(pid)
    os.kill(session, signal.SIGKILL)
    wait_for(lambda: not lives(session))
    found = evidence(folder, OP)
    assert (found.rc, found.started, found.alive) == (None, True, True)
    assert pid in found.pids
    assert kill_attempt(folder, OP) == []
    assert evidence(folder, OP) == Evidence(None, True, False, (), False)
    assert not lives(pid)
    assert (collect(folder).exit, collect(folder).started) == (None, True)


def test_killed_tool_is_noted_by_its_shim(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\necho $$ >pid; : >began; exec sleep 600\n")
    folder = orphaned(tool)
    os.kill(tool_pid(tool), signal.SIGKILL)
    wait_for(lambda: dead(folder))
    assert (evidence(folder, OP).rc, collect(folder).signal, collect(folder).timed_out) == (137, signal.SIGKILL, False)


def test_ended_by_a_later_process_the_shim_still_notes_it(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\ntrap '' TERM\n: >began; while :; do sleep 0.1; done\n")
    folder = orphaned(tool)
    assert kill_attempt(folder, OP) == []
    assert evidence(folder, OP) == Evidence(137, True, False, (), False)


# What makes a tool harder to find: each line runs as `hidden`, a child that outlives shim and keeper.
HIDING = {
    "closes its outputs": "exec >&- 2>&-; exec sleep 600",
    "unlocks them": "flock -u 1; flock -u 2; exec sleep 600",
    "has no environment": "exec env -i /bin/sleep 600",
    "daemonises": "exec setsid sleep 600",
    "ignores signals": "trap '' TERM HUP INT; while :; do sleep 0.1; done",
    "is stopped": "trap '' HUP; kill -STOP $$; exec sleep 600",
}


@pytest.mark.parametrize("how", HIDING)
def test_a_tool_is_alive_however_it_hides(tmp_path: Path, how: str) -> None:
    tool = script(tmp_path, "#!/bin/bash\n(echo $BASHPID >pid; exec sh hidden) &\n: >began; sleep 600\n")
    script(tmp_path, f"{HIDING[how]}\n", "hidden")
    folder = orphaned(tool)
    pid = tool_pid(tool)
    for other in evidence(folder, OP).pids:
        if other != pid:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
    time.sleep(0.3)  # until it hides
    pid = next(pid for pid in [pid, *evidence(folder, OP).pids] if lives(pid))
    found = evidence(folder, OP)
    assert (found.rc, found.started, found.alive) == (None, True, True)
    assert pid in found.pids
    assert kill_attempt(folder, OP) == []
    assert dead(folder)
    assert not lives(pid)


def test_who_only_reads_the_output_is_no_part_of_the_attempt(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >began; exec env -i /bin/sleep 600\n")
    folder = orphaned(tool)
    follower = subprocess.Popen(["tail", "-f", str(folder / "out")], stdout=subprocess.DEVNULL)
    assert kill_attempt(folder, OP) == []
    assert follower.poll() is None
    follower.kill()
    follower.wait()
    assert dead(folder)


def test_deadline_is_over_some_seconds_after_it(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n")
    prepare(folder_of(tool), job(tool, timeout=60), IO()).close()
    assert not evidence(folder_of(tool), OP).overdue
    request = folder_of(tool) / "request.json"
    text = request.read_text()
    request.write_text(text.replace('"deadline_boot": ', '"deadline_boot": 0.0, "was": '))
    assert evidence(folder_of(tool), OP).overdue


def test_an_exit_code_counts_in_one_form_only(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n")
    prepare(folder_of(tool), job(tool), IO()).close()
    (folder_of(tool) / "started").write_text(".")
    for text in ("....", "0", "000", "7\n", "-01\n", "000\n\n", ""):
        (folder_of(tool) / "rc").write_text(text)
        assert evidence(folder_of(tool), OP).rc is None, text
    (folder_of(tool) / "rc").write_text("000\n")
    assert evidence(folder_of(tool), OP).rc == 0


def test_a_direct_attempt_or_one_whose_folder_is_gone_counts_as_begun(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert evidence(tmp_path, OP) == Evidence(None, True, False, (), True)
    assert evidence(tmp_path / "gone", OP) == Evidence(None, True, False, (), True)


def test_links_in_place_of_the_files_are_not_followed(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n")
    prepare(folder_of(tool), job(tool), IO()).close()
    (tmp_path / "secret").write_text("000\n")
    for name in ("rc", "out", "started"):
        (folder_of(tool) / name).unlink()
        (folder_of(tool) / name).symlink_to(tmp_path / "secret")
    assert evidence(folder_of(tool), OP).rc is None
    assert collect(folder_of(tool)).out == b""


SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize(
    ("text", "timeout", "exits"),
    [
        ("echo o; echo e >&2; exit 5", 20, {5}),
        ("echo o; echo e >&2; kill -KILL $$", 20, {137}),
        ("echo o; echo e >&2; exec sleep 600", 1, {124, 143}),
        ("trap '' TERM; echo o; echo e >&2; while :; do sleep 0.1; done", 1, {137}),
    ],
)
def test_every_posix_shell_will_do(tmp_path: Path, name: str, text: str, timeout: float, exits: set[int]) -> None:
    program = shutil.which(SHELLS[name][0])
    if not program:
        pytest.skip(f"no {name} here")
    shell = [program, *SHELLS[name][1:]]
    keeper = [program, "timeout"] if name == "busybox" else ["/usr/bin/timeout"]
    instead = {"/bin/sh": shell, "/usr/bin/timeout": keeper}
    tool = script(tmp_path, f"#!/usr/bin/env -S sh\n{text}\n")
    made = job(tool, timeout=timeout)

    def swap(argv: list[str]) -> list[str]:
        return [word for old in argv for word in instead.get(old, [old])]

    got = run_shim(made, prepare(folder_of(tool), made, IO()), IO(), Cancel(), swap)
    assert got.exit in exits
    assert (got.timed_out, got.out, got.err) == (timeout == 1, b"o\n", b"e\n")
    assert evidence(folder_of(tool), OP) == Evidence(got.exit, True, False, (), False)


FULL_DISK = """
import os, sys
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from executor_attempts import *
from harness.executor import evidence
import subprocess
place = Path(sys.argv[1])
filler = lambda: subprocess.run("cat /dev/zero >big", shell=True, cwd=place, stderr=subprocess.DEVNULL)
tool = script(place, "#!/bin/sh\\ncat /dev/zero >big; echo lost; exit 5\\n")
got = attempt(tool)
print(got.exit, got.out, (folder_of(tool) / "rc").read_bytes())
(place / "big").unlink()
other = script(place, "#!/bin/sh\\n: >ran\\n", "other")
made = job(other)
prepared = prepare(folder_of(other), made, IO())
filler()
got = run_shim(made, prepared, IO(), Cancel())
print(got.started, got.why, evidence(folder_of(other), OP).started, (place / "ran").exists())
third = job(script(place, "", "third"))
try:
    prepare(folder_of(place / "third"), third, IO())
except OSError as error:
    print(error.strerror)
"""


def test_full_disk_takes_the_note_and_no_new_start(tmp_path: Path) -> None:
    small = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    code = FULL_DISK.format(root=str(ROOT), tests=str(ROOT / "tests"))
    done = subprocess.run(
        [*small, sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "5 b'' b'005\\n'",
        "False its shim did not begin: is the disk full? False False",
        "No space left on device",
    ]
