"""One attempt of a tool, with real scripts: how it ends, what is kept of it, what stops it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.events.io import IO
from harness.executor import Cancel, Job, Outcome, environment, run

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
OP = f"run-{os.getpid()}/1"


def script(folder: Path, text: str, name: str = "tool", mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip(), newline="")
    path.chmod(mode)
    return path


def job(path: Path, *args: str, timeout: float = 20, stdin: bytes = b"", op_id: str = OP) -> Job:
    env = environment(op_id=op_id, run=path.parent, out=path.parent, depth=0, passed={}, skill=None)
    return Job((str(path), *args), path.parent, env, timeout, op_id, stdin)


def attempt(path: Path, *args: str, timeout: float = 20, stdin: bytes = b"") -> Outcome:
    return run(job(path, *args, timeout=timeout, stdin=stdin), IO(), Cancel())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def open_here() -> list[str]:
    return sorted(path.name for path in Path("/dev/fd").iterdir())


@pytest.mark.parametrize("code", [0, 1, 2, 75, 127, 255])
def test_exit_code_is_the_tools(tmp_path: Path, code: int) -> None:
    tool = script(tmp_path, f"#!/bin/sh\necho data; echo word >&2; exit {code}\n")
    got = attempt(tool)
    assert (got.exit, got.signal, got.started, got.timed_out, got.cancelled) == (code, None, True, False, False)
    assert (got.out, got.err, got.dropped, got.why) == (b"data\n", b"word\n", 0, None)


def test_death_by_signal_is_128_and_its_number(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nkill -USR1 $$\n"))
    assert (got.exit, got.signal) == (128 + signal.SIGUSR1, signal.SIGUSR1)


def test_100_mb_on_stdout_keeps_8_mib_and_counts_the_rest(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nhead -c 100000000 /dev/zero; echo end >&2\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    got = attempt(tool)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (got.exit, len(got.out), got.dropped) == (0, 8 * MIB, 100_000_000 - 8 * MIB)
    assert got.err == b"end\n"
    assert grown_kib < 40 * 1024


def test_each_output_has_its_own_cap(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, f"#!/bin/sh\nhead -c {9 * MIB} /dev/zero >&2; printf x\n"))
    assert (got.out, len(got.err), got.dropped) == (b"x", 8 * MIB, MIB)


def test_binary_output_is_kept_as_it_is(tmp_path: Path) -> None:
    tool = script(tmp_path, r"""
        #!/bin/sh
        printf '\000\377\376\033[2J\r\n\200'
    """)
    assert attempt(tool).out == b"\0\xff\xfe\x1b[2J\r\n\x80"


def test_output_is_told_as_it_comes(tmp_path: Path) -> None:
    heard: list[tuple[str, bytes]] = []
    tool = script(tmp_path, "#!/bin/sh\nprintf one; printf two >&2\n")
    run(job(tool), IO(), Cancel(), lambda name, data: heard.append((name, data)))
    assert sorted(heard) == [("err", b"two"), ("out", b"one")]


def test_stdin_is_empty(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\nwc -c; readlink /proc/self/fd/0\n"))
    assert got.out.split() == [b"0", b"/dev/null"]


def test_stdin_holds_the_given_bytes_read_or_not(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    assert attempt(script(tmp_path, "#!/bin/sh\nexec cat\n", "reads"), stdin=data).out == data
    assert attempt(script(tmp_path, "#!/bin/sh\nexit 7\n", "reads-not"), stdin=data).exit == 7


def test_arguments_arrive_literally(tmp_path: Path) -> None:
    words = ["; touch x", "$(touch x)", "`touch x`", "a\nb", "", "*", "-n", "~", "'\"\\", "grüß"]
    words.append(os.fsdecode(b"\xff\xfe"))
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import os, sys
        os.write(1, b"\\0".join(os.fsencode(word) for word in sys.argv[1:]))
    """)
    assert attempt(tool, *words).out.split(b"\0") == [os.fsencode(word) for word in words]
    assert not (tmp_path / "x").exists()


def test_there_is_no_terminal_and_files_are_private(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >made; stat -c %a made; cut -d' ' -f6 /proc/$$/stat; echo $$; : </dev/tty\n")
    got = attempt(tool)
    mode, session, pid = got.out.split()
    assert (mode, session) == (b"600", pid)
    assert got.exit != 0
    assert b"/dev/tty" in got.err


def test_descriptors_of_this_process_are_not_inherited(tmp_path: Path) -> None:
    lister = script(tmp_path, "#!/bin/sh\nls -l /proc/$$/fd\n")
    with (tmp_path / "held").open("w"):
        got = attempt(lister)
    assert b"/dev/null" in got.out
    assert b"held" not in got.out


def test_descriptors_this_process_was_started_with_are_not_inherited(tmp_path: Path) -> None:
    script(tmp_path, "#!/bin/sh\nls -l /proc/$$/fd\n")
    parent = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from pathlib import Path
from test_executor_process import attempt
sys.stdout.buffer.write(attempt(Path("tool").absolute()).out)
"""
    with (tmp_path / "leaky").open("w") as leaky:
        done = subprocess.run(
            [sys.executable, "-c", parent], cwd=tmp_path, pass_fds=[leaky.fileno()], capture_output=True, check=True
        )
    assert b"/dev/null" in done.stdout
    assert b"leaky" not in done.stdout


def test_limits_hold_in_the_tool(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nsleep 0.2; ulimit -n; ulimit -c; ulimit -d; ulimit -f; ulimit -t\n")
    files, core, data_kib, file_blocks, cpu = map(int, attempt(tool, timeout=10).out.split())
    assert (files, core, data_kib, file_blocks, cpu) == (256, 0, 4 << 20, 1 << 21, 11)


def test_never_ending_tool_is_ended_by_its_deadline(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\necho began; exec sleep 600\n"), timeout=0.3)
    assert (got.timed_out, got.signal, got.out) == (True, signal.SIGTERM, b"began\n")
    assert got.timed_out


def test_tool_that_ignores_term_is_killed(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n"), timeout=0.2)
    assert (got.timed_out, got.signal, got.exit) == (True, signal.SIGKILL, 137)


def test_tool_that_ends_well_after_its_deadline_still_timed_out(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\ntrap 'echo saved; exit 0' TERM\nwhile :; do sleep 0.05; done\n")
    got = attempt(tool, timeout=0.3)
    assert (got.timed_out, got.exit, got.out) == (True, 0, b"saved\n")
    assert got.timed_out


def test_child_may_clean_up_after_the_deadline_when_its_parent_has_gone(tmp_path: Path) -> None:
    child = "#!/bin/sh\ntrap 'sleep 0.3; echo cleaned >done; exit' TERM\nwhile :; do sleep 0.05; done\n"
    script(tmp_path, child, "child")
    got = attempt(script(tmp_path, "#!/bin/sh\n./child &\nwait\n"), timeout=0.3)
    assert got.timed_out
    assert (tmp_path / "done").read_text() == "cleaned\n"


def test_tool_that_closes_its_outputs_is_waited_for(tmp_path: Path) -> None:
    got = attempt(script(tmp_path, "#!/bin/sh\necho first; exec >&- 2>&-; sleep 0.3; : >reached; exit 4\n"))
    assert (got.exit, got.out) == (4, b"first\n")
    assert (tmp_path / "reached").exists()


def test_processor_time_beyond_the_time_out_is_a_time_out(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/usr/bin/env python3
        import os, resource, signal
        os.kill(os.getpid(), signal.SIGXCPU)
    """)
    got = attempt(tool)
    assert got.timed_out
    assert got.why == "killed: used more processor time than its time-out"


def test_file_beyond_the_limit_ends_the_tool(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\nsleep 0.2; exec truncate -s 2G sparse\n")
    got = attempt(tool)
    assert (got.signal, got.why) == (signal.SIGXFSZ, "killed: a file grew beyond 1 GiB")


def test_cancel_level_2_kills_a_running_tool(tmp_path: Path) -> None:
    cancel, tool = Cancel(), script(tmp_path, "#!/bin/sh\n: >began; exec sleep 600\n")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, job(tool), IO(), cancel)
        while not (tmp_path / "began").exists():
            time.sleep(0.01)
        cancel.level = 2
        got = running.result(30)
    assert (got.cancelled, got.timed_out, got.signal) == (True, False, signal.SIGTERM)


def test_cancel_level_1_lets_a_running_tool_end_and_starts_no_other(tmp_path: Path) -> None:
    cancel, tool = Cancel(), script(tmp_path, "#!/bin/sh\n: >began; sleep 0.3; echo whole\n")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, job(tool), IO(), cancel)
        while not (tmp_path / "began").exists():
            time.sleep(0.01)
        cancel.level = 1
        assert running.result(30).out == b"whole\n"
    other = run(job(script(tmp_path, "#!/bin/sh\n: >other\n", "next")), IO(), cancel)
    assert (other.started, other.cancelled, other.exit) == (False, True, None)
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    cases = {
        "no such file": tmp_path / "absent",
        "it is not executable": script(tmp_path, "#!/bin/sh\n", "plain", mode=0o644),
        "it is a directory": tmp_path,
        "its interpreter '/no/such/python' is missing": script(tmp_path, "#!/no/such/python -u\n", "lost"),
        "its interpreter '/bin/sh\\r' is missing": script(tmp_path, "#!/bin/sh\r\necho\r\n", "crlf"),
        "neither a script with a `#!` line": script(tmp_path, "echo no first line\n", "bare"),
    }
    for why, path in cases.items():
        got = attempt(path)
        assert (got.started, got.exit, got.signal) == (False, None, None)
        assert why in (got.why or ""), path.name
        assert "\n" not in (got.why or "")
        assert not got.started


def test_what_the_system_does_not_take_says_why(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\n: >ran\n")
    assert "longer than the system takes" in (attempt(tool, *["x" * 100_000] * 40).why or "")
    assert "NUL byte" in (attempt(tool, "a\0b").why or "")
    assert "no text of this system" in (attempt(tool, "\ud800").why or "")
    gone = Job((str(tool),), tmp_path / "gone", {}, 5, OP)
    assert f"no such working directory: {tmp_path / 'gone'}" in (run(gone, IO(), Cancel()).why or "")
    assert not (tmp_path / "ran").exists()


def test_nothing_stays_open_here(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\necho x\n")
    attempt(tool, stdin=b"warm")
    before = open_here()
    for _ in range(5):
        attempt(tool)
        attempt(tool, stdin=b"data")
        attempt(tmp_path / "absent")
    assert open_here() == before


def test_24_run_at_the_same_time(tmp_path: Path) -> None:
    tool = script(tmp_path, """
        #!/bin/sh
        : >"here-$1"
        while [ "$(ls here-* | wc -l)" -lt 24 ]; do sleep 0.05; done
        echo "$1 $HARNESS_OP_ID"; exit "$1"
    """)
    with ThreadPoolExecutor(24) as pool:
        outcomes = list(
            pool.map(lambda n: run(job(tool, str(n), op_id=f"{OP}-{n}", timeout=60), IO(), Cancel()), range(24))
        )
    assert [(got.exit, got.out) for got in outcomes] == [(n, f"{n} {OP}-{n}\n".encode()) for n in range(24)]


def test_a_raising_listener_leaves_nothing_running(tmp_path: Path) -> None:
    tool = script(tmp_path, "#!/bin/sh\necho $$; exec sleep 600\n")
    heard: list[bytes] = []

    def raising(name: str, data: bytes) -> None:
        heard.append(data)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job(tool), IO(), Cancel(), raising)
    assert not alive(int(heard[0]))


def test_no_thread_is_needed(tmp_path: Path) -> None:
    seen: list[int] = []
    tool = script(tmp_path, "#!/bin/sh\necho x; echo y >&2\n")
    before = threading.active_count()
    run(job(tool), IO(), Cancel(), lambda name, data: seen.append(threading.active_count()))
    assert seen
    assert set(seen) == {before}
