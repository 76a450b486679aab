"""An attempt through the shim, with real scripts: what its files hold, how it ends, what stops it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from executor_attempts import OP, ROOT, attempt, folder_of, job, lives, script

from harness.events.io import IO
from harness.executor import Cancel, Outcome, collect, cut, evidence, prepare, run_shim, shim, survivors
from harness.sandbox import Limits

MIB = 1 << 20


def disk_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.parametrize("code", [0, 1, 2, 75, 126, 255])
def test_exit_code_is_the_tools_and_is_noted(tmp_path: Path, code: int) -> None:
    tool = script(tmp_path, f"#!/bin/sh\necho data; echo word >&2; exit {code}\n")
    got = attempt(tool)
    assert (got.exit, got.signal, got.started, got.timed_out, got.cancelled) == (code, None, True, False, False)
    assert (got.out, got.err, got.dropped, got.why) == (b"data\n", b"word\n", 0, None)
    assert (folder_of(tool) / "rc").read_bytes() == b"%03d\n" % code
    assert evidence(folder_of(tool), OP) == (evidence(folder_of(tool), OP).__class__(code, True, False, (), False))


def test_files_are_made_before_anything_starts(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >ran\n")
    folder, made = folder_of(tool), job(tool, "a b", timeout=7)
    prepared = prepare(folder, made, IO())
    content = {name: (folder / name).read_bytes() for name in ("rc", "started", "out", "err")}
    assert content == {"rc": b"....", "started": b"", "out": b"", "err": b""}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()} == {0o600}
    asked = json.loads((folder / "request.json").read_bytes())
    assert (asked["argv"], asked["cwd"], asked["seconds"]) == ([str(tool), "a b"], str(tmp_path), 7)
    assert asked["digest"] == "d1"
    found = evidence(folder, OP)
    assert (found.rc, found.started, found.alive, found.overdue) == (None, False, True, False)
    prepared.close()
    assert not evidence(folder, OP).alive
    assert not (tmp_path / "ran").exists()
    with pytest.raises(FileExistsError):
        prepare(folder, made, IO())


def test_death_by_signal_is_128_and_its_number_and_silent(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nkill -USR1 $$\n"))
    assert (got.exit, got.signal, got.err) == (128 + signal.SIGUSR1, signal.SIGUSR1, b"")


def test_tool_gets_nothing_but_its_three_descriptors(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\ncd /proc/$$/fd; ls -l\n")
    got = attempt(tool)
    folder = folder_of(tool)
    shown = dict(line.split()[-3::2] for line in got.out.decode().splitlines()[1:])
    assert shown == {"0": "/dev/null", "1": str(folder / "out"), "2": str(folder / "err"), "10": str(tool)}


def test_environment_is_the_one_that_was_built(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import os
        print(dict(os.environ))
    """)
    assert eval(attempt(tool).out) == job(tool).env


def test_signals_have_their_default_meaning_in_the_tool(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import signal
        names = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGCHLD"]
        print([name for name in names if signal.getsignal(getattr(signal, name)) is not signal.SIG_DFL])
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """)
    # what Python itself sets
    assert attempt(tool).out == b"['SIGINT', 'SIGPIPE']\nset()\n"


def test_arguments_arrive_literally(tmp_path: Path) -> None:
    words = ["; touch x", "$(touch x)", "`touch x`", "a\nb", "", "*", "-n", "--", "~", "'\"\\", "grüß"]
    words.append(os.fsdecode(b"\xff\xfe"))
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import os, sys
        os.write(1, b"\\0".join(os.fsencode(word) for word in sys.argv[1:]))
    """)
    assert attempt(tool, *words).out.split(b"\0") == [os.fsencode(word) for word in words]
    assert not (tmp_path / "x").exists()


def test_stdin_is_empty_or_the_given_bytes(tmp_path: Path) -> None:
    assert attempt(script(tmp_path, "#!/bin/sh\nwc -c; readlink /proc/self/fd/0\n")).out.split() == [b"0", b"/dev/null"]
    data = bytes(range(256)) * 4096
    assert attempt(script(tmp_path, "#!/bin/sh\nexec cat\n", "reads"), stdin=data).out == data


def test_limits_hold_from_the_first_instruction(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nulimit -n; ulimit -c; ulimit -d; ulimit -f; ulimit -t; ulimit -Ht; umask\n")
    files, core, data_kib, file_blocks, cpu, last_cpu, mask = map(int, attempt(tool, timeout=10).out.split())
    assert (files, core, data_kib, file_blocks, cpu, last_cpu, mask) == (256, 0, 4 << 20, 1 << 21, 11, 12, 77)


def test_limits_are_those_of_the_job_and_never_looser_than_ours(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nulimit -n; ulimit -d; ulimit -f\n")
    limits = Limits(memory=1 << 30, files=64, file_size=MIB)
    assert attempt(tool, limits=limits).out.split() == [b"64", b"1048576", b"2048"]
    code = f"""
import resource, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
from pathlib import Path
from executor_attempts import attempt
sys.stdout.buffer.write(attempt(Path("tool2").absolute()).out)
"""
    script(tmp_path, "#!/bin/sh\nulimit -n\n", "tool2")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == b"60\n"


def test_processes_are_limited_beyond_those_of_the_user(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import resource
        print(resource.getrlimit(resource.RLIMIT_NPROC)[0])
    """)
    most = int(attempt(tool).out)
    assert most > 128
    assert most < 128 + 100_000 or most == resource.getrlimit(resource.RLIMIT_NPROC)[1]


def test_deadline_is_kept_by_the_shim(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\necho began; exec sleep 600\n")
    got = attempt(tool, timeout=0.3)
    assert (got.timed_out, got.exit, got.signal, got.out, got.cancelled) == (True, 124, None, b"began\n", False)
    assert (folder_of(tool) / "rc").read_bytes() == b"124\n"
    assert not survivors(OP)


def test_tool_that_ignores_term_is_killed_and_noted(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 0.1; done\n")
    got = attempt(tool, timeout=0.2)
    assert (got.timed_out, got.signal, got.exit) == (True, signal.SIGKILL, 137)
    assert (folder_of(tool) / "rc").read_bytes() == b"137\n"
    assert not survivors(OP)


def running(tool: Path, cancel: Cancel, timeout: float, then: Callable[[], object]) -> Outcome:
    """The outcome, when `then` is done once the tool has made the file `began`."""
    made = job(tool, timeout=timeout)
    with ThreadPoolExecutor() as pool:
        going = pool.submit(run_shim, made, prepare(folder_of(tool), made, IO()), IO(), cancel)
        while not (tool.parent / "began").exists():
            time.sleep(0.01)
        then()
        return going.result(30)


def test_cancel_level_2_kills_the_tool_and_the_shim_notes_it(tmp_path: Path) -> None:
    cancel, tool = Cancel(), script(tmp_path, "#!/bin/sh\n: >began; exec sleep 600\n")
    got = running(tool, cancel, 60, lambda: setattr(cancel, "level", 2))
    assert (got.cancelled, got.timed_out, got.signal) == (True, False, signal.SIGTERM)
    assert (folder_of(tool) / "rc").read_bytes() == b"143\n"


def test_cancel_level_2_kills_what_ignores_it_and_the_shim_notes_it(tmp_path: Path) -> None:
    cancel = Cancel()
    tool = script(tmp_path, "#!/bin/sh\ntrap '' TERM\n: >began; while :; do sleep 0.1; done\n")
    got = running(tool, cancel, 60, lambda: setattr(cancel, "level", 2))
    assert (got.cancelled, got.signal) == (True, signal.SIGKILL)
    assert (folder_of(tool) / "rc").read_bytes() == b"137\n"
    assert not survivors(OP)


def test_cancelled_before_it_starts_nothing_is_started(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >ran\n")
    made = job(tool)
    got = run_shim(made, prepare(folder_of(tool), made, IO()), IO(), Cancel(1))
    assert (got.started, got.cancelled) == (False, True)
    found = evidence(folder_of(tool), OP)
    assert (found.started, found.alive, (tmp_path / "ran").exists()) == (False, False, False)


STOPPERS = {
    "itself": "kill -STOP $$",
    "its group": "kill -STOP 0",
    "its keeper": "kill -STOP $PPID; sleep 600",
    "the shim": "kill -STOP $(cut -d' ' -f6 /proc/$$/stat) $PPID; sleep 600",
}


@pytest.mark.parametrize("what", STOPPERS)
def test_what_stops_itself_or_its_keepers_is_ended(tmp_path: Path, what: str) -> None:
    got = attempt(script(tmp_path, f"#!/bin/sh\n{STOPPERS[what]}\n"), timeout=0.5)
    assert got.timed_out
    assert not survivors(OP)


def test_a_stopped_shim_goes_on(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nkill -STOP $(cut -d' ' -f6 /proc/$$/stat); echo done\n"), timeout=60)
    assert (got.exit, got.out, got.timed_out) == (0, b"done\n", False)


def test_a_killed_shim_takes_the_tool_with_it(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nkill -KILL $(cut -d' ' -f6 /proc/$$/stat); sleep 600\n")
    got = attempt(tool, timeout=60)
    assert (got.exit, got.signal, got.started) == (137, signal.SIGKILL, True)
    assert got.why == "it ended without a note of its exit"
    assert not survivors(OP)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_the_exit_of_what_stands_before_a_killed_shim_is_not_the_tools(tmp_path: Path, code: int) -> None:
    shim_pid = "$(cut -d' ' -f4 /proc/$PPID/stat)"  # the tool's parent is `timeout`
    tool = script(tmp_path, f"#!/bin/sh\nkill -KILL {shim_pid}\n")
    made = job(tool)

    def wrap(argv: list[str]) -> list[str]:
        return ["/bin/sh", "-c", f'"$@"; exit {code}', "before", *argv]

    got = run_shim(made, prepare(folder_of(tool), made, IO()), IO(), Cancel(), wrap)
    assert (got.exit, got.signal, got.started) == (137, signal.SIGKILL, True)
    assert got.why == "it ended without a note of its exit"



def test_a_tool_that_closes_what_it_inherited_is_waited_for(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\necho first; exec >&- 2>&- <&-; sleep 0.3; : >reached; exit 4\n"))
    assert (got.exit, got.out) == (4, b"first\n")
    assert (tmp_path / "reached").exists()


def test_a_tool_that_daemonises_is_ended_with_its_attempt(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/bin/bash
        (setsid bash -c 'trap "" TERM HUP; echo $$ >left; exec >&- 2>&-; sleep 600' </dev/null &)
        until [ -s left ]; do sleep 0.01; done
        exit 5
    """)
    assert attempt(tool).exit == 5
    assert not lives(int((tmp_path / "left").read_text()))


def test_100_mb_on_stdout_keeps_8_mib_and_counts_the_rest(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nhead -c 100000000 /dev/zero; echo end >&2\n")
    got = attempt(tool)
    assert (got.exit, len(got.out), got.dropped, got.err) == (0, 8 * MIB, 100_000_000 - 8 * MIB, b"end\n")
    assert collect(folder_of(tool)).dropped == got.dropped
    cut(folder_of(tool), IO(), Limits())
    assert (folder_of(tool) / "out").stat().st_size == 8 * MIB


def test_1_gb_on_stdout_does_not_stay_on_the_disk(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nhead -c 1000000000 /dev/zero; sleep 0.3\n")
    got = attempt(tool, timeout=60)
    assert (got.exit, len(got.out), got.dropped) == (0, 8 * MIB, 1_000_000_000 - 8 * MIB)
    assert disk_bytes(folder_of(tool) / "out") < 32 * MIB


def test_endless_output_ends_at_the_limit_of_a_file(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nexec yes\n")
    got = attempt(tool, timeout=60, limits=Limits(file_size=64 * MIB))
    assert (got.signal, got.why) == (signal.SIGXFSZ, "killed: a file grew beyond 64 MiB")
    assert (len(got.out), got.dropped) == (8 * MIB, 56 * MIB)


# What exhausts a machine: the tool, its time-out, and the words or the exit that tell which limit it met.
BOMB = "import os, time\nend = time.monotonic() + 5\nwhile time.monotonic() < end: os.fork()"
SPARSE = "import os\nos.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 1 << 40)"
A46 = {
    "fork bomb": (BOMB, 60, "128 processes"),
    "10 GB": ("bytearray(10 << 30)", 60, "MemoryError"),
    "endless output": ("while True: print('y' * 1_000_000)", 120, "File too large"),
    "1 TB sparse file": (SPARSE, 60, "File too large"),
    "spin": ("while True: pass", 1, "124"),
    "hang": ("import time\ntime.sleep(600)", 1, "124"),
}


@pytest.mark.parametrize("what", A46)
def test_A46_resource_exhaustion_ends_in_its_limit(tmp_path: Path, what: str) -> None:
    text, timeout, told = A46[what]
    tool = script(tmp_path, f"#!/usr/bin/env python3\n{text}\n")
    got = attempt(tool, timeout=timeout)
    assert told in f"{got.exit} {got.why} {got.err.decode()}"
    assert got.exit != 0
    assert got.timed_out == (told == "124")
    assert len(got.out) <= 8 * MIB
    assert disk_bytes(folder_of(tool) / "out") < 64 * MIB
    assert not survivors(OP)


def test_a_file_beyond_the_limit_ends_a_tool_that_does_not_look(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nexec truncate -s 1T sparse\n"))
    assert (got.signal, got.why) == (signal.SIGXFSZ, "killed: a file grew beyond 1 GiB")


def test_10000_open_files_are_refused(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/usr/bin/env python3\nfiles = [open('/dev/null') for _ in range(10_000)]\n")
    got = attempt(tool)
    assert got.exit == 1
    assert b"Too many open files" in got.err


def test_processor_time_beyond_the_limit_is_a_time_out(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nkill -XCPU $$\n"))
    assert (got.timed_out, got.why) == (True, "killed: used more processor time than its time-out")


def test_more_processes_than_allowed_end_the_tool(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/bash\nfor n in {1..60}; do sleep 600 & done\nsleep 600\n")
    got = attempt(tool, limits=Limits(procs=40))
    assert (got.signal, got.why) == (signal.SIGKILL, "killed: more than 40 processes")
    assert (folder_of(tool) / "rc").read_bytes() == b"137\n"
    assert not survivors(OP)


def test_what_cannot_be_started_says_why_and_leaves_no_trace_of_a_start(tmp_path: Path) -> None:
    cases = {
        "no such file": tmp_path / "absent",
        "it is not executable": script(tmp_path, "#!/bin/sh\n", "plain", mode=0o644),
        "its interpreter '/no/such/python' is missing": script(tmp_path, "#!/no/such/python -u\n", "lost"),
        "neither a script with a `#!` line": script(tmp_path, "echo no first line\n", "bare"),
    }
    for why, path in cases.items():
        got = attempt(path)
        assert (got.started, got.exit, why in (got.why or "")) == (False, None, True), (path.name, got.why)
        found = evidence(folder_of(path), OP)
        assert (found.started, found.alive, found.rc) == (False, False, None)
    tool = script(tmp_path, "#!/bin/sh\n: >ran\n")
    assert "longer than the system takes" in (attempt(tool, *["x" * 100_000] * 40).why or "")
    assert not (tmp_path / "ran").exists()


def test_a_command_in_front_that_fails_is_told_by_its_last_words(tmp_path: Path) -> None:
    made = job(script(tmp_path, "#!/bin/sh\n: >ran\n"))
    wall = ["/bin/sh", "-c", "echo cannot make a namespace >&2; exit 1"]
    got = run_shim(made, prepare(folder_of(tmp_path / "tool"), made, IO()), IO(), Cancel(), lambda argv: [*wall, *argv])
    assert (got.started, got.exit) == (False, None)
    assert got.why == "its shim did not begin: cannot make a namespace"


def test_the_hooks_of_confinement_take_part(tmp_path: Path) -> None:
    made = job(script(tmp_path, "#!/bin/sh\necho $EXTRA\n"))
    threads: list[str] = []

    def start(spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        def inside() -> subprocess.Popen[bytes]:
            threads.append(threading.current_thread().name)
            return spawn()

        with ThreadPoolExecutor(1, thread_name_prefix="fresh") as pool:
            return pool.submit(inside).result()

    prepared = prepare(folder_of(tmp_path / "tool"), made, IO())
    got = run_shim(made, prepared, IO(), Cancel(), lambda argv: ["/usr/bin/env", "EXTRA=seen", *argv], start)
    assert (got.out, got.exit) == (b"seen\n", 0)
    assert threads[0].startswith("fresh")


@pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap here")
def test_the_shim_runs_inside_bubblewrap(tmp_path: Path) -> None:
    made = job(script(tmp_path, "#!/bin/sh\necho $$; ls -d rc started 2>&1; sleep 600\n"), timeout=0.5)
    wall = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--"]
    wall[0] = shutil.which("bwrap") or ""
    if subprocess.run([*wall, "/bin/true"], capture_output=True, check=False).returncode:
        pytest.skip("bubblewrap makes no namespaces here")
    got = run_shim(made, prepare(folder_of(tmp_path / "tool"), made, IO()), IO(), Cancel(), lambda argv: [*wall, *argv])
    assert (got.exit, got.timed_out) == (124, True)
    assert int(got.out.split()[0]) < 20
    assert (folder_of(tmp_path / "tool") / "rc").read_bytes() == b"124\n"
    assert not survivors(OP)


CROWDED = """
import os, sys
sys.path[:0] = [{root!r}, {tests!r}]
taken = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(20)]
from pathlib import Path
from executor_attempts import attempt
got = attempt(Path(sys.argv[1]))
print(got.exit, got.out, got.err)
"""


def test_where_no_low_descriptor_is_free_it_works_too(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nls /proc/$$/fd; exit 3\n")
    code = CROWDED.format(root=str(ROOT), tests=str(ROOT / "tests"))
    done = subprocess.run([sys.executable, "-c", code, str(tool)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3 b'0\\n1\\n10\\n2\\n' b''\n", "")
    assert (folder_of(tool) / "rc").read_bytes() == b"003\n"


def test_nothing_stays_open_here(tmp_path: Path) -> None:
    attempt(script(tmp_path, "#!/bin/sh\n", "warm"), stdin=b"data")
    before = len(list(Path("/dev/fd").iterdir()))
    for n in range(3):
        attempt(script(tmp_path, "#!/bin/sh\necho x\n", f"tool{n}"), stdin=b"data")
        attempt(tmp_path / f"absent{n}")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_16_run_at_the_same_time(tmp_path: Path) -> None:
    tools = [script(tmp_path, f"#!/bin/sh\nsleep 0.3; echo {n}; exit {n}\n", f"tool{n}") for n in range(16)]
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda tool: attempt(tool, op_id=f"{OP}-{tool.name}"), tools))
    assert [(got.exit, got.out) for got in outcomes] == [(n, f"{n}\n".encode()) for n in range(16)]


def test_a_machine_without_timeout_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "SYSTEM_PATH", (str(tmp_path),))
    shim.keeper.cache_clear()
    got = attempt(script(tmp_path, "#!/bin/sh\n: >ran\n"))
    shim.keeper.cache_clear()
    assert got.started is False
    assert "no `timeout` command" in (got.why or "")
    assert not (tmp_path / "ran").exists()


NOT_DUMPABLE = """
import ctypes, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from executor_attempts import OP, attempt
from harness.executor import survivors
got = attempt(Path(sys.argv[1]), op_id="secretive/1")
print(got.exit, survivors("secretive/1"))
"""


def test_a_harness_whose_memory_nobody_may_read_ends_what_a_tool_leaves(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n(setsid sleep 600 &)\nexit 4\n")
    code = NOT_DUMPABLE.format(root=str(ROOT), tests=str(ROOT / "tests"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tool)], capture_output=True, text=True, check=False,
        env={**os.environ, "HARNESS_OP_ID": "secretive/1"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("4 []\n", "")
